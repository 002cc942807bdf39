//! Carries out what the machine decides: keepers for children, timers, replies.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use dauntless_contract::Clock;
use dauntless_core::supervision::{
    ChildKey, ChildState, Counts, End, ExitReason, Request, Shutdown, SupervisorEffect, SupervisorEvent,
    SupervisorMachine, Ticket,
};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use ractor::actor::messages::BoxedState;
use ractor::{ActorCell, ActorId, ActorProcessingErr, ActorRef};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::actor::{Ask, News, Reply, SupervisorMsg};
use super::child::StartFn;
use super::error::{GaveUp, GaveUpWhy, SharedError, StartError, Terminal};
use super::handle::{ChildInfo, Ended, SupervisorHandle};
use super::keeper::{Keeper, Orders, Who};
use crate::clock::{SystemClock, Timer, sleep_until};

pub(super) struct ShellArgs {
    pub(super) machine: SupervisorMachine,
    pub(super) starts: HashMap<ChildKey, StartFn>,
    pub(super) next: u64,
    pub(super) period: Duration,
    pub(super) parent: Option<ActorCell>,
    pub(super) ready: oneshot::Sender<Result<(), StartError>>,
    pub(super) ended: Arc<OnceLock<Ended>>,
    pub(super) keepers: TaskTracker,
}

pub(super) struct Shell {
    me: ActorRef<SupervisorMsg>,
    herald: ActorCell,
    machine: SupervisorMachine,
    clock: SystemClock,
    starts: HashMap<ChildKey, StartFn>,
    live: HashMap<ChildKey, Live>,
    actors: HashMap<ActorId, ChildKey>,
    /// Ends of actors whose keeper has not said yet that they are ours.
    early: HashMap<ActorId, Exit>,
    timers: HashMap<ChildKey, Timer>,
    replies: HashMap<Ticket, Reply>,
    /// The next number for a child or a request.
    next: u64,
    period: Duration,
    parent: Option<ActorCell>,
    ready: Option<oneshot::Sender<Result<(), StartError>>>,
    /// The error of the child that was too much.
    error: Option<ActorProcessingErr>,
    end: Option<End>,
    ended: Arc<OnceLock<Ended>>,
    keepers: TaskTracker,
}

/// An incarnation of a child that is not proved gone.
struct Live {
    incarnation: u64,
    orders: watch::Sender<Option<Shutdown>>,
    keeper: Option<JoinHandle<()>>,
    cell: Option<ActorCell>,
    below: Option<SupervisorHandle>,
    exit: Option<Exit>,
    proof: Proof,
}

/// Which half of the proof of an end has arrived. Both are sent when the task has ended, by two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    Missing,
    /// The news, after all other news of the keeper.
    Ended,
    /// The word of the herald, after all that ractor says of the child.
    Settled,
}

/// How an actor ended, as ractor told it.
struct Exit {
    reason: ExitReason,
    error: Option<ActorProcessingErr>,
    /// Drops the state of the actor, which is code of the child as well.
    disposal: Option<JoinHandle<()>>,
}

impl Shell {
    pub(super) fn new(me: ActorRef<SupervisorMsg>, herald: ActorCell, args: ShellArgs) -> Self {
        let ShellArgs { machine, starts, next, period, parent, ready, ended, keepers } = args;
        Self {
            me,
            herald,
            machine,
            clock: SystemClock::new(),
            starts,
            live: HashMap::new(),
            actors: HashMap::new(),
            early: HashMap::new(),
            timers: HashMap::new(),
            replies: HashMap::new(),
            next,
            period,
            parent,
            ready: Some(ready),
            error: None,
            end: None,
            ended,
            keepers,
        }
    }

    pub(super) fn herald(&self) -> ActorId {
        self.herald.get_id()
    }

    pub(super) fn on(&mut self, event: SupervisorEvent) {
        for effect in self.machine.on(self.clock.now(), event) {
            self.apply(effect);
        }
    }

    fn apply(&mut self, effect: SupervisorEffect) {
        match effect {
            SupervisorEffect::StartChild { child, incarnation } => self.start(Who { child, incarnation }),
            SupervisorEffect::StopChild { child, incarnation: _, shutdown } => {
                if let Some(live) = self.live.get(&child) {
                    live.orders.send_replace(Some(shutdown));
                }
            }
            SupervisorEffect::ForgetChild { child } => {
                self.starts.remove(&child);
                self.timers.remove(&child);
            }
            SupervisorEffect::StartTimer { child, timer, at } => {
                let (me, clock) = (self.me.clone(), self.clock);
                let task = tokio::spawn(async move {
                    sleep_until(&clock, at).await;
                    let event = SupervisorEvent::TimerFired { child, timer };
                    let _ = me.send_message(SupervisorMsg::Timer { event });
                });
                self.timers.insert(child, Timer(task.abort_handle()));
            }
            SupervisorEffect::Reply { ticket, reply } => {
                if let Some(waiting) = self.replies.remove(&ticket) {
                    let cell = |key| self.live.get(&key).and_then(|live| live.cell.clone());
                    let _ = waiting.send(reply.map(cell));
                }
            }
            SupervisorEffect::Ready => self.link_up(),
            SupervisorEffect::End(end) => self.end = Some(end),
        }
    }

    fn start(&mut self, who: Who) {
        let Some(start) = self.starts.get(&who.child).cloned() else { return };
        let (orders, receiver) = watch::channel(None);
        let (supervisor, herald) = (self.me.clone(), self.herald.clone());
        let keeper = Keeper { who, supervisor, herald, orders: Orders(receiver) };
        let keeper = self.keepers.spawn(keeper.keep(start));
        let incarnation = who.incarnation;
        self.live.insert(
            who.child,
            Live {
                incarnation,
                orders,
                keeper: Some(keeper),
                cell: None,
                below: None,
                exit: None,
                proof: Proof::Missing,
            },
        );
    }

    /// Every child runs: from now on the one above answers for this supervisor.
    fn link_up(&mut self) {
        let me = self.me.get_cell();
        let linked = self.parent.take().is_none_or(|parent| {
            me.link(parent);
            me.try_get_supervisor().is_some()
        });
        let Some(ready) = self.ready.take() else { return };
        if linked {
            let _ = ready.send(Ok(()));
        } else {
            let _ = ready.send(Err(StartError::Stopped));
            let _ = self.me.send_message(SupervisorMsg::Shutdown);
        }
    }

    pub(super) fn news(&mut self, who: Who, news: News) {
        let Some(live) = self.live.get_mut(&who.child).filter(|live| live.incarnation == who.incarnation)
        else {
            return;
        };
        match news {
            News::Spawned { cell, below } => {
                self.actors.insert(cell.get_id(), who.child);
                live.exit = self.early.remove(&cell.get_id());
                live.cell = Some(cell);
                live.below = below;
            }
            News::Up => self.on(SupervisorEvent::Started { child: who.child, incarnation: who.incarnation }),
            News::NotStarted(error) => {
                self.gone(who, Exit { reason: reason_of(&error), error: Some(error), disposal: None });
            }
            News::Ended if live.proof == Proof::Missing => live.proof = Proof::Ended,
            News::Ended => self.ended(who),
            News::Disposed => self.vanished(who),
        }
    }

    /// All that ractor had to say of a child has been said.
    pub(super) fn settled(&mut self, who: Who) {
        let live = self.live.get_mut(&who.child).filter(|live| live.incarnation == who.incarnation);
        match live {
            Some(live) if live.proof == Proof::Missing => live.proof = Proof::Settled,
            Some(_) => self.ended(who),
            None => {}
        }
    }

    /// The task is over and the reason is known; what may be left is the state, on its way to be dropped.
    fn ended(&mut self, who: Who) {
        let live = self.live.get_mut(&who.child);
        let disposal = live.and_then(|live| live.exit.as_mut()?.disposal.take());
        if let Some(disposal) = disposal.filter(|disposal| !disposal.is_finished()) {
            let me = self.me.clone();
            self.keepers.spawn(async move {
                let _ = disposal.await;
                let _ = me.send_message(SupervisorMsg::News { who, news: News::Disposed });
            });
            return;
        }
        self.vanished(who);
    }

    fn vanished(&mut self, who: Who) {
        let exit = self.live.get_mut(&who.child).and_then(|live| live.exit.take());
        let silent = Exit { reason: ExitReason::Cancelled, error: None, disposal: None };
        self.gone(who, exit.unwrap_or(silent));
    }

    fn gone(&mut self, Who { child, incarnation }: Who, exit: Exit) {
        if let Some(cell) = self.live.remove(&child).and_then(|live| live.cell) {
            self.actors.remove(&cell.get_id());
        }
        if !self.early.is_empty() && self.live.values().all(|live| live.cell.is_some()) {
            self.early.clear();
        }
        self.log(child, &exit.reason);
        let going_on = !self.machine.is_ending();
        self.on(SupervisorEvent::Exited { child, incarnation, reason: exit.reason });
        if going_on && self.machine.is_ending() {
            self.error = exit.error;
        }
    }

    fn log(&self, child: ChildKey, reason: &ExitReason) {
        let Some(info) = self.machine.child(child) else { return };
        match (info.state, reason) {
            (ChildState::Stopping, _) | (_, ExitReason::Normal) => {
                tracing::debug!(child = &*info.id, ?reason, "a child ended");
            }
            _ => tracing::warn!(child = &*info.id, ?reason, "a child ended"),
        }
    }

    pub(super) fn failed(&mut self, actor: ActorId, error: ActorProcessingErr) {
        self.heard(actor, Exit { reason: reason_of(&error), error: Some(error), disposal: None });
    }

    pub(super) fn terminated(&mut self, actor: ActorId, state: Option<BoxedState>, reason: Option<&str>) {
        let reason = match reason {
            Some("killed") => ExitReason::Killed,
            Some("actor_task_cancelled") => ExitReason::Cancelled,
            Some(_) | None => ExitReason::Normal,
        };
        // In a task, because a state may block or panic when it is dropped.
        let disposal = state.map(|state| self.keepers.spawn(async move { drop(state) }));
        self.heard(actor, Exit { reason, error: None, disposal });
    }

    fn heard(&mut self, actor: ActorId, exit: Exit) {
        let live = self.actors.get(&actor).and_then(|child| self.live.get_mut(child));
        if let Some(live) = live {
            live.exit = Some(exit);
        } else if self.live.values().any(|live| live.cell.is_none()) {
            self.early.insert(actor, exit);
        } else {
            tracing::debug!(%actor, reason = ?exit.reason, "an actor that is no child ended");
        }
    }

    pub(super) fn healthy(&mut self, id: &str) {
        if let Some(child) = self.machine.key(id) {
            self.on(SupervisorEvent::Healthy { child });
        }
    }

    pub(super) fn ask(&mut self, ask: Ask, reply: Reply) {
        let number = self.next;
        self.next += 1;
        let request = match ask {
            Ask::Start(spec) => {
                let child = ChildKey(number);
                self.starts.insert(child, spec.start);
                Request::Start { child, rules: spec.rules }
            }
            Ask::Terminate(id) => Request::Terminate { id },
            Ask::Restart(id) => Request::Restart { id },
            Ask::Delete(id) => Request::Delete { id },
        };
        self.replies.insert(Ticket(number), reply);
        self.on(SupervisorEvent::Requested { ticket: Ticket(number), request });
    }

    pub(super) fn which(&self) -> Vec<ChildInfo> {
        let now = self.clock.now();
        let one = |info: dauntless_core::supervision::ChildInfo| {
            let live = self.live.get(&info.key);
            let cell = live.and_then(|live| live.cell.clone());
            let below = live.and_then(|live| live.below.clone());
            ChildInfo::new(now, info, cell, below)
        };
        self.machine.children().map(one).collect()
    }

    pub(super) fn count(&self) -> Counts {
        self.machine.count()
    }

    /// Stops all children in order, from where no more messages arrive.
    pub(super) async fn wind_up(&mut self) {
        let kept = |(child, live): (&ChildKey, &mut Live)| {
            let (who, keeper) = (Who { child: *child, incarnation: live.incarnation }, live.keeper.take());
            async move {
                if let Some(keeper) = keeper {
                    let _ = keeper.await;
                }
                who
            }
        };
        let mut keepers: FuturesUnordered<_> = self.live.iter_mut().map(kept).collect();
        self.on(SupervisorEvent::ShutdownRequested);
        while let Some(who) = keepers.next().await {
            self.gone(who, Exit { reason: ExitReason::Normal, error: None, disposal: None });
        }
    }

    /// Once no child is left: ends, as the reason demands.
    pub(super) fn finish(&mut self) -> Result<(), ActorProcessingErr> {
        let Some(end) = self.end.take() else { return Ok(()) };
        let error = self.error.take();
        let (child, why, history) = match end {
            End::Requested => return self.leave(Ended::Shutdown, StartError::Stopped),
            End::Significant { child } => {
                return self.leave(Ended::Significant { child }, StartError::Stopped);
            }
            End::StartFailed { failed } => {
                let error = error.unwrap_or_else(|| failed.cause.to_string().into());
                return self.leave(Ended::NotStarted, StartError::Child { child: failed.child, error });
            }
            End::TooManyFailures { child, count, history } => {
                (child, GaveUpWhy::TooManyFailures { count, period: self.period }, history)
            }
            End::Terminal { failed } => (Arc::clone(&failed.child), GaveUpWhy::Terminal, vec![failed]),
        };
        let gave_up = GaveUp { child, why, history, error: error.map(SharedError::from) };
        tracing::error!(child = &*gave_up.child, "{gave_up}");
        if self.ready.is_some() {
            return self.leave(Ended::GaveUp(gave_up.clone()), StartError::GaveUp(gave_up));
        }
        let _ = self.ended.set(Ended::GaveUp(gave_up.clone()));
        Err(Box::new(gave_up))
    }

    fn leave(&mut self, ended: Ended, not_ready: StartError) -> Result<(), ActorProcessingErr> {
        let _ = self.ended.set(ended);
        if let Some(ready) = self.ready.take() {
            let _ = ready.send(Err(not_ready));
        }
        self.me.stop(None);
        Ok(())
    }
}

fn reason_of(error: &ActorProcessingErr) -> ExitReason {
    let cause = error.to_string().into();
    if error.is::<Terminal>() {
        ExitReason::Terminal { cause }
    } else if error.is::<GaveUp>() {
        ExitReason::GaveUp { cause }
    } else {
        ExitReason::Failed { cause }
    }
}
