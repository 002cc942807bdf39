//! The store in a PostgreSQL database, for the workers of many machines. The server has the clock,
//! the locks and the copies; nothing here elects, replicates or trusts the time of a client.

mod link;
mod notes;
mod outages;
mod runs;
mod schema;
mod tree;
mod value;
mod wakes;
mod workers;
mod writer;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dauntless_contract::{
    Alarm, AppendError, BlobHash, BoxFuture, ChildRun, Claim, ClaimFilter, CreateError, Fence, Journal,
    JournalError, LateResult, Letter, ListQuery, NewRun, Outage, Pad, Posted, ReadError, Recorded, Release,
    RunCounts, RunId, RunMeta, Seq, SharedJournal, Snapshot, WorkerInfo,
};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::AbortHandle;
use uuid::Uuid;

use link::{Connector, Link};
use writer::Append;

use crate::Trouble;
use crate::stored::{BLOB_BYTES_MAX, NOTE_BYTES_MAX, bounded, encode_batch, encode_new, encode_record};

/// Where the database is.
#[derive(Clone)]
pub struct PostgresConfig {
    url: Box<str>,
    root_certificates: Option<Box<[u8]>>,
}

impl PostgresConfig {
    /// Takes `postgresql://user:password@host/database?sslmode=require`, or the form of pairs,
    /// `host=… user=…`. Without an `sslmode`, TLS is used where the server has it, and its
    /// certificate is always checked.
    pub fn new(url: &str) -> Self {
        Self { url: url.into(), root_certificates: None }
    }

    /// Believes these certificates, in PEM, in place of those of the system.
    #[must_use]
    pub fn root_certificates(mut self, pem: impl Into<Box<[u8]>>) -> Self {
        self.root_certificates = Some(pem.into());
        self
    }
}

/// Without the address, which may hold a password.
impl fmt::Debug for PostgresConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresConfig").finish_non_exhaustive()
    }
}

/// A journal in a PostgreSQL database, version 15 or newer.
///
/// An answer of `Ok` to a write means that the server's disk has it, and its synchronous copies if
/// it has any. A handle has at most four connections, however many runs it drives; they must not go
/// through a pool that shares sessions. To be used inside of a tokio runtime.
pub struct Postgres {
    appends: mpsc::Sender<Append>,
    /// Renewals and claims, behind nothing large.
    control: Link,
    /// All but appends and what keeps the worker alive.
    work: Link,
    connector: Connector,
    worker: Mutex<Option<Worker>>,
    woken: Arc<Notify>,
}

#[derive(Clone, Debug)]
struct Worker {
    incarnation: Uuid,
    name: Arc<str>,
    listener: AbortHandle,
    /// Claims whose answer was lost with a connection.
    unanswered: Arc<Mutex<Vec<Uuid>>>,
}

impl Worker {
    fn unanswered(&self) -> MutexGuard<'_, Vec<Uuid>> {
        self.unanswered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Postgres {
    /// Connects, and brings the schema up to date.
    ///
    /// # Errors
    /// [`JournalError::Fatal`] for settings, a server or a schema that cannot be worked with, and
    /// [`JournalError::Unavailable`] when the server does not answer.
    pub async fn connect(config: PostgresConfig) -> Result<Self, JournalError> {
        let connector = Connector::new(&config)?;
        let mut client = connector.session().await.map_err(Trouble::from)?;
        schema::migrate(&mut client).await?;
        let link = || Link::new(connector.clone());
        Ok(Self {
            appends: writer::start(link()),
            control: link(),
            work: link(),
            worker: Mutex::new(None),
            woken: Arc::new(Notify::new()),
            connector,
        })
    }

    fn worker(&self) -> Option<Worker> {
        self.worker.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn append_stored(
        &self,
        fence: &Fence,
        expected: Seq,
        events: Vec<Recorded>,
        letters: Vec<Arc<str>>,
    ) -> Result<Seq, AppendError> {
        let events = encode_batch(&events)?;
        if events.is_empty() {
            return writer::check(&self.work, fence, expected).await;
        }
        let (reply, answer) = oneshot::channel();
        let append = Append { fence: *fence, expected, events, letters, id: Uuid::new_v4(), reply };
        let gone = || AppendError::Unavailable("the writer has stopped".into());
        self.appends.send(append).await.map_err(|_| gone())?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    async fn register_worker(&self, info: WorkerInfo) -> Result<(), JournalError> {
        let incarnation = Uuid::new_v4();
        workers::register(&self.control, incarnation, &info).await?;
        let listener = wakes::listen(self.connector.clone(), Arc::clone(&self.woken));
        let worker = Worker { incarnation, name: info.name, listener, unanswered: Arc::default() };
        let before = self.worker.lock().unwrap_or_else(PoisonError::into_inner).replace(worker);
        if let Some(before) = before {
            before.listener.abort();
        }
        Ok(())
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("worker", &self.worker()).finish_non_exhaustive()
    }
}

/// Its worker is dead to the others when its ttl has passed.
impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(worker) = self.worker() {
            worker.listener.abort();
        }
    }
}

impl Journal for Postgres {
    fn create(&self, run: NewRun) -> BoxFuture<'_, Result<(), CreateError>> {
        Box::pin(async move {
            let first = encode_new(&run)?;
            let worker = self.worker().map(|worker| worker.incarnation);
            runs::create(&self.work, &run, &first, worker).await
        })
    }

    fn append<'a>(
        &'a self,
        fence: &'a Fence,
        expected: Seq,
        events: Vec<Recorded>,
    ) -> BoxFuture<'a, Result<Seq, AppendError>> {
        Box::pin(self.append_stored(fence, expected, events, Vec::new()))
    }

    fn read(&self, run: RunId, after: Seq, limit: usize) -> BoxFuture<'_, Result<Vec<Recorded>, ReadError>> {
        Box::pin(runs::read(&self.work, run, after, limit))
    }

    fn release<'a>(&'a self, fence: &'a Fence, next: Release) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(async move { runs::release(&self.work, fence, &next).await })
    }
}

impl SharedJournal for Postgres {
    fn register(&self, worker: WorkerInfo) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(self.register_worker(worker))
    }

    fn renew(&self) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            let Worker { incarnation, name, .. } = self.worker().ok_or(JournalError::NotRegistered)?;
            let renewed = workers::renew(&self.control, incarnation).await?;
            if renewed { Ok(()) } else { Err(JournalError::LeaseLost(name)) }
        })
    }

    fn claim(&self, want: usize, filter: ClaimFilter) -> BoxFuture<'_, Result<Vec<Claim>, JournalError>> {
        Box::pin(async move {
            let me = self.worker().ok_or(JournalError::NotRegistered)?;
            workers::claim(&self.control, &me, want, &filter).await
        })
    }

    fn append_taking<'a>(
        &'a self,
        fence: &'a Fence,
        expected: Seq,
        events: Vec<Recorded>,
        letters: Vec<Arc<str>>,
    ) -> BoxFuture<'a, Result<Seq, AppendError>> {
        Box::pin(self.append_stored(fence, expected, events, letters))
    }

    fn put_snapshot<'a>(
        &'a self,
        fence: &'a Fence,
        snapshot: Snapshot,
    ) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(async move { runs::put_snapshot(&self.work, fence, &snapshot).await })
    }

    fn snapshot(
        &self,
        run: RunId,
        fold_version: u32,
    ) -> BoxFuture<'_, Result<Option<Snapshot>, JournalError>> {
        Box::pin(notes::snapshot(&self.work, run, fold_version))
    }

    fn send(&self, run: RunId, letter: Letter) -> BoxFuture<'_, Result<bool, JournalError>> {
        Box::pin(async move {
            bounded("a letter", letter.body.len(), NOTE_BYTES_MAX, "bytes")?;
            notes::send(&self.work, run, &letter).await
        })
    }

    fn post(
        &self,
        run: RunId,
        letter: Letter,
        unread_max: usize,
    ) -> BoxFuture<'_, Result<Posted, JournalError>> {
        Box::pin(async move {
            bounded("a letter", letter.body.len(), NOTE_BYTES_MAX, "bytes")?;
            tree::post(&self.work, run, &letter, unread_max).await
        })
    }

    fn letters(&self, run: RunId) -> BoxFuture<'_, Result<Vec<Letter>, JournalError>> {
        Box::pin(notes::letters(&self.work, run))
    }

    fn with_news(&self) -> BoxFuture<'_, Result<Vec<RunId>, JournalError>> {
        Box::pin(async move {
            let me = self.worker().ok_or(JournalError::NotRegistered)?;
            workers::with_news(&self.control, me.incarnation).await
        })
    }

    fn put_late_result(&self, late: LateResult) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            let body = encode_record(&late.record)?;
            notes::put_late_result(&self.work, &late, &body).await
        })
    }

    fn late_results(&self, run: RunId) -> BoxFuture<'_, Result<Vec<LateResult>, JournalError>> {
        Box::pin(notes::late_results(&self.work, run))
    }

    fn put_blob(&self, run: RunId, bytes: Arc<[u8]>) -> BoxFuture<'_, Result<BlobHash, JournalError>> {
        Box::pin(async move {
            bounded("a blob", bytes.len(), BLOB_BYTES_MAX, "bytes")?;
            notes::put_blob(&self.work, run, &bytes).await
        })
    }

    fn blob(&self, hash: BlobHash) -> BoxFuture<'_, Result<Option<Arc<[u8]>>, JournalError>> {
        Box::pin(notes::blob(&self.work, hash))
    }

    fn tell_outage(&self, dependency: Arc<str>, lasts: Duration) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move { outages::tell(&self.work, &dependency, lasts).await })
    }

    fn outages(&self) -> BoxFuture<'_, Result<Vec<Outage>, JournalError>> {
        Box::pin(outages::all(&self.work))
    }

    fn pad(&self, root: RunId) -> BoxFuture<'_, Result<Option<Pad>, JournalError>> {
        Box::pin(tree::pad(&self.work, root))
    }

    fn put_pad(
        &self,
        root: RunId,
        expected: u64,
        body: Arc<[u8]>,
    ) -> BoxFuture<'_, Result<bool, JournalError>> {
        Box::pin(async move {
            bounded("a pad", body.len(), NOTE_BYTES_MAX, "bytes")?;
            tree::put_pad(&self.work, root, expected, &body).await
        })
    }

    fn reopen(&self, run: RunId) -> BoxFuture<'_, Result<bool, JournalError>> {
        Box::pin(workers::reopen(&self.work, run))
    }

    fn list(&self, query: ListQuery) -> BoxFuture<'_, Result<Vec<RunMeta>, JournalError>> {
        Box::pin(workers::list(&self.work, query))
    }

    fn children(&self, parent: RunId) -> BoxFuture<'_, Result<Vec<ChildRun>, JournalError>> {
        Box::pin(tree::children(&self.work, parent))
    }

    fn counts(&self, filter: ClaimFilter) -> BoxFuture<'_, Result<RunCounts, JournalError>> {
        Box::pin(async move { workers::counts(&self.work, &filter).await })
    }

    fn alarms(&self, patience: Duration) -> BoxFuture<'_, Result<Vec<Alarm>, JournalError>> {
        Box::pin(workers::alarms(&self.work, patience))
    }

    fn drop_ended(&self, kept: Duration, runs_max: usize) -> BoxFuture<'_, Result<usize, JournalError>> {
        Box::pin(notes::drop_ended(&self.work, kept, runs_max))
    }

    fn woken(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.woken.notified())
    }
}
