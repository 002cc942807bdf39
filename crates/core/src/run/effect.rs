//! What a run wants done.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{CallKey, History, Json, Progress, RunId, RunTimer, Timestamp, ToolSpec};

use super::Verification;
use crate::tree::Delegation;

/// What the shell has to do. Each that will be answered carries what its answer must name.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "an effect that is not carried out stalls the run"]
pub enum RunEffect {
    /// Ask the model, with the machine's [`history`](super::RunMachine::history).
    CallModel {
        /// The turn; the answer names it.
        turn: u32,
        /// Which of the agent's models: 0 is its own; the answer names it.
        model: u32,
        /// The tools to offer.
        offer: Offer,
        /// Tools that the machine answers itself, to offer beside them.
        built_in: Vec<Arc<ToolSpec>>,
        /// When the answer must be there.
        deadline: Timestamp,
    },
    /// Ask the model for a summary, without tools.
    Summarise {
        /// The turn that waits for it; the answer names it.
        turn: u32,
        /// Which of the agent's models; the answer names it.
        model: u32,
        /// The conversation to send.
        history: Arc<History>,
        /// When the answer must be there.
        deadline: Timestamp,
    },
    /// Start a tool call.
    Dispatch {
        /// The call; its end names it.
        call: CallKey,
        /// The tool that the model asked for.
        asked: Arc<str>,
        /// The tool to call: the same, or a fallback, which the end of the call then names.
        tool: Arc<str>,
        /// Arguments that fit its schema.
        arguments: Json,
        /// The call whose idempotency key it gets: its own, or an identical one that may have happened.
        key_of: CallKey,
        /// When the run is out of time, whatever the tool allows.
        deadline: Timestamp,
        /// Attempts of this tool that were made before, in a process that came to its end.
        attempts_made: u32,
    },
    /// Ask a tool whether an interrupted call of it happened.
    Verify(Verification),
    /// Stop a call, or the question whether it happened. It still ends with an event.
    CancelCall {
        /// The call.
        call: CallKey,
        /// How far the stop may go.
        reach: CancelReach,
    },
    /// Start a child run, or find it again. Its end is an event, [`RunEvent::ChildEnded`](dauntless_contract::RunEvent::ChildEnded).
    Delegate(Delegation),
    /// Cancel a child run. It still ends with its event; one that never started ends as cancelled.
    CancelChild {
        /// The call that asked for it, or the step of a plan.
        call: CallKey,
        /// The child.
        run: RunId,
        /// Who wants it, for the child's own stop reason.
        by: Arc<str>,
    },
    /// Stop waiting for the model. What it still answers is stale.
    CancelModel {
        /// The turn.
        turn: u32,
    },
    /// Set a timer.
    StartTimer {
        /// Which; its event names it.
        timer: RunTimer,
        /// When.
        at: Timestamp,
    },
    /// Let a call wait for its tool until `at`, or until the tool is back if that is earlier. Its
    /// timer [`RunTimer::Unpark`] goes off at a moment drawn from the `spread` that follows.
    Park {
        /// The call.
        call: CallKey,
        /// The tool.
        tool: Arc<str>,
        /// When it is asked again in any case.
        at: Timestamp,
        /// Over how long those who wait for one tool are spread.
        spread: Duration,
    },
    /// Tell whoever watches.
    Report(Progress),
    /// The run is over; see [`RunMachine::outcome`](super::RunMachine::outcome).
    End,
}

/// Which tools a model request offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offer {
    /// All of the agent's.
    All,
    /// All but these, which are out of service or refused by the provider.
    Without(
        /// Their names, sorted.
        Vec<Arc<str>>,
    ),
    /// None: the model is to answer.
    Nothing,
}

/// How far the stop of a call may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelReach {
    /// Also an attempt that is under way.
    Running,
    /// Not an attempt that is under way, whose outcome must be known; but no attempt follows it.
    Waiting,
}
