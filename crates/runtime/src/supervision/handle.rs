//! The outside of a running supervisor.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dauntless_contract::Timestamp;
use dauntless_core::supervision::{self as core, ChildKind, ChildState, Counts, RequestError, Restart};
use ractor::{ActorCell, ActorRef};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::GaveUp;
use super::actor::{Ask, SupervisorMsg};
use super::child::ChildSpec;

/// A running supervisor. Cheap to clone; dropping every clone stops nothing.
#[derive(Clone, Debug)]
pub struct SupervisorHandle {
    pub(super) actor: ActorRef<SupervisorMsg>,
    pub(super) ended: Arc<OnceLock<Ended>>,
    pub(super) gone: CancellationToken,
}

/// How a supervisor ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Ended {
    /// It was asked to.
    Shutdown,
    /// A significant child ended.
    Significant {
        /// Which.
        child: Arc<str>,
    },
    /// A child did not start at the beginning.
    NotStarted,
    /// Its children failed too often, or one says that a restart cannot help.
    GaveUp(GaveUp),
    /// It was killed, and its children with it.
    Killed,
}

/// One child, as a query shows it.
#[derive(Clone, Debug)]
pub struct ChildInfo {
    /// Its name.
    pub id: Arc<str>,
    /// What it is doing.
    pub state: ChildState,
    /// How long it still waits before it is restarted, if it does.
    pub retry_in: Option<Duration>,
    /// How often it was started.
    pub starts: u64,
    /// When it is started again.
    pub restart: Restart,
    /// Worker or supervisor.
    pub kind: ChildKind,
    /// Its actor, while there is one.
    pub cell: Option<ActorCell>,
    /// Its handle, while it runs and is a supervisor of this module.
    pub supervisor: Option<SupervisorHandle>,
}

impl ChildInfo {
    pub(super) fn new(
        now: Timestamp,
        info: core::ChildInfo,
        cell: Option<ActorCell>,
        supervisor: Option<SupervisorHandle>,
    ) -> Self {
        let core::ChildInfo { key: _, id, state, starts, restart, kind } = info;
        let retry_in = match state {
            ChildState::Restarting { at } => at.map(|at| at.since(now)),
            ChildState::Down | ChildState::Starting | ChildState::Running | ChildState::Stopping => None,
        };
        Self { id, state, retry_in, starts, restart, kind, cell, supervisor }
    }
}

impl SupervisorHandle {
    /// The supervisor's actor, for linking and for addressing it in a tree of your own.
    pub fn cell(&self) -> ActorCell {
        self.actor.get_cell()
    }

    /// Adds a child and starts it; resolves when it runs.
    ///
    /// # Errors
    /// [`RequestError`], when its id is taken, its rules make no sense here, or it does not start. It
    /// leaves nothing behind then.
    ///
    /// # Cancel safety
    /// Dropping the future takes nothing back.
    pub async fn start_child(&self, child: ChildSpec) -> Result<ActorCell, RequestError> {
        let id = Arc::clone(&child.rules.id);
        self.ask(Ask::Start(child)).await?.ok_or(RequestError::NotFound(id))
    }

    /// Stops a child, or cancels its restart; resolves when nothing of it runs any more.
    ///
    /// Its spec stays, unless it is temporary or the supervisor is dynamic.
    ///
    /// # Errors
    /// [`RequestError::NotFound`], or that the supervisor is shutting down.
    pub async fn terminate_child(&self, id: &str) -> Result<(), RequestError> {
        self.ask(Ask::Terminate(id.into())).await.map(drop)
    }

    /// Starts a child that is down; resolves when it runs.
    ///
    /// # Errors
    /// [`RequestError`], when it is unknown, not down, or does not start. It stays down then.
    pub async fn restart_child(&self, id: &str) -> Result<ActorCell, RequestError> {
        self.ask(Ask::Restart(id.into())).await?.ok_or_else(|| RequestError::NotFound(id.into()))
    }

    /// Forgets a child that is down.
    ///
    /// # Errors
    /// [`RequestError`], when it is unknown or not down.
    pub async fn delete_child(&self, id: &str) -> Result<(), RequestError> {
        self.ask(Ask::Delete(id.into())).await.map(drop)
    }

    /// Every child, in the order of starts.
    ///
    /// # Errors
    /// [`RequestError::ShuttingDown`], when the supervisor has ended.
    pub async fn which_children(&self) -> Result<Vec<ChildInfo>, RequestError> {
        self.query(SupervisorMsg::Which).await
    }

    /// How many children there are.
    ///
    /// # Errors
    /// [`RequestError::ShuttingDown`], when the supervisor has ended.
    pub async fn count_children(&self) -> Result<Counts, RequestError> {
        self.query(SupervisorMsg::Count).await
    }

    /// Notes that a child completed work, or was idle and answered.
    ///
    /// After the longer of a minute and the period without a failure since, the next restart of the
    /// child is immediate again. Not having crashed is no such sign.
    pub fn healthy(&self, id: &str) {
        let _ = self.actor.send_message(SupervisorMsg::Healthy { id: id.into() });
    }

    /// Stops all children in order, then the supervisor; resolves when nothing of them runs any more.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the shutdown under way.
    pub async fn shutdown(&self) {
        let _ = self.actor.send_message(SupervisorMsg::Shutdown);
        self.gone.cancelled().await;
    }

    /// Waits for the end of the supervisor and of everything below it.
    pub async fn ended(&self) -> Ended {
        self.gone.cancelled().await;
        self.ended.get().cloned().unwrap_or(Ended::Killed)
    }

    async fn ask(&self, ask: Ask) -> Result<Option<ActorCell>, RequestError> {
        self.query(|reply| SupervisorMsg::Ask { ask, reply }).await?
    }

    async fn query<T>(
        &self,
        msg: impl FnOnce(oneshot::Sender<T>) -> SupervisorMsg,
    ) -> Result<T, RequestError> {
        let (reply, answer) = oneshot::channel();
        let _ = self.actor.send_message(msg(reply));
        answer.await.map_err(|_| RequestError::ShuttingDown)
    }
}
