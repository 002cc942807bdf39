//! Ends processes, wholly.
//!
//! A command that is given up on must not go on writing files, and neither must what it started.
//! So each command leads a process group of its own, and the group is ended as a whole: SIGTERM,
//! then SIGKILL. A process that moves to a session of its own leaves the group and our reach.

use std::collections::BTreeMap;
use std::io;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, test_kill_process_group, waitpgid};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Pause between two looks whether a group is empty; nothing announces it.
const POLL_EVERY: Duration = Duration::from_millis(10);
/// How long SIGKILL may take to show. A process stuck in the kernel is left to the kernel.
const KILL_GRACE: Duration = Duration::from_secs(1);
/// How long the killed processes that are not ours may take to be reaped by whoever has to.
const REAP_GRACE: Duration = Duration::from_millis(50);

/// Knows every process group that commands have started, and sees to their end.
///
/// One serves all [`CommandTool`](crate::CommandTool)s of a process. Call
/// [`drain`](Self::drain) before the process ends, or [`kill_all`](Self::kill_all) if there is no
/// time left: groups that are merely dropped with the process live on.
#[derive(Debug, Default)]
pub struct ProcessReaper {
    /// By a number of our own, because the system reuses process ids.
    live: watch::Sender<BTreeMap<u64, Pid>>,
    next: AtomicU64,
    /// Held while a process starts and becomes known, so that none slips past a kill.
    gate: Mutex<Gate>,
}

/// Whether processes may start.
#[derive(Debug, Default)]
enum Gate {
    #[default]
    Open,
    Shut,
}

impl ProcessReaper {
    /// One that knows no groups yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Groups that have started and are not known to have ended.
    pub fn live(&self) -> usize {
        self.live.borrow().len()
    }

    /// Waits until all groups have ended, and kills those that have not `within` that time.
    ///
    /// Returns one second later at most. Call it when no further command can start: it waits for
    /// running commands, too.
    ///
    /// # Cancel safety
    /// Dropping it ends the waiting and nothing else.
    pub async fn drain(&self, within: Duration) {
        let mut live = self.live.subscribe();
        if timeout(within, live.wait_for(BTreeMap::is_empty)).await.is_err() {
            self.kill_all();
            // Whoever is left after this is stuck in the kernel.
            drop(timeout(KILL_GRACE, live.wait_for(BTreeMap::is_empty)).await);
        }
    }

    /// Sends SIGKILL to every group at once and does not wait. From then on nothing can start.
    pub fn kill_all(&self) {
        *self.gate.lock().unwrap_or_else(PoisonError::into_inner) = Gate::Shut;
        for group in self.live.borrow().values() {
            signal(*group, Signal::KILL);
        }
    }
}

/// A process group and its leader. Dropping it kills what still lives.
pub(super) struct Group {
    leader: Child,
    pid: Pid,
    id: u64,
    reaper: Arc<ProcessReaper>,
}

impl Group {
    /// Starts a process as the leader of a new group and takes charge of it.
    pub(super) fn start(command: &mut Command, reaper: Arc<ProcessReaper>) -> io::Result<Self> {
        let gate = reaper.gate.lock().unwrap_or_else(PoisonError::into_inner);
        if let Gate::Shut = *gate {
            return Err(io::Error::other("every command was killed, and none is started any more"));
        }
        let leader = command.process_group(0).kill_on_drop(true).spawn()?;
        let pid = leader.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        let pid = pid.ok_or_else(|| io::Error::other("the process has no id"))?;
        let id = reaper.next.fetch_add(1, Ordering::Relaxed);
        reaper.live.send_modify(|live| live.extend([(id, pid)]));
        drop(gate);
        Ok(Self { leader, pid, id, reaper })
    }

    /// The leader, for its pipes.
    pub(super) const fn leader(&mut self) -> &mut Child {
        &mut self.leader
    }

    /// Waits for the leader, so that it does not stay behind as a zombie. Cancel safe.
    pub(super) async fn leader_exited(&mut self) -> io::Result<ExitStatus> {
        self.leader.wait().await
    }

    /// Whether no process is left. Only to be asked once the leader has exited.
    pub(super) fn is_empty(&self) -> bool {
        // Where we are the first process of a container, orphans come to us and are ours to reap.
        while matches!(waitpgid(self.pid, WaitOptions::NOHANG), Ok(Some(_))) {}
        test_kill_process_group(self.pid).is_err_and(|error| error == Errno::SRCH)
    }

    /// Asks all processes to end, and kills those that have not within `stop_grace`.
    pub(super) async fn end(&mut self, stop_grace: Duration) {
        signal(self.pid, Signal::TERM);
        if timeout(stop_grace, self.emptied()).await.is_ok() {
            return;
        }
        tracing::debug!(group = self.pid.as_raw_pid(), "what is left after SIGTERM is killed");
        signal(self.pid, Signal::KILL);
        drop(timeout(KILL_GRACE, self.leader_exited()).await);
        drop(timeout(REAP_GRACE, self.emptied()).await);
    }

    async fn emptied(&mut self) {
        drop(self.leader_exited().await);
        while !self.is_empty() {
            sleep(POLL_EVERY).await;
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        signal(self.pid, Signal::KILL);
        self.reaper.live.send_modify(|live| live.retain(|id, _| *id != self.id));
    }
}

/// Signals a group. That it is gone already is no error: the system keeps its number while one
/// member lives, so no other group can be hit in its place.
fn signal(group: Pid, signal: Signal) {
    match kill_process_group(group, signal) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(error) => tracing::warn!(group = group.as_raw_pid(), %error, "a command cannot be signalled"),
    }
}
