//! The operator's end.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::{ANSWER_BYTES_MAX, ANSWER_WITHIN, Answer, ControlError, Question, place};

/// A process did not answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody listens there, or not any more: the process has ended.
    #[error("{}: nobody listens there", .0.display())]
    Gone(PathBuf),
    /// It took too long.
    #[error("{}: no answer within {} s", .0.display(), ANSWER_WITHIN.as_secs())]
    Silent(PathBuf),
    /// It may not be asked, or the connection broke.
    #[error("{}: {error}", .path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The answer is none that this version understands.
    #[error("{}: an answer that is not understood ({error}); is it of another version?", .path.display())]
    Odd {
        /// The socket.
        path: PathBuf,
        /// What the parser says.
        error: serde_json::Error,
    },
}

/// The sockets in a folder, by process id; also those of processes that ended without a goodbye.
///
/// # Errors
/// The folder cannot be read, or others could have put a socket there.
pub fn sockets(directory: &Path) -> Result<Vec<PathBuf>, ControlError> {
    if !place::is_private(directory)? {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(directory).map_err(|error| ControlError::new(directory, error))?;
    let pid = |path: &PathBuf| {
        let pid = path.file_name()?.to_str()?.strip_suffix(".sock")?;
        pid.parse::<u32>().ok()
    };
    let mut found: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| pid(path).is_some()).collect();
    found.sort_by_key(pid);
    Ok(found)
}

/// Asks the process that listens there.
///
/// # Errors
/// [`AskError`]. Whether a switch was heard is not known then; the status tells.
///
/// # Cancel safety
/// Dropping the future breaks the connection; the question may have been heard.
pub async fn ask(path: &Path, question: &Question) -> Result<Answer, AskError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound
        | io::ErrorKind::ConnectionRefused
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::UnexpectedEof => AskError::Gone(path.to_owned()),
        _ => AskError::Io { path: path.to_owned(), error },
    };
    let odd = |error| AskError::Odd { path: path.to_owned(), error };
    let mut line = serde_json::to_vec(question).map_err(odd)?;
    line.push(b'\n');
    let conversation = async {
        let mut stream = UnixStream::connect(path).await?;
        stream.write_all(&line).await?;
        let mut answer = Vec::new();
        BufReader::new(stream).take(ANSWER_BYTES_MAX).read_until(b'\n', &mut answer).await?;
        match answer.is_empty() {
            true => Err(io::ErrorKind::UnexpectedEof.into()),
            false => Ok(answer),
        }
    };
    // A moment more than the other side takes, so that its own word comes first.
    let answered = timeout(ANSWER_WITHIN * 2, conversation).await;
    let answer = answered.map_err(|_| AskError::Silent(path.to_owned()))?.map_err(failed)?;
    serde_json::from_slice(&answer).map_err(odd)
}

/// Whether somebody listens there.
pub(super) async fn is_alive(path: &Path) -> bool {
    let connected = timeout(ANSWER_WITHIN, UnixStream::connect(path)).await;
    !matches!(connected, Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused)
}
