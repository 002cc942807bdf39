//! A child that is under way, as its parent remembers it.

use std::time::Duration;

use dauntless_contract::{RunId, RunLimits, RunTotals, Timestamp, Tokens, Usage};
use serde::{Deserialize, Serialize};

/// How long a run that is ending waits for calls that do not answer a cancel.
pub(crate) const SETTLE_MAX: Duration = Duration::from_secs(5);

/// More levels than any limit of depth makes sense for.
const LEVELS_MAX: u32 = 16;

/// A child that was started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Child {
    pub(crate) run: RunId,
    /// What it holds.
    pub(crate) limits: RunLimits,
    /// When its own time is over.
    pub(crate) deadline: Timestamp,
}

impl Child {
    /// How long it may take to end once it is told to: each level of runs has its own calls to settle.
    pub(crate) fn settling(&self) -> Duration {
        SETTLE_MAX * (self.limits.depth.min(LEVELS_MAX) + 1)
    }

    /// When it has not even ended by its own limit.
    pub(crate) fn overdue(&self) -> Timestamp {
        self.deadline + self.settling()
    }

    /// How long it is waited for from now on. One that ended while nobody drove its parent has time to
    /// say so.
    pub(crate) fn awaited_until(&self, now: Timestamp) -> Timestamp {
        self.overdue().max(now + self.settling())
    }

    /// What it may do from now on.
    pub(crate) fn limits_at(&self, now: Timestamp) -> RunLimits {
        RunLimits { wall_clock: self.deadline.since(now), ..self.limits.clone() }
    }

    /// What is charged for a child that is never heard of: all that it held.
    pub(crate) fn forfeit(&self) -> RunTotals {
        RunTotals {
            usage: Usage::new(self.limits.tokens, Tokens::ZERO),
            cost: self.limits.cost,
            tool_calls: self.limits.tool_calls,
            effects: 1,
            children: self.limits.children.saturating_add(1),
            ..RunTotals::default()
        }
    }
}
