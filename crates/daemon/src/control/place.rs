//! Where the sockets of one user are, and whether that is a place to trust.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::ControlError;

/// Others may neither look into the folder nor put a socket of theirs there.
const PRIVATE: u32 = 0o700;
const OTHERS: u32 = 0o077;

/// The folder that the sockets of this user are in.
///
/// `runtime_dir` is the user's own folder, `XDG_RUNTIME_DIR`, where there is one. Otherwise it is a
/// folder with the user's number in its name, below `temp_dir`. Needs a running tokio runtime.
///
/// # Errors
/// The system does not tell who the user is.
pub fn directory(runtime_dir: Option<&Path>, temp_dir: &Path) -> io::Result<PathBuf> {
    match runtime_dir {
        Some(runtime_dir) => Ok(runtime_dir.join("dauntless")),
        None => Ok(temp_dir.join(format!("dauntless-{}", user()?))),
    }
}

/// The socket of a process in a folder of sockets.
pub fn socket_of(directory: &Path, pid: u32) -> PathBuf {
    directory.join(format!("{pid}.sock"))
}

/// The user that this process acts as: the one that its own sockets come from.
pub(super) fn user() -> io::Result<u32> {
    let (one, _other) = tokio::net::UnixStream::pair()?;
    Ok(one.peer_cred()?.uid())
}

/// Makes the folder, open to its owner alone.
pub(super) fn prepare(directory: &Path) -> Result<(), ControlError> {
    match DirBuilder::new().mode(PRIVATE).create(directory) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => is_private(directory).map(drop),
        Err(error) => Err(ControlError::new(directory, error)),
    }
}

/// Whether the folder is there. One that others may write into, or own, is refused.
pub(super) fn is_private(directory: &Path) -> Result<bool, ControlError> {
    let refuse = |why: String| Err(ControlError::new(directory, why));
    let found = match fs::symlink_metadata(directory) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return refuse(error.to_string()),
    };
    let user = user().map_err(|error| ControlError::new(directory, error))?;
    if !found.is_dir() {
        refuse("it is no folder".to_owned())
    } else if found.uid() != user {
        refuse(format!("it belongs to user {}, not to user {user}", found.uid()))
    } else if found.mode() & OTHERS != 0 {
        refuse("other users can open it; make it private with `chmod 700`".to_owned())
    } else {
        Ok(true)
    }
}
