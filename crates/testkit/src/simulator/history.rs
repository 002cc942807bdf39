//! What happened in a simulation, in order, with its virtual times.
//!
//! Runs and calls by hand have ordinal numbers in place of their ids, so that equal seeds give equal
//! histories, byte by byte.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{CallKey, CallRecord, CallVerdict, Failure, Outcome, Progress};

/// Everything that was seen, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The entries, in the order they were seen.
    pub entries: Vec<Entry>,
}

/// One thing that was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Virtual time since the start.
    pub at: Duration,
    /// What it was.
    pub fact: Fact,
}

/// Who asked for something, by ordinal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// A run, numbered by the operation that started it.
    Run(u32),
    /// A caller seen first at a tool: a call by hand.
    Other(u32),
}

/// What the simulator did to the runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Starts a run whose progress is watched.
    Stream(u32),
    /// Starts a run and waits for its outcome alone.
    Run(u32),
    /// Cancels a watched run; nothing when it has ended.
    Cancel(u32),
    /// Drops the future that waits for a run; nothing when it has ended.
    Drop(u32),
    /// Calls a tool without a model.
    ByHand {
        /// The tool.
        tool: Arc<str>,
    },
    /// Switches the faults off.
    EndFaults,
    /// Shuts the runtime down.
    Shutdown,
}

/// One thing that can be seen from outside the runtime.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// The simulator did something.
    Did(Operation),
    /// The model was asked; `flaw` is what was wrong with the conversation it was shown.
    ModelAsked {
        /// By whom.
        who: Who,
        /// The turn.
        turn: u32,
        /// The attempt.
        attempt: u32,
        /// What no provider would take, if so.
        flaw: Option<String>,
    },
    /// An attempt reached a tool.
    AttemptBegan {
        /// Whose, and which.
        attempt: Attempt,
        /// The idempotency key, by ordinal.
        key: u32,
        /// When the runtime said it would stop waiting.
        deadline: Duration,
    },
    /// An attempt is over.
    AttemptEnded {
        /// Whose, and which.
        attempt: Attempt,
        /// How.
        end: AttemptEnd,
    },
    /// The tool did what it was asked for, whatever becomes of the answer.
    EffectHappened {
        /// Whose, and which.
        attempt: Attempt,
    },
    /// A watcher of a run saw something.
    Saw {
        /// The run.
        run: u32,
        /// What.
        progress: Box<Progress>,
    },
    /// Whoever waited for a run got its outcome.
    RunEnded {
        /// The run.
        run: u32,
        /// The outcome.
        outcome: Box<Outcome>,
    },
    /// A call by hand was answered.
    HandEnded {
        /// The tool.
        tool: Arc<str>,
        /// How it ended; `None` when the runtime did not take it.
        record: Option<Box<CallRecord>>,
    },
    /// A tool did not serve again in time after the faults had ended.
    Unserved {
        /// The tool.
        tool: Arc<str>,
        /// What it answered last.
        last: String,
    },
    /// Everything is over; what still runs.
    Rested {
        /// Attempts under way.
        running: usize,
    },
}

/// Names one attempt of one call at one tool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attempt {
    /// Who asked.
    pub who: Who,
    /// The call.
    pub call: CallKey,
    /// The attempt, from 1.
    pub number: u32,
    /// The tool.
    pub tool: Arc<str>,
}

/// How an attempt ended, as its tool knows it.
#[derive(Clone, Debug, PartialEq)]
pub enum AttemptEnd {
    /// It answered with a value.
    Worked,
    /// It answered with a failure.
    Failed(Failure),
    /// Its code broke.
    Panicked,
    /// The runtime stopped it.
    Dropped,
}

impl History {
    /// The history as text, one line an entry; equal for equal seeds.
    pub fn transcript(&self) -> String {
        self.lines(&self.entries)
    }

    /// The same, but of a long history only its end.
    pub(super) fn tail(&self, entries_max: usize) -> String {
        let skipped = self.entries.len().saturating_sub(entries_max);
        let text = self.lines(self.entries.get(skipped..).unwrap_or_default());
        if skipped == 0 { text } else { format!("    … {skipped} earlier entries …\n{text}") }
    }

    fn lines(&self, entries: &[Entry]) -> String {
        entries.iter().map(|entry| format!("{entry}\n")).collect()
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>9.3}s {}", self.at.as_secs_f64(), self.fact)
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(number) => write!(f, "run {number}"),
            Self::Other(number) => write!(f, "caller {number}"),
        }
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { who, call, number, tool } = self;
        write!(f, "{who}: attempt {number} of call {call} at {tool}")
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(run) => write!(f, "start run {run} and watch it"),
            Self::Run(run) => write!(f, "start run {run} and wait"),
            Self::Cancel(run) => write!(f, "cancel run {run}"),
            Self::Drop(run) => write!(f, "drop the future of run {run}"),
            Self::ByHand { tool } => write!(f, "call {tool} by hand"),
            Self::EndFaults => f.write_str("end the faults"),
            Self::Shutdown => f.write_str("shut down"),
        }
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Did(operation) => write!(f, "── {operation}"),
            Self::ModelAsked { who, turn, attempt, flaw } => {
                write!(f, "{who}: attempt {attempt} of turn {turn} at the model")?;
                flaw.iter().try_for_each(|flaw| write!(f, ", whose conversation is broken: {flaw}"))
            }
            Self::AttemptBegan { attempt, key, deadline } => {
                write!(f, "{attempt} begins, key {key}, until {:.3}s", deadline.as_secs_f64())
            }
            Self::AttemptEnded { attempt, end } => write!(f, "{attempt} {end}"),
            Self::EffectHappened { attempt } => write!(f, "{attempt} takes effect"),
            Self::Saw { run, progress } => write!(f, "run {run} tells {progress:?}"),
            Self::RunEnded { run, outcome } => write!(f, "run {run} ended: {}", outcome.reason),
            Self::HandEnded { tool, record } => match record.as_deref() {
                None => write!(f, "{tool} by hand: not taken"),
                Some(CallRecord { verdict, attempts, stopped_by, .. }) => {
                    match verdict {
                        CallVerdict::Succeeded(_) => write!(f, "{tool} by hand: worked")?,
                        CallVerdict::Failed(failure) => write!(f, "{tool} by hand: {failure}")?,
                    }
                    write!(f, " (attempts {attempts}, stopped by {stopped_by:?})")
                }
            },
            Self::Unserved { tool, last } => write!(f, "{tool} does not serve again: {last}"),
            Self::Rested { running } => write!(f, "── all over, {running} attempts under way"),
        }
    }
}

impl fmt::Display for AttemptEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Worked => f.write_str("worked"),
            Self::Failed(failure) => {
                write!(f, "failed with {}, effect {:?}", failure.code, failure.effect)?;
                failure.retry_after.iter().try_for_each(|wait| write!(f, ", come back in {wait:?}"))
            }
            Self::Panicked => f.write_str("panicked"),
            Self::Dropped => f.write_str("was stopped"),
        }
    }
}
