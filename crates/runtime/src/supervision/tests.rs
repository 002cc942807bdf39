//! The shell against real actors. The order of decisions is tested where they are made, in `core`;
//! here it is that they are carried out: starts, stops and kills, and the proof that a child is gone.

mod endings;
mod otp;
mod stops;
mod storm;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef};
use tokio::time::Instant;

use super::*;

const MS: Duration = Duration::from_millis(1);
const SEC: Duration = Duration::from_secs(1);

/// What the actors of one test share.
#[derive(Default)]
struct Lab {
    log: Mutex<Vec<String>>,
    alive: Mutex<BTreeSet<Arc<str>>>,
    broken: Mutex<BTreeSet<&'static str>>,
    changed: tokio::sync::Notify,
}

impl Lab {
    fn new() -> Arc<Self> {
        Arc::default()
    }

    fn note(&self, line: String) {
        self.log.lock().unwrap().push(line);
        self.changed.notify_waiters();
    }

    fn seen(&self) -> String {
        std::mem::take(&mut *self.log.lock().unwrap()).join(", ")
    }

    fn alive(&self) -> usize {
        self.alive.lock().unwrap().len()
    }

    fn broken(&self, id: &'static str, broken: bool) {
        let mut set = self.broken.lock().unwrap();
        if broken {
            set.insert(id)
        } else {
            set.remove(id)
        };
    }

    /// A child whose actor stops at once.
    fn child(self: &Arc<Self>, id: &'static str) -> ChildSpec {
        self.slow_child(id, Duration::ZERO)
    }

    /// A child whose actor takes its time to stop.
    fn slow_child(self: &Arc<Self>, id: &'static str, stopping: Duration) -> ChildSpec {
        let lab = Arc::clone(self);
        ChildSpec::new(id, move |supervisor| {
            let args = ProbeArgs { id: id.into(), stopping, lab: Arc::clone(&lab) };
            Actor::spawn_linked(None, Probe, args, supervisor)
        })
    }

    /// Until so many lines are in the log.
    async fn lines(&self, count: usize) {
        loop {
            let changed = self.changed.notified();
            if self.log.lock().unwrap().len() >= count {
                return;
            }
            changed.await;
        }
    }
}

/// Asserts that no other incarnation of the same child lives, until it is dropped.
struct Alive {
    id: Arc<str>,
    lab: Arc<Lab>,
}

impl Alive {
    fn new(id: &Arc<str>, lab: &Arc<Lab>) -> Self {
        let first = lab.alive.lock().unwrap().insert(Arc::clone(id));
        assert!(first, "two incarnations of `{id}` at once");
        Self { id: Arc::clone(id), lab: Arc::clone(lab) }
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.lab.alive.lock().unwrap().remove(&self.id);
        self.lab.note(format!("{} gone", self.id));
    }
}

struct Probe;

#[derive(Clone)]
struct ProbeArgs {
    id: Arc<str>,
    stopping: Duration,
    lab: Arc<Lab>,
}

struct ProbeState {
    args: ProbeArgs,
    _alive: Alive,
}

enum Do {
    Panic,
    Fail,
    GiveUp,
    Sleep(Duration),
    Block(Duration),
    Unlink(ActorCell),
    Nothing(tokio::sync::oneshot::Sender<()>),
}

#[derive(Debug, thiserror::Error, PartialEq)]
#[error("quota of {0} used up")]
struct QuotaUsedUp(u32);

impl Actor for Probe {
    type Msg = Do;
    type State = ProbeState;
    type Arguments = ProbeArgs;

    async fn pre_start(&self, _: ActorRef<Do>, args: ProbeArgs) -> Result<ProbeState, ActorProcessingErr> {
        let alive = Alive::new(&args.id, &args.lab);
        if args.lab.broken.lock().unwrap().contains(&*args.id) {
            args.lab.note(format!("{} broken", args.id));
            return Err(Box::new(QuotaUsedUp(7)));
        }
        args.lab.note(format!("{} up", args.id));
        Ok(ProbeState { args, _alive: alive })
    }

    async fn handle(&self, me: ActorRef<Do>, msg: Do, _: &mut ProbeState) -> Result<(), ActorProcessingErr> {
        match msg {
            Do::Panic => panic!("boom"),
            Do::Fail => return Err(Box::new(QuotaUsedUp(1))),
            Do::GiveUp => return Err(Box::new(Terminal::new(QuotaUsedUp(2)))),
            Do::Sleep(time) => tokio::time::sleep(time).await,
            Do::Block(time) => std::thread::sleep(time),
            Do::Unlink(supervisor) => me.get_cell().unlink(supervisor),
            Do::Nothing(reply) => drop(reply.send(())),
        }
        Ok(())
    }

    async fn post_stop(&self, _: ActorRef<Do>, state: &mut ProbeState) -> Result<(), ActorProcessingErr> {
        tokio::time::sleep(state.args.stopping).await;
        state.args.lab.note(format!("{} stopped", state.args.id));
        Ok(())
    }
}

async fn info(supervisor: &SupervisorHandle, id: &str) -> ChildInfo {
    let children = supervisor.which_children().await.unwrap();
    children.into_iter().find(|child| &*child.id == id).unwrap_or_else(|| panic!("no child {id}"))
}

async fn cell(supervisor: &SupervisorHandle, id: &str) -> ActorCell {
    info(supervisor, id).await.cell.unwrap_or_else(|| panic!("{id} has no actor"))
}

async fn tell(supervisor: &SupervisorHandle, id: &str, what: Do) {
    cell(supervisor, id).await.send_message(what).unwrap_or_else(|_| panic!("{id} is gone"));
}

/// Until a child runs for the `starts`-th time.
async fn started(supervisor: &SupervisorHandle, id: &str, starts: u64) {
    loop {
        let info = info(supervisor, id).await;
        if info.starts >= starts && info.state == ChildState::Running {
            return;
        }
        tokio::time::sleep(MS).await;
    }
}

async fn down(supervisor: &SupervisorHandle, id: &str) {
    while info(supervisor, id).await.state != ChildState::Down {
        tokio::time::sleep(MS).await;
    }
}
