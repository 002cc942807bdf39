//! What was under way when the process let go of a run in good order.
//!
//! After a crash everything that was sent out may have begun. After a suspension the process has
//! said what had, and nothing else was begun: it is then no attempt, and no repetition.

use std::collections::BTreeSet;

use dauntless_contract::{CallKey, RunEvent};
use serde::{Deserialize, Serialize};

use super::RunMachine;

/// What is lost if the process that drives the run has come to its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) enum UnderWay {
    /// Whatever the run waits for may have begun.
    #[default]
    Everything,
    /// This and nothing else had.
    Only { calls: BTreeSet<CallKey>, model: bool },
}

impl RunMachine {
    /// What the events before this one say to be under way. A suspension holds for one event.
    pub(super) fn suspended(&mut self, event: &RunEvent) -> UnderWay {
        let next = match event {
            RunEvent::Suspended { calls, model } if self.outcome().is_none() => {
                UnderWay::Only { calls: calls.iter().copied().collect(), model: *model }
            }
            _ => UnderWay::Everything,
        };
        std::mem::replace(&mut self.under_way, next)
    }
}

impl UnderWay {
    pub(super) fn has(&self, call: CallKey) -> bool {
        match self {
            Self::Everything => true,
            Self::Only { calls, .. } => calls.contains(&call),
        }
    }

    pub(super) const fn has_request(&self) -> bool {
        match self {
            Self::Everything => true,
            Self::Only { model, .. } => *model,
        }
    }
}
