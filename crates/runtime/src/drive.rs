//! Driving on runs that are in a journal.

use std::sync::Arc;

use dauntless_contract::{Claim, ReadError, Recorded, RunId, Seq, Timestamp};
use dauntless_core::run::{FOLD_VERSION, RecoverError};

use crate::agent::Agent;
use crate::clock::RunClock;
use crate::error::SubmitError;
use crate::ledger::{Appender, Ledger};
use crate::orchestrator::{Brain, Crew, Folding, Machine, Opening};
use crate::run::{RunHandle, RunStream};
use crate::runtime::{Place, Runtime};
use crate::watch::Watch;

/// Events read at once.
const PAGE_EVENTS: usize = 1000;

/// A run is not driven. Nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriveError {
    /// The agent cannot run, or the runtime has stopped.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// The runtime was built without a journal that workers share.
    #[error("this runtime has no journal to drive runs from: build it with `.shared_journal(…)`")]
    NoJournal,
    /// The events of the run cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The events do not fold to a run of this agent. Pause it with this as the reason.
    #[error(transparent)]
    Recover(#[from] RecoverError),
}

impl Runtime {
    /// Drives on a run that was claimed: from its start when nobody did before, else from where
    /// whoever drove it came to. Limits count the time in between, but not the wait for a first worker.
    ///
    /// May be called again with the same claim, its attempts counted up, after
    /// [`Parting::Crashed`](crate::Parting::Crashed).
    ///
    /// # Errors
    /// [`DriveError`]. The run is still owned: let go of it.
    ///
    /// # Cancel safety
    /// Dropping the future before it resolves drives nothing.
    pub async fn drive(&self, agent: &Agent, claim: &Claim) -> Result<RunHandle, DriveError> {
        self.resume(agent, claim, Watch::default()).await
    }

    /// Drives on a run as [`drive`](Self::drive) does, and yields its progress from here on.
    ///
    /// # Errors
    /// As [`drive`](Self::drive).
    pub async fn drive_watched(&self, agent: &Agent, claim: &Claim) -> Result<RunStream, DriveError> {
        let (watch, events) = Watch::open();
        Ok(RunStream::new(self.resume(agent, claim, watch).await?, events))
    }

    async fn resume(&self, agent: &Agent, claim: &Claim, watch: Watch) -> Result<RunHandle, DriveError> {
        if self.is_stopping() {
            return Err(SubmitError::Stopped.into());
        }
        let ledger = self.settings().journal.clone().ok_or(DriveError::NoJournal)?;
        let crew = self.crew(agent).await.map_err(SubmitError::from)?;
        let run = claim.fence.run;
        let process = Arc::clone(&self.settings().clock);
        let (opening, now, head) = self.opening(&ledger, &crew, claim).await?;
        let clock = RunClock::from(process, now);
        let journal = Some(Appender::new(ledger, claim.fence, head));
        Ok(self.spawn(run, crew, opening, clock, journal, watch, Place::Top).await?)
    }

    /// Where a claimed run goes on, at which time of its own, and after which event.
    pub(crate) async fn opening(
        &self,
        ledger: &Ledger,
        crew: &Crew,
        claim: &Claim,
    ) -> Result<(Opening, Timestamp, Seq), DriveError> {
        let run = claim.fence.run;
        let fresh = match claim.head {
            // Whoever claimed it first and died at once made a claim without progress.
            1 if claim.attempts <= 1 => ledger.journal().read(run, 0, 1).await?.pop(),
            _ => None,
        };
        if let Some(Recorded { at, event }) = fresh {
            let mut machine = Machine::new(run, &crew.brain);
            let effects = machine.on(at, event);
            return Ok((Opening::Fresh { machine, effects }, at, 1));
        }
        let (machine, head) = recovered(ledger, run, &crew.brain).await?;
        Ok((Opening::of(machine), claim.resumes_at(), head))
    }
}

/// The run after its last event, and the place of that event.
pub(crate) async fn recovered(
    ledger: &Ledger,
    run: RunId,
    brain: &Brain,
) -> Result<(Machine, Seq), DriveError> {
    let snapshot = match ledger {
        Ledger::Own(_) => None,
        // Without it the fold takes longer, and comes to the same.
        Ledger::Shared(journal) => journal.snapshot(run, FOLD_VERSION).await.unwrap_or_default(),
    };
    let mut recovery = Folding::begin(run, brain, snapshot.as_ref());
    loop {
        let page = ledger.journal().read(run, recovery.seq(), PAGE_EVENTS).await?;
        if page.is_empty() {
            let head = recovery.seq();
            return Ok((recovery.finish()?, head));
        }
        page.into_iter().try_for_each(|event| recovery.fold(event))?;
    }
}
