//! What workers need to share the runs of one journal: who drives which, who takes over, and what
//! reaches a run from outside. It says who *may* try; that nobody writes who may not is the fence's.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{
    Alarm, AppendError, BoxFuture, CallKey, CallRecord, Fence, Journal, ListQuery, Recorded, RunCounts,
    RunId, RunMeta, RunState, Seq, Timestamp, TooLarge,
};

/// A worker, as it introduces itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerInfo {
    /// Its name, unique among the workers of the journal.
    pub name: Arc<str>,
    /// Where it runs, for the operator.
    pub host: Arc<str>,
    /// How long after its last renewal it counts as dead, in a store that cannot see it die.
    pub ttl: Duration,
}

/// Which runs a worker takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimFilter {
    /// The versions of code it has; none is any.
    pub code_versions: Option<Vec<Arc<str>>>,
    /// Only runs that have a parent. So a worker that drives as many runs as it can still takes those
    /// that its own wait for.
    pub children_only: bool,
    /// Only this run.
    pub only: Option<RunId>,
}

/// A run that the caller owns from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The right to append.
    pub fence: Fence,
    /// The last event there is.
    pub head: Seq,
    /// How often it was claimed since it last [got on](crate::RunEvent::moves), this time included.
    pub attempts: u32,
    /// The time of the last event.
    pub last_at: Timestamp,
    /// How long ago the store took the last event, by the store's clock.
    pub since_last: Duration,
    /// Which code the run needs.
    pub code_version: Arc<str>,
    /// The blob that holds its configuration.
    pub config: Option<BlobHash>,
}

impl Claim {
    /// The time at which the run goes on: never before its last event, and without the difference
    /// between the clocks of two machines. From there its own clock counts on.
    pub fn resumes_at(&self) -> Timestamp {
        self.last_at + self.since_last
    }
}

/// The SHA-256 of a blob.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobHash(pub [u8; 32]);

impl fmt::Display for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Reads what [`Display`](fmt::Display) writes.
impl std::str::FromStr for BlobHash {
    type Err = NotAHash;

    fn from_str(text: &str) -> Result<Self, NotAHash> {
        let mut bytes = [0; 32];
        if text.len() != 2 * bytes.len() || !text.is_ascii() {
            return Err(NotAHash);
        }
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| NotAHash)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| NotAHash)?;
        }
        Ok(Self(bytes))
    }
}

/// A text is no hash of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the hash of a blob has 64 hexadecimal digits")]
pub struct NotAHash;

impl fmt::Debug for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The folded state of a run up to an event, so that resuming reads only what came after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The last event in it.
    pub seq: Seq,
    /// The version of the fold; another version folds again instead.
    pub fold_version: u32,
    /// The state, in the caller's own form.
    pub body: Arc<[u8]>,
}

/// A message to a run from outside: of a user, an approval, a cancel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// The sender's name for it; the same name twice is one letter.
    pub id: Arc<str>,
    /// The content, in the caller's own form.
    pub body: Arc<[u8]>,
}

/// What became of a letter that is left only where there is room for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// It is there.
    New,
    /// One of that id was there before.
    Again,
    /// It was not left: too many are unread.
    Full,
    /// It was not left: the run has ended.
    Ended,
}

/// A run that another one started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildRun {
    /// The run.
    pub run: RunId,
    /// The name of its agent.
    pub agent: Arc<str>,
    /// Where it stands.
    pub state: RunState,
}

/// What the runs of one tree keep together, under their root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pad {
    /// How often it was written.
    pub version: u64,
    /// The content, in the caller's own form.
    pub body: Arc<[u8]>,
}

/// What a call came to after its run had been taken over.
#[derive(Clone, Debug, PartialEq)]
pub struct LateResult {
    /// The run.
    pub run: RunId,
    /// The call.
    pub call: CallKey,
    /// The epoch of the owner that had started it.
    pub epoch: u64,
    /// How it ended.
    pub record: CallRecord,
}

/// A dependency that takes no calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// The tool or the model, as it is configured.
    pub dependency: Arc<str>,
    /// For how long from now, by the store's clock.
    pub lasts: Duration,
}

/// Why a journal could not do what was asked. Nothing of it was done, where it does not say else.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The handle has no worker.
    #[error("no worker is registered at this handle of the journal: register before claiming")]
    NotRegistered,
    /// The worker was given up or replaced. It drives nothing any more.
    #[error("worker `{0}` has lost its lease: stop driving its runs and register again")]
    LeaseLost(Arc<str>),
    /// A living worker has that name.
    #[error("a worker named `{0}` is alive: give each worker a name of its own")]
    NameTaken(Arc<str>),
    /// There is no such run.
    #[error("there is no run {0} in this journal")]
    NoSuchRun(RunId),
    /// It is larger than the store takes.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// The store cannot work now. Whether it did what was asked is not known.
    #[error("the journal is unavailable: {0}")]
    Unavailable(String),
    /// This process can no longer trust the store. End it; another resumes the runs.
    #[error("the journal failed and this process must end: {0}")]
    Fatal(String),
}

/// A journal whose runs are shared by workers. One handle is one worker, once it is registered.
pub trait SharedJournal: Journal {
    /// Makes this handle a worker. A name whose worker is dead, or cannot be shown to live, passes
    /// to this one, and so do that worker's runs: they can be claimed.
    fn register(&self, worker: WorkerInfo) -> BoxFuture<'_, Result<(), JournalError>>;

    /// Shows that the worker lives. To be called every third of its ttl. After an error the worker
    /// may go on only as long as its own clock allows.
    fn renew(&self) -> BoxFuture<'_, Result<(), JournalError>>;

    /// Takes over at most `want` runs that wait or whose worker died, the longest waiting first. A
    /// run that was claimed five times without getting on is put in quarantine instead.
    ///
    /// Not cancel safe: a claim that is dropped before its end may own runs that nobody drives until
    /// the worker ends. Await it in a task that is not stopped.
    fn claim(&self, want: usize, filter: ClaimFilter) -> BoxFuture<'_, Result<Vec<Claim>, JournalError>>;

    /// Appends like [`Journal::append`] and marks the letters that the events take in, all or none.
    fn append_taking<'a>(
        &'a self,
        fence: &'a Fence,
        expected: Seq,
        events: Vec<Recorded>,
        letters: Vec<Arc<str>>,
    ) -> BoxFuture<'a, Result<Seq, AppendError>>;

    /// Keeps a snapshot, and the one before it.
    fn put_snapshot<'a>(
        &'a self,
        fence: &'a Fence,
        snapshot: Snapshot,
    ) -> BoxFuture<'a, Result<(), AppendError>>;

    /// The newest snapshot of this fold.
    fn snapshot(
        &self,
        run: RunId,
        fold_version: u32,
    ) -> BoxFuture<'_, Result<Option<Snapshot>, JournalError>>;

    /// Leaves a letter for a run. Needs no fence. `false` when one of that id was there.
    fn send(&self, run: RunId, letter: Letter) -> BoxFuture<'_, Result<bool, JournalError>>;

    /// Leaves a letter like [`send`](Self::send), but not for a run that has ended or has
    /// `unread_max` letters that no event has taken in. Letters that are left at the same moment may
    /// each find the last room.
    fn post(
        &self,
        run: RunId,
        letter: Letter,
        unread_max: usize,
    ) -> BoxFuture<'_, Result<Posted, JournalError>>;

    /// The letters that no event has taken in, oldest first.
    fn letters(&self, run: RunId) -> BoxFuture<'_, Result<Vec<Letter>, JournalError>>;

    /// The runs of this handle's worker that have letters which no event has taken in: at most 1024,
    /// the longest waiting first. Costs what there is unread, not what there are runs.
    fn with_news(&self) -> BoxFuture<'_, Result<Vec<RunId>, JournalError>>;

    /// Keeps what a call came to although its run has another owner. Needs no fence. The first
    /// result of a call and an epoch stays.
    fn put_late_result(&self, late: LateResult) -> BoxFuture<'_, Result<(), JournalError>>;

    /// The late results of a run, in the order of calls and epochs.
    fn late_results(&self, run: RunId) -> BoxFuture<'_, Result<Vec<LateResult>, JournalError>>;

    /// Keeps bytes for as long as the run is kept. Equal bytes are stored once.
    fn put_blob(&self, run: RunId, bytes: Arc<[u8]>) -> BoxFuture<'_, Result<BlobHash, JournalError>>;

    /// The bytes of that hash.
    fn blob(&self, hash: BlobHash) -> BoxFuture<'_, Result<Option<Arc<[u8]>>, JournalError>>;

    /// The pad of a tree; none while nothing was written.
    fn pad(&self, root: RunId) -> BoxFuture<'_, Result<Option<Pad>, JournalError>>;

    /// Writes the pad of a tree anew, if it is still at the expected version (0 for none), which then
    /// counts up. `false` when it is not; and when a repetition after a broken connection finds its
    /// own write. It is kept for as long as the root is.
    fn put_pad(
        &self,
        root: RunId,
        expected: u64,
        body: Arc<[u8]>,
    ) -> BoxFuture<'_, Result<bool, JournalError>>;

    /// Leaves word for the other workers and for later ones that a dependency takes no calls for so long;
    /// zero when it does again.
    fn tell_outage(&self, dependency: Arc<str>, lasts: Duration) -> BoxFuture<'_, Result<(), JournalError>>;

    /// The dependencies that take no calls, as far as workers left word, by name.
    fn outages(&self) -> BoxFuture<'_, Result<Vec<Outage>, JournalError>>;

    /// Makes a paused or quarantined run claimable again, with its count of claims at zero. `false`
    /// when it was neither.
    fn reopen(&self, run: RunId) -> BoxFuture<'_, Result<bool, JournalError>>;

    /// Runs and all that decides what may happen to them, ordered by id.
    fn list(&self, query: ListQuery) -> BoxFuture<'_, Result<Vec<RunMeta>, JournalError>>;

    /// One run and all that decides what may happen to it; none where there is no such run.
    fn meta(&self, run: RunId) -> BoxFuture<'_, Result<Option<RunMeta>, JournalError>> {
        Box::pin(async move {
            let after = run.as_u128().checked_sub(1).map(RunId::from_u128);
            let found = self.list(ListQuery { state: None, root: None, after, limit: 1 }).await?;
            Ok(found.into_iter().next().filter(|meta| meta.run == run))
        })
    }

    /// The runs whose parent this one is, in the order of their creation, with their agents.
    fn children(&self, parent: RunId) -> BoxFuture<'_, Result<Vec<ChildRun>, JournalError>>;

    /// How many runs stand where; the code versions of `filter` are those of the asking worker.
    fn counts(&self, filter: ClaimFilter) -> BoxFuture<'_, Result<RunCounts, JournalError>>;

    /// What an operator should see to. A transaction of somebody else counts once it has been open
    /// for longer than `patience`.
    fn alarms(&self, patience: Duration) -> BoxFuture<'_, Result<Vec<Alarm>, JournalError>>;

    /// Drops at most `runs_max` runs that ended longer ago than `kept`, with all that belongs to
    /// them, and answers how many; one call does no more than a slice. Call again until it answers none.
    fn drop_ended(&self, kept: Duration, runs_max: usize) -> BoxFuture<'_, Result<usize, JournalError>>;

    /// Waits until a run may have become claimable. A hint that can be late, lost or wrong: poll as
    /// well.
    fn woken(&self) -> BoxFuture<'_, ()>;
}
