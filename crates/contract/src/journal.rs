//! The journal port: where the facts of runs are kept.
//!
//! The truth about who drives a run is the [`Fence`] in each append, not a lease: whoever has not
//! seen the last event, or was replaced, cannot write. What several workers need to share runs is
//! beside it, in [`SharedJournal`](crate::SharedJournal).

use std::sync::Arc;
use std::time::Duration;

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
///
/// The worker that is registered at the journal's handle becomes the owner, with this fence. Made
/// through a handle without a worker, the run waits for whoever claims it.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// The right to append, made by the caller.
    pub fence: Fence,
    /// The first event.
    pub first: Recorded,
    /// The caller's own name for the run, unique in the journal: makes a repeated start harmless.
    pub client_key: Option<Arc<str>>,
    /// The name of its agent, for whoever looks at lists.
    pub agent: Arc<str>,
    /// The run that asked for this one.
    pub parent: Option<RunId>,
    /// The topmost run of its tree; none is the run itself.
    pub root: Option<RunId>,
    /// Which code the run needs; a worker claims runs of the versions that it names.
    pub code_version: Arc<str>,
    /// The configuration the run is pinned to, as its bytes; equal ones are stored once.
    pub config: Option<Arc<[u8]>>,
}

impl NewRun {
    /// A run of no parent, for any code, without a name, a key and a configuration.
    pub fn new(fence: Fence, first: Recorded) -> Self {
        Self {
            fence,
            first,
            client_key: None,
            agent: "".into(),
            parent: None,
            root: None,
            code_version: "".into(),
            config: None,
        }
    }
}

/// What becomes of a run when its owner lets go of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Release {
    /// Another worker may claim it, after a while.
    Ready {
        /// How long nobody may.
        after: Duration,
    },
    /// Nobody claims it until it is reopened.
    Paused {
        /// Why, for the operator.
        reason: Arc<str>,
    },
    /// It has ended. The store drops it by its retention.
    Ended {
        /// The stop reason.
        reason: Arc<str>,
    },
}

/// Something is larger than a store takes. Nothing of it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what} has {size} {unit}; the journal takes {max}: keep large content elsewhere and store a reference"
)]
pub struct TooLarge {
    /// What.
    pub what: &'static str,
    /// Its size.
    pub size: usize,
    /// The most there may be.
    pub max: usize,
    /// What is counted.
    pub unit: &'static str,
}

/// Why a stored event cannot be used by this program, or one cannot be stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventProblem {
    /// This program has no event of that kind; a newer one wrote it.
    #[error("`{0}` is no kind of event that this version knows")]
    UnknownKind(String),
    /// This program knows the kind, but not as late a version of it.
    #[error("`{kind}` is stored as version {version}, this program reads up to {newest}")]
    NewerVersion {
        /// The kind.
        kind: String,
        /// The stored version.
        version: u16,
        /// The newest that is known.
        newest: u16,
    },
    /// The content does not fit the kind.
    #[error("`{kind}` cannot be read: {problem}")]
    Malformed {
        /// The kind.
        kind: String,
        /// What is wrong.
        problem: String,
    },
    /// Its time is before that of the event before it.
    #[error("its time is {0:?} before that of the event before it")]
    Earlier(Duration),
}

/// Why a run could not be created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// There is one of that id or of that client key; this is its id.
    #[error("run {0} exists already; submit with another id")]
    Exists(RunId),
    /// It is larger than the store takes.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// The first event would not be readable.
    #[error("the first event is refused: {0}")]
    Invalid(EventProblem),
    /// The store cannot work now. Whether the run was created is not known: a repetition with the
    /// same client key, or the same id, tells.
    #[error("the journal is unavailable: {0}")]
    Unavailable(String),
    /// This process can no longer trust the store. End it; another resumes the runs.
    #[error("the journal failed and this process must end: {0}")]
    Fatal(String),
}

/// Why a write to a run was not made. But for `Ambiguous` and `Fatal`, nothing of it was.
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
    /// It is larger than the store takes.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// An event would not be readable, or is out of order.
    #[error("event {index} of the batch is refused: {problem}")]
    Invalid {
        /// Its place in the batch, counted from 0.
        index: usize,
        /// What is wrong.
        problem: EventProblem,
    },
    /// The connection broke while the store was writing, and it could not be asked in time. Stop
    /// driving the run; whoever claims it reads what was written.
    #[error("the journal did not say whether it wrote: {0}")]
    Ambiguous(String),
    /// The store cannot work now.
    #[error("the journal is unavailable: {0}")]
    Unavailable(String),
    /// This process can no longer trust the store. End it; another resumes the runs.
    #[error("the journal failed and this process must end: {0}")]
    Fatal(String),
}

/// Why events could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no such run.
    #[error("there is no run {0} in this journal")]
    NoSuchRun(RunId),
    /// An event is there and this program cannot use it. Pause the run with this as the reason.
    #[error("event {seq} of run {run}: {problem}")]
    Unreadable {
        /// The run.
        run: RunId,
        /// The event.
        seq: Seq,
        /// What is wrong.
        problem: EventProblem,
    },
    /// The store cannot work now.
    #[error("the journal is unavailable: {0}")]
    Unavailable(String),
    /// This process can no longer trust the store. End it; another resumes the runs.
    #[error("the journal failed and this process must end: {0}")]
    Fatal(String),
}

/// Keeps the facts of runs.
///
/// Every future may be dropped; what was asked for may then happen or not.
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

    /// At most `limit` events after `after`, oldest first. Holds nothing open between two pages; a
    /// store may answer with fewer than `limit` where there are more, but never with none.
    fn read(&self, run: RunId, after: Seq, limit: usize) -> BoxFuture<'_, Result<Vec<Recorded>, ReadError>>;

    /// Lets go of a run and says what becomes of it. The fence is worth nothing afterwards.
    fn release<'a>(&'a self, fence: &'a Fence, next: Release) -> BoxFuture<'a, Result<(), AppendError>>;
}
