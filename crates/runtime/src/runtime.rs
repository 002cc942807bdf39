//! The runtime: where agents run.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;

use dauntless_contract::{
    Attendance, BreakerSwitch, Clock, Fence, Model, Outcome, Progress, RunId, RunLimits, Tool, ToolStatus,
};
use dauntless_core::redact::Redactor;
use dauntless_core::revival::RevivalPolicy;
use dauntless_core::supervision::RestartPolicy;
use ractor::{Actor, ActorCell};
use tokio::sync::{Mutex, oneshot};
use tracing::Span;

use crate::agent::Agent;
use crate::builder::RuntimeBuilder;
use crate::by_hand::{self, CallByHand};
use crate::clock::RunClock;
use crate::commons::Commons;
use crate::crew::{Crews, Dependencies};
use crate::error::SubmitError;
use crate::events::{ToolEvents, ToolNews};
use crate::guarded::RuntimeBudget;
use crate::id;
use crate::lease::Lease;
use crate::ledger::{Appender, Kin, Ledger, NewBorn};
use crate::opening::{new_fence, start_event};
use crate::orchestrator::{Crew, Opening, OrchestratorActor, RunArgs, RunMsg};
use crate::run::{Canceller, Reins, RunHandle, RunStream, broken};
use crate::submission::Submission;
use crate::supervision::SupervisorHandle;
use crate::supervisor::Branches;
use crate::watch::Watch;

/// Runs agents. Cheap to clone; clones are the same runtime.
///
/// Dropping the last clone stops it: runs end, and no task is left behind.
#[derive(Clone)]
pub struct Runtime {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    root: SupervisorHandle,
    pub(crate) branches: Arc<Branches>,
    config: Settings,
    stopping: AtomicBool,
    /// How many were started; each has its own seed.
    runs: AtomicU64,
    /// Agents that have run, by identity. Read on every run, written once per agent.
    pub(crate) crews: RwLock<Crews>,
    /// The runs that are driven under another one.
    children: std::sync::Mutex<HashMap<RunId, Reins>>,
    /// Held while an agent's actors start, so that no tool is started twice.
    pub(crate) dependencies: Mutex<Dependencies>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.root.cell().stop(Some("the runtime was dropped".into()));
    }
}

#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) model: Option<Arc<dyn Model>>,
    pub(crate) limits: RunLimits,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) journal: Option<Ledger>,
    pub(crate) commons: Arc<Commons>,
    pub(crate) common_tools: Vec<Arc<dyn Tool>>,
    pub(crate) lease: Option<Lease>,
    pub(crate) redactor: Redactor,
    pub(crate) restarts: RestartPolicy,
    pub(crate) revival: RevivalPolicy,
    pub(crate) budget: Arc<RuntimeBudget>,
    pub(crate) news: ToolNews,
    pub(crate) seed: u64,
    pub(crate) attendance: Attendance,
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
                children: std::sync::Mutex::default(),
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
            Err(error) => broken(id::run_id(), error.code(), error.to_string(), Duration::ZERO),
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

    /// Opens the breaker of a tool or a model for a while, if it is closed: another process has found out
    /// that it takes no calls. Of one that was not started yet, nothing is known.
    pub async fn expect_outage(&self, dependency: &str, lasts: Duration) {
        let Dependencies { tools, models } = &*self.inner.dependencies.lock().await;
        for (_, tool) in tools.iter().filter(|(_, tool)| &**tool.name() == dependency) {
            tool.expect_outage(lasts);
        }
        for (_, model) in models.iter().filter(|(_, model)| &**model.name() == dependency) {
            model.expect_outage(lasts);
        }
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

    /// Stops taking runs, ends those under way as `cancelled` and takes the tree down, within a time. Runs
    /// of a journal that workers share are let go of instead, for others to go on with.
    pub async fn shutdown(&self, within: Duration) {
        self.inner.stopping.store(true, Ordering::Relaxed);
        let mut runs = self.inner.branches.runs.cell().map_or_else(Vec::new, |runs| runs.get_children());
        // The oldest first: ractor keeps them in no order.
        runs.sort_by_key(ActorCell::get_id);
        let shared = matches!(self.inner.config.journal, Some(Ledger::Shared(_)));
        for run in &runs {
            let _ = run.send_message(match shared {
                true => RunMsg::HandOver { at_once: true },
                false => RunMsg::Cancel { by: "shutdown".into() },
            });
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
        let started = start_event(agent.spec(), &crew.toolbox(), submission, limits, attendance);
        let journal = settings.journal.clone().map(|ledger| appender(ledger, fence, agent, None));
        let clock = RunClock::same(Arc::clone(&settings.clock));
        self.spawn(fence.run, crew, Opening::New(started), clock, journal, watch, Place::Top).await
    }

    /// Puts a run under its supervisor. At the top, once there is a place for it; under another run at
    /// once, because that one would hold its own place meanwhile.
    #[expect(clippy::too_many_arguments, reason = "each of them is something else")]
    pub(crate) async fn spawn(
        &self,
        run: RunId,
        crew: Arc<Crew>,
        opening: Opening,
        clock: RunClock,
        journal: Option<Appender>,
        watch: Watch,
        place: Place,
    ) -> Result<RunHandle, SubmitError> {
        let settings = &self.inner.config;
        let (parting, receiver) = oneshot::channel();
        let parent_span = match &place {
            Place::Top => Span::current(),
            Place::Under { span, .. } => span.clone(),
        };
        let args = RunArgs {
            run,
            runtime: self.downgrade(),
            crew,
            opening,
            clock,
            journal,
            lease: settings.lease.clone(),
            watch,
            parting,
            parent_span,
            seed: settings.seed.wrapping_add(self.inner.runs.fetch_add(1, Ordering::Relaxed)),
        };
        let submitted = settings.clock.now();
        let actor = match place {
            Place::Top => {
                let runs = self.inner.branches.runs.now().ok_or(SubmitError::Stopped)?;
                let place = runs.places.acquire().await.map_err(|_| SubmitError::Stopped)?;
                let spawned = Actor::spawn_linked(None, OrchestratorActor, args, runs.cell.clone()).await;
                let (actor, _) = spawned.map_err(|_| SubmitError::Stopped)?;
                // The branch gives the place back when it has taken note of the run's end.
                place.forget();
                actor
            }
            Place::Under { parent, .. } => {
                let spawned = Actor::spawn_linked(None, OrchestratorActor, args, parent).await;
                spawned.map_err(|_| SubmitError::Stopped)?.0
            }
        };
        Ok(RunHandle { id: run, actor, parting: receiver, clock: Arc::clone(&settings.clock), submitted })
    }

    /// What steers a run that is driven here under another one.
    pub fn child(&self, run: RunId) -> Option<Reins> {
        self.children().get(&run).cloned()
    }

    pub(crate) fn children(&self) -> MutexGuard<'_, HashMap<RunId, Reins>> {
        self.inner.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn downgrade(&self) -> WeakRuntime {
        WeakRuntime(Arc::downgrade(&self.inner))
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.inner.config
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.inner.stopping.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn branches(&self) -> &Branches {
        &self.inner.branches
    }
}

/// Where a run stands in the tree of supervisors.
pub(crate) enum Place {
    /// Under the branch of runs.
    Top,
    /// Under the run that asked for it.
    Under {
        /// Its orchestrator.
        parent: ActorCell,
        /// The span that it is a part of.
        span: Span,
    },
}

/// A runtime that this does not keep alive.
#[derive(Clone)]
pub(crate) struct WeakRuntime(Weak<Inner>);

impl WeakRuntime {
    pub(crate) fn upgrade(&self) -> Option<Runtime> {
        self.0.upgrade().map(|inner| Runtime { inner })
    }
}

/// The right to write to a run that does not exist yet.
pub(crate) fn appender(ledger: Ledger, fence: Fence, agent: &Agent, kin: Option<Kin>) -> Appender {
    let (agent, config) = (Arc::clone(agent.name()), agent.own_configuration().cloned());
    Appender::of_new(ledger, fence, NewBorn { agent, kin, config })
}

struct CancelOnDrop(Option<Canceller>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(canceller) = self.0.take() {
            canceller.cancel("the caller, who went away");
        }
    }
}
