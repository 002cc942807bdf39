//! From a configuration to a running system: models, tools and agents, put together once.
//!
//! A part that cannot start is named with its reason and left out, and the rest works: a missing
//! variable of one tool must not take the service down.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{AnswerSpec, SharedJournal, Tool};
use dauntless_models::Scripted;
use dauntless_tools::{CommandTool, HttpTool, ProcessReaper, ToolConfigError};
use serde_json::Value;

mod broken;
mod direct;
mod model;
mod spec;
mod team;

pub use broken::{Broken, Cause, ModelError, NoAgent, NoTool};
pub use dauntless_runtime::{
    Agent, Answerer, BuildError, Canceller, Lease, RunStream, Runtime, Submission, SubmitError,
};
pub use direct::DirectModel;

use crate::chaos::ChaosTools;
use crate::config::{Config, ToolAction, ToolConfig};
pub(crate) use spec::opening;
pub use spec::{Spec, redactor, spec};

use model::Models;
pub(crate) use model::client;

/// Looks up a variable of the environment. Injected, so that only the binary reads the real one.
pub type Environment<'a> = &'a (dyn Fn(&str) -> Option<String> + Send + Sync);

/// The journal that a system's runs are driven from, and the right to drive them.
#[derive(Clone)]
pub struct Durable {
    /// The journal, with a worker registered at its handle.
    pub journal: Arc<dyn SharedJournal>,
    /// The lease of that worker.
    pub lease: Lease,
}

/// A configured system, running.
pub struct App {
    runtime: Runtime,
    agents: BTreeMap<Arc<str>, Agent>,
    broken: Vec<Broken>,
    chaos: Option<ChaosTools>,
    reaper: Arc<ProcessReaper>,
}

impl App {
    /// Builds and starts everything that a configuration names, as far as it can start.
    ///
    /// # Errors
    /// [`BuildError`], when the supervision tree itself does not start.
    pub async fn assemble(config: &Config, environment: Environment<'_>) -> Result<Self, BuildError> {
        Self::assemble_on(config, environment, None).await
    }

    /// Builds and starts a configuration whose runs are driven from a journal.
    ///
    /// # Errors
    /// As [`assemble`](Self::assemble).
    pub async fn assemble_on(
        config: &Config,
        environment: Environment<'_>,
        durable: Option<Durable>,
    ) -> Result<Self, BuildError> {
        let mut parts = Parts { durable, ..Parts::new(config) };
        for (name, tool) in &config.tools {
            parts.tool(name, tool, environment);
        }
        parts.let_go_of_lost_fallbacks(environment);
        let mut models = Models::default();
        let mut agents = BTreeMap::new();
        for (name, agent) in team::asked_first(config) {
            let Some(model) = config.models.get(&agent.model) else { continue };
            let model = match models.get(&agent.model, model, environment) {
                Ok(model) => model,
                Err(error) => {
                    parts.broken(name, Cause::Model(error));
                    continue;
                }
            };
            let tools = agent.tools.iter().filter_map(|tool| parts.tools.get(tool).cloned());
            let fallbacks = models.fallbacks(&agent.model, &config.models, environment);
            let built = Agent::new(Arc::clone(name))
                .instructions(Arc::clone(&agent.spec.instructions))
                .on_panic(agent.spec.on_panic)
                .ask_user(agent.spec.ask_user)
                .notes(agent.spec.notes)
                .messages(agent.spec.messages)
                .shared_model(model)
                .limits(agent.limits.clone())
                .tools(tools);
            let built =
                fallbacks.into_iter().fold(built, |agent, (model, on)| agent.fallback_model(model, on));
            let built = match &agent.spec.answer {
                Some(AnswerSpec { schema, reasks_max }) => built
                    .answer_schema(Arc::clone(&schema.name), Value::clone(&schema.schema))
                    .answer_reasks(*reasks_max),
                None => built,
            };
            let built = team::linked(built, agent, &agents);
            match built.check() {
                problems if problems.is_empty() => {
                    agents.insert(Arc::clone(name), team::pinned(built, config));
                }
                problems => parts.broken(name, Cause::Declarations(problems)),
            }
        }
        parts.plans(&mut agents);
        parts.secrets.extend(models.into_secrets());
        parts.start(agents).await
    }

    /// Starts one tool alone, with an agent that has no model, for calls by hand.
    ///
    /// # Errors
    /// [`NoTool`], when there is no such tool or it cannot start.
    pub async fn with_tool(
        config: &Config,
        name: &str,
        environment: Environment<'_>,
    ) -> Result<Self, NoTool> {
        let (name, tool) = config.tools.get_key_value(name).ok_or_else(|| NoTool::unknown(name, config))?;
        let mut parts = Parts::new(config);
        parts.tool(name, tool, environment);
        parts.let_go_of_lost_fallbacks(environment);
        if let Some(broken) = parts.broken.pop() {
            return Err(NoTool::Broken { name: Arc::clone(name), cause: broken.cause });
        }
        let agent = Agent::new("by-hand")
            .shared_model(Arc::new(Scripted::new([])))
            .tools(parts.tools.values().map(Arc::clone));
        match agent.check() {
            problems if problems.is_empty() => {
                Ok(parts.start([(Arc::clone(agent.name()), agent)].into()).await?)
            }
            problems => {
                Err(NoTool::Broken { name: Arc::clone(name), cause: Arc::new(Cause::Declarations(problems)) })
            }
        }
    }

    /// The runtime.
    pub const fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The agents, and the plans, which are run like agents.
    pub(crate) fn agents(&self) -> impl Iterator<Item = &Agent> {
        self.agents.values()
    }

    /// What did not start.
    pub fn broken(&self) -> &[Broken] {
        &self.broken
    }

    /// The tools that fail on purpose; `None` unless chaos is on.
    pub const fn chaos(&self) -> Option<&ChaosTools> {
        self.chaos.as_ref()
    }

    /// The agent or the plan of this name; without one, the only one there is.
    ///
    /// # Errors
    /// [`NoAgent`], naming the agents there are, or why this one cannot run.
    pub fn agent(&self, name: Option<&str>) -> Result<&Agent, NoAgent> {
        let broken: BTreeMap<&str, &Broken> =
            self.broken.iter().filter(|part| part.is_agent()).map(|part| (&*part.name, part)).collect();
        let names: BTreeSet<&str> =
            self.agents.keys().map(|name| &**name).chain(broken.keys().copied()).collect();
        let known = || names.iter().copied().collect::<Vec<_>>().join(", ");
        let name = match (name, names.first()) {
            (Some(name), _) => name,
            (None, Some(only)) if names.len() == 1 => only,
            (None, _) => return Err(NoAgent::Which { known: known() }),
        };
        match (self.agents.get(name), broken.get(name)) {
            (Some(agent), _) => Ok(agent),
            (None, Some(part)) => {
                Err(NoAgent::Broken { name: Arc::clone(&part.name), cause: Arc::clone(&part.cause) })
            }
            (None, None) => Err(NoAgent::Unknown { name: name.to_owned(), known: known() }),
        }
    }

    /// Ends every run and every process, within a time.
    pub async fn shutdown(&self, within: Duration) {
        self.runtime.shutdown(within).await;
        self.reaper.drain(within).await;
    }

    /// What kills every process of every tool at once, for the moment before a hard exit.
    pub fn killer(&self) -> impl Fn() + Send + Sync + use<> {
        let reaper = Arc::clone(&self.reaper);
        move || reaper.kill_all()
    }
}

/// What this machine lacks for a tool: variables, programs. For [`load_with`](crate::config::load_with).
pub fn lacks(tool: &ToolConfig, environment: Environment<'_>) -> Vec<ToolConfigError> {
    build(tool, environment, &Arc::default(), &mut Vec::new()).err().unwrap_or_default()
}

/// What has been built so far.
struct Parts<'c> {
    config: &'c Config,
    tools: BTreeMap<Arc<str>, Arc<dyn Tool>>,
    broken: Vec<Broken>,
    chaos: Option<ChaosTools>,
    secrets: Vec<String>,
    reaper: Arc<ProcessReaper>,
    durable: Option<Durable>,
}

impl<'c> Parts<'c> {
    fn new(config: &'c Config) -> Self {
        Self {
            config,
            tools: BTreeMap::new(),
            broken: Vec::new(),
            chaos: config.chaos.enabled.then(|| ChaosTools::new(config.chaos.seed)),
            secrets: Vec::new(),
            reaper: Arc::default(),
            durable: None,
        }
    }

    fn broken(&mut self, name: &Arc<str>, cause: Cause) {
        self.broken.push(Broken { name: Arc::clone(name), cause: Arc::new(cause) });
    }

    fn tool(&mut self, name: &Arc<str>, config: &ToolConfig, environment: Environment<'_>) {
        match build(config, environment, &self.reaper, &mut self.secrets) {
            Ok(tool) => {
                let tool = self.innermost(tool);
                self.tools.insert(Arc::clone(name), tool);
            }
            Err(errors) => self.broken(name, Cause::Tool(errors)),
        }
    }

    /// A tool whose fallback is not there works without it; that the fallback is missing is told anyway.
    fn let_go_of_lost_fallbacks(&mut self, environment: Environment<'_>) {
        let is_lost = |tool: &Arc<dyn Tool>| {
            tool.spec().fallback.as_ref().is_some_and(|fallback| !self.tools.contains_key(fallback))
        };
        let lost: Vec<Arc<str>> =
            self.tools.iter().filter(|(_, tool)| is_lost(tool)).map(|(name, _)| Arc::clone(name)).collect();
        for name in lost {
            let Some(tool) = self.config.tools.get(&name) else { continue };
            let mut alone = tool.clone();
            Arc::make_mut(&mut alone.spec).fallback = None;
            self.tool(&name, &alone, environment);
        }
    }

    /// Chaos stands next to the tool, so that every guard of the runtime is around it.
    fn innermost(&mut self, tool: Arc<dyn Tool>) -> Arc<dyn Tool> {
        match (&mut self.chaos, self.config.chaos.plan(&tool.spec().name)) {
            (Some(chaos), Some(plan)) => chaos.wrap(tool, plan),
            (None, _) | (_, None) => tool,
        }
    }

    async fn start(self, agents: BTreeMap<Arc<str>, Agent>) -> Result<App, BuildError> {
        let mut builder = Runtime::builder()
            .secrets(self.secrets)
            .attendance(self.config.attendance)
            .retry_budget(self.config.resilience.budget.clone())
            .revival(self.config.resilience.revival.clone())
            .redact(self.config.redact.iter().map(|pattern| pattern.as_str().to_owned()));
        if let Some(Durable { journal, lease }) = self.durable {
            builder = builder.shared_journal(journal).lease(lease);
        }
        for agent in agents.values() {
            builder = builder.agent(agent);
        }
        Ok(App {
            runtime: builder.build().await?,
            agents,
            broken: self.broken,
            chaos: self.chaos,
            reaper: self.reaper,
        })
    }
}

fn build(
    config: &ToolConfig,
    environment: Environment<'_>,
    reaper: &Arc<ProcessReaper>,
    secrets: &mut Vec<String>,
) -> Result<Arc<dyn Tool>, Vec<ToolConfigError>> {
    let spec = Arc::clone(&config.spec);
    match &config.action {
        ToolAction::Http(http) => {
            let tool = HttpTool::build(spec, http.clone(), &environment)?;
            secrets.extend(tool.secrets());
            Ok(Arc::new(tool))
        }
        ToolAction::Command(command) => {
            let tool = CommandTool::build(spec, command.clone(), &environment, Arc::clone(reaper))?;
            secrets.extend(tool.secrets());
            Ok(Arc::new(tool))
        }
    }
}

#[cfg(test)]
mod tests;
