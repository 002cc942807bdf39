//! What goes between the runs of a tree, and what is due when.

use std::sync::Arc;

use dauntless_contract::{CallKey, Outcome, Recorded, RunEvent, RunId, RunTimer, Timestamp};
use dauntless_core::tree::Delegation;

/// How signals and journals are passed on.
#[derive(Clone, Copy)]
pub(super) struct Post {
    /// What arrives of a signal.
    pub(super) wire: fn(Signal) -> Vec<Signal>,
    /// What a process that starts again finds of its journal.
    pub(super) memory: fn(&mut Vec<Recorded>),
}

impl Post {
    /// Passes everything on as it is.
    pub(super) const HONEST: Self = Self { wire: |signal| vec![signal], memory: |_| {} };
}

/// What goes from one run to another, or to a run from its clock.
#[derive(Clone, Debug)]
pub(super) enum Signal {
    /// A child is to be started, or found again. Lost with the life of the parent that sent it.
    Start { life: u32, delegation: Box<Delegation> },
    /// A child is to stop.
    Stop { run: RunId, parent: RunId, call: CallKey, by: Arc<str> },
    /// A child has ended.
    Ended { parent: RunId, call: CallKey, attempt: u32, outcome: Box<Outcome> },
    /// A timer goes off.
    Timer { run: RunId, life: u32, timer: RunTimer },
}

/// Something that is due.
pub(super) enum What {
    Signal(Signal),
    /// An answer to what a process had begun. It is stale if the process has begun something else.
    Answer {
        run: RunId,
        token: u64,
        event: Box<RunEvent>,
    },
    Restart(RunId),
    Cancel,
}

pub(super) struct Due {
    pub(super) at: Timestamp,
    pub(super) number: u64,
    pub(super) what: What,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}
