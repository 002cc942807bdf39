//! How a tool or a model is doing: a picture of the present, and what changed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{FailureCode, Timestamp};

/// What is supervised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DependencyKind {
    /// A tool.
    Tool,
    /// A model.
    Model,
}

/// One tool or model, as it stands. Every length is from the moment of the picture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolStatus {
    /// Its name.
    pub name: Arc<str>,
    /// Whether it is a tool or a model.
    pub kind: DependencyKind,
    /// Whether it takes calls.
    pub service: ServiceState,
    /// Where its breaker stands.
    pub breaker: BreakerStatus,
    /// Calls in the breaker's window.
    pub window_calls: u32,
    /// Failed calls in it.
    pub window_failures: u32,
    /// What is left in its retry budget, in thousandths of a retry.
    pub budget_milli: u64,
    /// The most its retry budget can hold.
    pub budget_capacity_milli: u64,
    /// When the rate gate opens; none while it is open.
    pub gate_opens_in: Option<Duration>,
    /// Attempts under way.
    pub running: u32,
    /// The most attempts that may be under way.
    pub running_max: u32,
    /// Calls that wait: for a place, for the gate or between attempts.
    pub waiting: u32,
    /// The most calls that may wait for a place.
    pub waiting_max: u32,
    /// Attempts that were stopped, and whose code goes on all the same.
    pub abandoned: u32,
    /// How often its actor was started again.
    pub restarts: u64,
    /// What was counted since the runtime started.
    pub counters: Counters,
    /// The latest failed attempts, oldest first; at most 20, redacted.
    pub last_failures: Vec<PastFailure>,
    /// That it answers with more recoverable failures than it used to; none while it does not.
    #[serde(default)]
    pub error_spike: Option<ErrorSpike>,
}

/// A dependency that works answers with more recoverable failures than it used to: its schema or
/// the service behind it has a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorSpike {
    /// Recoverable failures among the latest answers.
    pub failures: u32,
    /// The latest answers, values and recoverable failures together.
    pub answers: u32,
    /// The share of such failures in all answers before those, in thousandths.
    pub usual_milli: u32,
}

/// Whether a dependency takes calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum ServiceState {
    /// Its actor starts.
    Starting,
    /// It takes calls.
    Up,
    /// Its actor crashed and waits to be started again.
    Restarting {
        /// When.
        retry_in: Duration,
    },
    /// It broke too often and takes no calls.
    Down {
        /// Why, in a sentence.
        why: Arc<str>,
        /// When it is started afresh; none if it is not.
        revive_in: Option<Duration>,
    },
}

/// Where a breaker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum BreakerStatus {
    /// Calls pass.
    Closed,
    /// Calls are refused.
    Open {
        /// When a probe is let through.
        retry_in: Duration,
    },
    /// One call at a time tries whether the dependency works again.
    HalfOpen,
    /// An operator switched the dependency off.
    ForcedOpen,
    /// An operator lets all calls pass.
    ForcedClosed,
}

/// What an operator does to a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BreakerSwitch {
    /// Refuses every call until it is switched again.
    Open,
    /// Lets every call pass, whatever the results, until it is switched again.
    Close,
    /// Closes it, forgets all results, and leaves it to decide for itself.
    Reset,
}

/// What was counted for one dependency.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Calls that were asked for, refused ones included.
    pub calls: u64,
    /// Calls that worked.
    pub succeeded: u64,
    /// Time from submit to answer of the calls that worked, together.
    pub success_time: Duration,
    /// Attempts that were started.
    pub attempts: u64,
    /// Attempts that were not the first of their call.
    pub retries: u64,
    /// Results that came after their attempt was over, and were dropped.
    pub stale: u64,
    /// Failed attempts, by code.
    pub failed_attempts: BTreeMap<FailureCode, u64>,
    /// Failures that a model was shown, by code; those of calls that never reached the tool included.
    pub observed: BTreeMap<FailureCode, u64>,
}

/// A failure of the past, as much of it as may be shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastFailure {
    /// When.
    pub at: Timestamp,
    /// The kind.
    pub code: FailureCode,
    /// What happened.
    pub message: Arc<str>,
}

/// Something changed about a tool or a model, apart from any run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolEvent {
    /// When.
    pub at: Timestamp,
    /// Its name.
    pub name: Arc<str>,
    /// Whether it is a tool or a model.
    pub kind: DependencyKind,
    /// What changed.
    pub change: ToolChange,
}

/// What changed about a tool or a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum ToolChange {
    /// Its breaker moved.
    Breaker {
        /// To where.
        now: BreakerStatus,
    },
    /// Its actor crashed, and is started again.
    Restarting {
        /// When.
        retry_in: Duration,
        /// Why it crashed, redacted.
        cause: Arc<str>,
    },
    /// It takes no more calls: it broke too often. Told once for each time.
    Down {
        /// Why, in a sentence.
        why: Arc<str>,
        /// When it is started afresh.
        revive_in: Duration,
        /// What went wrong, oldest first; at most 20, redacted.
        history: Vec<PastFailure>,
    },
    /// It was started afresh after it had been down.
    Revived,
    /// An attempt was stopped, and its code goes on all the same.
    AttemptAbandoned {
        /// How many such attempts there are now.
        abandoned: u32,
    },
    /// It answers with more recoverable failures than it used to. Told once for each rise.
    ErrorSpike {
        /// How many, and how many were usual.
        spike: ErrorSpike,
    },
    /// The code of an abandoned attempt has ended after all.
    AbandonedEnded {
        /// How many such attempts are left.
        abandoned: u32,
    },
}
