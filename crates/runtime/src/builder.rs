//! Setting up a runtime.

use std::num::NonZero;
use std::sync::Arc;

use dauntless_contract::{Attendance, BudgetPolicy, Clock, Journal, Model, RunLimits, SharedJournal};
use dauntless_core::redact::Redactor;
use dauntless_core::revival::RevivalPolicy;
use dauntless_core::supervision::{RestartPolicy, Restarts};
use ractor::ActorCell;

use crate::agent::Agent;
use crate::clock::SystemClock;
use crate::commons::Commons;
use crate::error::BuildError;
use crate::events::ToolNews;
use crate::guarded::RuntimeBudget;
use crate::id;
use crate::lease::Lease;
use crate::ledger::Ledger;
use crate::orchestrator::Escalation;
use crate::runtime::{Runtime, Settings};
use crate::supervisor::{Branches, OnEscalation, root};

/// Sets up a [`Runtime`].
#[must_use = "a runtime starts with `build`"]
pub struct RuntimeBuilder {
    model: Option<Arc<dyn Model>>,
    limits: RunLimits,
    clock: Option<Arc<dyn Clock>>,
    journal: Option<Ledger>,
    lease: Option<Lease>,
    secrets: Vec<String>,
    patterns: Vec<String>,
    restarts: RestartPolicy,
    revival: RevivalPolicy,
    budget: BudgetPolicy,
    seed: Option<u64>,
    agents: Vec<Agent>,
    runs_at_once: usize,
    on_escalation: Option<OnEscalation>,
    parent: Option<ActorCell>,
    attendance: Attendance,
}

impl RuntimeBuilder {
    pub(crate) fn new() -> Self {
        Self {
            model: None,
            limits: RunLimits::default(),
            clock: None,
            journal: None,
            lease: None,
            secrets: Vec::new(),
            patterns: Vec::new(),
            restarts: RestartPolicy::default(),
            revival: RevivalPolicy::default(),
            budget: BudgetPolicy::for_runtime(),
            seed: None,
            agents: Vec::new(),
            runs_at_once: 16_384,
            on_escalation: None,
            parent: None,
            attendance: Attendance::Attended,
        }
    }

    /// The model of every agent that has none of its own.
    pub fn model(self, model: impl Model) -> Self {
        self.shared_model(Arc::new(model))
    }

    /// A model that is shared with something else.
    pub fn shared_model(mut self, model: Arc<dyn Model>) -> Self {
        self.model = Some(model);
        self
    }

    /// The limits of every run whose agent has none of its own.
    pub const fn limits(mut self, limits: RunLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Where the facts of runs are kept. Without one, runs live in memory alone.
    pub fn journal(mut self, journal: impl Journal) -> Self {
        self.journal = Some(Ledger::Own(Arc::new(journal)));
        self
    }

    /// A journal whose runs several workers share. Its handle must be
    /// [registered](SharedJournal::register) before a run is made or [driven](Runtime::drive).
    pub fn shared_journal(mut self, journal: Arc<dyn SharedJournal>) -> Self {
        self.journal = Some(Ledger::Shared(journal));
        self
    }

    /// The lease of this process on the runs that it owns; without it, nothing lapses. Once it has
    /// lapsed no attempt of a tool begins, and runs are let go of.
    pub fn lease(mut self, lease: Lease) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Another clock; for tests.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Values that must never leave: masked in what the model, the journal, the log and a watcher see.
    pub fn secrets(mut self, secrets: impl IntoIterator<Item = String>) -> Self {
        self.secrets.extend(secrets);
        self
    }

    /// Regular expressions of text to mask, besides the built-in shapes of credentials.
    pub fn redact(mut self, patterns: impl IntoIterator<Item = String>) -> Self {
        self.patterns.extend(patterns);
        self
    }

    /// How often a broken tool is restarted before it is taken out of service.
    pub fn restarts(mut self, restarts: RestartPolicy) -> Self {
        self.restarts = restarts;
        self
    }

    /// When a tool that was taken out of service is started afresh.
    pub const fn revival(mut self, revival: RevivalPolicy) -> Self {
        self.revival = revival;
        self
    }

    /// How many retries all tools and models may be sent together. Each has a budget of its own
    /// besides, and a retry needs both. Default [`BudgetPolicy::for_runtime`].
    pub const fn retry_budget(mut self, policy: BudgetPolicy) -> Self {
        self.budget = policy;
        self
    }

    /// Seeds every jitter, so that a run under a paused clock repeats exactly.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// How many runs may be under way at once. Default 16,384. A further one waits for its place
    /// before it starts; that wait is no part of its limits.
    pub fn runs_at_once(mut self, runs: NonZero<u32>) -> Self {
        self.runs_at_once = usize::try_from(runs.get()).unwrap_or(usize::MAX);
        self
    }

    /// Whether somebody answers the questions of runs that are [submitted](Runtime::submit) or
    /// [streamed](Runtime::stream). Somebody does unless set otherwise; a program without a person at
    /// it says [`Attendance::Unattended`], and agents with `ask_user` are told that nobody is there.
    pub const fn attendance(mut self, attendance: Attendance) -> Self {
        self.attendance = attendance;
        self
    }

    /// An agent that is checked, and whose tools are started, when the runtime is built.
    pub fn agent(mut self, agent: &Agent) -> Self {
        self.agents.push(agent.clone());
        self
    }

    /// Called with each run that ended for a reason nobody in it could do anything about. It runs
    /// on a supervisor, inside the span of the run: it must return at once.
    pub fn on_escalation(mut self, tell: impl Fn(&Escalation) + Send + Sync + 'static) -> Self {
        self.on_escalation = Some(Arc::new(tell));
        self
    }

    /// Puts the runtime under a supervisor of your own ractor tree; see
    /// [`supervision`](crate::supervision), the only other place that speaks ractor's types.
    pub fn supervised_by(mut self, parent: ActorCell) -> Self {
        self.parent = Some(parent);
        self
    }

    /// Starts the supervision tree and the tools of the agents given to [`agent`](Self::agent).
    ///
    /// # Errors
    /// [`BuildError`], when an agent or a pattern is no good, or an actor does not start.
    pub async fn build(self) -> Result<Runtime, BuildError> {
        let redactor = Redactor::new(self.secrets, &self.patterns)?;
        Restarts::new(self.restarts.clone(), 0)?;
        let seed = self.seed.unwrap_or_else(id::seed);
        let branches = Arc::new(Branches::default());
        let root = root(&branches, self.runs_at_once, self.on_escalation).seed(seed);
        let started = match self.parent {
            Some(parent) => root.start_linked(parent).await,
            None => root.start().await,
        };
        let root = started.map_err(|error| BuildError::Start(error.to_string()))?;
        let commons = Arc::new(Commons::new(self.journal.as_ref(), redactor.clone()));
        let config = Settings {
            model: self.model,
            limits: self.limits,
            clock: self.clock.unwrap_or_else(|| Arc::new(SystemClock::new())),
            journal: self.journal,
            common_tools: commons.tools(),
            commons,
            lease: self.lease,
            redactor,
            restarts: self.restarts,
            revival: self.revival,
            news: ToolNews::new(),
            budget: Arc::new(RuntimeBudget::new(&self.budget)),
            seed,
            attendance: self.attendance,
        };
        let runtime = Runtime::new(root, branches, config);
        for agent in &self.agents {
            runtime.crew(agent).await?;
        }
        Ok(runtime)
    }
}
