//! What a run persists: the facts it is folded from.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    Attendance, BlobHash, CallKey, Failure, History, HistoryRepair, Lineage, ModelReply, Outcome, RunId,
    RunLimits, StoppedBy, ToolOutput, Verified,
};

/// A fact of a run. The run's whole state is the fold of these, in order, with their times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEvent {
    /// The run was submitted.
    RunStarted {
        /// The agent's name.
        agent: Arc<str>,
        /// The goal.
        goal: Arc<str>,
        /// Its limits.
        limits: RunLimits,
        /// The conversation that it continues; empty for a new one.
        #[serde(default, skip_serializing_if = "History::is_empty")]
        history: History,
        /// What was changed in that conversation so that it can be continued.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        repairs: Vec<HistoryRepair>,
        /// Whether somebody can answer its questions.
        #[serde(default, skip_serializing_if = "Attendance::is_unattended")]
        attendance: Attendance,
        /// The names of the tools that the agent had. A run is not driven on without one it has called.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tools: Vec<Arc<str>>,
        /// The runs above it; none for one that was submitted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lineage: Option<Lineage>,
    },
    /// The model answered. The calls in it are the intent to run them.
    ModelReplied {
        /// The turn.
        turn: u32,
        /// Which of the agent's models: 0 is its own, 1 its first fallback, and so on.
        #[serde(default, skip_serializing_if = "is_zero")]
        model: u32,
        /// What it said.
        reply: ModelReply,
        /// Attempts made.
        attempts: u32,
    },
    /// The model could not be made to answer.
    ModelFailed {
        /// The turn.
        turn: u32,
        /// Which of the agent's models, as for a reply.
        #[serde(default, skip_serializing_if = "is_zero")]
        model: u32,
        /// The last failure.
        failure: Failure,
        /// Attempts made.
        attempts: u32,
    },
    /// The model answered with a summary of turns that no longer fit its context window.
    SummaryReplied {
        /// The turn that waits for it.
        turn: u32,
        /// Which of the agent's models.
        #[serde(default, skip_serializing_if = "is_zero")]
        model: u32,
        /// What it said.
        reply: ModelReply,
        /// Attempts made.
        attempts: u32,
    },
    /// The model could not be made to summarise.
    SummaryFailed {
        /// The turn that waits for it.
        turn: u32,
        /// Which of the agent's models.
        #[serde(default, skip_serializing_if = "is_zero")]
        model: u32,
        /// The last failure.
        failure: Failure,
        /// Attempts made.
        attempts: u32,
    },
    /// A tool call ended, for whatever reason.
    CallEnded {
        /// Which.
        call: CallKey,
        /// How.
        record: CallRecord,
    },
    /// An attempt of a tool call failed, and another follows. The end of the call counts it too; of a
    /// call that never ended, because its process did, this is what is left.
    AttemptFailed {
        /// The call.
        call: CallKey,
        /// The fallback that made the attempt; none for the tool itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
        /// The attempt, from 1; it goes on counting where the process ended in between.
        attempt: u32,
        /// How it failed.
        failure: Failure,
        /// The wait before the next.
        wait: Duration,
    },
    /// The tool of an interrupted call was asked whether that call happened.
    CallVerified {
        /// The call.
        call: CallKey,
        /// What it said.
        verdict: VerifyVerdict,
    },
    /// The outcome of a call is known that was told to the model as unknown.
    OutcomeResolved {
        /// The call.
        call: CallKey,
        /// What it really came to.
        record: CallRecord,
        /// How that came to be known.
        by: ResolvedBy,
    },
    /// A run that this one started has ended. What it was given comes back less what it used.
    ChildEnded {
        /// The call that asked for it, or the step of a plan.
        call: CallKey,
        /// Which run for this call, counted from 1.
        #[serde(rename = "try")]
        attempt: u32,
        /// How it ended.
        outcome: Box<Outcome>,
    },
    /// The user answered a question.
    InputGiven {
        /// The call that asked.
        call: CallKey,
        /// The user's words, redacted; blank when they had none.
        text: Arc<str>,
    },
    /// Another run of the tree sent a message.
    MessageReceived {
        /// The sender's name for it; the same name twice is one message.
        letter: Arc<str>,
        /// The run that sent it.
        from: RunId,
        /// Its agent, as it is answered: by name, or by name and number.
        agent: Arc<str>,
        /// What it says, redacted: data.
        text: Arc<str>,
    },
    /// A timer of the run went off.
    TimerFired {
        /// Which.
        timer: RunTimer,
    },
    /// Somebody asked the run to stop.
    CancelRequested {
        /// Who.
        by: Arc<str>,
    },
    /// The agent of the run is configured otherwise than before, and the run goes on with one of the two.
    ConfigChosen {
        /// The one it goes on with, by the hash of its bytes. A journal has it as the run's from then on.
        config: Arc<str>,
        /// The other.
        over: Arc<str>,
        /// Who chose.
        by: Arc<str>,
    },
    /// A letter to the run led to nothing.
    LetterSetAside {
        /// The sender's name for it.
        letter: Arc<str>,
        /// Why.
        why: Arc<str>,
    },
    /// The process that drove the run came to its end, and another drives it on. Whatever was under
    /// way is lost: requests of models, attempts of tools, timers.
    Interrupted {},
    /// The process let go of the run in good order. What it had begun is named; whatever else the
    /// run waited for was not begun, and does no harm when it is. Holds until the next event.
    Suspended {
        /// The calls that were still under way.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<CallKey>,
        /// Whether a request of the model was.
        #[serde(default, skip_serializing_if = "is_false")]
        model: bool,
    },
}

impl RunEvent {
    /// Whether a run gets on by it. What only tells of its owners is no progress: a run that ends every
    /// process that takes it up is known by that.
    pub const fn moves(&self) -> bool {
        !matches!(self, Self::Interrupted {} | Self::Suspended { .. } | Self::ConfigChosen { .. })
    }

    /// The configuration that the run has from here on, where it says so.
    pub fn config(&self) -> Option<BlobHash> {
        match self {
            Self::ConfigChosen { config, .. } => config.parse().ok(),
            _ => None,
        }
    }
}

/// How one tool call ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallRecord {
    /// The value or the failure.
    pub verdict: CallVerdict,
    /// Attempts that reached the tool.
    pub attempts: u32,
    /// Time spent waiting between them.
    pub waited: Duration,
    /// Why there was no further attempt, where one was possible.
    pub stopped_by: Option<StoppedBy>,
    /// How long the tool takes no calls from now on, where it is out of service and that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_for: Option<Duration>,
    /// The fallback that was called in place of the tool; none for the tool itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(n: &u32) -> bool {
    *n == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(it: &bool) -> bool {
    !*it
}

/// The value or the failure of one tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallVerdict {
    /// It worked.
    Succeeded(ToolOutput),
    /// It did not.
    Failed(Failure),
}

/// What a tool said when it was asked whether a call of it happened, or why it said nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerifyVerdict {
    /// It answered.
    Answered(Verified),
    /// It could not be asked.
    Failed(Failure),
}

/// How the outcome of a call came to be known after it had been told as unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResolvedBy {
    /// The call came to its end after its run had been taken over from the worker that started it.
    Late {
        /// The epoch of that worker.
        epoch: u64,
    },
    /// A person found out.
    Person {
        /// Who.
        name: Arc<str>,
    },
}

/// The timers of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunTimer {
    /// The limit on the run's whole time.
    WallClock,
    /// The wait for calls whose outcome must be known before the run may end.
    Settle,
    /// The wait of a call for its tool to be back. Goes off early when it is.
    Unpark(
        /// The call.
        CallKey,
    ),
    /// The time by which a child must have ended.
    Child(
        /// The call that asked for it.
        CallKey,
    ),
}
