//! What a watcher of a run sees while it goes on. Not persisted, and lossy when nobody keeps up.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{CallKey, FailureCode, HistoryRepair, Outcome, Question, RunId, Tokens};

/// Why there was no further attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoppedBy {
    /// All attempts are used.
    MaxAttempts,
    /// The retry budget of the dependency is empty.
    Budget,
    /// The next attempt would not fit before the deadline.
    Deadline,
    /// The failure is not one that a retry can fix.
    Permanent,
    /// A retry could repeat an effect.
    Effect,
    /// The breaker is open.
    BreakerOpen,
    /// The other side asked for a longer wait than allowed.
    RetryAfter,
    /// Cancelled.
    Cancelled,
}

/// How a conversation was made shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trim {
    /// Texts of observations were cut.
    Shortened {
        /// How many observations.
        observations: u32,
    },
    /// The oldest rounds gave way to a summary by the model.
    Summarised {
        /// How many rounds.
        rounds: u32,
    },
    /// The oldest rounds gave way to a note, since no summary could be had.
    Dropped {
        /// How many rounds.
        rounds: u32,
    },
}

/// One thing that happened in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Progress {
    /// A model request starts.
    TurnStarted {
        /// The turn.
        turn: u32,
    },
    /// The model wrote a piece of text. A further attempt of the same turn starts over.
    TextArrived {
        /// The turn.
        turn: u32,
        /// The attempt it belongs to.
        attempt: u32,
        /// The piece.
        text: Arc<str>,
    },
    /// A model request failed, and is tried again.
    ModelRetried {
        /// The turn.
        turn: u32,
        /// The attempt that failed.
        attempt: u32,
        /// The kind.
        code: FailureCode,
        /// The wait before the next.
        wait: Duration,
    },
    /// The model asked for a call.
    CallAsked {
        /// The call.
        call: CallKey,
        /// The model's id.
        call_id: Arc<str>,
        /// The tool.
        tool: Arc<str>,
        /// The arguments, bounded and redacted.
        arguments: Arc<str>,
    },
    /// What the model wrote was put right, without loss, before the call was looked at.
    CallRepaired {
        /// The call.
        call: CallKey,
        /// What was done, in words; the first 20.
        repairs: Vec<Arc<str>>,
    },
    /// An attempt of a call starts.
    AttemptStarted {
        /// The call.
        call: CallKey,
        /// The tool.
        tool: Arc<str>,
        /// The attempt, from 1.
        attempt: u32,
    },
    /// An attempt failed, and the call waits for the next.
    AttemptFailed {
        /// The call.
        call: CallKey,
        /// The tool.
        tool: Arc<str>,
        /// The attempt.
        attempt: u32,
        /// The kind.
        code: FailureCode,
        /// What happened.
        message: Arc<str>,
        /// The wait before the next.
        wait: Duration,
    },
    /// The tool of a call is out of service, and the call waits until it may work again.
    CallParked {
        /// The call.
        call: CallKey,
        /// The tool.
        tool: Arc<str>,
        /// The kind of failure that showed it.
        code: FailureCode,
        /// What happened.
        message: Arc<str>,
        /// The longest wait before it is asked again.
        wait: Duration,
    },
    /// The tool of a parked call is asked again.
    CallUnparked {
        /// The call.
        call: CallKey,
        /// The tool.
        tool: Arc<str>,
        /// How long the call was parked.
        parked: Duration,
    },
    /// A call ended.
    CallEnded {
        /// The call.
        call: CallKey,
        /// The model's id.
        call_id: Arc<str>,
        /// The tool.
        tool: Arc<str>,
        /// The kind of failure; none for a success.
        code: Option<FailureCode>,
        /// What happened, for a failure.
        message: Option<Arc<str>>,
        /// Attempts made.
        attempts: u32,
        /// Time spent waiting between them.
        waited: Duration,
        /// Why there was no further attempt.
        stopped_by: Option<StoppedBy>,
    },
    /// A child run starts, or is found again after this run's process has ended.
    ChildStarted {
        /// The call that asked for it, or the step of a plan.
        call: CallKey,
        /// The child's agent.
        agent: Arc<str>,
        /// The child.
        run: RunId,
        /// Which run for this call, counted from 1.
        #[serde(rename = "try")]
        attempt: u32,
    },
    /// Something happened in a run below this one.
    InChild {
        /// That run.
        run: RunId,
        /// The run that started it.
        parent: RunId,
        /// The topmost run of the tree.
        root: RunId,
        /// Its agent.
        agent: Arc<str>,
        /// What.
        progress: Box<Self>,
    },
    /// A child run ended.
    ChildEnded {
        /// The call that asked for it, or the step of a plan.
        call: CallKey,
        /// The child's agent.
        agent: Arc<str>,
        /// How it ended.
        outcome: Outcome,
    },
    /// The conversation that the run continues was repaired first.
    HistoryRepaired {
        /// What was changed.
        repairs: Vec<HistoryRepair>,
    },
    /// The provider refused the declaration of a tool; the run goes on without it.
    ToolRejected {
        /// The turn whose request was refused, and is repeated without the tool.
        turn: u32,
        /// The tool.
        tool: Arc<str>,
        /// What the provider says.
        message: Arc<str>,
    },
    /// The model asked the user, and the call waits for the answer.
    InputRequested(
        /// The question.
        Question,
    ),
    /// The user answered.
    InputGiven {
        /// The call that asked.
        call: CallKey,
        /// The user's words, redacted.
        text: Arc<str>,
    },
    /// The breaker of a dependency opened during this run.
    BreakerOpened {
        /// The tool or model.
        tool: Arc<str>,
        /// Until when it rejects.
        retry_in: Duration,
    },
    /// The model was given a nudge in place of an observation.
    Nudged {
        /// The turn that gave rise to it.
        turn: u32,
        /// The words.
        text: Arc<str>,
    },
    /// The conversation was made shorter, so that it fits the model's context window.
    ContextTrimmed {
        /// The turn whose request is made to fit.
        turn: u32,
        /// How.
        trim: Trim,
        /// Its size before, as far as it can be told.
        before: Tokens,
        /// Its size after.
        after: Tokens,
    },
    /// So many events were lost because the watcher was slow.
    Lagged {
        /// How many.
        lost: u64,
    },
    /// The run ended. Always the last, and never lost.
    RunEnded {
        /// How.
        outcome: Outcome,
    },
}
