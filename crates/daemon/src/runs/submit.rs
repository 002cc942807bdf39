//! Leaves a run to whichever worker claims it.

use std::sync::Arc;

use dauntless_contract::{Attendance, Clock, CreateError, NewRun, Recorded, RunId};
use dauntless_core::run::toolbox;
use dauntless_runtime::{CODE_VERSION, Submission, SystemClock, new_fence, start_event};

use super::{Runs, RunsError};
use crate::pin;
use crate::wiring::NoAgent;

/// A goal, and whose it is.
#[derive(Clone, Debug)]
pub struct NewSubmission {
    /// The agent; none for the only one there is.
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
        let agents = &self.config.agents;
        let known = || agents.keys().map(|name| &**name).collect::<Vec<_>>().join(", ");
        let name = match (&new.agent, agents.keys().next()) {
            (Some(name), _) => name.as_str(),
            (None, Some(only)) if agents.len() == 1 => only,
            (None, _) => return Err(NoAgent::Which { known: known() }.into()),
        };
        let agent =
            agents.get(name).ok_or_else(|| NoAgent::Unknown { name: name.to_owned(), known: known() })?;
        let tools = agent.tools.iter().filter_map(|tool| self.config.tools.get(tool));
        let (toolbox, _) = toolbox(&agent.spec, tools.map(|tool| Arc::clone(&tool.spec)).collect());
        let attendance = if agent.spec.ask_user { Attendance::Attended } else { Attendance::Unattended };
        let event = start_event(&agent.spec, &toolbox, new.submission, agent.limits.clone(), attendance);
        let fence = new_fence();
        let run = NewRun {
            client_key: new.key.clone(),
            agent: Arc::clone(&agent.spec.name),
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
