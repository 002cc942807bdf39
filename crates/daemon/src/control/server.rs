//! The end of the process that runs.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{BreakerSwitch, Clock, DependencyKind, Timestamp};
use dauntless_runtime::SystemClock;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use super::{
    ANSWER_WITHIN, Answer, ControlError, ProcessStatus, QUESTION_BYTES_MAX, Question, client, place,
};
use crate::wiring::{Agent, App, Runtime};

/// Connections that are answered at once; a further one waits.
const CONNECTIONS_MAX: usize = 8;
/// How long to leave the socket alone when it does not give a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Only the owner may connect.
const OWNER_ONLY: u32 = 0o600;

/// The open socket of this process. Dropping it closes and removes it.
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
    task: AbortHandle,
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.task.abort();
        let _ = fs::remove_file(&self.path);
    }
}

impl ControlSocket {
    /// Opens the socket of this process in the folder of its user, which is made if need be, and
    /// removes those of processes that ended without doing so.
    ///
    /// # Errors
    /// [`ControlError`], when the folder is not private or the system refuses.
    pub async fn open_in(app: &App, directory: &Path) -> Result<Self, ControlError> {
        place::prepare(directory)?;
        for path in client::sockets(directory)? {
            if !client::is_alive(&path).await {
                let _ = fs::remove_file(&path);
            }
        }
        Self::open(app, &place::socket_of(directory, std::process::id())).await
    }

    /// Opens the socket at a path of the operator's choice, in a folder that is there.
    ///
    /// # Errors
    /// [`ControlError`], when something else is there, another process listens there, or the system
    /// refuses.
    pub async fn open(app: &App, path: &Path) -> Result<Self, ControlError> {
        match fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(ControlError::new(path, "there is a file that is no socket"));
            }
            Ok(_) if client::is_alive(path).await => {
                return Err(ControlError::new(path, "another process listens there"));
            }
            Ok(_) | Err(_) => {}
        }
        let failed = |error: io::Error| ControlError::new(path, error);
        let desk = Desk::new(app).map_err(failed)?;
        let listener = listen(path).map_err(failed)?;
        let task = tokio::spawn(serve(listener, Arc::new(desk))).abort_handle();
        Ok(Self { path: path.to_owned(), task })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The socket gets its name once it listens and is private, so nobody finds it before.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let unnamed = path.with_file_name(format!(".{}.new", std::process::id()));
    let _ = fs::remove_file(&unnamed);
    let listener = UnixListener::bind(&unnamed)?;
    let named = fs::set_permissions(&unnamed, Permissions::from_mode(OWNER_ONLY))
        .and_then(|()| fs::rename(&unnamed, path));
    named.inspect_err(|_| drop(fs::remove_file(&unnamed)))?;
    Ok(listener)
}

async fn serve(listener: UnixListener, desk: Arc<Desk>) {
    let mut visits = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let desk = Arc::clone(&desk);
                visits.spawn(async move { timeout(ANSWER_WITHIN, desk.receive(stream)).await });
            }
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
        while visits.try_join_next().is_some() {}
        if visits.len() >= CONNECTIONS_MAX {
            visits.join_next().await;
        }
    }
}

/// What the answers are made from.
struct Desk {
    runtime: Runtime,
    agents: Vec<Agent>,
    user: u32,
    clock: SystemClock,
    since: Timestamp,
}

impl Desk {
    fn new(app: &App) -> io::Result<Self> {
        let clock = SystemClock::new();
        Ok(Self {
            runtime: app.runtime().clone(),
            agents: app.agents().cloned().collect(),
            user: place::user()?,
            since: clock.now(),
            clock,
        })
    }

    async fn receive(&self, mut stream: UnixStream) -> io::Result<()> {
        let visitor = stream.peer_cred()?.uid();
        let mut line = Vec::new();
        BufReader::new(&mut stream).take(QUESTION_BYTES_MAX).read_until(b'\n', &mut line).await?;
        if line.is_empty() {
            // Whoever wanted to know whether somebody listens.
            return Ok(());
        }
        let answer = match visitor {
            0 => self.answer(&line).await,
            visitor if visitor == self.user => self.answer(&line).await,
            visitor => refused(format!("this process belongs to user {}, not to {visitor}", self.user)),
        };
        let mut line = serde_json::to_vec(&answer)?;
        line.push(b'\n');
        stream.write_all(&line).await?;
        stream.shutdown().await
    }

    async fn answer(&self, line: &[u8]) -> Answer {
        if !line.ends_with(b"\n") {
            return refused(format!("a question is one line of at most {QUESTION_BYTES_MAX} bytes"));
        }
        match serde_json::from_slice(line) {
            Ok(Question::Status) => Answer::Status(self.status().await),
            Ok(Question::Switch { tool, to }) => self.switch(&tool, to).await,
            Err(error) => {
                let version = env!("CARGO_PKG_VERSION");
                refused(format!("Dauntless {version} does not understand this question: {error}"))
            }
        }
    }

    async fn status(&self) -> ProcessStatus {
        let at = self.clock.now();
        ProcessStatus {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            at,
            up: at.since(self.since),
            tools: self.runtime.statuses().await,
        }
    }

    /// Agents share their tools, so the first that has it stands for all.
    async fn switch(&self, name: &str, to: BreakerSwitch) -> Answer {
        for agent in &self.agents {
            if self.runtime.switch_breaker(agent, name, to).await.is_ok()
                && let Ok(tool) = self.runtime.tool_status(agent, name).await
            {
                tracing::warn!(dependency = name, ?to, "an operator switched the breaker");
                return Answer::Switched { tool: Box::new(tool) };
            }
        }
        let known = self.runtime.statuses().await;
        let (tools, models): (Vec<_>, Vec<_>) =
            known.into_iter().partition(|status| status.kind == DependencyKind::Tool);
        if models.iter().any(|model| &*model.name == name) {
            return refused(format!("`{name}` is a model; only tools are switched"));
        }
        let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
        refused(match names.as_slice() {
            [] => format!("there is no tool `{name}`: this process has no tools"),
            names => format!("there is no tool `{name}`; this process has: {}", names.join(", ")),
        })
    }
}

fn refused(why: String) -> Answer {
    Answer::Refused { why }
}
