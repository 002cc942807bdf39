//! The caller's end of a dependency. Outlives every incarnation of its actor.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use dauntless_contract::{
    BreakerStatus, BreakerSwitch, Clock, Failure, ServiceState, StoppedBy, Timestamp, ToolChange, ToolEvent,
    ToolStatus,
};
use dauntless_core::resilience::{BreakerState, CallEnd, Policies, Ticket, overloaded};
use dauntless_core::run::CancelReach;
use ractor::ActorRef;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::actor::GuardedMsg;
use super::{Job, Port, RuntimeBudget};
use crate::events::ToolNews;

/// Names a submitted call, for cancelling it.
pub(crate) type JobTicket = Ticket;

/// Where calls to one dependency go.
pub(crate) struct GuardedHandle<P: Port> {
    shared: Arc<Shared<P>>,
}

impl<P: Port> Clone for GuardedHandle<P> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

/// What all dependencies of one runtime have in common.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) budget: Arc<RuntimeBudget>,
    pub(crate) news: ToolNews,
}

struct Shared<P: Port> {
    port: Arc<P>,
    around: Surroundings,
    status: RwLock<Status<P>>,
    /// Breaker, budget and gate: they outlive the actor, or a crash would forget a dead service.
    policies: Mutex<Policies>,
    /// Held by who tells what the breaker did, so that it is told in order and with no other lock held.
    telling: Mutex<()>,
    /// One permit for each call inside: the actor's mailbox itself has no bound.
    admission: Arc<Semaphore>,
    tickets: AtomicU64,
    restarts: AtomicU64,
    /// Wakes the calls that wait for the dependency to be back.
    back: Notify,
}

/// Whether the actor takes calls.
pub(crate) enum Status<P: Port> {
    Starting,
    Up(ActorRef<GuardedMsg<P>>),
    Restarting { until: Timestamp },
    Down { why: Arc<str>, until: Option<Timestamp> },
}

impl<P: Port> GuardedHandle<P> {
    pub(crate) fn new(port: Arc<P>, around: Surroundings, seed: u64) -> Self {
        let policy = port.policy();
        let places = usize::try_from(u64::from(policy.concurrency) + u64::from(policy.waiting))
            .unwrap_or(usize::MAX)
            .min(Semaphore::MAX_PERMITS);
        let policies = Policies::new(policy, seed);
        Self {
            shared: Arc::new(Shared {
                port,
                around,
                status: RwLock::new(Status::Starting),
                policies: Mutex::new(policies),
                telling: Mutex::new(()),
                admission: Arc::new(Semaphore::new(places)),
                tickets: AtomicU64::new(1),
                restarts: AtomicU64::new(0),
                back: Notify::new(),
            }),
        }
    }

    pub(crate) fn port(&self) -> &Arc<P> {
        &self.shared.port
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        self.shared.port.name()
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.around.clock
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock().now()
    }

    /// Locks breaker, budget and gate. Held for one decision, never over an await.
    pub(crate) fn policies(&self) -> MutexGuard<'_, Policies> {
        self.shared.policies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The budget that all dependencies of the runtime share.
    pub(crate) fn common(&self) -> &RuntimeBudget {
        &self.shared.around.budget
    }

    pub(crate) fn set_status(&self, status: Status<P>) {
        if !matches!(status, Status::Up(_)) {
            // Whatever ran or waited died with the actor.
            self.policies().stats.set_load(0, 0);
        }
        *self.shared.status.write().unwrap_or_else(PoisonError::into_inner) = status;
    }

    pub(crate) fn count_restart(&self) {
        self.shared.restarts.fetch_add(1, Ordering::Relaxed);
    }

    /// Tells whoever asked to be told.
    pub(crate) fn tell(&self, change: ToolChange) {
        if let ToolChange::Revived
        | ToolChange::Breaker { now: BreakerStatus::Closed | BreakerStatus::ForcedClosed } = change
        {
            self.shared.back.notify_waiters();
        }
        let (at, port) = (self.now(), self.port());
        self.shared.around.news.tell(ToolEvent { at, name: Arc::clone(port.name()), kind: P::KIND, change });
    }

    /// Resolves when the breaker closes, or the actor is started afresh after it was down.
    pub(crate) async fn back(&self) {
        self.shared.back.notified().await;
    }

    /// Tells what the breaker did. Whoever drove it calls this once it holds no lock.
    pub(crate) fn tell_breaker_changes(&self) {
        let _telling = self.shared.telling.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = self.policies().breaker.take_changes();
        for state in changes {
            self.tell(ToolChange::Breaker { now: seen(state, self.now()) });
        }
    }

    /// Somebody else has found out that it takes no calls for so long.
    pub(crate) fn expect_outage(&self, lasts: Duration) {
        let until = self.now() + lasts;
        self.policies().breaker.stay_open(until);
        self.tell_breaker_changes();
    }

    /// Does what an operator wants done to the breaker.
    pub(crate) fn switch(&self, switch: BreakerSwitch) {
        let now = self.now();
        {
            let breaker = &mut self.policies().breaker;
            match switch {
                BreakerSwitch::Open => breaker.force_open(),
                BreakerSwitch::Close => breaker.force_close(),
                BreakerSwitch::Reset => breaker.reset(now),
            }
        }
        self.tell_breaker_changes();
    }

    /// An attempt was stopped some time ago, and its code still goes on.
    pub(crate) fn attempt_abandoned(&self) {
        let abandoned = {
            let count = &mut self.policies().abandoned;
            *count += 1;
            *count
        };
        tracing::warn!(dependency = &**self.name(), abandoned, "a stopped attempt goes on");
        self.tell(ToolChange::AttemptAbandoned { abandoned });
    }

    /// The code of an abandoned attempt has ended.
    pub(crate) fn abandoned_ended(&self) {
        let abandoned = {
            let count = &mut self.policies().abandoned;
            *count = count.saturating_sub(1);
            *count
        };
        self.tell(ToolChange::AbandonedEnded { abandoned });
    }

    /// How it stands.
    pub(crate) fn picture(&self) -> ToolStatus {
        let now = self.now();
        let service = match &*self.shared.status.read().unwrap_or_else(PoisonError::into_inner) {
            Status::Starting => ServiceState::Starting,
            Status::Up(_) => ServiceState::Up,
            Status::Restarting { until } => ServiceState::Restarting { retry_in: until.since(now) },
            Status::Down { why, until } => {
                ServiceState::Down { why: Arc::clone(why), revive_in: until.map(|until| until.since(now)) }
            }
        };
        let (port, policy) = (self.port(), self.port().policy());
        let policies = self.policies();
        let (window_calls, window_failures) = policies.breaker.window(now);
        let (running, waiting) = policies.stats.load();
        let small = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        ToolStatus {
            name: Arc::clone(port.name()),
            kind: P::KIND,
            service,
            breaker: seen(policies.breaker.state(now), now),
            window_calls,
            window_failures,
            budget_milli: policies.budget.level_milli(now),
            budget_capacity_milli: policy.budget.capacity_milli,
            gate_opens_in: policies.gate.shut_until(now).map(|until| until.since(now)),
            running: small(running),
            running_max: policy.concurrency,
            waiting: small(waiting),
            waiting_max: policy.waiting,
            abandoned: policies.abandoned,
            restarts: self.shared.restarts.load(Ordering::Relaxed),
            counters: policies.stats.counters().clone(),
            last_failures: policies.stats.failures().cloned().collect(),
            error_spike: policies.stats.error_spike(),
        }
    }

    /// Sends a call on its way. It is answered through its slot exactly once, also when it is
    /// refused here.
    pub(crate) fn submit(&self, now: Timestamp, job: Job<P>) -> JobTicket {
        let ticket = Ticket(self.shared.tickets.fetch_add(1, Ordering::Relaxed));
        match self.admit(now) {
            Ok((actor, permit)) => {
                // A failed send drops the job, and the slot inside answers for the dead actor.
                let _ = actor.send_message(GuardedMsg::Submit { ticket, job: Box::new(job), permit });
            }
            Err(failure) => {
                self.policies().stats.called();
                // Of a tool that is down or starts again the failure tells when it is back.
                let out_for = failure.retry_after;
                job.reply.answer(CallEnd {
                    result: Err(failure),
                    out_for,
                    attempts: 0,
                    waited: Duration::ZERO,
                    stopped_by: Some(StoppedBy::Permanent),
                });
            }
        }
        ticket
    }

    /// Stops a call. One that has ended already is left alone.
    pub(crate) fn cancel(&self, ticket: JobTicket, reach: CancelReach) {
        if let Status::Up(actor) = &*self.shared.status.read().unwrap_or_else(PoisonError::into_inner) {
            let _ = actor.send_message(GuardedMsg::Cancel { ticket, reach });
        }
    }

    fn admit(&self, now: Timestamp) -> Result<(ActorRef<GuardedMsg<P>>, OwnedSemaphorePermit), Failure> {
        let name = self.name();
        let status = self.shared.status.read().unwrap_or_else(PoisonError::into_inner);
        let actor = match &*status {
            Status::Up(actor) => actor.clone(),
            Status::Starting => return Err(Failure::tool_down(format!("`{name}` is starting."))),
            Status::Restarting { until } => {
                let wait = until.since(now);
                let text = format!("`{name}` crashed and is being restarted.");
                return Err(Failure::tool_down(text).retry_after(wait));
            }
            Status::Down { why, until } => {
                let failure = Failure::tool_down(format!("`{name}` is out of service: {why}"));
                return Err(match until {
                    Some(until) => failure.retry_after(until.since(now)).hint("Go on without it."),
                    None => failure.hint("Go on without it; it will not come back during this run."),
                });
            }
        };
        drop(status);
        match Arc::clone(&self.shared.admission).try_acquire_owned() {
            Ok(permit) => Ok((actor, permit)),
            Err(_) => Err(overloaded(name, self.shared.port.policy())),
        }
    }
}

/// What only tests look at and do.
#[cfg(test)]
impl<P: Port> GuardedHandle<P> {
    /// Calls that would still be taken in.
    pub(crate) fn free_places(&self) -> usize {
        self.shared.admission.available_permits()
    }

    /// Kills the actor, as a defect of the runtime would.
    pub(crate) fn kill(&self) {
        if let Status::Up(actor) = &*self.shared.status.read().unwrap_or_else(PoisonError::into_inner) {
            actor.kill();
        }
    }
}

/// A breaker's state as seen at `now`.
fn seen(state: BreakerState, now: Timestamp) -> BreakerStatus {
    match state {
        BreakerState::Closed => BreakerStatus::Closed,
        BreakerState::Open { until } => BreakerStatus::Open { retry_in: until.since(now) },
        BreakerState::HalfOpen => BreakerStatus::HalfOpen,
        BreakerState::ForcedOpen => BreakerStatus::ForcedOpen,
        BreakerState::ForcedClosed => BreakerStatus::ForcedClosed,
    }
}
