//! What an embedder says of a child, and what its start hands over.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::BoxFuture;
use dauntless_core::supervision::{ChildRules, Restart, Shutdown};
use ractor::{ActorCell, ActorProcessingErr, ActorRef, Message, SpawnErr};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::actor::SupervisorMsg;
use super::builder::SupervisorBuilder;
use super::error::StartError;
use super::handle::SupervisorHandle;

pub(super) type StartFn =
    Arc<dyn Fn(ActorCell) -> BoxFuture<'static, Result<Started, ActorProcessingErr>> + Send + Sync>;

/// A child that runs: its cell, and the task that ends when nothing of it is left.
///
/// ractor reports the end of an actor before it drops the actor's state. The task is what proves
/// that no code of the child runs any more, so that the next incarnation may start.
#[derive(Debug)]
pub struct Started {
    pub(super) cell: ActorCell,
    pub(super) task: JoinHandle<()>,
    pub(super) nested: Option<Nested>,
}

/// What a supervisor has beyond other children: it starts while it runs, and it stops in order.
#[derive(Debug)]
pub(super) struct Nested {
    pub(super) handle: SupervisorHandle,
    pub(super) ready: oneshot::Receiver<Result<(), StartError>>,
}

impl<M: Message> From<(ActorRef<M>, JoinHandle<()>)> for Started {
    fn from((actor, task): (ActorRef<M>, JoinHandle<()>)) -> Self {
        Self { cell: actor.get_cell(), task, nested: None }
    }
}

impl Started {
    /// Asks the child to stop.
    pub(super) fn ask_to_stop(&self) {
        if self.nested.is_none() || self.cell.send_message(SupervisorMsg::Shutdown).is_err() {
            self.cell.stop(Some("its supervisor stopped it".into()));
        }
    }
}

/// A child of a supervisor: how it is started, and what follows its end.
#[derive(Clone)]
pub struct ChildSpec {
    pub(super) rules: ChildRules,
    pub(super) start: StartFn,
}

impl std::fmt::Debug for ChildSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChildSpec").field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl ChildSpec {
    /// A permanent child that gets 5 s to stop.
    ///
    /// `start` gets the supervisor's cell, to link to. It is called for every start. Its last step
    /// should be to spawn the actor: when a child is stopped while it starts, the future is dropped,
    /// and what it has left behind by then is nobody's.
    pub fn new<F, Fut, S, E>(id: impl Into<Arc<str>>, start: F) -> Self
    where
        F: Fn(ActorCell) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<S, E>> + Send + 'static,
        S: Into<Started>,
        E: Into<ActorProcessingErr>,
    {
        Self { rules: ChildRules::worker(id), start: start_fn(start) }
    }

    /// A supervisor as a child: permanent, with all the time that its own children get.
    pub fn supervisor(
        id: impl Into<Arc<str>>,
        build: impl Fn() -> SupervisorBuilder + Send + Sync + 'static,
    ) -> Self {
        let start = start_fn(move |parent| std::future::ready(build().spawn(parent)));
        Self { rules: ChildRules::supervisor(id), start }
    }

    /// When it is started again.
    #[must_use]
    pub const fn restart(mut self, restart: Restart) -> Self {
        self.rules.restart = restart;
        self
    }

    /// How it is stopped.
    #[must_use]
    pub const fn shutdown(mut self, shutdown: Shutdown) -> Self {
        self.rules.shutdown = shutdown;
        self
    }

    /// Gives it so long to stop before it is killed.
    #[must_use]
    pub const fn stops_within(self, time: Duration) -> Self {
        self.shutdown(Shutdown::Within(time))
    }

    /// Lets its end by itself, without a restart, end the supervisor, as the auto shutdown says.
    #[must_use]
    pub const fn significant(mut self) -> Self {
        self.rules.significant = true;
        self
    }
}

fn start_fn<F, Fut, S, E>(start: F) -> StartFn
where
    F: Fn(ActorCell) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<S, E>> + Send + 'static,
    S: Into<Started>,
    E: Into<ActorProcessingErr>,
{
    Arc::new(move |supervisor| {
        let starting = start(supervisor);
        Box::pin(async move { starting.await.map(Into::into).map_err(|error| plain(error.into())) })
    })
}

/// What the actor said, without the wrapping of ractor, so that it can be downcast.
fn plain(error: ActorProcessingErr) -> ActorProcessingErr {
    match error.downcast::<SpawnErr>() {
        Ok(spawn) => match *spawn {
            SpawnErr::StartupFailed(inner) => inner,
            other => Box::new(other),
        },
        Err(other) => other,
    }
}
