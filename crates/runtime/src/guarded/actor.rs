//! The leaf actor: one tool or one model.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use dauntless_contract::{Failure, Progress, ResiliencePolicy, Timestamp, ToolChange};
use dauntless_core::resilience::{CallEffect, CallEnd, CallEvent, Dependency, Report, Ticket};
use dauntless_core::run::CancelReach;
use futures_util::FutureExt;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::attempt::Running;
use super::supervisor::SupervisorMsg;
use super::{AttemptCtx, AttemptInput, GuardedHandle, Job, Port};
use crate::clock::{Timer, sleep_until};
use crate::telemetry;

/// Drives the calls to one dependency. Holds no policy: an `if` about what happens next belongs
/// in `core::resilience`.
pub(super) struct GuardedActor<P>(std::marker::PhantomData<fn() -> P>);

impl<P> GuardedActor<P> {
    pub(super) const fn new() -> Self {
        Self(std::marker::PhantomData)
    }
}

pub(super) struct GuardedArgs<P: Port> {
    pub(super) handle: GuardedHandle<P>,
    pub(super) supervisor: ActorRef<SupervisorMsg>,
    pub(super) seed: u64,
}

pub(crate) enum GuardedMsg<P: Port> {
    Submit { ticket: Ticket, job: Box<Job<P>>, permit: OwnedSemaphorePermit },
    Ended { ticket: Ticket, attempt: u32, end: AttemptEnd<P::Reply> },
    OutOfTime { ticket: Ticket, attempt: u32 },
    Timer { ticket: Ticket, timer: u32 },
    Cancel { ticket: Ticket, reach: CancelReach },
}

/// How the task of one attempt ended.
pub(crate) enum AttemptEnd<R> {
    Answered(Result<R, Failure>),
    Panicked(Arc<str>),
}

pub(super) struct GuardedShell<P: Port> {
    me: ActorRef<GuardedMsg<P>>,
    args: GuardedArgs<P>,
    machine: Dependency<P::Reply>,
    health: Health,
    /// In the order of the tickets, so that equal runs tell and answer in equal order.
    calls: BTreeMap<Ticket, Call<P>>,
}

/// Whether the supervisor knows that the dependency works.
enum Health {
    Unproven,
    Told,
}

/// What the shell holds for one call that is not answered yet.
struct Call<P: Port> {
    job: Box<Job<P>>,
    running: Option<Running<P>>,
    timer: Option<Timer>,
    permit: OwnedSemaphorePermit,
}

impl<P: Port> Actor for GuardedActor<P> {
    type Msg = GuardedMsg<P>;
    type State = GuardedShell<P>;
    type Arguments = GuardedArgs<P>;

    async fn pre_start(
        &self,
        me: ActorRef<GuardedMsg<P>>,
        args: GuardedArgs<P>,
    ) -> Result<GuardedShell<P>, ActorProcessingErr> {
        let port = args.handle.port();
        let policy: Arc<ResiliencePolicy> = Arc::new(port.policy().clone());
        let machine = Dependency::new(Arc::clone(port.name()), policy, args.seed);
        Ok(GuardedShell { me, args, machine, health: Health::Unproven, calls: BTreeMap::new() })
    }

    async fn handle(
        &self,
        _: ActorRef<GuardedMsg<P>>,
        msg: GuardedMsg<P>,
        shell: &mut GuardedShell<P>,
    ) -> Result<(), ActorProcessingErr> {
        let now = shell.args.handle.now();
        let event = shell.event(now, msg);
        shell.decide(now, event);
        Ok(())
    }

    async fn post_stop(
        &self,
        _: ActorRef<GuardedMsg<P>>,
        shell: &mut GuardedShell<P>,
    ) -> Result<(), ActorProcessingErr> {
        let now = shell.args.handle.now();
        let name = shell.args.handle.name();
        let failure = Failure::tool_down(format!("`{name}` was taken out of service."));
        shell.decide(now, CallEvent::Stopped { failure });
        Ok(())
    }
}

impl<P: Port> GuardedShell<P> {
    fn event(&mut self, now: Timestamp, msg: GuardedMsg<P>) -> CallEvent<P::Reply> {
        match msg {
            GuardedMsg::Submit { ticket, job, permit } => {
                let port = self.args.handle.port();
                let deadline = job.deadline.min(now + port.policy().deadline);
                let (run, effect) = (P::run(&job.request), port.effect(&job.request));
                let attempts_made = job.attempts_made;
                self.calls.insert(ticket, Call { job, running: None, timer: None, permit });
                CallEvent::Submitted { ticket, run, effect, deadline, attempts_made }
            }
            GuardedMsg::Ended { ticket, attempt, end } => {
                if let Some(running) = self.take_attempt(ticket, attempt) {
                    running.has_ended();
                }
                match end {
                    AttemptEnd::Answered(Ok(value)) => {
                        if let Health::Unproven = self.health {
                            self.health = Health::Told;
                            let _ = self.args.supervisor.send_message(SupervisorMsg::Healthy);
                        }
                        CallEvent::Succeeded { ticket, attempt, value }
                    }
                    AttemptEnd::Answered(Err(failure)) => CallEvent::Failed { ticket, attempt, failure },
                    AttemptEnd::Panicked(cause) => {
                        // The supervisor counts defects; this call goes on by its own rules.
                        self.health = Health::Unproven;
                        let msg = SupervisorMsg::AttemptPanicked { cause: Arc::clone(&cause) };
                        let _ = self.args.supervisor.send_message(msg);
                        CallEvent::Crashed { ticket, attempt, cause }
                    }
                }
            }
            GuardedMsg::OutOfTime { ticket, attempt } => {
                drop(self.take_attempt(ticket, attempt));
                CallEvent::TimedOut { ticket, attempt }
            }
            GuardedMsg::Timer { ticket, timer } => CallEvent::TimerFired { ticket, timer },
            GuardedMsg::Cancel { ticket, reach: CancelReach::Running } => {
                CallEvent::CancelRequested { ticket }
            }
            GuardedMsg::Cancel { ticket, reach: CancelReach::Waiting } => {
                CallEvent::WindDownRequested { ticket }
            }
        }
    }

    /// Takes out the attempt, if it is the one under way.
    fn take_attempt(&mut self, ticket: Ticket, attempt: u32) -> Option<Running<P>> {
        let call = self.calls.get_mut(&ticket)?;
        call.running.take_if(|running| running.attempt == attempt)
    }

    fn decide(&mut self, now: Timestamp, event: CallEvent<P::Reply>) {
        let mut abandoned = Vec::new();
        self.step(now, event, &mut abandoned);
        while let Some(ticket) = abandoned.pop() {
            self.step(now, CallEvent::CancelRequested { ticket }, &mut abandoned);
        }
    }

    fn step(&mut self, now: Timestamp, event: CallEvent<P::Reply>, abandoned: &mut Vec<Ticket>) {
        let GuardedArgs { handle, .. } = &self.args;
        let (effects, moved) = {
            let mut policies = handle.policies();
            let effects = self.machine.on(now, event, &mut policies, &mut handle.common());
            (effects, policies.breaker.has_changes())
        };
        if moved {
            handle.tell_breaker_changes();
        }
        for effect in effects {
            match effect {
                // Its place goes to the next in turn; the dependency never hears of this call.
                CallEffect::StartAttempt { ticket, .. } if self.is_abandoned(ticket) => {
                    abandoned.push(ticket)
                }
                CallEffect::StartAttempt { ticket, attempt, timeout_at } => {
                    self.start_attempt(ticket, attempt, timeout_at);
                }
                CallEffect::AbortAttempt { ticket, attempt } => drop(self.take_attempt(ticket, attempt)),
                CallEffect::StartTimer { ticket, timer, at } => self.start_timer(ticket, timer, at),
                CallEffect::Answer { ticket, end } => self.answer(ticket, end),
                CallEffect::Report(report) => self.report(report),
            }
        }
    }

    /// Whether whoever asked for the call went away without cancelling it.
    fn is_abandoned(&self, ticket: Ticket) -> bool {
        self.calls.get(&ticket).is_some_and(|call| call.job.reply.is_abandoned())
    }

    fn start_attempt(&mut self, ticket: Ticket, attempt: u32, timeout_at: Timestamp) {
        let Some(call) = self.calls.get_mut(&ticket) else { return };
        let port = Arc::clone(self.args.handle.port());
        call.job.reply.attempt_started(attempt.saturating_sub(call.job.attempts_made));
        if call.job.watch.is_watched()
            && let Some(progress) = port.started(&call.job.request, attempt)
        {
            call.job.watch.tell(|| progress);
        }
        let cancel = CancellationToken::new();
        let ctx = AttemptCtx { attempt, deadline: timeout_at, cancel: cancel.clone() };
        let span = telemetry::attempt_span(&call.job.span, attempt);
        // The tool's own code runs from here on, its first synchronous part included: inside the task.
        let input = AttemptInput { request: Arc::clone(&call.job.request), watch: call.job.watch.clone() };
        let me = self.me.clone();
        let (attempt_span, redact) = (span.clone(), Arc::clone(&port));
        let task = tokio::spawn(
            async move {
                let work = async move { port.attempt(input, ctx).await };
                let end = match AssertUnwindSafe(work).catch_unwind().await {
                    Ok(result) => AttemptEnd::Answered(result),
                    Err(panic) => AttemptEnd::Panicked(redact.redact(&panic_text(&*panic))),
                };
                if let AttemptEnd::Answered(Err(failure)) = &end {
                    telemetry::record_failure(&attempt_span, failure.code);
                }
                let _ = me.send_message(GuardedMsg::Ended { ticket, attempt, end });
            }
            .instrument(span),
        );
        let (me, clock) = (self.me.clone(), Arc::clone(self.args.handle.clock()));
        let timeout = tokio::spawn(async move {
            sleep_until(&*clock, timeout_at).await;
            let _ = me.send_message(GuardedMsg::OutOfTime { ticket, attempt });
        });
        let handle = self.args.handle.clone();
        call.running = Some(Running::new(attempt, handle, cancel, task, Timer(timeout.abort_handle())));
    }

    fn start_timer(&mut self, ticket: Ticket, timer: u32, at: Timestamp) {
        let Some(call) = self.calls.get_mut(&ticket) else { return };
        let (me, clock) = (self.me.clone(), Arc::clone(self.args.handle.clock()));
        let task = tokio::spawn(async move {
            sleep_until(&*clock, at).await;
            let _ = me.send_message(GuardedMsg::Timer { ticket, timer });
        });
        call.timer = Some(Timer(task.abort_handle()));
    }

    fn answer(&mut self, ticket: Ticket, end: CallEnd<P::Reply>) {
        let Some(Call { job, running, timer, permit }) = self.calls.remove(&ticket) else { return };
        drop((running, timer, permit));
        let Job { request, span, reply, .. } = *job;
        // The caller may own the rest of what the request shares, and wants it back unshared.
        drop(request);
        span.record("dauntless.attempts", end.attempts);
        span.record("dauntless.waited_ms", u64::try_from(end.waited.as_millis()).unwrap_or(u64::MAX));
        match &end.result {
            Ok(value) => self.args.handle.port().record(&span, value),
            Err(failure) => telemetry::record_failure(&span, failure.code),
        }
        reply.answer(end);
    }

    fn report(&self, report: Report) {
        let port = self.args.handle.port();
        match report {
            Report::WillRetry { ticket, attempt, failure, wait } => {
                if let Some(call) = self.calls.get(&ticket) {
                    call.job.reply.will_retry(attempt, &failure, wait);
                    if call.job.watch.is_watched()
                        && let Some(progress) = port.will_retry(&call.job.request, attempt, &failure, wait)
                    {
                        call.job.watch.tell(|| progress);
                    }
                }
            }
            Report::BreakerOpened { retry_in } => {
                tracing::warn!(
                    dependency = &**port.name(),
                    retry_in_ms = u64::try_from(retry_in.as_millis()).unwrap_or(u64::MAX),
                    "breaker opened"
                );
                for call in self.calls.values() {
                    call.job
                        .watch
                        .tell(|| Progress::BreakerOpened { tool: Arc::clone(port.name()), retry_in });
                }
            }
            Report::BreakerClosed => tracing::info!(dependency = &**port.name(), "breaker closed"),
            Report::ErrorSpike(spike) => {
                tracing::warn!(
                    dependency = &**port.name(),
                    failures = spike.failures,
                    answers = spike.answers,
                    usual_milli = spike.usual_milli,
                    "error_spike: more recoverable failures than usual"
                );
                self.args.handle.tell(ToolChange::ErrorSpike { spike });
            }
            Report::Stale { ticket, attempt } => {
                tracing::debug!(
                    dependency = &**port.name(),
                    ticket = ticket.0,
                    attempt,
                    "late answer dropped"
                );
            }
        }
    }
}

pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> Arc<str> {
    panic
        .downcast_ref::<&str>()
        .map(|text| Arc::from(*text))
        .or_else(|| panic.downcast_ref::<String>().map(|text| Arc::from(text.as_str())))
        .unwrap_or_else(|| Arc::from("a panic without a text"))
}
