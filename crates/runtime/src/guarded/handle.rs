//! The caller's end of a dependency. Outlives every incarnation of its actor.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use dauntless_contract::{Failure, StoppedBy, Timestamp};
use dauntless_core::resilience::{CallEnd, Policies, Ticket};
use dauntless_core::run::CancelReach;
use ractor::ActorRef;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::actor::GuardedMsg;
use super::{Job, Port, RuntimeBudget};

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

struct Shared<P: Port> {
    port: Arc<P>,
    status: RwLock<Status<P>>,
    /// Breaker, budget and gate: they outlive the actor, or a crash would forget a dead service.
    policies: Mutex<Policies>,
    /// The budget of the whole runtime.
    common: Arc<RuntimeBudget>,
    /// One permit for each call inside: the actor's mailbox itself has no bound.
    admission: Arc<Semaphore>,
    tickets: AtomicU64,
}

/// Whether the actor takes calls.
pub(crate) enum Status<P: Port> {
    Starting,
    Up(ActorRef<GuardedMsg<P>>),
    Restarting { until: Timestamp },
    Down { why: Arc<str> },
}

impl<P: Port> GuardedHandle<P> {
    pub(crate) fn new(port: Arc<P>, common: Arc<RuntimeBudget>, seed: u64) -> Self {
        let policy = port.policy();
        let places = usize::try_from(u64::from(policy.concurrency) + u64::from(policy.waiting))
            .unwrap_or(usize::MAX)
            .min(Semaphore::MAX_PERMITS);
        let policies = Policies::new(policy, seed);
        Self {
            shared: Arc::new(Shared {
                port,
                status: RwLock::new(Status::Starting),
                policies: Mutex::new(policies),
                common,
                admission: Arc::new(Semaphore::new(places)),
                tickets: AtomicU64::new(1),
            }),
        }
    }

    pub(crate) fn port(&self) -> &Arc<P> {
        &self.shared.port
    }

    /// Locks breaker, budget and gate. Held for one decision, never over an await.
    pub(crate) fn policies(&self) -> MutexGuard<'_, Policies> {
        self.shared.policies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The budget that all dependencies of the runtime share.
    pub(crate) fn common(&self) -> &RuntimeBudget {
        &self.shared.common
    }

    pub(crate) fn set_status(&self, status: Status<P>) {
        *self.shared.status.write().unwrap_or_else(PoisonError::into_inner) = status;
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
            Err(failure) => job.reply.answer(CallEnd {
                result: Err(failure),
                attempts: 0,
                waited: Duration::ZERO,
                stopped_by: Some(StoppedBy::Permanent),
            }),
        }
        ticket
    }

    /// Stops a call. One that has ended already is left alone.
    pub(crate) fn cancel(&self, ticket: JobTicket, reach: CancelReach) {
        if let Status::Up(actor) = &*self.shared.status.read().unwrap_or_else(PoisonError::into_inner) {
            let _ = actor.send_message(GuardedMsg::Cancel { ticket, reach });
        }
    }

    /// Calls that would still be taken in.
    pub(crate) fn free_places(&self) -> usize {
        self.shared.admission.available_permits()
    }

    /// Kills the actor, as a defect of the runtime would.
    #[cfg(test)]
    pub(crate) fn kill(&self) {
        if let Status::Up(actor) = &*self.shared.status.read().unwrap_or_else(PoisonError::into_inner) {
            actor.kill();
        }
    }

    fn admit(&self, now: Timestamp) -> Result<(ActorRef<GuardedMsg<P>>, OwnedSemaphorePermit), Failure> {
        let name = self.shared.port.name();
        let status = self.shared.status.read().unwrap_or_else(PoisonError::into_inner);
        let actor = match &*status {
            Status::Up(actor) => actor.clone(),
            Status::Starting => return Err(Failure::tool_down(format!("`{name}` is starting."))),
            Status::Restarting { until } => {
                let wait = until.since(now);
                let text = format!("`{name}` crashed and is being restarted.");
                return Err(Failure::tool_down(text).retry_after(wait));
            }
            Status::Down { why } => {
                return Err(Failure::tool_down(format!("`{name}` is out of service: {why}"))
                    .hint("Go on without it; it will not come back during this run."));
            }
        };
        drop(status);
        match Arc::clone(&self.shared.admission).try_acquire_owned() {
            Ok(permit) => Ok((actor, permit)),
            Err(_) => {
                let policy = self.shared.port.policy();
                Err(Failure::overloaded(format!(
                    "`{name}` is busy: {} calls are running and {} are waiting, which is all it takes.",
                    policy.concurrency, policy.waiting
                ))
                .hint("Ask for fewer calls at once."))
            }
        }
    }
}
