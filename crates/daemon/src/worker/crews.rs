//! Who drives a run: the agent that it was made for, as its configuration has it.

use std::sync::Arc;

use dauntless_contract::{Claim, ReadError, RunEvent, RunId, SharedJournal};
use dauntless_runtime::{Agent, Runtime};

use crate::wiring::{App, NoAgent};

/// Nobody here can drive a run.
#[derive(Debug, thiserror::Error)]
pub enum NoCrew {
    /// Its start cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It does not begin with its start.
    #[error("the journal of run {0} does not begin with the start of the run")]
    NoStart(RunId),
    /// The agent is not there.
    #[error(transparent)]
    NoAgent(#[from] NoAgent),
}

/// The agent of a run, and the runtime that it lives in.
pub(super) struct Crew {
    pub(super) runtime: Runtime,
    pub(super) agent: Agent,
}

/// The agents of a worker.
pub struct Crews {
    app: Arc<App>,
}

impl Crews {
    /// The agents of a system that was assembled on the worker's journal and lease.
    pub const fn new(app: Arc<App>) -> Self {
        Self { app }
    }

    pub(super) async fn of(&self, journal: &dyn SharedJournal, claim: &Claim) -> Result<Crew, NoCrew> {
        let run = claim.fence.run;
        let first = journal.read(run, 0, 1).await?.pop();
        let Some(RunEvent::RunStarted { agent, .. }) = first.map(|first| first.event) else {
            return Err(NoCrew::NoStart(run));
        };
        let agent = self.app.agent(Some(&agent))?.clone();
        Ok(Crew { runtime: self.app.runtime().clone(), agent })
    }
}
