//! What an embedder says an agent is.

use std::fmt;
use std::sync::Arc;

use dauntless_contract::{
    AgentSpec, AnswerSchema, AnswerSpec, Bucket, Model, PanicPolicy, RunLimits, Tool, ToolSpec,
};
use dauntless_core::plan::{Face, Join, Plan};
use dauntless_core::run::{AnswerShape, toolbox};
use dauntless_core::toolbox::{Quarantined, SourceName, Toolbox, shown_names};
use dauntless_core::tree::delegate_spec;
use serde_json::Value;

use crate::delegate::Delegate;

/// A named role: instructions, tools, and optionally a model and limits of its own.
///
/// Cheap to clone; clones are the same agent. Build it once and run it often: the runtime starts
/// the actors of its tools when it first sees it, and keeps them.
#[derive(Clone)]
pub struct Agent {
    inner: Arc<Inner>,
}

#[derive(Clone)]
struct Inner {
    spec: AgentSpec,
    tools: Vec<Sourced>,
    model: Option<Arc<dyn Model>>,
    fallbacks: Vec<(Arc<dyn Model>, Vec<Bucket>)>,
    limits: Option<RunLimits>,
    description: Arc<str>,
    input: Option<Value>,
    links: Vec<Delegate>,
    join: Join,
    /// What takes the place of a model.
    plan: Option<(Plan, Vec<Agent>)>,
    configuration: Option<Arc<[u8]>>,
}

/// A tool, and where it comes from if not from the program itself.
#[derive(Clone)]
struct Sourced {
    source: Option<Arc<str>>,
    tool: Arc<dyn Tool>,
}

/// A tool as a model is shown it.
pub(crate) struct Shown<'a> {
    pub(crate) spec: Arc<ToolSpec>,
    pub(crate) tool: &'a Arc<dyn Tool>,
    pub(crate) is_sourced: bool,
}

impl Agent {
    /// An agent without instructions and tools.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        let spec = AgentSpec {
            name: name.into(),
            instructions: "".into(),
            on_panic: PanicPolicy::default(),
            answer: None,
            ask_user: false,
            notes: false,
            messages: false,
        };
        Self {
            inner: Arc::new(Inner {
                spec,
                tools: Vec::new(),
                model: None,
                fallbacks: Vec::new(),
                limits: None,
                description: "".into(),
                input: None,
                links: Vec::new(),
                join: Join::BestEffort,
                plan: None,
                configuration: None,
            }),
        }
    }

    /// A plan under the name of an agent: no model decides in its runs, and its steps are runs of these
    /// agents. It can be run, submitted and delegated to like any other.
    pub fn plan<'a>(
        name: impl Into<Arc<str>>,
        plan: Plan,
        agents: impl IntoIterator<Item = &'a Self>,
    ) -> Self {
        let mut agent = Self::new(name);
        Arc::make_mut(&mut agent.inner).plan = Some((plan, agents.into_iter().cloned().collect()));
        agent
    }

    /// What the model is told before anything else.
    #[must_use]
    pub fn instructions(mut self, text: impl Into<Arc<str>>) -> Self {
        Arc::make_mut(&mut self.inner).spec.instructions = text.into();
        self
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool(self, tool: impl Tool) -> Self {
        self.tools([Arc::new(tool) as Arc<dyn Tool>])
    }

    /// Adds several tools, such as those of one `#[tool] impl` block.
    #[must_use]
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        let tools = tools.into_iter().map(|tool| Sourced { source: None, tool });
        Arc::make_mut(&mut self.inner).tools.extend(tools);
        self
    }

    /// Adds tools under names that others chose, such as those of a server.
    ///
    /// The model is shown legal names. One that another source has too is shown as `source__name`.
    /// Everything about the runs of this agent uses the shown name; the tool itself is called by its
    /// own, which its status and its logs use. A tool of a source that cannot be offered is left out
    /// with a warning, and the others work.
    #[must_use]
    pub fn source(
        mut self,
        name: impl Into<Arc<str>>,
        tools: impl IntoIterator<Item = Arc<dyn Tool>>,
    ) -> Self {
        let source = Some(name.into());
        let tools = tools.into_iter().map(|tool| Sourced { source: source.clone(), tool });
        Arc::make_mut(&mut self.inner).tools.extend(tools);
        self
    }

    /// Puts each tool so far behind another: one that injects faults, records, or asks a person.
    #[must_use]
    pub fn map_tools(mut self, mut wrap: impl FnMut(Arc<dyn Tool>) -> Arc<dyn Tool>) -> Self {
        let inner = Arc::make_mut(&mut self.inner);
        let tools = std::mem::take(&mut inner.tools).into_iter();
        let wrapped = tools.map(|Sourced { source, tool }| Sourced { source, tool: wrap(tool) });
        inner.tools = wrapped.collect();
        self
    }

    /// A model of its own, in place of the runtime's.
    #[must_use]
    pub fn model(mut self, model: impl Model) -> Self {
        Arc::make_mut(&mut self.inner).model = Some(Arc::new(model));
        self
    }

    /// A model that other agents share.
    #[must_use]
    pub fn shared_model(mut self, model: Arc<dyn Model>) -> Self {
        Arc::make_mut(&mut self.inner).model = Some(model);
        self
    }

    /// A model that is asked when the one before it failed in one of these ways, all its tries used
    /// up. May be given several times; each turn starts with the first model again.
    ///
    /// [`Bucket::Transient`], [`Bucket::Terminal`] and [`Bucket::Harness`] (its breaker is open) are
    /// the usual ones; [`Bucket::ModelMistake`] holds a conversation that is too large for a model.
    #[must_use]
    pub fn fallback_model(mut self, model: Arc<dyn Model>, on: impl IntoIterator<Item = Bucket>) -> Self {
        Arc::make_mut(&mut self.inner).fallbacks.push((model, on.into_iter().collect()));
        self
    }

    /// What other agents read of it, where they may ask it. Without it they know its name alone.
    #[must_use]
    pub fn description(mut self, text: impl Into<Arc<str>>) -> Self {
        Arc::make_mut(&mut self.inner).description = text.into();
        self
    }

    /// What other agents must give it: arguments that fit this schema, which are its goal as JSON.
    /// Without one it takes a goal in words.
    #[must_use]
    pub fn input_schema(mut self, schema: Value) -> Self {
        Arc::make_mut(&mut self.inner).input = Some(schema);
        self
    }

    /// Lets it ask another agent, as a tool of that name. See [`Delegate`] for how else.
    #[must_use]
    pub fn delegate(self, agent: &Self) -> Self {
        self.link(Delegate::to(agent))
    }

    /// Lets it hand the conversation over to another agent, whose end is then the end of both.
    #[must_use]
    pub fn handoff(self, agent: &Self) -> Self {
        self.link(Delegate::handoff(agent))
    }

    /// Adds a way to another agent.
    #[must_use]
    pub fn link(mut self, link: Delegate) -> Self {
        Arc::make_mut(&mut self.inner).links.push(link);
        self
    }

    /// When the agents that it asked in one turn have done enough, so that the others are cancelled.
    /// Default: all of them are waited for, whatever comes of each.
    #[must_use]
    pub fn join(mut self, join: Join) -> Self {
        Arc::make_mut(&mut self.inner).join = join;
        self
    }

    /// The bytes of the configuration it was made from. A journal that workers share keeps them with
    /// each of its runs.
    #[must_use]
    pub fn configuration(mut self, bytes: Arc<[u8]>) -> Self {
        Arc::make_mut(&mut self.inner).configuration = Some(bytes);
        self
    }

    /// Limits of its own, in place of the runtime's.
    #[must_use]
    pub fn limits(mut self, limits: RunLimits) -> Self {
        Arc::make_mut(&mut self.inner).limits = Some(limits);
        self
    }

    /// What a panic in one of its tools comes to.
    #[must_use]
    pub fn on_panic(mut self, policy: PanicPolicy) -> Self {
        Arc::make_mut(&mut self.inner).spec.on_panic = policy;
        self
    }

    /// Demands that its answers are JSON of a shape; `name` is what a provider is told it is called.
    ///
    /// The model is told the schema, and asked again for an answer that does not fit; after too many
    /// the run ends as `malformed_output`. A schema that cannot be used is refused with the agent.
    #[must_use]
    pub fn answer_schema(mut self, name: impl Into<Arc<str>>, schema: Value) -> Self {
        let schema = AnswerSchema { name: name.into(), schema: Arc::new(schema) };
        Arc::make_mut(&mut self.inner).spec.answer = Some(AnswerSpec::new(Arc::new(schema)));
        self
    }

    /// How often a run asks again for an answer that does not fit its shape. Default 2. Without a
    /// shape it means nothing.
    #[must_use]
    pub fn answer_reasks(mut self, max: u32) -> Self {
        if let Some(answer) = &mut Arc::make_mut(&mut self.inner).spec.answer {
            answer.reasks_max = max;
        }
        self
    }

    /// Whether it may ask whoever set the goal, with the built-in tool `ask_user`. It may not unless
    /// set to true.
    ///
    /// A question waits as an open call of the run; see
    /// [`RunHandle::questions`](crate::RunHandle::questions) and [`Answerer`](crate::Answerer). Where
    /// nobody can answer, the model is told so at once and goes on.
    #[must_use]
    pub fn ask_user(mut self, allowed: bool) -> Self {
        Arc::make_mut(&mut self.inner).spec.ask_user = allowed;
        self
    }

    /// Whether it has the notes that the runs of its tree share, with the tools `notes_read` and
    /// `notes_write`. It has not unless set to true.
    ///
    /// Where workers share a journal, the notes are in it and are kept as long as the tree's root; else
    /// they are in memory until that run ends.
    #[must_use]
    pub fn notes(mut self, shared: bool) -> Self {
        Arc::make_mut(&mut self.inner).spec.notes = shared;
        self
    }

    /// Whether it may write to the agents that work beside it and to the one that asked it, with the
    /// tool `send_message`, and is written to by those that may as well. It may not unless set to true.
    #[must_use]
    pub fn messages(mut self, allowed: bool) -> Self {
        Arc::make_mut(&mut self.inner).spec.messages = allowed;
        self
    }

    /// The name.
    pub fn name(&self) -> &Arc<str> {
        &self.inner.spec.name
    }

    /// The tools that cannot be offered to a model, each with the reason. Empty when all is well.
    pub fn check(&self) -> Vec<Quarantined> {
        self.toolbox(&self.shown()).1
    }

    /// Why the shape that it demands of its answers cannot be used; none when all is well.
    pub fn check_answer(&self) -> Option<String> {
        self.answer_shape().err()
    }

    pub(crate) fn answer_shape(&self) -> Result<Option<AnswerShape>, String> {
        self.inner.spec.answer.as_ref().map(AnswerShape::compile).transpose()
    }

    /// Its tools, and the agents that its model may ask.
    pub(crate) fn toolbox(&self, shown: &[Shown<'_>]) -> (Toolbox, Vec<Quarantined>) {
        let others = self.inner.links.iter().filter(|link| link.is_offered).map(|link| {
            let Inner { spec, description, input, .. } = &*link.agent.inner;
            Arc::new(delegate_spec(Arc::clone(&spec.name), Arc::clone(description), input.clone()))
        });
        let own = shown.iter().map(|shown| Arc::clone(&shown.spec));
        toolbox(&self.inner.spec, own.chain(others).collect())
    }

    /// The tools under the names that a model is shown.
    pub(crate) fn shown(&self) -> Vec<Shown<'_>> {
        let tools = &self.inner.tools;
        let of = |tool: &'_ Sourced| (tool.source.clone(), Arc::clone(&tool.tool.spec().name));
        let own: Vec<(Option<Arc<str>>, Arc<str>)> = tools.iter().map(of).collect();
        let names: Vec<SourceName<'_>> =
            own.iter().map(|(source, name)| SourceName { source: source.as_deref(), name }).collect();
        let shown = shown_names(&names);
        let shown_as = |source: Option<&str>, name: &str| {
            let place = names.iter().position(|other| *other == SourceName { source, name })?;
            shown.get(place).cloned()
        };
        let named = tools.iter().zip(&shown).map(|(Sourced { source, tool }, name)| {
            let spec = tool.spec();
            // A fallback is one of the same source, or else one of the program.
            let fallback = spec.fallback.as_ref().map(|fallback| {
                let near = shown_as(source.as_deref(), fallback);
                near.or_else(|| shown_as(None, fallback)).unwrap_or_else(|| Arc::clone(fallback))
            });
            let spec = match spec.name == *name && spec.fallback == fallback {
                true => Arc::clone(spec),
                false => Arc::new(ToolSpec { name: Arc::clone(name), fallback, ..(**spec).clone() }),
            };
            Shown { spec, tool, is_sourced: source.is_some() }
        });
        named.collect()
    }

    pub(crate) fn spec(&self) -> &AgentSpec {
        &self.inner.spec
    }

    pub(crate) fn own_model(&self) -> Option<&Arc<dyn Model>> {
        self.inner.model.as_ref()
    }

    pub(crate) fn fallbacks(&self) -> &[(Arc<dyn Model>, Vec<Bucket>)] {
        &self.inner.fallbacks
    }

    pub(crate) fn links(&self) -> &[Delegate] {
        &self.inner.links
    }

    pub(crate) fn own_join(&self) -> Join {
        self.inner.join
    }

    pub(crate) fn own_plan(&self) -> Option<&Plan> {
        self.inner.plan.as_ref().map(|(plan, _)| plan)
    }

    /// The agents that its runs may start runs of.
    pub(crate) fn below(&self) -> impl Iterator<Item = &Self> {
        let steps = self.inner.plan.iter().flat_map(|(_, agents)| agents);
        self.inner.links.iter().map(|link| &link.agent).chain(steps)
    }

    /// What a plan must know of it.
    pub(crate) fn face(&self, otherwise: &RunLimits) -> Face {
        let Inner { spec, input, limits, .. } = &*self.inner;
        Face {
            limits: limits.as_ref().unwrap_or(otherwise).clone(),
            input: input.clone().map(Arc::new),
            output: spec.answer.as_ref().map(|answer| Arc::clone(&answer.schema.schema)),
        }
    }

    pub(crate) fn has_shape(&self) -> bool {
        self.inner.spec.answer.is_some()
    }

    pub(crate) fn own_configuration(&self) -> Option<&Arc<[u8]>> {
        self.inner.configuration.as_ref()
    }

    pub(crate) fn own_limits(&self) -> Option<&RunLimits> {
        self.inner.limits.as_ref()
    }

    /// Tells agents apart: clones share it.
    pub(crate) fn identity(&self) -> usize {
        Arc::as_ptr(&self.inner) as usize
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("spec", &self.inner.spec)
            .field("tools", &self.inner.tools.iter().map(|tool| &tool.tool.spec().name).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
