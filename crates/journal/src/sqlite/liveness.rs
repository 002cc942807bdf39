//! Which workers of a file live: each holds a lock on a file of its own, and the system lets go of
//! it when the process ends, however it ends. There is no time in it, so no clock can be wrong.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use super::file::beside;

/// The lock of a worker that lives in this process.
#[derive(Debug)]
pub(super) struct Life {
    path: PathBuf,
    /// Closed when a program is started, so that no child keeps its parent alive.
    _lock: File,
}

impl Life {
    /// Begins the life of an incarnation that nobody knows yet.
    pub(super) fn begin(database: &Path, incarnation: &str) -> std::io::Result<Self> {
        let path = path_of(database, incarnation);
        let lock = File::options().create_new(true).write(true).open(&path)?;
        lock.lock()?;
        Ok(Self { path, _lock: lock })
    }
}

/// Ends it for all to see.
impl Drop for Life {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Whether an incarnation lives. What cannot be told is alive.
pub(super) fn lives(database: &Path, incarnation: &str) -> bool {
    match File::options().write(true).open(path_of(database, incarnation)) {
        Ok(file) => match file.try_lock() {
            Ok(()) => false,
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => true,
        },
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

/// Removes what a dead incarnation left.
pub(super) fn bury(database: &Path, incarnation: &str) {
    let _ = std::fs::remove_file(path_of(database, incarnation));
}

pub(super) fn path_of(database: &Path, incarnation: &str) -> PathBuf {
    beside(database, &format!("-worker-{incarnation}"))
}
