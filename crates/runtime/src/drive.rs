//! Driving on runs that are in a journal.

use std::sync::Arc;

use dauntless_contract::{Claim, Journal, ReadError, Recorded, RunId};
use dauntless_core::run::{RecoverError, RunMachine};

use crate::agent::Agent;
use crate::clock::RunClock;
use crate::error::SubmitError;
use crate::ledger::Appender;
use crate::orchestrator::Opening;
use crate::run::{RunHandle, RunStream};
use crate::runtime::Runtime;
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
    /// May be called again with the same claim after [`Parting::Crashed`](crate::Parting::Crashed).
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
        let events = read_all(ledger.journal(), run).await?;
        let process = Arc::clone(&self.settings().clock);
        let head = u64::try_from(events.len()).unwrap_or(u64::MAX);
        let spec = Arc::clone(&crew.spec);
        let (opening, now) = match &*events {
            // Whoever claimed it first and died at once made a claim without progress.
            [Recorded { at, event }] if claim.attempts <= 1 => {
                let mut machine = Box::new(RunMachine::new(run, spec));
                let effects = machine.on(*at, event.clone());
                (Opening::Fresh { machine, effects }, *at)
            }
            _ => (recovered(RunMachine::recover(run, spec, events)?), claim.resumes_at()),
        };
        let clock = RunClock::from(process, now);
        let journal = Some(Appender::new(ledger, claim.fence, head));
        Ok(self.spawn(run, crew, opening, clock, journal, watch).await?)
    }
}

fn recovered(machine: RunMachine) -> Opening {
    let machine = Box::new(machine);
    match machine.outcome() {
        // Its last owner died before it could say that the run is over.
        Some(_) => Opening::Fresh { machine, effects: Vec::new() },
        None => Opening::Interrupted { machine },
    }
}

async fn read_all(journal: &dyn Journal, run: RunId) -> Result<Vec<Recorded>, ReadError> {
    let mut events = Vec::new();
    loop {
        let after = u64::try_from(events.len()).unwrap_or(u64::MAX);
        let page = journal.read(run, after, PAGE_EVENTS).await?;
        if page.is_empty() {
            return Ok(events);
        }
        events.extend(page);
    }
}
