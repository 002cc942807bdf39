//! The actors of an agent: started when the agent is first seen, and shared by all that use the same.
//!
//! Everything that is wrong with an agent, with the agents it may ask or with a plan is found here,
//! before a run of it starts.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError};

use dauntless_contract::{Model, Tool};
use dauntless_core::plan::{Plan, PlanSpec, Problem};
use dauntless_core::run::{ModelFallback, RunSpec};
use dauntless_core::toolbox::Quarantined;
use dauntless_core::tree::{self, Links};
use ractor::Actor;

use crate::agent::{Agent, Shown};
use crate::error::BuildError;
use crate::guarded::{GuardedHandle, Keeper, KeeperArgs, Port, Surroundings};
use crate::orchestrator::{Brain, Crew};
use crate::ports::{ModelPort, ToolPort};
use crate::runtime::{Inner, Runtime, Settings};
use crate::supervisor::Branch;

#[derive(Default)]
pub(crate) struct Crews {
    /// Of the branches that their tools and models are under.
    generation: u64,
    by_agent: HashMap<usize, (Agent, Arc<Crew>)>,
}

#[derive(Default)]
pub(crate) struct Dependencies {
    pub(crate) tools: Vec<(Arc<dyn Tool>, GuardedHandle<ToolPort>)>,
    pub(crate) models: Vec<(Arc<dyn Model>, GuardedHandle<ModelPort>)>,
}

impl Runtime {
    /// The agent's actors; started when it is first seen.
    pub(crate) async fn crew(&self, agent: &Agent) -> Result<Arc<Crew>, BuildError> {
        let known = |inner: &Inner| {
            let crews = inner.crews.read().unwrap_or_else(PoisonError::into_inner);
            let current = crews.generation == inner.branches.generation();
            crews.by_agent.get(&agent.identity()).filter(|_| current).map(|(_, crew)| Arc::clone(crew))
        };
        if let Some(crew) = known(&self.inner) {
            return Ok(crew);
        }
        for below in agent.below() {
            Box::pin(self.crew(below)).await?;
        }
        let mut dependencies = self.inner.dependencies.lock().await;
        if let Some(crew) = known(&self.inner) {
            return Ok(crew);
        }
        self.forget_lost(&mut dependencies);
        let crew = Arc::new(match agent.own_plan() {
            Some(plan) => self.crew_of_plan(agent, plan)?,
            None => self.crew_of_agent(agent, &mut dependencies).await?,
        });
        // The agent itself is kept, so that its identity is not given to another.
        let entry = (agent.clone(), Arc::clone(&crew));
        let mut crews = self.inner.crews.write().unwrap_or_else(PoisonError::into_inner);
        crews.by_agent.insert(agent.identity(), entry);
        Ok(crew)
    }

    async fn crew_of_agent(
        &self,
        agent: &Agent,
        dependencies: &mut Dependencies,
    ) -> Result<Crew, BuildError> {
        let shown = agent.shown();
        let (toolbox, problems) = agent.toolbox(&shown);
        let (outside, problems): (Vec<_>, Vec<_>) = problems.into_iter().partition(|problem| {
            shown.iter().any(|shown| shown.is_sourced && shown.spec.name == problem.name)
        });
        if !problems.is_empty() {
            return Err(BuildError::Agent { agent: Arc::clone(agent.name()), problems });
        }
        for Quarantined { name, reason } in outside {
            tracing::warn!(agent = &**agent.name(), tool = &*name, reason, "a tool is not offered");
        }
        let answer = agent
            .answer_shape()
            .map_err(|reason| BuildError::Answer { agent: Arc::clone(agent.name()), reason })?;
        let settings = self.settings();
        let model = agent.own_model().or(settings.model.as_ref());
        let model = model.ok_or_else(|| BuildError::NoModel { agent: Arc::clone(agent.name()) })?;
        let mut tools = HashMap::new();
        for Shown { spec, tool, .. } in shown {
            // Of two with one name, the one that the toolbox kept; and of two equal ones, the first.
            let is_kept = toolbox.get(&spec.name).is_some_and(|kept| *kept == spec);
            if !is_kept || tools.contains_key(&spec.name) {
                continue;
            }
            let handle = self.tool(tool, dependencies).await?;
            tools.insert(Arc::clone(&spec.name), handle);
        }
        for tool in
            settings.common_tools.iter().filter(|tool| toolbox.get(&tool.spec().name) == Some(tool.spec()))
        {
            let handle = self.tool(tool, dependencies).await?;
            tools.insert(Arc::clone(&tool.spec().name), handle);
        }
        let mut models = vec![self.model(model, dependencies).await?];
        let mut fallbacks = Vec::new();
        for (model, on) in agent.fallbacks() {
            models.push(self.model(model, dependencies).await?);
            fallbacks.push(ModelFallback { model: Arc::clone(model.spec()), on: on.clone() });
        }
        let spec = RunSpec {
            agent: agent.spec().clone(),
            toolbox,
            answer,
            model: Arc::clone(model.spec()),
            fallbacks,
            links: self.links(agent)?,
            redactor: settings.redactor.clone(),
        };
        Ok(Crew {
            brain: Brain::Agent(Arc::new(spec)),
            tools,
            models,
            nothing: Arc::new([]),
            below: below(agent),
        })
    }

    fn crew_of_plan(&self, agent: &Agent, plan: &Plan) -> Result<Crew, BuildError> {
        let Settings { limits, redactor, .. } = self.settings();
        let agents: BTreeMap<_, _> =
            agent.below().map(|below| (Arc::clone(below.name()), below.face(limits))).collect();
        refuse(agent, plan.check(&agents))?;
        let spec = PlanSpec {
            name: Arc::clone(agent.name()),
            plan: plan.clone(),
            agents,
            redactor: redactor.clone(),
        };
        Ok(Crew {
            brain: Brain::Plan(Arc::new(spec)),
            tools: HashMap::new(),
            models: Vec::new(),
            nothing: Arc::new([]),
            below: below(agent),
        })
    }

    /// The links of an agent, if they and all below them hold.
    fn links(&self, agent: &Agent) -> Result<Links, BuildError> {
        let limits = &self.settings().limits;
        let of = |agent: &Agent| {
            let mut links = Links::new(agent.links().iter().map(|link| link.link(limits)));
            links.join = agent.own_join();
            links
        };
        let mut all = BTreeMap::new();
        let mut to_see = vec![agent];
        while let Some(next) = to_see.pop() {
            if all.insert(Arc::clone(next.name()), of(next)).is_none() {
                to_see.extend(next.below());
            }
        }
        refuse(agent, tree::check(&all))?;
        Ok(of(agent))
    }

    /// Forgets the actors that went down with their branch, so that they are started anew.
    fn forget_lost(&self, dependencies: &mut Dependencies) {
        let generation = self.inner.branches.generation();
        let mut crews = self.inner.crews.write().unwrap_or_else(PoisonError::into_inner);
        if crews.generation != generation {
            *crews = Crews { generation, by_agent: HashMap::new() };
            *dependencies = Dependencies::default();
        }
    }

    async fn tool(
        &self,
        tool: &Arc<dyn Tool>,
        known: &mut Dependencies,
    ) -> Result<GuardedHandle<ToolPort>, BuildError> {
        if let Some((_, handle)) = known.tools.iter().find(|(other, _)| same_tool(other, tool)) {
            return Ok(handle.clone());
        }
        let Settings { redactor, lease, .. } = self.settings();
        let port = ToolPort { tool: Arc::clone(tool), redactor: redactor.clone(), lease: lease.clone() };
        let seed = self.settings().seed.wrapping_add(known.tools.len() as u64);
        let handle = self.supervise(port, seed, &self.inner.branches.tools).await?;
        known.tools.push((Arc::clone(tool), handle.clone()));
        Ok(handle)
    }

    async fn model(
        &self,
        model: &Arc<dyn Model>,
        known: &mut Dependencies,
    ) -> Result<GuardedHandle<ModelPort>, BuildError> {
        if let Some((_, handle)) = known.models.iter().find(|(other, _)| Arc::ptr_eq(other, model)) {
            return Ok(handle.clone());
        }
        let port = ModelPort { model: Arc::clone(model), redactor: self.settings().redactor.clone() };
        let seed = self.settings().seed.wrapping_add(1 << 32).wrapping_add(known.models.len() as u64);
        let handle = self.supervise(port, seed, &self.inner.branches.models).await?;
        known.models.push((Arc::clone(model), handle.clone()));
        Ok(handle)
    }

    async fn supervise<P: Port>(
        &self,
        port: P,
        seed: u64,
        branch: &Branch,
    ) -> Result<GuardedHandle<P>, BuildError> {
        let branch = branch.cell().ok_or_else(|| BuildError::Start("its branch is gone".into()))?;
        let settings = self.settings();
        let around = Surroundings {
            clock: Arc::clone(&settings.clock),
            budget: Arc::clone(&settings.budget),
            news: settings.news.clone(),
        };
        let handle = GuardedHandle::new(Arc::new(port), around, seed);
        let args = KeeperArgs {
            handle: handle.clone(),
            restarts: settings.restarts.clone(),
            revival: settings.revival.clone(),
            seed,
        };
        Actor::spawn_linked(None, Keeper::<P>::new(), args, branch)
            .await
            .map_err(|error| BuildError::Start(error.to_string()))?;
        Ok(handle)
    }
}

fn below(agent: &Agent) -> BTreeMap<Arc<str>, Agent> {
    agent.below().map(|below| (Arc::clone(below.name()), below.clone())).collect()
}

fn refuse(agent: &Agent, problems: Vec<Problem>) -> Result<(), BuildError> {
    match problems.is_empty() {
        true => Ok(()),
        false => Err(BuildError::Tree { agent: Arc::clone(agent.name()), problems }),
    }
}

/// Two values are one tool when they are the same object, or the same stateless type.
fn same_tool(a: &Arc<dyn Tool>, b: &Arc<dyn Tool>) -> bool {
    let stateless = size_of_val(&**a) == 0 && size_of_val(&**b) == 0;
    let one_type = (**a).type_id() == (**b).type_id();
    std::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b)) && !stateless
        || stateless && one_type && a.spec() == b.spec()
}
