//! Setting up a supervisor.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dauntless_core::supervision::{
    AutoShutdown, ChildKey, RestartPolicy, Strategy, SupervisorMachine, SupervisorRules,
};
use ractor::{ActorCell, ActorRef, ActorRuntime};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::actor::{SupervisorActor, SupervisorMsg};
use super::child::{ChildSpec, Nested, Started};
use super::error::StartError;
use super::handle::SupervisorHandle;
use super::shell::ShellArgs;
use crate::id;

/// A supervisor; see [the module](super).
#[derive(Debug)]
pub struct Supervisor(());

impl Supervisor {
    /// One for one, 5 restarts in 60 s, no children yet.
    pub fn builder() -> SupervisorBuilder {
        SupervisorBuilder { rules: SupervisorRules::default(), children: Vec::new(), seed: None }
    }
}

/// Sets up a [`Supervisor`].
#[derive(Clone, Debug)]
#[must_use = "a supervisor starts with `start`"]
pub struct SupervisorBuilder {
    rules: SupervisorRules,
    children: Vec<ChildSpec>,
    seed: Option<u64>,
}

type Ready = oneshot::Receiver<Result<(), StartError>>;

impl SupervisorBuilder {
    /// Whose end concerns whom.
    pub const fn strategy(mut self, strategy: Strategy) -> Self {
        self.rules.strategy = strategy;
        self
    }

    /// How many restarts, of all children together, are granted in which time.
    pub const fn intensity(mut self, restarts: u32, period: Duration) -> Self {
        self.rules.restarts.intensity = restarts;
        self.rules.restarts.period = period;
        self
    }

    /// How many restarts are granted, and how fast.
    pub const fn restarts(mut self, policy: RestartPolicy) -> Self {
        self.rules.restarts = policy;
        self
    }

    /// Whether the end of a significant child ends the supervisor.
    pub const fn auto_shutdown(mut self, auto_shutdown: AutoShutdown) -> Self {
        self.rules.auto_shutdown = auto_shutdown;
        self
    }

    /// A child; children start in the order in which they are given, each when the one before runs.
    pub fn child(mut self, child: ChildSpec) -> Self {
        self.children.push(child);
        self
    }

    /// Seeds the jitter of restarts, so that a test repeats exactly.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Starts the supervisor at the top of a tree; resolves when every child runs.
    ///
    /// # Errors
    /// [`StartError`], when rules contradict each other or a child does not start. Those before it
    /// are stopped, and gone when this returns.
    ///
    /// # Cancel safety
    /// Dropping the future stops what was started.
    pub async fn start(self) -> Result<SupervisorHandle, StartError> {
        self.run(None).await
    }

    /// Starts the supervisor under an actor of your own, which hears of its end as of any child's.
    ///
    /// Under another [`Supervisor`], use [`ChildSpec::supervisor`].
    ///
    /// # Errors
    /// As [`start`](Self::start); also when the actor above is ending.
    pub async fn start_linked(self, parent: ActorCell) -> Result<SupervisorHandle, StartError> {
        self.run(Some(parent)).await
    }

    async fn run(self, parent: Option<ActorCell>) -> Result<SupervisorHandle, StartError> {
        let (handle, ready) = self.launch(parent)?;
        let mut unwanted = ShutdownOnDrop(Some(handle.actor.clone()));
        let started = ready.await.unwrap_or(Err(StartError::Stopped));
        if started.is_err() {
            handle.gone.cancelled().await;
        }
        unwanted.0 = None;
        started.map(|()| handle)
    }

    /// Starts the supervisor as a child, which is known from the first moment on.
    pub(super) fn spawn(self, parent: ActorCell) -> Result<Started, StartError> {
        let (handle, ready) = self.launch(Some(parent))?;
        let gone = handle.gone.clone();
        let task = tokio::spawn(async move { gone.cancelled().await });
        Ok(Started { cell: handle.cell(), task, nested: Some(Nested { handle, ready }) })
    }

    fn launch(self, parent: Option<ActorCell>) -> Result<(SupervisorHandle, Ready), StartError> {
        let keyed: Vec<(ChildKey, ChildSpec)> = (0..).map(ChildKey).zip(self.children).collect();
        let rules = keyed.iter().map(|(key, child)| (*key, child.rules.clone()));
        let period = self.rules.restarts.period;
        let machine = SupervisorMachine::new(self.rules, rules, self.seed.unwrap_or_else(id::seed))?;
        let (ready, is_ready) = oneshot::channel();
        let (ended, gone, keepers) =
            (Arc::new(OnceLock::new()), CancellationToken::new(), TaskTracker::new());
        let args = ShellArgs {
            machine,
            next: keyed.len() as u64,
            starts: keyed.into_iter().map(|(key, child)| (key, child.start)).collect(),
            period,
            parent,
            ready,
            ended: Arc::clone(&ended),
            keepers: keepers.clone(),
        };
        let (actor, running) =
            ActorRuntime::spawn_instant(None, SupervisorActor, args).map_err(|_| StartError::Stopped)?;
        let proof = gone.clone().drop_guard();
        tokio::spawn(async move {
            if let Ok(Ok(task)) = running.await {
                let _ = task.await;
            }
            // However the supervisor ended, its keepers are the proof that no child is left.
            keepers.close();
            keepers.wait().await;
            drop(proof);
        });
        Ok((SupervisorHandle { actor, ended, gone }, is_ready))
    }
}

/// A start that nobody waits for any more.
struct ShutdownOnDrop(Option<ActorRef<SupervisorMsg>>);

impl Drop for ShutdownOnDrop {
    fn drop(&mut self) {
        if let Some(actor) = self.0.take() {
            let _ = actor.send_message(SupervisorMsg::Shutdown);
        }
    }
}
