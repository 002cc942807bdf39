//! The runtime: where agents run.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use dauntless_contract::{
    Attendance, BreakerSwitch, Clock, Model, Outcome, Progress, RunId, RunLimits, RunTotals, StopReason,
    Tool, ToolStatus,
};
use dauntless_core::redact::Redactor;
use dauntless_core::revival::RevivalPolicy;
use dauntless_core::run::{ModelFallback, RunSpec};
use dauntless_core::supervision::RestartPolicy;
use dauntless_core::toolbox::Quarantined;
use dauntless_core::tree::Links;
use ractor::Actor;
use tokio::sync::{Mutex, oneshot};
use tracing::Span;

use crate::agent::{Agent, Shown};
use crate::builder::RuntimeBuilder;
use crate::by_hand::{self, CallByHand};
use crate::clock::RunClock;
use crate::error::{BuildError, SubmitError};
use crate::events::{ToolEvents, ToolNews};
use crate::guarded::{GuardedHandle, Keeper, KeeperArgs, Port, RuntimeBudget, Surroundings};
use crate::id;
use crate::lease::Lease;
use crate::ledger::{Appender, Ledger};
use crate::opening::{new_fence, start_event};
use crate::orchestrator::{Crew, Opening, OrchestratorActor, RunArgs, RunMsg};
use crate::ports::{ModelPort, ToolPort};
use crate::run::{Canceller, RunHandle, RunStream};
use crate::submission::Submission;
use crate::supervision::SupervisorHandle;
use crate::supervisor::{Branch, Branches};
use crate::watch::Watch;

/// Runs agents. Cheap to clone; clones are the same runtime.
///
/// Dropping the last clone stops it: runs end, and no task is left behind.
#[derive(Clone)]
pub struct Runtime {
    inner: Arc<Inner>,
}

struct Inner {
    root: SupervisorHandle,
    branches: Arc<Branches>,
    config: Settings,
    stopping: AtomicBool,
    /// How many were started; each has its own seed.
    runs: AtomicU64,
    /// Agents that have run, by identity. Read on every run, written once per agent.
    crews: RwLock<Crews>,
    /// Held while an agent's actors start, so that no tool is started twice.
    dependencies: Mutex<Dependencies>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.root.cell().stop(Some("the runtime was dropped".into()));
    }
}

#[derive(Default)]
struct Crews {
    /// Of the branches that their tools and models are under.
    generation: u64,
    by_agent: HashMap<usize, (Agent, Arc<Crew>)>,
}

#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) model: Option<Arc<dyn Model>>,
    pub(crate) limits: RunLimits,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) journal: Option<Ledger>,
    pub(crate) lease: Option<Lease>,
    pub(crate) redactor: Redactor,
    pub(crate) restarts: RestartPolicy,
    pub(crate) revival: RevivalPolicy,
    pub(crate) budget: Arc<RuntimeBudget>,
    pub(crate) news: ToolNews,
    pub(crate) seed: u64,
    pub(crate) attendance: Attendance,
}

#[derive(Default)]
struct Dependencies {
    tools: Vec<(Arc<dyn Tool>, GuardedHandle<ToolPort>)>,
    models: Vec<(Arc<dyn Model>, GuardedHandle<ModelPort>)>,
}

impl Runtime {
    /// A runtime with default limits, no journal and no model yet.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::new()
    }

    pub(crate) fn new(root: SupervisorHandle, branches: Arc<Branches>, config: Settings) -> Self {
        Self {
            inner: Arc::new(Inner {
                root,
                branches,
                config,
                stopping: AtomicBool::new(false),
                runs: AtomicU64::new(0),
                crews: RwLock::new(Crews::default()),
                dependencies: Mutex::new(Dependencies::default()),
            }),
        }
    }

    /// Runs a goal to its end, in a conversation of its own or [after another](Submission::after).
    /// Always an outcome, with its one stop reason. Nobody can answer a question of the run meanwhile:
    /// its model is told so.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the run: its calls are stopped and answered.
    pub async fn run(&self, agent: &Agent, goal: impl Into<Submission>) -> Outcome {
        match self.start(agent, goal.into(), Watch::default(), Attendance::Unattended).await {
            Ok(handle) => {
                let mut guard = CancelOnDrop(Some(handle.canceller()));
                let outcome = handle.outcome().await;
                guard.0 = None;
                outcome
            }
            Err(error) => Outcome {
                run: id::run_id(),
                reason: StopReason::Internal { code: error.code().into() },
                text: None,
                explanation: Some(error.to_string().into()),
                totals: RunTotals::default(),
                elapsed: Duration::ZERO,
            },
        }
    }

    /// Starts a run and returns. The run lives until its outcome. Where as many runs are under way
    /// as [may be](RuntimeBuilder::runs_at_once), it waits for a place.
    ///
    /// # Errors
    /// [`SubmitError`], when the agent cannot run or the runtime has stopped. Nothing was started.
    ///
    /// # Cancel safety
    /// Dropping the future before it resolves submits nothing.
    pub async fn submit(&self, agent: &Agent, goal: impl Into<Submission>) -> Result<RunHandle, SubmitError> {
        self.start(agent, goal.into(), Watch::default(), self.inner.config.attendance).await
    }

    /// Starts a run and yields its progress, which ends with the outcome.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub async fn stream(&self, agent: &Agent, goal: impl Into<Submission>) -> Result<RunStream, SubmitError> {
        let (watch, events) = Watch::open();
        let handle = self.start(agent, goal.into(), watch, self.inner.config.attendance).await?;
        Ok(RunStream::new(handle, events))
    }

    /// Calls one tool of an agent by hand, with its whole resilience: retries, breaker, budget.
    ///
    /// Answers how the call ended; arguments that do not fit never reach the tool.
    ///
    /// # Errors
    /// [`SubmitError`], when the agent cannot run or has no such tool.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call.
    pub async fn call_tool(
        &self,
        agent: &Agent,
        tool: &str,
        arguments: &str,
        see: impl FnMut(&Progress),
    ) -> Result<CallByHand, SubmitError> {
        let crew = self.crew(agent).await?;
        by_hand::call(&crew, &*self.inner.config.clock, tool, arguments, see).await
    }

    /// Follows what changes about tools and models, from now on: breakers, crashes, what goes down
    /// and comes back.
    pub fn tool_events(&self) -> ToolEvents {
        self.inner.config.news.subscribe()
    }

    /// How one tool of an agent stands.
    ///
    /// # Errors
    /// [`SubmitError`], when the agent cannot run or has no such tool.
    pub async fn tool_status(&self, agent: &Agent, tool: &str) -> Result<ToolStatus, SubmitError> {
        Ok(self.crew(agent).await?.tool(tool)?.picture())
    }

    /// How every tool and every model that was started stands, tools first.
    pub async fn statuses(&self) -> Vec<ToolStatus> {
        let Dependencies { tools, models } = &*self.inner.dependencies.lock().await;
        let tools = tools.iter().map(|(_, handle)| handle.picture());
        tools.chain(models.iter().map(|(_, handle)| handle.picture())).collect()
    }

    /// Opens, closes or resets the breaker of a tool by hand. It holds for all agents and runs that
    /// share the tool.
    ///
    /// # Errors
    /// [`SubmitError`], when the agent cannot run or has no such tool.
    pub async fn switch_breaker(
        &self,
        agent: &Agent,
        tool: &str,
        switch: BreakerSwitch,
    ) -> Result<(), SubmitError> {
        self.crew(agent).await?.tool(tool)?.switch(switch);
        Ok(())
    }

    /// Stops taking runs, ends those under way as `cancelled` and takes the tree down, within a time.
    pub async fn shutdown(&self, within: Duration) {
        self.inner.stopping.store(true, Ordering::Relaxed);
        let mut runs = self.inner.branches.runs.cell().map_or_else(Vec::new, |runs| runs.get_children());
        // The oldest first: ractor keeps them in no order.
        runs.sort_by_key(ractor::ActorCell::get_id);
        for run in &runs {
            let _ = run.send_message(RunMsg::Cancel { by: "shutdown".into() });
        }
        let all_ended = async {
            for run in &runs {
                let _ = run.wait(None).await;
            }
        };
        let _ = tokio::time::timeout(within, all_ended).await;
        if tokio::time::timeout(within, self.inner.root.shutdown()).await.is_err() {
            self.inner.root.cell().kill();
        }
    }

    async fn start(
        &self,
        agent: &Agent,
        submission: Submission,
        watch: Watch,
        attendance: Attendance,
    ) -> Result<RunHandle, SubmitError> {
        if self.is_stopping() {
            return Err(SubmitError::Stopped);
        }
        let crew = self.crew(agent).await?;
        let settings = &self.inner.config;
        let fence = new_fence();
        let limits = agent.own_limits().unwrap_or(&settings.limits).clone();
        let started = start_event(&crew.spec.agent, &crew.spec.toolbox, submission, limits, attendance);
        let journal = settings.journal.clone().map(|ledger| Appender::new(ledger, fence, 0));
        let clock = RunClock::same(Arc::clone(&settings.clock));
        self.spawn(fence.run, crew, Opening::New(started), clock, journal, watch).await
    }

    /// Puts a run under its supervisor, once there is a place for it.
    pub(crate) async fn spawn(
        &self,
        run: RunId,
        crew: Arc<Crew>,
        opening: Opening,
        clock: RunClock,
        journal: Option<Appender>,
        watch: Watch,
    ) -> Result<RunHandle, SubmitError> {
        let settings = &self.inner.config;
        let (parting, receiver) = oneshot::channel();
        let args = RunArgs {
            run,
            crew,
            opening,
            clock,
            journal,
            lease: settings.lease.clone(),
            watch,
            parting,
            parent_span: Span::current(),
            seed: settings.seed.wrapping_add(self.inner.runs.fetch_add(1, Ordering::Relaxed)),
        };
        let submitted = settings.clock.now();
        let runs = self.inner.branches.runs.now().ok_or(SubmitError::Stopped)?;
        let place = runs.places.acquire().await.map_err(|_| SubmitError::Stopped)?;
        let (actor, _) = Actor::spawn_linked(None, OrchestratorActor, args, runs.cell.clone())
            .await
            .map_err(|_| SubmitError::Stopped)?;
        // The branch gives the place back when it has taken note of the run's end.
        place.forget();
        Ok(RunHandle { id: run, actor, parting: receiver, clock: Arc::clone(&settings.clock), submitted })
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.inner.config
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.inner.stopping.load(Ordering::Relaxed)
    }

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
        let mut dependencies = self.inner.dependencies.lock().await;
        if let Some(crew) = known(&self.inner) {
            return Ok(crew);
        }
        self.forget_lost(&mut dependencies);
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
        let settings = &self.inner.config;
        let model = agent.own_model().or(settings.model.as_ref());
        let model = model.ok_or_else(|| BuildError::NoModel { agent: Arc::clone(agent.name()) })?;
        let mut tools = HashMap::new();
        for Shown { spec, tool, .. } in shown {
            // Of two with one name, the one that the toolbox kept; and of two equal ones, the first.
            let is_kept = toolbox.get(&spec.name).is_some_and(|kept| *kept == spec);
            if !is_kept || tools.contains_key(&spec.name) {
                continue;
            }
            let handle = self.tool(tool, &mut dependencies).await?;
            tools.insert(Arc::clone(&spec.name), handle);
        }
        let mut models = vec![self.model(model, &mut dependencies).await?];
        let mut fallbacks = Vec::new();
        for (model, on) in agent.fallbacks() {
            models.push(self.model(model, &mut dependencies).await?);
            fallbacks.push(ModelFallback { model: Arc::clone(model.spec()), on: on.clone() });
        }
        let crew = Arc::new(Crew {
            spec: Arc::new(RunSpec {
                agent: agent.spec().clone(),
                toolbox,
                answer,
                model: Arc::clone(model.spec()),
                fallbacks,
                links: Links::default(),
                redactor: settings.redactor.clone(),
            }),
            tools,
            models,
            nothing: Arc::new([]),
        });
        // The agent itself is kept, so that its identity is not given to another.
        let entry = (agent.clone(), Arc::clone(&crew));
        let mut crews = self.inner.crews.write().unwrap_or_else(PoisonError::into_inner);
        crews.by_agent.insert(agent.identity(), entry);
        Ok(crew)
    }

    #[cfg(test)]
    pub(crate) fn branches(&self) -> &Branches {
        &self.inner.branches
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
        let Settings { redactor, lease, .. } = &self.inner.config;
        let port = ToolPort { tool: Arc::clone(tool), redactor: redactor.clone(), lease: lease.clone() };
        let seed = self.inner.config.seed.wrapping_add(known.tools.len() as u64);
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
        let port = ModelPort { model: Arc::clone(model), redactor: self.inner.config.redactor.clone() };
        let seed = self.inner.config.seed.wrapping_add(1 << 32).wrapping_add(known.models.len() as u64);
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
        let settings = &self.inner.config;
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

/// Two values are one tool when they are the same object, or the same stateless type.
fn same_tool(a: &Arc<dyn Tool>, b: &Arc<dyn Tool>) -> bool {
    let stateless = size_of_val(&**a) == 0 && size_of_val(&**b) == 0;
    let one_type = (**a).type_id() == (**b).type_id();
    std::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b)) && !stateless
        || stateless && one_type && a.spec() == b.spec()
}

struct CancelOnDrop(Option<Canceller>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(canceller) = self.0.take() {
            canceller.cancel("the caller, who went away");
        }
    }
}
