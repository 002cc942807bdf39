//! One process, from its start to the end of everything it started.
//!
//! The process belongs to a task of its own and not to the call, because it must be looked after
//! when the call is gone: whoever drops the call has given the process up, not taken it over.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::maybe_done;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::reaper::{Group, ProcessReaper};
use crate::excerpt::Excerpt;

/// How long the pipes are still read when the process has ended but others hold them open.
const PIPES_DRAIN: Duration = Duration::from_millis(200);

/// How a process ended and what it wrote.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) stdout: Excerpt,
    pub(super) stderr: Excerpt,
}

/// What goes into a process and how much of what comes out is kept.
pub(super) struct Exchange {
    /// What the process reads, if its standard input is a pipe.
    pub(super) input: String,
    pub(super) stdout: Excerpt,
    pub(super) stderr: Excerpt,
}

struct Pipes {
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
}

/// Starts a process inside a tokio runtime. Dropping the receiver gives it up: it is ended.
pub(super) fn start(
    command: &mut Command,
    exchange: Exchange,
    reaper: &Arc<ProcessReaper>,
    stop_grace: Duration,
) -> io::Result<oneshot::Receiver<io::Result<Ended>>> {
    let mut group = Group::start(command, Arc::clone(reaper))?;
    let leader = group.leader();
    let pipes =
        Pipes { stdin: leader.stdin.take(), stdout: leader.stdout.take(), stderr: leader.stderr.take() };
    let (report, receiver) = oneshot::channel();
    tokio::spawn(keep(group, pipes, exchange, report, stop_grace));
    Ok(receiver)
}

/// Feeds and reads the process until it ends or is given up; ends what is left of its group.
async fn keep(
    mut group: Group,
    pipes: Pipes,
    exchange: Exchange,
    mut report: oneshot::Sender<io::Result<Ended>>,
    stop_grace: Duration,
) {
    let Exchange { input, mut stdout, mut stderr } = exchange;
    let status = {
        let mut flow = pin!(maybe_done(async {
            tokio::join!(
                feed(pipes.stdin, &input),
                read(pipes.stdout, &mut stdout),
                read(pipes.stderr, &mut stderr)
            );
        }));
        tokio::select! {
            status = group.leader_exited() => {
                // Whoever still holds a pipe after this is not waited for.
                drop(timeout(PIPES_DRAIN, flow).await);
                status
            }
            () = report.closed() => {
                // A closed pipe would kill a process that says a word while it cleans up.
                tokio::select! {
                    () = group.end(stop_grace) => {}
                    never = on_the_side(flow) => match never {},
                }
                return;
            }
            never = on_the_side(flow.as_mut()) => match never {},
        }
    };
    // The call may be gone in this very moment; then nobody wants to know.
    drop(report.send(status.map(|status| Ended { status, stdout, stderr })));
    if !group.is_empty() {
        group.end(stop_grace).await;
    }
}

/// Keeps work going beside something else, and never ends: pipes closed early end no process.
async fn on_the_side(work: impl Future<Output = ()>) -> Infallible {
    work.await;
    std::future::pending().await
}

async fn feed(stdin: Option<ChildStdin>, input: &str) {
    let Some(mut stdin) = stdin else { return };
    // A program that does not read to the end has its reasons; its exit code tells.
    drop(stdin.write_all(input.as_bytes()).await);
}

async fn read(pipe: Option<impl AsyncRead + Unpin>, into: &mut Excerpt) {
    let Some(mut pipe) = pipe else { return };
    let mut buffer = Vec::with_capacity(8 * 1024);
    while matches!(pipe.read_buf(&mut buffer).await, Ok(1..)) {
        into.push(&buffer);
        buffer.clear();
    }
}
