//! What a [`Dependency`](super::Dependency) is told, and what it wants done.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{Effect, ErrorSpike, Failure, RunId, StoppedBy, Timestamp};

/// Names one call at one dependency. The shell counts them up and never uses one twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum CallEvent<T> {
    /// Somebody wants a call made.
    Submitted {
        /// Its name from now on.
        ticket: Ticket,
        /// Who wants it: where calls wait for places, runs take turns.
        run: RunId,
        /// What a repetition would do.
        effect: Effect,
        /// When the answer must be there. The policy's own deadline holds too.
        deadline: Timestamp,
        /// Attempts of this call that were made before, in a process that came to its end. The next
        /// has the number after them. It is made in any case; those after it as the policy allows.
        attempts_made: u32,
    },
    /// An attempt worked.
    Succeeded {
        /// The call.
        ticket: Ticket,
        /// The attempt, from 1.
        attempt: u32,
        /// What it gave.
        value: T,
    },
    /// An attempt did not work, and said so.
    Failed {
        /// The call.
        ticket: Ticket,
        /// The attempt, from 1.
        attempt: u32,
        /// What it said.
        failure: Failure,
    },
    /// An attempt reached its `timeout_at`. The shell has aborted it.
    TimedOut {
        /// The call.
        ticket: Ticket,
        /// The attempt, from 1.
        attempt: u32,
    },
    /// The code of an attempt broke.
    Crashed {
        /// The call.
        ticket: Ticket,
        /// The attempt, from 1.
        attempt: u32,
        /// How, for the operator's log.
        cause: Arc<str>,
    },
    /// A timer went off.
    TimerFired {
        /// The call it was started for.
        ticket: Ticket,
        /// Which of the call's timers.
        timer: u32,
    },
    /// The caller no longer wants the call.
    CancelRequested {
        /// The call.
        ticket: Ticket,
    },
    /// The caller wants to know how the attempt under way ends, if one is, and no further attempt.
    WindDownRequested {
        /// The call.
        ticket: Ticket,
    },
    /// The dependency goes down: every call ends with this failure.
    Stopped {
        /// What the callers are told.
        failure: Failure,
    },
}

/// What the shell is to do. Effects are carried out in order.
#[derive(Clone, Debug, PartialEq)]
pub enum CallEffect<T> {
    /// Run one attempt in a task of its own, and report how it ends.
    StartAttempt {
        /// The call.
        ticket: Ticket,
        /// The attempt, from 1.
        attempt: u32,
        /// Abort it then and report [`CallEvent::TimedOut`].
        timeout_at: Timestamp,
    },
    /// Abort an attempt. Nothing it still says counts.
    AbortAttempt {
        /// The call.
        ticket: Ticket,
        /// The attempt.
        attempt: u32,
    },
    /// Report [`CallEvent::TimerFired`] at `at`. A timer left running does no harm.
    StartTimer {
        /// The call.
        ticket: Ticket,
        /// Which of the call's timers.
        timer: u32,
        /// When.
        at: Timestamp,
    },
    /// Give the caller its one answer.
    Answer {
        /// The call.
        ticket: Ticket,
        /// The answer.
        end: CallEnd<T>,
    },
    /// Tell whoever watches.
    Report(Report),
}

/// Something worth telling that asks for nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// An attempt failed and the call waits for the next.
    WillRetry {
        /// The call.
        ticket: Ticket,
        /// The attempt that failed.
        attempt: u32,
        /// How.
        failure: Failure,
        /// The wait before the next.
        wait: Duration,
    },
    /// The breaker opened.
    BreakerOpened {
        /// When the next attempt is let through.
        retry_in: Duration,
    },
    /// The breaker closed.
    BreakerClosed,
    /// It answers with more recoverable failures than it used to. Reported once for each rise.
    ErrorSpike(ErrorSpike),
    /// Something came for a call or an attempt that is over; it was dropped.
    Stale {
        /// The call.
        ticket: Ticket,
        /// The attempt it came from.
        attempt: u32,
    },
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq)]
pub struct CallEnd<T> {
    /// The value, or the last failure of the dependency, or why it was not asked.
    pub result: Result<T, Failure>,
    /// Attempts that were started, without those made before it was submitted.
    pub attempts: u32,
    /// Time spent waiting after failed attempts.
    pub waited: Duration,
    /// Why there was no further attempt; `None` for a success and where there was no room.
    pub stopped_by: Option<StoppedBy>,
    /// How long the dependency takes no calls from now on, where its breaker is open.
    pub out_for: Option<Duration>,
}
