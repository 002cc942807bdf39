//! Where the runs of a journal stand: for the workers that choose one, and for operators.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{BlobHash, RunId, Seq};

/// Where a run stands, as far as workers are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunState {
    /// Waits for a worker.
    Ready,
    /// A worker owns it.
    Driven,
    /// Waits for an operator.
    Paused,
    /// Was claimed too often without getting on, and waits for an operator.
    Quarantined,
    /// Over.
    Ended,
}

impl RunState {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Ready, Self::Driven, Self::Paused, Self::Quarantined, Self::Ended];

    /// Whether it may still go on.
    pub const fn is_open(self) -> bool {
        match self {
            Self::Ready | Self::Driven | Self::Paused | Self::Quarantined => true,
            Self::Ended => false,
        }
    }

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Driven => "driven",
            Self::Paused => "paused",
            Self::Quarantined => "quarantined",
            Self::Ended => "ended",
        }
    }
}

/// All that decides what may happen to a run next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunMeta {
    /// The run.
    pub run: RunId,
    /// The name of its agent.
    pub agent: Arc<str>,
    /// Where it stands.
    pub state: RunState,
    /// Why it is paused, in quarantine, or over.
    pub reason: Option<Arc<str>>,
    /// Its last event.
    pub head: Seq,
    /// How often it changed hands.
    pub epoch: u64,
    /// The name of the worker that owns it or owned it last.
    pub owner: Option<Arc<str>>,
    /// Claims since it last [got on](crate::RunEvent::moves).
    pub attempts: u32,
    /// How long it is not claimable yet.
    pub ready_in: Duration,
    /// Letters that no event has taken in.
    pub letters: u64,
    /// Results that came after a takeover.
    pub late_results: u64,
    /// The snapshot to resume from.
    pub snapshot: Option<Seq>,
    /// Which code it needs.
    pub code_version: Arc<str>,
    /// Its configuration.
    pub config: Option<BlobHash>,
    /// The run that asked for it.
    pub parent: Option<RunId>,
    /// The topmost run of its tree; none is the run itself.
    pub root: Option<RunId>,
    /// How long ago it was created, by the store's clock.
    pub age: Duration,
    /// How long ago the store took its last event, by the store's clock.
    pub since_last: Duration,
}

/// One line for an operator.
impl fmt::Display for RunMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ", self.run, self.state.as_str())?;
        if !self.agent.is_empty() {
            write!(f, "{} ", self.agent)?;
        }
        write!(f, "head {} epoch {}", self.head, self.epoch)?;
        if let Some(owner) = &self.owner {
            let word = if self.state == RunState::Driven { "by" } else { "last by" };
            write!(f, " {word} {owner}")?;
        }
        if self.attempts > 0 {
            write!(f, ", claims without progress: {}", self.attempts)?;
        }
        if !self.ready_in.is_zero() {
            write!(f, ", ready in {} s", self.ready_in.as_secs())?;
        }
        if let Some(snapshot) = self.snapshot {
            write!(f, ", snapshot at {snapshot}")?;
        }
        if self.letters > 0 {
            write!(f, ", unread letters: {}", self.letters)?;
        }
        if self.late_results > 0 {
            write!(f, ", late results: {}", self.late_results)?;
        }
        match &self.reason {
            Some(reason) => write!(f, ": {reason}"),
            None => Ok(()),
        }
    }
}

/// Which runs to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListQuery {
    /// Only those that stand there.
    pub state: Option<RunState>,
    /// Only those below this root; the root itself is not among them.
    pub root: Option<RunId>,
    /// Only those after this one, by id.
    pub after: Option<RunId>,
    /// At most so many.
    pub limit: usize,
}

/// How many runs stand where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunCounts {
    /// Waiting for a worker.
    pub ready: u64,
    /// Owned by a worker that lives.
    pub driven: u64,
    /// Owned by a worker that died, and not yet claimed again.
    pub orphaned: u64,
    /// Waiting for an operator.
    pub paused: u64,
    /// Claimed too often without getting on.
    pub quarantined: u64,
    /// Over and not yet dropped.
    pub ended: u64,
    /// Of the ready and the orphaned: those whose code the asking worker does not have.
    pub unclaimable: u64,
}

/// What an operator should see to before it becomes a failure of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// Somebody keeps a transaction open in the database.
    HeldOpen {
        /// Who, by the name and the process id that the server knows.
        by: Arc<str>,
        /// For how long.
        since: Duration,
    },
    /// The write-ahead log of the file has outgrown its bound.
    LogTooLarge {
        /// Its size.
        bytes: u64,
    },
}

/// One line for an operator.
impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HeldOpen { by, since } => write!(
                f,
                "{by} has kept a transaction open for {} s: until it ends, the space of dropped runs does not \
                 come back and the database gets slower",
                since.as_secs()
            ),
            Self::LogTooLarge { bytes } => write!(
                f,
                "the write-ahead log has {bytes} bytes, because a program reads the file and does not finish: \
                 until it ends, the log grows"
            ),
        }
    }
}
