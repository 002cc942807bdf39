//! The store that forgets when the process ends. It takes and refuses exactly what the durable
//! ones do, so that what was tested on it holds on them; it gives no promise beyond its process.

mod runs;
mod state;
mod tree;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dauntless_contract::{
    Alarm, AppendError, BlobHash, BoxFuture, ChildRun, Claim, ClaimFilter, CreateError, Fence, Journal,
    JournalError, LateResult, Letter, ListQuery, NewRun, Outage, Pad, Posted, ReadError, Recorded, Release,
    RunCounts, RunId, RunMeta, Seq, SharedJournal, Snapshot, WorkerInfo,
};

use runs::{Inner, Shared};

/// Keeps runs in memory: all that are under way, and the last few that have ended.
///
/// A worker of it is dead when its handle is dropped or its ttl has passed without a renewal.
#[derive(Debug)]
pub struct Memory {
    shared: Arc<Shared>,
    /// The worker of this handle.
    worker: Mutex<Option<(u64, Arc<str>)>>,
    /// The wakes that this handle has been told of.
    seen: AtomicU64,
}

impl Memory {
    /// A store that keeps the last `ended_runs_max` ended runs for reading.
    pub fn new(ended_runs_max: usize) -> Self {
        let shared = Shared { inner: Mutex::new(Inner::new(ended_runs_max)), wakes: Mutex::default() };
        Self { shared: Arc::new(shared), worker: Mutex::new(None), seen: AtomicU64::new(0) }
    }

    /// Another handle on the same runs, for another worker.
    #[must_use]
    pub fn handle(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), worker: Mutex::new(None), seen: AtomicU64::new(0) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.shared.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn worker(&self) -> Option<(u64, Arc<str>)> {
        self.worker.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn register_now(&self, worker: WorkerInfo) {
        let name = Arc::clone(&worker.name);
        let number = self.inner().register(worker);
        *self.worker.lock().unwrap_or_else(PoisonError::into_inner) = Some((number, name));
    }
}

/// Keeps the last 256 ended runs.
impl Default for Memory {
    fn default() -> Self {
        Self::new(256)
    }
}

/// The runs of its worker can be claimed from now on.
impl Drop for Memory {
    fn drop(&mut self) {
        if let Some((worker, _)) = self.worker() {
            self.inner().forget_worker(worker);
            self.shared.wake();
        }
    }
}

fn now<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, T> {
    Box::pin(std::future::ready(value))
}

impl Journal for Memory {
    fn create(&self, run: NewRun) -> BoxFuture<'_, Result<(), CreateError>> {
        let created = self.inner().create(run, self.worker().map(|(worker, _)| worker));
        self.shared.wake();
        now(created)
    }

    fn append<'a>(
        &'a self,
        fence: &'a Fence,
        expected: Seq,
        events: Vec<Recorded>,
    ) -> BoxFuture<'a, Result<Seq, AppendError>> {
        self.append_taking(fence, expected, events, Vec::new())
    }

    fn read(&self, run: RunId, after: Seq, limit: usize) -> BoxFuture<'_, Result<Vec<Recorded>, ReadError>> {
        now(self.inner().read(run, after, limit))
    }

    fn release<'a>(&'a self, fence: &'a Fence, next: Release) -> BoxFuture<'a, Result<(), AppendError>> {
        let released = self.inner().release(fence, next);
        self.shared.wake();
        now(released)
    }
}

impl SharedJournal for Memory {
    fn register(&self, worker: WorkerInfo) -> BoxFuture<'_, Result<(), JournalError>> {
        self.register_now(worker);
        now(Ok(()))
    }

    fn renew(&self) -> BoxFuture<'_, Result<(), JournalError>> {
        let Some((worker, name)) = self.worker() else { return now(Err(JournalError::NotRegistered)) };
        now(if self.inner().renew(worker) { Ok(()) } else { Err(JournalError::LeaseLost(name)) })
    }

    fn claim(&self, want: usize, filter: ClaimFilter) -> BoxFuture<'_, Result<Vec<Claim>, JournalError>> {
        let Some((worker, name)) = self.worker() else { return now(Err(JournalError::NotRegistered)) };
        now(self.inner().claim(worker, want, &filter).ok_or(JournalError::LeaseLost(name)))
    }

    fn append_taking<'a>(
        &'a self,
        fence: &'a Fence,
        expected: Seq,
        events: Vec<Recorded>,
        letters: Vec<Arc<str>>,
    ) -> BoxFuture<'a, Result<Seq, AppendError>> {
        now(self.inner().append(fence, expected, events, &letters))
    }

    fn put_snapshot<'a>(
        &'a self,
        fence: &'a Fence,
        snapshot: Snapshot,
    ) -> BoxFuture<'a, Result<(), AppendError>> {
        now(self.inner().put_snapshot(fence, snapshot))
    }

    fn snapshot(
        &self,
        run: RunId,
        fold_version: u32,
    ) -> BoxFuture<'_, Result<Option<Snapshot>, JournalError>> {
        now(self.inner().snapshot(run, fold_version))
    }

    fn send(&self, run: RunId, letter: Letter) -> BoxFuture<'_, Result<bool, JournalError>> {
        now(self.inner().send(run, letter))
    }

    fn post(
        &self,
        run: RunId,
        letter: Letter,
        unread_max: usize,
    ) -> BoxFuture<'_, Result<Posted, JournalError>> {
        now(self.inner().post(run, letter, unread_max))
    }

    fn letters(&self, run: RunId) -> BoxFuture<'_, Result<Vec<Letter>, JournalError>> {
        now(self.inner().letters(run))
    }

    fn with_news(&self) -> BoxFuture<'_, Result<Vec<RunId>, JournalError>> {
        let Some((worker, _)) = self.worker() else { return now(Err(JournalError::NotRegistered)) };
        now(Ok(self.inner().with_news(worker)))
    }

    fn put_late_result(&self, late: LateResult) -> BoxFuture<'_, Result<(), JournalError>> {
        now(self.inner().put_late_result(late))
    }

    fn late_results(&self, run: RunId) -> BoxFuture<'_, Result<Vec<LateResult>, JournalError>> {
        now(self.inner().late_results(run))
    }

    fn put_blob(&self, run: RunId, bytes: Arc<[u8]>) -> BoxFuture<'_, Result<BlobHash, JournalError>> {
        now(self.inner().put_blob(run, bytes))
    }

    fn blob(&self, hash: BlobHash) -> BoxFuture<'_, Result<Option<Arc<[u8]>>, JournalError>> {
        now(Ok(self.inner().blob(hash)))
    }

    fn tell_outage(&self, dependency: Arc<str>, lasts: Duration) -> BoxFuture<'_, Result<(), JournalError>> {
        self.inner().tell_outage(dependency, lasts);
        now(Ok(()))
    }

    fn outages(&self) -> BoxFuture<'_, Result<Vec<Outage>, JournalError>> {
        now(Ok(self.inner().outages()))
    }

    fn pad(&self, root: RunId) -> BoxFuture<'_, Result<Option<Pad>, JournalError>> {
        now(self.inner().pad(root))
    }

    fn put_pad(
        &self,
        root: RunId,
        expected: u64,
        body: Arc<[u8]>,
    ) -> BoxFuture<'_, Result<bool, JournalError>> {
        now(self.inner().put_pad(root, expected, body))
    }

    fn reopen(&self, run: RunId) -> BoxFuture<'_, Result<bool, JournalError>> {
        let reopened = self.inner().reopen(run);
        self.shared.wake();
        now(reopened)
    }

    fn list(&self, query: ListQuery) -> BoxFuture<'_, Result<Vec<RunMeta>, JournalError>> {
        now(Ok(self.inner().list(query)))
    }

    fn children(&self, parent: RunId) -> BoxFuture<'_, Result<Vec<ChildRun>, JournalError>> {
        now(Ok(self.inner().children(parent)))
    }

    fn counts(&self, filter: ClaimFilter) -> BoxFuture<'_, Result<RunCounts, JournalError>> {
        now(Ok(self.inner().counts(&filter)))
    }

    fn alarms(&self, _: Duration) -> BoxFuture<'_, Result<Vec<Alarm>, JournalError>> {
        now(Ok(Vec::new()))
    }

    fn drop_ended(&self, kept: Duration, runs_max: usize) -> BoxFuture<'_, Result<usize, JournalError>> {
        now(Ok(self.inner().drop_ended(kept, runs_max)))
    }

    fn woken(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.shared.woken(&self.seen))
    }
}
