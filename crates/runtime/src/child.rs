//! How a run comes to be under another one: new, claimed again, or left where it is.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    Attendance, Claim, ClaimFilter, Fence, JournalError, Outcome, ReadError, Release, RepairedHistory,
    RunEvent, RunMeta, RunState, SharedJournal,
};
use dauntless_core::tree::Delegation;
use ractor::ActorCell;
use tracing::Span;

use crate::agent::Agent;
use crate::clock::RunClock;
use crate::drive::{DriveError, recovered};
use crate::error::SubmitError;
use crate::id;
use crate::ledger::{Appender, CODE_VERSION, Kin, Ledger};
use crate::opening::start_event;
use crate::orchestrator::{Crew, Opening};
use crate::run::{RunHandle, broken};
use crate::runtime::{Place, Runtime, appender};
use crate::submission::Submission;
use crate::watch::Watch;

/// A child to be started, and who sees it.
pub(crate) struct Birth {
    pub(crate) delegation: Delegation,
    pub(crate) watch: Watch,
    pub(crate) span: Span,
}

/// Where a child is.
pub(crate) enum Begun {
    /// It is driven here. With what it can be driven on after a crash of its orchestrator, if at all.
    Here { handle: RunHandle, again: Option<Fence> },
    /// Another worker drives it, or none does yet.
    Elsewhere,
    /// It is over.
    Ended(Box<Outcome>),
}

/// A child was not begun.
pub(crate) enum ChildError {
    /// It may be, later.
    Unavailable(String),
    /// It cannot be.
    Refused { code: &'static str, why: String },
}

impl Runtime {
    /// Starts a child under its parent's orchestrator, or finds it where it is. `before` is the right to
    /// write to it that a crash left over.
    pub(crate) async fn begin_child(
        &self,
        agent: &Agent,
        birth: &Birth,
        parent: ActorCell,
        before: Option<Fence>,
    ) -> Result<Begun, ChildError> {
        let crew = self
            .crew(agent)
            .await
            .map_err(|error| ChildError::Refused { code: "invalid_agent", why: error.to_string() })?;
        let Delegation { run, .. } = birth.delegation;
        let ledger = self.settings().journal.clone();
        if let (Some(ledger), Some(fence)) = (&ledger, before) {
            return self.go_on(&crew, birth, parent, ledger, fence).await;
        }
        if let Some(Ledger::Shared(journal)) = &ledger
            && let Some(meta) = journal.meta(run).await.map_err(unavailable)?
        {
            return self.found(&crew, birth, parent, journal, meta).await;
        }
        let fence = Fence { run, epoch: 1, token: id::token() };
        let opening = Opening::New(start(&crew, agent, &birth.delegation));
        let journal = ledger.map(|ledger| appender(ledger, fence, agent, Some(Kin::of(&birth.delegation))));
        let again = journal.is_some().then_some(fence);
        let clock = RunClock::same(Arc::clone(&self.settings().clock));
        let handle = self.put_under(parent, birth, crew, opening, clock, journal).await?;
        Ok(Begun::Here { handle, again })
    }

    /// A child that is in the journal already.
    async fn found(
        &self,
        crew: &Arc<Crew>,
        birth: &Birth,
        parent: ActorCell,
        journal: &Arc<dyn SharedJournal>,
        meta: RunMeta,
    ) -> Result<Begun, ChildError> {
        let (run, ledger) = (meta.run, Ledger::Shared(Arc::clone(journal)));
        if meta.state == RunState::Ended {
            let (machine, _) = recovered(&ledger, run, &crew.brain).await.map_err(refused)?;
            let ended = machine.outcome().cloned();
            // One that nobody could drive was ended from outside, before its own machine said so.
            let why = meta.reason.unwrap_or_else(|| "It was ended from outside.".into());
            let outside = || broken(run, "ended_from_outside", why, Duration::ZERO);
            return Ok(Begun::Ended(Box::new(ended.unwrap_or_else(outside))));
        }
        let code_versions = Some(vec![CODE_VERSION.into()]);
        let filter = ClaimFilter { only: Some(run), code_versions, ..ClaimFilter::default() };
        // A claim must not be given up half way.
        let claiming = {
            let journal = Arc::clone(journal);
            tokio::spawn(async move { journal.claim(1, filter).await })
        };
        let claims = claiming.await.map_err(|error| ChildError::Unavailable(error.to_string()))?;
        let claim = claims.map_err(unavailable)?.pop();
        let Some(claim) = claim else { return Ok(Begun::Elsewhere) };
        let begun = self.claimed(crew, birth, parent, &ledger, &claim).await;
        if let Err(error) = &begun {
            let next = match error {
                ChildError::Unavailable(_) => Release::Ready { after: Duration::ZERO },
                ChildError::Refused { why, .. } => Release::Paused { reason: why.as_str().into() },
            };
            self.give_back(claim.fence, next).await;
        }
        begun
    }

    async fn claimed(
        &self,
        crew: &Arc<Crew>,
        birth: &Birth,
        parent: ActorCell,
        ledger: &Ledger,
        claim: &Claim,
    ) -> Result<Begun, ChildError> {
        let (opening, now, head) = self.opening(ledger, crew, claim).await.map_err(refused)?;
        let clock = RunClock::from(Arc::clone(&self.settings().clock), now);
        let journal = Some(Appender::new(ledger.clone(), claim.fence, head));
        let handle = self.put_under(parent, birth, Arc::clone(crew), opening, clock, journal).await?;
        Ok(Begun::Here { handle, again: Some(claim.fence) })
    }

    /// A child whose orchestrator crashed here.
    async fn go_on(
        &self,
        crew: &Arc<Crew>,
        birth: &Birth,
        parent: ActorCell,
        ledger: &Ledger,
        fence: Fence,
    ) -> Result<Begun, ChildError> {
        let (machine, head) = recovered(ledger, fence.run, &crew.brain).await.map_err(refused)?;
        let clock = RunClock::from(Arc::clone(&self.settings().clock), machine.at());
        let journal = Some(Appender::new(ledger.clone(), fence, head));
        let opening = Opening::of(machine);
        let handle = self.put_under(parent, birth, Arc::clone(crew), opening, clock, journal).await?;
        Ok(Begun::Here { handle, again: Some(fence) })
    }

    /// Lets go of a run that nobody drives here any more.
    pub(crate) async fn give_back(&self, fence: Fence, next: Release) {
        if let Some(ledger) = &self.settings().journal
            && let Err(error) = ledger.journal().release(&fence, next).await
        {
            tracing::warn!(run = %fence.run, %error, "a run that nobody drives was not given back");
        }
    }

    async fn put_under(
        &self,
        parent: ActorCell,
        birth: &Birth,
        crew: Arc<Crew>,
        opening: Opening,
        clock: RunClock,
        journal: Option<Appender>,
    ) -> Result<RunHandle, ChildError> {
        let place = Place::Under { parent, span: birth.span.clone() };
        let run = birth.delegation.run;
        let spawned = self.spawn(run, crew, opening, clock, journal, birth.watch.clone(), place).await;
        spawned.map_err(|error| ChildError::Refused { code: "runtime_stopped", why: error.to_string() })
    }
}

/// The first event of a child.
fn start(crew: &Crew, agent: &Agent, delegation: &Delegation) -> RunEvent {
    let Delegation { goal, history, limits, lineage, .. } = delegation;
    let mut submission = Submission::new(Arc::clone(goal));
    if let Some(history) = history {
        submission = submission.after(RepairedHistory { history: (**history).clone(), repairs: Vec::new() });
    }
    // Nobody is asked about a part of a goal but through the run that was given all of it.
    let mut event =
        start_event(agent.spec(), &crew.toolbox(), submission, limits.clone(), Attendance::Unattended);
    if let RunEvent::RunStarted { lineage: of, .. } = &mut event {
        *of = Some(lineage.clone());
    }
    event
}

impl Kin {
    pub(crate) fn of(delegation: &Delegation) -> Self {
        Self { parent: delegation.lineage.parent, root: delegation.lineage.root }
    }
}

fn unavailable(error: JournalError) -> ChildError {
    ChildError::Unavailable(error.to_string())
}

fn refused(error: DriveError) -> ChildError {
    match error {
        DriveError::Read(ReadError::Unavailable(why)) => ChildError::Unavailable(why),
        DriveError::Submit(SubmitError::Stopped) => ChildError::Unavailable(error.to_string()),
        error => ChildError::Refused { code: "not_recoverable", why: error.to_string() },
    }
}
