//! One task for one incarnation of a child, from its start to the proof of its end.
//!
//! The supervisor gives orders and gets reports; it never waits itself. When the supervisor is gone,
//! however it went, the channel of orders closes, and the keeper kills the child.

use std::panic::AssertUnwindSafe;

use dauntless_core::supervision::{ChildKey, Shutdown};
use futures_util::FutureExt;
use ractor::{ActorCell, ActorProcessingErr, ActorRef};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::actor::{News, SupervisorMsg, settle};
use super::child::{StartFn, Started};
use super::error::StartError;

/// Which incarnation of which child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Who {
    pub(super) child: ChildKey,
    pub(super) incarnation: u64,
}

/// The end of a channel that gets at most one order; a closed one means to kill.
pub(super) struct Orders(pub(super) watch::Receiver<Option<Shutdown>>);

impl Orders {
    async fn next(&mut self) -> Shutdown {
        match self.0.changed().await {
            Ok(()) => self.0.borrow().unwrap_or(Shutdown::Brutal),
            Err(_) => Shutdown::Brutal,
        }
    }
}

pub(super) struct Keeper {
    pub(super) who: Who,
    pub(super) supervisor: ActorRef<SupervisorMsg>,
    pub(super) herald: ActorCell,
    pub(super) orders: Orders,
}

impl Keeper {
    pub(super) async fn keep(mut self, start: StartFn) {
        match self.start(start).await {
            Ok(mut child) => {
                let below = child.nested.as_ref().map(|nested| nested.handle.clone());
                self.tell(News::Spawned { cell: child.cell.clone(), below });
                match self.live(&mut child).await {
                    Ok(()) => {
                        settle(&self.herald, &child.cell, self.who);
                        self.tell(News::Ended);
                    }
                    Err(error) => self.tell(News::NotStarted(error)),
                }
            }
            Err(error) => self.tell(News::NotStarted(error)),
        }
    }

    fn tell(&self, news: News) {
        // A supervisor that is gone has nobody else to tell; it waits for this task instead.
        let _ = self.supervisor.send_message(SupervisorMsg::News { who: self.who, news });
    }

    async fn start(&mut self, start: StartFn) -> Result<Started, ActorProcessingErr> {
        let supervisor: ActorCell = self.supervisor.get_cell();
        let starting = AssertUnwindSafe(async move { start(supervisor).await }).catch_unwind();
        tokio::select! {
            biased;
            started = starting => started.unwrap_or_else(|panic| Err(panic_error(&*panic))),
            _ = self.orders.next() => Err("it was stopped while it started".into()),
        }
    }

    async fn live(&mut self, child: &mut Started) -> Result<(), ActorProcessingErr> {
        if child.nested.is_some() {
            let ready = tokio::select! {
                biased;
                ready = ready(child) => ready,
                how = self.orders.next() => {
                    self.stop(child, how).await;
                    return Ok(());
                }
            };
            if let Err(error) = ready {
                let _ = (&mut child.task).await;
                return Err(error);
            }
        }
        self.tell(News::Up);
        tokio::select! {
            _ = &mut child.task => {}
            how = self.orders.next() => self.stop(child, how).await,
        }
        Ok(())
    }

    /// Asks, waits, kills, waits: whatever else happens to the child, it is gone when this returns.
    async fn stop(&mut self, child: &mut Started, how: Shutdown) {
        let bound = match how {
            Shutdown::Brutal => Some(Instant::now()),
            Shutdown::Within(time) => Instant::now().checked_add(time),
            Shutdown::Infinite => None,
        };
        if how != Shutdown::Brutal {
            child.ask_to_stop();
            tokio::select! {
                biased;
                _ = &mut child.task => return,
                () = until(bound) => {}
                _ = self.orders.next() => {}
            }
        }
        child.cell.kill();
        let _ = (&mut child.task).await;
    }
}

async fn until(bound: Option<Instant>) {
    match bound {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

async fn ready(child: &mut Started) -> Result<(), ActorProcessingErr> {
    match &mut child.nested {
        Some(nested) => Ok((&mut nested.ready).await.unwrap_or(Err(StartError::Stopped))?),
        None => Ok(()),
    }
}

fn panic_error(panic: &(dyn std::any::Any + Send)) -> ActorProcessingErr {
    crate::guarded::panic_text(panic).to_string().into()
}
