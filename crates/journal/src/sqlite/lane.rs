//! Threads that own a connection each. The writer commits whatever waits in one transaction and
//! answers only when the disk has it; readers run one short statement at a time.
//!
//! A failed write of the disk is never repeated: what the disk then holds is unknown, so the lane
//! stays shut until a new process has recovered the file.

use std::fs::File;
use std::sync::{Arc, OnceLock};

use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use crate::Trouble;

/// Pieces of work that wait before whoever brings more has to.
const WAITING_MAX: usize = 1024;
/// What one commit takes at most.
const COMMIT_WORKS_MAX: usize = 1024;
const COMMIT_BYTES_MAX: usize = 4 << 20;

/// Why no lane of a handle works any more, once one has found a reason.
pub(super) type Broken = Arc<OnceLock<String>>;

type Settle = Box<dyn FnOnce(Result<(), Trouble>) + Send>;
type Work = Box<dyn FnOnce(&Connection) -> (rusqlite::Result<()>, Settle) + Send>;

struct Job {
    bytes: usize,
    work: Work,
}

/// A thread with a connection and the work that waits for it.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    jobs: mpsc::Sender<Job>,
    broken: Broken,
}

impl Lane {
    /// Starts the thread that writes.
    pub(super) fn writer(connection: Connection, baton: File, broken: Broken) -> std::io::Result<Self> {
        Self::start("journal-writer", broken, move |jobs, broken| write_all(connection, &baton, jobs, broken))
    }

    /// Starts a thread that reads.
    pub(super) fn reader(connection: Connection, broken: Broken) -> std::io::Result<Self> {
        Self::start("journal-reader", broken, move |jobs, broken| read_all(&connection, jobs, broken))
    }

    fn start(
        name: &str,
        broken: Broken,
        serve: impl FnOnce(mpsc::Receiver<Job>, &OnceLock<String>) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (jobs, waiting) = mpsc::channel(WAITING_MAX);
        let mine = Arc::clone(&broken);
        std::thread::Builder::new().name(name.into()).spawn(move || serve(waiting, &mine))?;
        Ok(Self { jobs, broken })
    }

    /// Does a piece of work on the thread and answers when it is settled. `bytes` is about what it
    /// writes.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Trouble> {
        let (reply, answer) = oneshot::channel();
        let work: Work = Box::new(move |connection| {
            let (done, value) = match work(connection) {
                Ok(value) => (Ok(()), Some(value)),
                Err(error) => (Err(error), None),
            };
            let settle: Settle = Box::new(move |end| {
                let end = end.and_then(|()| value.ok_or_else(|| Trouble::Unavailable("no answer".into())));
                let _ = reply.send(end);
            });
            (done, settle)
        });
        self.jobs.send(Job { bytes, work }).await.map_err(|_| self.trouble())?;
        answer.await.unwrap_or_else(|_| Err(self.trouble()))
    }

    /// Why no answer came.
    fn trouble(&self) -> Trouble {
        match self.broken.get() {
            Some(reason) => Trouble::Fatal(reason.clone()),
            None => Trouble::Unavailable("a write of the same commit failed; try again".into()),
        }
    }
}

fn write_all(
    mut connection: Connection,
    baton: &File,
    mut jobs: mpsc::Receiver<Job>,
    broken: &OnceLock<String>,
) {
    while let Some(first) = jobs.blocking_recv() {
        if broken.get().is_some() {
            continue;
        }
        let mut settles = Vec::new();
        let committed = commit(&mut connection, baton, gather(first, &mut jobs), &mut settles);
        let end = committed.map_err(|error| error.trouble());
        if let Err(Trouble::Fatal(reason)) = &end {
            let _ = broken.set(reason.clone());
        }
        for settle in settles {
            settle(end.clone());
        }
    }
}

/// The work that waits, as much as one commit takes.
fn gather(first: Job, jobs: &mut mpsc::Receiver<Job>) -> Vec<Work> {
    let mut bytes = first.bytes;
    let mut batch = vec![first.work];
    while batch.len() < COMMIT_WORKS_MAX
        && bytes < COMMIT_BYTES_MAX
        && let Ok(job) = jobs.try_recv()
    {
        bytes += job.bytes;
        batch.push(job.work);
    }
    batch
}

/// Does the work and makes it durable, all or none.
fn commit(
    connection: &mut Connection,
    baton: &File,
    batch: Vec<Work>,
    settles: &mut Vec<Settle>,
) -> Result<(), WriteError> {
    baton.lock().map_err(WriteError::Baton)?;
    let written = (|| {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for work in batch {
            let (done, settle) = work(&transaction);
            settles.push(settle);
            done?;
        }
        transaction.commit()
    })();
    baton.unlock().map_err(WriteError::Baton)?;
    written.map_err(WriteError::Engine)
}

fn read_all(connection: &Connection, mut jobs: mpsc::Receiver<Job>, broken: &OnceLock<String>) {
    while let Some(job) = jobs.blocking_recv() {
        let (done, settle) = (job.work)(connection);
        let end = done.map_err(|error| WriteError::Engine(error).trouble());
        if let Err(Trouble::Fatal(reason)) = &end {
            let _ = broken.set(reason.clone());
        }
        settle(end);
    }
}

enum WriteError {
    Baton(std::io::Error),
    Engine(rusqlite::Error),
}

impl WriteError {
    fn trouble(&self) -> Trouble {
        match self {
            Self::Baton(error) => {
                Trouble::Fatal(format!("the lock that writers take in turn failed: {error}"))
            }
            Self::Engine(error) if is_fatal(error) => Trouble::Fatal(error.to_string()),
            Self::Engine(error) => Trouble::Unavailable(error.to_string()),
        }
    }
}

/// Whether the disk or the file can no longer be trusted.
fn is_fatal(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    code.is_some_and(|code| {
        use ErrorCode::{CannotOpen, DatabaseCorrupt, DiskFull, NotADatabase, ReadOnly, SystemIoFailure};
        matches!(code, SystemIoFailure | DiskFull | DatabaseCorrupt | NotADatabase | ReadOnly | CannotOpen)
    })
}
