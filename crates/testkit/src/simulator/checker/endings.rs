//! What is known beforehand about how things end: reading forward alone, a cancel in the same moment
//! would be seen too late.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dauntless_contract::{CallKey, Failure, FailureCode, Progress};

use crate::simulator::history::{Attempt, AttemptEnd, Fact, History, Operation, Who};

/// What the end of an attempt told the guards of its tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// The tool works.
    Healthy,
    /// It does not.
    Failure,
    /// Nothing.
    Neutral,
    /// It cannot be told from outside which of these.
    Unknown,
}

#[derive(Debug, Default)]
pub(super) struct Endings {
    watched: BTreeSet<u32>,
    ended: BTreeMap<u32, Duration>,
    cancelled: BTreeMap<(u32, CallKey), Duration>,
    shutdown: Option<Duration>,
}

impl Endings {
    pub(super) fn of(history: &History) -> Self {
        let mut endings = Self::default();
        for entry in &history.entries {
            match &entry.fact {
                Fact::Did(Operation::Stream(run)) => {
                    endings.watched.insert(*run);
                }
                Fact::Did(Operation::Shutdown) => endings.shutdown = Some(entry.at),
                Fact::RunEnded { run, .. } => {
                    endings.ended.entry(*run).or_insert(entry.at);
                }
                Fact::Saw { run, progress } => {
                    if let Progress::CallEnded { call, code: Some(FailureCode::Cancelled), .. } = &**progress
                    {
                        endings.cancelled.entry((*run, *call)).or_insert(entry.at);
                    }
                }
                _ => {}
            }
        }
        endings
    }

    pub(super) fn shut_down_by(&self, at: Duration) -> bool {
        self.shutdown.is_some_and(|shutdown| shutdown <= at)
    }

    /// What the end of an attempt told; `deadline` is when it would have been stopped.
    pub(super) fn sign(&self, at: Duration, attempt: &Attempt, end: &AttemptEnd, deadline: Duration) -> Sign {
        let open = match attempt.who {
            // Of a run that nobody watches it is not seen when its calls are cancelled.
            Who::Run(run) => {
                !self.watched.contains(&run)
                    || self.ended.get(&run).is_some_and(|ended| *ended <= at)
                    || self.cancelled.get(&(run, attempt.call)) == Some(&at)
            }
            Who::Other(_) => false,
        };
        if open || self.shut_down_by(at) {
            return Sign::Unknown;
        }
        match end {
            AttemptEnd::Dropped if at < deadline => Sign::Neutral,
            AttemptEnd::Dropped => Sign::Failure,
            _ if at >= deadline => Sign::Unknown,
            AttemptEnd::Worked => Sign::Healthy,
            AttemptEnd::Panicked => Sign::Failure,
            AttemptEnd::Failed(failure) => sign(failure),
        }
    }
}

fn sign(failure: &Failure) -> Sign {
    match (failure.code, failure.retry_after) {
        (FailureCode::Unavailable, Some(_))
        | (
            FailureCode::RateLimited
            | FailureCode::Cancelled
            | FailureCode::DeniedByOperator
            | FailureCode::ToolDown
            | FailureCode::Overloaded
            | FailureCode::RepeatedFailure,
            _,
        ) => Sign::Neutral,
        (
            FailureCode::Unavailable
            | FailureCode::Timeout
            | FailureCode::ConnectionFailed
            | FailureCode::Crashed,
            _,
        ) => Sign::Failure,
        _ => Sign::Healthy,
    }
}
