//! How a run ends.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{FailureCode, LimitKind, MicroUsd, RunId, Usage};

/// Why a run ended. Exactly one, and it names what it must.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// The model gave its answer.
    Completed,
    /// A tool failed in a way that nobody in the run can fix.
    ToolTerminal {
        /// The tool.
        tool: Arc<str>,
        /// The model's id of the call.
        call_id: Arc<str>,
        /// The kind.
        code: FailureCode,
        /// Attempts made.
        attempts: u32,
    },
    /// A tool stayed broken through all retries, and the run cannot do without it.
    ToolExhausted {
        /// The tool.
        tool: Arc<str>,
        /// The model's id of the call.
        call_id: Arc<str>,
        /// The kind of the last failure.
        code: FailureCode,
        /// Attempts made.
        attempts: u32,
        /// Time spent waiting between them.
        waited: Duration,
    },
    /// The model could not be reached or would not answer.
    ModelFailed {
        /// The kind of the last failure.
        code: FailureCode,
        /// Attempts made.
        attempts: u32,
    },
    /// The model refused.
    ModelRefusal,
    /// The provider's filter held the answer back.
    ContentFiltered,
    /// The output limit cut the model again and again.
    Truncated,
    /// The model kept saying nothing.
    EmptyResponse,
    /// The model kept writing what is not a call and not an answer.
    MalformedOutput,
    /// The model kept doing the same thing.
    Stuck {
        /// The tool.
        tool: Arc<str>,
        /// The tool with its canonical arguments, bounded.
        fingerprint: Arc<str>,
        /// How often.
        times: u32,
    },
    /// A limit of the run.
    LimitReached(
        /// Which.
        LimitKind,
    ),
    /// Somebody cancelled it.
    Cancelled {
        /// Who.
        by: Arc<str>,
    },
    /// A run that this one started failed in a way that it could not do without.
    ChildFailed {
        /// The child's agent.
        agent: Arc<str>,
        /// The child.
        run: RunId,
        /// Its reason.
        reason: Box<StopReason>,
    },
    /// Dauntless itself broke, or was misused; the code names where.
    Internal {
        /// Stable and machine-readable.
        code: Arc<str>,
    },
}

impl StopReason {
    /// The name as reports and exit codes use it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::ToolTerminal { .. } => "tool_terminal",
            Self::ToolExhausted { .. } => "tool_exhausted",
            Self::ModelFailed { .. } => "model_failed",
            Self::ModelRefusal => "model_refusal",
            Self::ContentFiltered => "content_filtered",
            Self::Truncated => "truncated",
            Self::EmptyResponse => "empty_response",
            Self::MalformedOutput => "malformed_output",
            Self::Stuck { .. } => "stuck",
            Self::LimitReached(_) => "limit_reached",
            Self::Cancelled { .. } => "cancelled",
            Self::ChildFailed { .. } => "child_failed",
            Self::Internal { .. } => "internal",
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::ToolTerminal { tool, call_id, code, attempts } => {
                write!(f, ": {tool} ({call_id}) failed with {code} after {}", Times(*attempts))
            }
            Self::ToolExhausted { tool, call_id, code, attempts, waited } => {
                write!(
                    f,
                    ": {tool} ({call_id}) failed with {code} after {}, {:.1} s of waiting",
                    Times(*attempts),
                    waited.as_secs_f64()
                )
            }
            Self::ModelFailed { code, attempts } => write!(f, ": {code} after {}", Times(*attempts)),
            Self::Stuck { fingerprint, times, .. } => write!(f, ": {fingerprint}, {times} times"),
            Self::LimitReached(limit) => write!(f, ": {limit}"),
            Self::Cancelled { by } => write!(f, " by {by}"),
            Self::ChildFailed { agent, run, reason } => write!(f, ": {agent} (run {run}): {reason}"),
            Self::Internal { code } => write!(f, ": {code}"),
            Self::Completed
            | Self::ModelRefusal
            | Self::ContentFiltered
            | Self::Truncated
            | Self::EmptyResponse
            | Self::MalformedOutput => Ok(()),
        }
    }
}

struct Times(u32);

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("1 attempt"),
            n => write!(f, "{n} attempts"),
        }
    }
}

/// What a run used and went through, with all runs below it that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunTotals {
    /// Model requests, without repeated attempts.
    pub turns: u32,
    /// Attempts of model requests.
    pub model_attempts: u32,
    /// Calls the model asked for.
    pub tool_calls: u32,
    /// Attempts of tool calls.
    pub tool_attempts: u32,
    /// Calls that ended in a failure the model was shown.
    pub failed_calls: u32,
    /// Tokens, where the provider says.
    pub usage: Usage,
    /// Cost, by the model's price.
    pub cost: MicroUsd,
    /// Calls that reached a tool which is neither read-only nor idempotent, and that happened or
    /// may have.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub effects: u32,
    /// Runs below this one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub children: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// Takes in what a child used. The child itself is not counted by it.
impl std::ops::AddAssign for RunTotals {
    fn add_assign(&mut self, other: Self) {
        let add = |mine: &mut u32, its: u32| *mine = mine.saturating_add(its);
        add(&mut self.turns, other.turns);
        add(&mut self.model_attempts, other.model_attempts);
        add(&mut self.tool_calls, other.tool_calls);
        add(&mut self.tool_attempts, other.tool_attempts);
        add(&mut self.failed_calls, other.failed_calls);
        add(&mut self.effects, other.effects);
        add(&mut self.children, other.children);
        self.usage += other.usage;
        self.cost += other.cost;
    }
}

/// The end of a run: its one stop reason, and what was achieved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The run.
    pub run: RunId,
    /// Why it ended.
    pub reason: StopReason,
    /// The answer when completed; else the best partial answer, if there is one.
    pub text: Option<Arc<str>>,
    /// A sentence for the person who reads the report, where there is more to say than the reason.
    pub explanation: Option<Arc<str>>,
    /// What it used.
    pub totals: RunTotals,
    /// From submit to the end.
    pub elapsed: Duration,
}

impl Outcome {
    /// Whether the model gave its answer.
    pub const fn is_completed(&self) -> bool {
        matches!(self.reason, StopReason::Completed)
    }

    /// The answer, when completed.
    pub fn answer(&self) -> Option<&str> {
        self.text.as_deref().filter(|_| self.is_completed())
    }

    /// The best answer there is, completed or not.
    pub fn partial(&self) -> Option<&str> {
        self.text.as_deref()
    }
}
