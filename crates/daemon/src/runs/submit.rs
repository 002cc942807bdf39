//! Leaves a run to whichever worker claims it.

use std::sync::Arc;

use dauntless_contract::{Attendance, Clock, CreateError, NewRun, Recorded, RunId};
use dauntless_runtime::{CODE_VERSION, Submission, SystemClock, new_fence, start_event};

use super::{Runs, RunsError};
use crate::pin;
use crate::wiring::{self, NoAgent};

/// A goal, and whose it is.
#[derive(Clone, Debug)]
pub struct NewSubmission {
    /// The agent or the plan; none for the only one there is.
    pub agent: Option<String>,
    /// The goal, and what it continues.
    pub submission: Submission,
    /// The caller's own name for the run: with the same one there is the same run.
    pub key: Option<Arc<str>>,
}

/// A run that is in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// It is new.
    New(RunId),
    /// There was one of that key.
    Known(RunId),
}

impl Submitted {
    /// The run.
    pub const fn run(self) -> RunId {
        match self {
            Self::New(run) | Self::Known(run) => run,
        }
    }
}

impl Runs<'_> {
    /// Creates a run that any worker may claim at once, pinned to the agent as it is configured now.
    /// Where the agent may ask, its questions wait for [`answer`](Self::answer).
    ///
    /// # Errors
    /// [`RunsError::Agent`], and [`RunsError::Create`] when the journal does not take it.
    pub async fn submit(&self, new: NewSubmission) -> Result<Submitted, RunsError> {
        let config = self.config;
        let mut names = config.agents.keys().chain(config.plans.keys());
        let name = match (&new.agent, names.next(), names.next()) {
            (Some(name), _, _) => name.as_str(),
            (None, Some(only), None) => &**only,
            (None, _, _) => return Err(NoAgent::Which { known: config.names() }.into()),
        };
        let Some((spec, toolbox, limits)) = wiring::opening(config, name) else {
            return Err(NoAgent::Unknown { name: name.to_string(), known: config.names() }.into());
        };
        let attendance = if spec.ask_user { Attendance::Attended } else { Attendance::Unattended };
        let event = start_event(&spec, &toolbox, new.submission, limits, attendance);
        let fence = new_fence();
        let run = NewRun {
            client_key: new.key.clone(),
            agent: Arc::clone(&spec.name),
            code_version: CODE_VERSION.into(),
            config: pin::pin(self.config, name),
            ..NewRun::new(fence, Recorded { at: SystemClock::new().now(), event })
        };
        match self.journal.create(run).await {
            Ok(()) => Ok(Submitted::New(fence.run)),
            Err(CreateError::Exists(run)) if new.key.is_some() => Ok(Submitted::Known(run)),
            Err(error) => Err(error.into()),
        }
    }
}
