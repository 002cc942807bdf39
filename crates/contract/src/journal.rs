//! The journal port: where the facts of runs are kept.
//!
//! The truth about who drives a run is the [`Fence`] in each append, not a lease: whoever has not
//! seen the last event, or was replaced, cannot write.

use crate::{BoxFuture, RunEvent, RunId, Timestamp};

/// The place of an event in its run, counted from 1. 0 is before the first.
pub type Seq = u64;

/// The right to append to one run. A new one is made at each change of owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The run.
    pub run: RunId,
    /// Counts owners.
    pub epoch: u64,
    /// Cannot be guessed; tells two owners of one epoch apart.
    pub token: u128,
}

/// An event with its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// When the machine was given it; replay uses the same time.
    pub at: Timestamp,
    /// What happened.
    pub event: RunEvent,
}

/// A run to create. Its first event is inside, so that a run without one cannot exist.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// The right to append, made by the caller.
    pub fence: Fence,
    /// The first event.
    pub first: Recorded,
}

/// Why a run could not be created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// There is one of that id.
    #[error("run {0} exists already; submit with another id")]
    Exists(RunId),
    /// The store cannot work now.
    #[error("the journal is unavailable: {0}")]
    Unavailable(String),
}

/// Why events were not appended. None of them was.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// Another owner drives the run. Stop driving it.
    #[error("run {run} is driven by another owner now (epoch {owner_epoch})")]
    Fenced {
        /// The run.
        run: RunId,
        /// The epoch of that owner.
        owner_epoch: u64,
    },
    /// The last event is not the expected one. Read and fold again.
    #[error("run {run} has {head} events, not {expected}")]
    Conflict {
        /// The run.
        run: RunId,
        /// The events there are.
        head: Seq,
        /// The events the caller had seen.
        expected: Seq,
    },
    /// There is no such run.
    #[error("there is no run {0} in this journal")]
    NoSuchRun(RunId),
    /// The store cannot work now.
    #[error("the journal is unavailable: {0}")]
    Unavailable(String),
}

/// Why events could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no such run.
    #[error("there is no run {0} in this journal")]
    NoSuchRun(RunId),
    /// The store cannot work now.
    #[error("the journal is unavailable: {0}")]
    Unavailable(String),
}

/// Keeps the facts of runs.
pub trait Journal: Send + Sync + 'static {
    /// Creates a run. When it answers `Ok`, the run is as durable as the store promises.
    fn create(&self, run: NewRun) -> BoxFuture<'_, Result<(), CreateError>>;

    /// Appends events after `expected`, all or none, and answers the new last place.
    fn append<'a>(
        &'a self,
        fence: &'a Fence,
        expected: Seq,
        events: Vec<Recorded>,
    ) -> BoxFuture<'a, Result<Seq, AppendError>>;

    /// At most `limit` events after `after`, oldest first.
    fn read(&self, run: RunId, after: Seq, limit: usize) -> BoxFuture<'_, Result<Vec<Recorded>, ReadError>>;

    /// Says that a run has ended, so that a store may drop or archive it by its retention.
    fn release<'a>(&'a self, fence: &'a Fence) -> BoxFuture<'a, Result<(), AppendError>>;
}
