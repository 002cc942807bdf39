//! The store in one file, for all workers of one machine. It needs no server: the system's locks
//! say who lives and who writes next. It does not reach over a network.

mod file;
mod lane;
mod liveness;
mod notes;
mod outages;
mod runs;
mod tree;
mod value;
mod workers;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use dauntless_contract::{
    Alarm, AppendError, BlobHash, BoxFuture, ChildRun, Claim, ClaimFilter, CreateError, Fence, Journal,
    JournalError, LateResult, Letter, ListQuery, NewRun, Outage, Pad, Posted, ReadError, Recorded, Release,
    RunCounts, RunId, RunMeta, Seq, SharedJournal, Snapshot, WorkerInfo,
};
use rusqlite::Connection;
use tokio::sync::Notify;
use uuid::Uuid;

pub use file::OpenError;
use lane::Lane;
use liveness::Life;
use runs::Owner;

use crate::Trouble;
use crate::stored::{
    BLOB_BYTES_MAX, NOTE_BYTES_MAX, StoredEvent, bounded, encode_batch, encode_new, encode_record,
    encode_snapshot,
};

/// Threads that read, so that one long page does not hold up the next.
const READERS: usize = 2;

/// A journal in an SQLite file.
///
/// An answer of `Ok` to a write means that the disk has it. Any number of processes of one machine
/// may open the same file; each handle has one thread that writes and two that read. After a failed
/// write of the disk the handle only answers `Fatal`: end the process and start it again.
#[derive(Debug)]
pub struct Sqlite {
    database: Arc<Path>,
    writer: Lane,
    readers: [Lane; READERS],
    next_reader: AtomicUsize,
    worker: Mutex<Option<Worker>>,
    /// Claims may find something; this handle's own changes only.
    woken: Notify,
}

#[derive(Debug)]
struct Worker {
    owner: Owner,
    _life: Life,
}

impl Sqlite {
    /// Opens the file, or creates it. Blocks for as long as another process brings it up to date.
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong and what to do about it.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, OpenError> {
        let database: Arc<Path> = path.into().into();
        let baton = file::open_baton(&database)?;
        let connection = file::open_writer(&database, &baton)?;
        let broken = Arc::new(OnceLock::new());
        let thread = |source| OpenError::File { path: database.to_path_buf(), source };
        let writer = Lane::writer(connection, baton, Arc::clone(&broken)).map_err(thread)?;
        let reader = || Lane::reader(file::open_reader(&database)?, Arc::clone(&broken)).map_err(thread);
        let readers = [reader()?, reader()?];
        let (next_reader, worker, woken) = (AtomicUsize::new(0), Mutex::new(None), Notify::new());
        Ok(Self { database, writer, readers, next_reader, worker, woken })
    }

    async fn write<T: Send + 'static, E: From<Trouble> + Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce(&Connection) -> rusqlite::Result<Result<T, E>> + Send + 'static,
    ) -> Result<T, E> {
        self.writer.run(bytes, work).await?
    }

    async fn look<T: Send + 'static, E: From<Trouble> + Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<Result<T, E>> + Send + 'static,
    ) -> Result<T, E> {
        let next = self.next_reader.fetch_add(1, Ordering::Relaxed) % READERS;
        let reader = self.readers.get(next).unwrap_or(&self.writer);
        reader.run(0, work).await?
    }

    fn owner(&self) -> Option<Owner> {
        let worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        worker.as_ref().map(|worker| worker.owner.clone())
    }

    async fn append_stored(
        &self,
        fence: &Fence,
        expected: Seq,
        events: Vec<Recorded>,
        letters: Vec<Arc<str>>,
    ) -> Result<Seq, AppendError> {
        let (fence, events) = (*fence, encode_batch(&events)?);
        self.write(bytes_of(&events), move |db| runs::append(db, &fence, expected, &events, &letters)).await
    }

    async fn register_worker(&self, info: WorkerInfo) -> Result<(), JournalError> {
        let incarnation: Arc<str> = Uuid::new_v4().to_string().into();
        let life = Life::begin(&self.database, &incarnation).map_err(|error| {
            JournalError::Unavailable(format!("cannot make the lock of a worker: {error}"))
        })?;
        let owner = Owner { incarnation: Arc::clone(&incarnation), name: Arc::clone(&info.name) };
        let database = Arc::clone(&self.database);
        drop(self.worker.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.write(0, move |db| workers::register(db, &database, &incarnation, &info)).await?;
        *self.worker.lock().unwrap_or_else(PoisonError::into_inner) = Some(Worker { owner, _life: life });
        Ok(())
    }
}

fn bytes_of(events: &[StoredEvent]) -> usize {
    events.iter().map(|event| event.body.len()).sum()
}

impl Journal for Sqlite {
    fn create(&self, run: NewRun) -> BoxFuture<'_, Result<(), CreateError>> {
        Box::pin(async move {
            let first = encode_new(&run)?;
            let config_bytes = run.config.as_ref().map_or(0, |config| config.len());
            let (owner, bytes) = (self.owner(), first.body.len() + config_bytes);
            self.write(bytes, move |db| runs::create(db, &run, &first, owner.as_ref())).await?;
            self.woken.notify_one();
            Ok(())
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
        Box::pin(self.look(move |db| runs::read(db, run, after, limit)))
    }

    fn release<'a>(&'a self, fence: &'a Fence, next: Release) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(async move {
            let fence = *fence;
            self.write(0, move |db| runs::release(db, &fence, &next)).await?;
            self.woken.notify_one();
            Ok(())
        })
    }
}

impl SharedJournal for Sqlite {
    fn register(&self, worker: WorkerInfo) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(self.register_worker(worker))
    }

    fn renew(&self) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            let owner = self.owner().ok_or(JournalError::NotRegistered)?;
            self.look(move |db| {
                let known = workers::is_registered(db, &owner)?;
                Ok(if known { Ok(()) } else { Err(JournalError::LeaseLost(owner.name)) })
            })
            .await
        })
    }

    fn claim(&self, want: usize, filter: ClaimFilter) -> BoxFuture<'_, Result<Vec<Claim>, JournalError>> {
        Box::pin(async move {
            let owner = self.owner().ok_or(JournalError::NotRegistered)?;
            let database = Arc::clone(&self.database);
            self.write(0, move |db| workers::claim(db, &database, &owner, want, &filter)).await
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
        Box::pin(async move {
            let (fence, body) = (*fence, encode_snapshot(&snapshot.body)?);
            let Snapshot { seq, fold_version, .. } = snapshot;
            self.write(body.len(), move |db| runs::put_snapshot(db, &fence, seq, fold_version, &body)).await
        })
    }

    fn snapshot(
        &self,
        run: RunId,
        fold_version: u32,
    ) -> BoxFuture<'_, Result<Option<Snapshot>, JournalError>> {
        Box::pin(self.look(move |db| notes::snapshot(db, run, fold_version)))
    }

    fn send(&self, run: RunId, letter: Letter) -> BoxFuture<'_, Result<bool, JournalError>> {
        Box::pin(async move {
            bounded("a letter", letter.body.len(), NOTE_BYTES_MAX, "bytes")?;
            self.write(letter.body.len(), move |db| notes::send(db, run, &letter)).await
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
            self.write(letter.body.len(), move |db| tree::post(db, run, &letter, unread_max)).await
        })
    }

    fn letters(&self, run: RunId) -> BoxFuture<'_, Result<Vec<Letter>, JournalError>> {
        Box::pin(self.look(move |db| notes::letters(db, run)))
    }

    fn with_news(&self) -> BoxFuture<'_, Result<Vec<RunId>, JournalError>> {
        Box::pin(async move {
            let owner = self.owner().ok_or(JournalError::NotRegistered)?;
            self.look(move |db| workers::with_news(db, &owner).map(Ok)).await
        })
    }

    fn put_late_result(&self, late: LateResult) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            let body = encode_record(&late.record)?;
            self.write(body.len(), move |db| notes::put_late_result(db, &late, &body)).await
        })
    }

    fn late_results(&self, run: RunId) -> BoxFuture<'_, Result<Vec<LateResult>, JournalError>> {
        Box::pin(self.look(move |db| notes::late_results(db, run)))
    }

    fn put_blob(&self, run: RunId, bytes: Arc<[u8]>) -> BoxFuture<'_, Result<BlobHash, JournalError>> {
        Box::pin(async move {
            bounded("a blob", bytes.len(), BLOB_BYTES_MAX, "bytes")?;
            self.write(bytes.len(), move |db| notes::put_blob(db, run, &bytes)).await
        })
    }

    fn blob(&self, hash: BlobHash) -> BoxFuture<'_, Result<Option<Arc<[u8]>>, JournalError>> {
        Box::pin(self.look(move |db| notes::blob(db, hash).map(Ok)))
    }

    fn tell_outage(&self, dependency: Arc<str>, lasts: Duration) -> BoxFuture<'_, Result<(), JournalError>> {
        let bytes = dependency.len();
        Box::pin(self.write(bytes, move |db| outages::tell(db, &dependency, lasts).map(Ok)))
    }

    fn outages(&self) -> BoxFuture<'_, Result<Vec<Outage>, JournalError>> {
        Box::pin(self.look(|db| outages::all(db).map(Ok)))
    }

    fn pad(&self, root: RunId) -> BoxFuture<'_, Result<Option<Pad>, JournalError>> {
        Box::pin(self.look(move |db| tree::pad(db, root)))
    }

    fn put_pad(
        &self,
        root: RunId,
        expected: u64,
        body: Arc<[u8]>,
    ) -> BoxFuture<'_, Result<bool, JournalError>> {
        Box::pin(async move {
            bounded("a pad", body.len(), NOTE_BYTES_MAX, "bytes")?;
            self.write(body.len(), move |db| tree::put_pad(db, root, expected, &body)).await
        })
    }

    fn reopen(&self, run: RunId) -> BoxFuture<'_, Result<bool, JournalError>> {
        Box::pin(async move {
            let reopened = self.write(0, move |db| workers::reopen(db, run)).await?;
            self.woken.notify_one();
            Ok(reopened)
        })
    }

    fn list(&self, query: ListQuery) -> BoxFuture<'_, Result<Vec<RunMeta>, JournalError>> {
        Box::pin(self.look(move |db| workers::list(db, query).map(Ok)))
    }

    fn children(&self, parent: RunId) -> BoxFuture<'_, Result<Vec<ChildRun>, JournalError>> {
        Box::pin(self.look(move |db| tree::children(db, parent).map(Ok)))
    }

    fn counts(&self, filter: ClaimFilter) -> BoxFuture<'_, Result<RunCounts, JournalError>> {
        let database = Arc::clone(&self.database);
        Box::pin(self.look(move |db| workers::counts(db, &database, &filter).map(Ok)))
    }

    fn alarms(&self, _: Duration) -> BoxFuture<'_, Result<Vec<Alarm>, JournalError>> {
        let database = Arc::clone(&self.database);
        Box::pin(self.look(move |_| Ok(Ok(file::alarm(&database).into_iter().collect()))))
    }

    fn drop_ended(&self, kept: Duration, runs_max: usize) -> BoxFuture<'_, Result<usize, JournalError>> {
        Box::pin(self.write(0, move |db| notes::drop_ended(db, kept, runs_max).map(Ok)))
    }

    fn woken(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.woken.notified())
    }
}

#[cfg(test)]
mod tests;
