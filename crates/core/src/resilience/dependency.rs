//! All calls at one dependency: who may start, who waits, who tries again, who gets which answer.
//!
//! One machine for a tool or a model. The layers lie in this order: deadline, bulkhead, then for
//! every attempt rate gate, breaker, timeout, and afterwards class, breaker, budget. It reads no
//! clock and runs nothing: `now` and what happened come in, effects go out. A call is owned by one
//! place of this file at a time and answering consumes it, so none is answered twice; whatever
//! waits has a timer and whatever runs has a timeout, so none is forgotten.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{Effect, EffectState, Failure, ResiliencePolicy, StoppedBy, Timestamp};

use super::budget::Paid;
use super::call::{Call, Further, Phase, Retry, Spot};
use super::queue::Queue;
use super::step::Step;
use super::{
    Backoff, BreakerState, CallEffect, CallEvent, Class, CommonBudget, Permit, Policies, Report, Rng, Ticket,
    Weight, classify, retryable, wording,
};

/// With less time than this left, an attempt is not worth waiting for.
const USEFUL_MIN: Duration = Duration::from_millis(50);

/// A call that broke the tool so often is not given to it again.
const CRASHES_MAX: u32 = 2;

/// The calls at one dependency whose answers are `T`s.
#[derive(Clone, Debug, PartialEq)]
pub struct Dependency<T> {
    name: Arc<str>,
    policy: Arc<ResiliencePolicy>,
    backoff: Backoff,
    rng: Rng,
    calls: BTreeMap<Ticket, (Call, Phase)>,
    /// Who waits for a place.
    queue: Queue,
    running: usize,
    at_gate: usize,
    answers: PhantomData<fn() -> T>,
}

impl<T> Dependency<T> {
    /// A dependency without calls. `name` is what the messages call it; `seed` is for jitter.
    pub fn new(name: Arc<str>, policy: Arc<ResiliencePolicy>, seed: u64) -> Self {
        let retry = &policy.retry;
        Self {
            backoff: Backoff::new(retry.base, retry.factor, retry.cap),
            name,
            policy,
            rng: Rng::new(seed),
            calls: BTreeMap::new(),
            queue: Queue::default(),
            running: 0,
            at_gate: 0,
            answers: PhantomData,
        }
    }

    /// Decides what follows from an event.
    ///
    /// Never fails: what comes late, twice or for a call that never was is dropped and reported.
    /// `common` is the budget that other dependencies draw on too.
    #[must_use = "an effect that is not carried out stalls a call"]
    pub fn on(
        &mut self,
        now: Timestamp,
        event: CallEvent<T>,
        policies: &mut Policies,
        common: &mut dyn CommonBudget,
    ) -> Vec<CallEffect<T>> {
        let mut step = Step { now, policies, common, effects: Vec::new() };
        match event {
            CallEvent::Submitted { ticket, run, effect, deadline, attempts_made } => {
                let deadline = deadline.min(now + self.policy.deadline);
                step.policies.stats.called();
                self.submitted(Call::new(ticket, run, effect, now, deadline, attempts_made), &mut step);
            }
            CallEvent::Succeeded { ticket, attempt, value } => {
                if let Some((call, permit, _)) = self.end_attempt(ticket, attempt, &mut step) {
                    step.record(permit, Weight::Healthy);
                    step.policies.budget.succeeded(now);
                    step.policies.stats.succeeded(now.since(call.submitted));
                    step.common.succeeded(now);
                    step.succeed(call, value);
                }
            }
            CallEvent::Failed { ticket, attempt, failure } => {
                self.attempt_failed(ticket, attempt, |_, _| failure, &mut step);
            }
            CallEvent::TimedOut { ticket, attempt } => {
                self.attempt_failed(ticket, attempt, wording::timed_out, &mut step);
            }
            CallEvent::Crashed { ticket, attempt, cause } => {
                self.attempt_failed(ticket, attempt, |name, _| wording::crashed(name, &cause), &mut step);
            }
            CallEvent::TimerFired { ticket, timer } => self.timer_fired(ticket, timer, &mut step),
            CallEvent::CancelRequested { ticket } => self.cancel(ticket, &mut step),
            CallEvent::WindDownRequested { ticket } => match self.calls.get_mut(&ticket) {
                Some((call, Phase::Running { .. })) => call.further = Further::Unwanted,
                Some((_, Phase::Waiting { .. })) => self.cancel(ticket, &mut step),
                None => {}
            },
            CallEvent::Stopped { failure } => {
                for (call, phase) in mem::take(&mut self.calls).into_values() {
                    self.abandon(call, phase, failure.clone(), &mut step);
                }
            }
        }
        self.fill_places(&mut step);
        step.policies.stats.set_load(self.in_flight(), self.waiting());
        step.effects
    }

    /// Attempts that run.
    pub fn in_flight(&self) -> usize {
        self.running
    }

    /// Calls that wait: for a place, for the gate or between attempts.
    pub fn waiting(&self) -> usize {
        self.calls.len() - self.running
    }

    /// Whether every call has been answered.
    pub fn is_idle(&self) -> bool {
        self.calls.is_empty()
    }

    fn submitted(&mut self, call: Call, step: &mut Step<'_, T>) {
        if self.calls.contains_key(&call.ticket) {
            return step.report(Report::Stale { ticket: call.ticket, attempt: 0 });
        }
        if self.has_place() {
            self.start(call, None, step);
        } else if self.is_full() {
            step.fail(call, wording::overloaded(&self.name, &self.policy), None);
        } else {
            self.enqueue(call, None, step);
        }
    }

    fn timer_fired(&mut self, ticket: Ticket, timer: u32, step: &mut Step<'_, T>) {
        let (call, spot, retry) = match self.calls.remove(&ticket) {
            Some((call, Phase::Waiting { spot, timer: current, retry })) if current == timer => {
                (call, spot, retry)
            }
            // A timer of an earlier wait, or of a call that is over.
            Some(entry) => {
                self.calls.insert(ticket, entry);
                return;
            }
            None => return,
        };
        self.leave(spot);
        match spot {
            Spot::Place { .. } => self.out_of_time(call, retry, step),
            Spot::Gate | Spot::Backoff if self.has_place() => self.start(call, retry, step),
            Spot::Gate | Spot::Backoff => self.enqueue(call, retry, step),
        }
    }

    /// `failure` is told the name of the dependency and how long the attempt ran.
    fn attempt_failed(
        &mut self,
        ticket: Ticket,
        attempt: u32,
        failure: impl FnOnce(&str, Duration) -> Failure,
        step: &mut Step<'_, T>,
    ) {
        let Some((mut call, permit, since)) = self.end_attempt(ticket, attempt, step) else { return };
        let failure = failure(&self.name, step.now.since(since));
        let class = classify(&failure);
        if let Some(spike) = step.policies.stats.failed(step.now, &failure) {
            step.report(Report::ErrorSpike(spike));
        }
        step.record(permit, class.weight());
        let wait = match failure.retry_after {
            Some(asked) => self.backoff.wait_at_least(asked, call.attempts, &mut self.rng),
            None => self.backoff.wait(call.attempts, &mut self.rng),
        };
        if class == Class::Throttled {
            step.policies.gate.shut(step.now, failure.retry_after.unwrap_or(wait));
        }
        if class == Class::Bug {
            call.crashes += 1;
        }
        let paid = self.may_retry(&call, &failure, class, wait, step).and_then(|()| {
            Paid::take(&mut step.policies.budget, step.common, step.now, class.cost_milli())
                .ok_or(StoppedBy::Budget)
        });
        match paid {
            Ok(paid) => {
                call.remember(failure.effect);
                step.report(Report::WillRetry { ticket, attempt, failure: failure.clone(), wait });
                let retry = Box::new(Retry { last: failure, paid, since: step.now });
                self.wait(call, Spot::Backoff, step.now + wait, Some(retry), step);
            }
            Err(StoppedBy::Effect) => {
                let failure = wording::not_repeated(&self.name, failure, class, call.effect);
                step.fail(call, failure, Some(StoppedBy::Effect));
            }
            Err(why) => step.fail(call, failure, Some(why)),
        }
    }

    /// Whether another attempt after `wait` is allowed and of use; all but the budget.
    fn may_retry(
        &self,
        call: &Call,
        failure: &Failure,
        class: Class,
        wait: Duration,
        step: &Step<'_, T>,
    ) -> Result<(), StoppedBy> {
        if class == Class::Cancelled {
            return Err(StoppedBy::Cancelled);
        }
        if !retryable(class, Effect::ReadOnly) {
            return Err(StoppedBy::Permanent);
        }
        let does_no_harm = failure.effect == EffectState::None || call.effect.repeatable();
        if !does_no_harm {
            return Err(StoppedBy::Effect);
        }
        if call.further == Further::Unwanted {
            return Err(StoppedBy::Cancelled);
        }
        if call.attempts >= self.policy.retry.max_attempts {
            return Err(StoppedBy::MaxAttempts);
        }
        if call.crashes >= CRASHES_MAX {
            return Err(StoppedBy::Permanent);
        }
        if failure.retry_after.is_some_and(|asked| asked > self.policy.retry.retry_after_cap) {
            return Err(StoppedBy::RetryAfter);
        }
        let next = step.now + wait;
        if next + USEFUL_MIN >= call.deadline {
            return Err(StoppedBy::Deadline);
        }
        match step.policies.breaker.state(step.now) {
            BreakerState::Open { until } if until > next => Err(StoppedBy::BreakerOpen),
            BreakerState::ForcedOpen => Err(StoppedBy::BreakerOpen),
            BreakerState::Open { .. }
            | BreakerState::Closed
            | BreakerState::HalfOpen
            | BreakerState::ForcedClosed => Ok(()),
        }
    }

    /// Starts the next attempt of a call for which there is a place, unless something forbids it.
    fn start(&mut self, mut call: Call, retry: Option<Box<Retry>>, step: &mut Step<'_, T>) {
        let now = step.now;
        if now >= call.deadline {
            return self.out_of_time(call, retry, step);
        }
        if let Some(opens) = step.policies.gate.shut_until(now) {
            return self.wait_at_gate(call, retry, opens, step);
        }
        if step.policies.abandoned > self.policy.abandoned_max {
            let abandoned = step.policies.abandoned;
            let reason = || wording::does_not_stop(&self.name, abandoned);
            return step.refuse(call, retry, reason, StoppedBy::Permanent);
        }
        step.settle_breaker();
        let permit = match step.policies.breaker.acquire(now) {
            Ok(permit) => permit,
            Err(rejected) => {
                let reason = || wording::tool_down(&self.name, &rejected);
                return step.refuse(call, retry, reason, StoppedBy::BreakerOpen);
            }
        };
        if let Some(retry) = retry {
            call.waited += now.since(retry.since);
        }
        call.attempts += 1;
        self.running += 1;
        step.policies.stats.started(call.attempts);
        step.effects.push(CallEffect::StartAttempt {
            ticket: call.ticket,
            attempt: call.attempts,
            timeout_at: call.deadline.min(now + self.policy.attempt_timeout),
        });
        self.calls.insert(call.ticket, (call, Phase::Running { permit, since: now }));
    }

    fn wait_at_gate(
        &mut self,
        call: Call,
        retry: Option<Box<Retry>>,
        opens: Timestamp,
        step: &mut Step<'_, T>,
    ) {
        let asked = opens.since(step.now);
        let release = step.policies.gate.release_at();
        let why = if release + USEFUL_MIN >= call.deadline {
            StoppedBy::Deadline
        } else if asked > self.policy.retry.retry_after_cap || (retry.is_none() && self.is_full()) {
            StoppedBy::RetryAfter
        } else {
            self.at_gate += 1;
            return self.wait(call, Spot::Gate, release, retry, step);
        };
        step.refuse(call, retry, || wording::rate_limited(&self.name, asked), why);
    }

    fn out_of_time(&self, call: Call, retry: Option<Box<Retry>>, step: &mut Step<'_, T>) {
        let waited = step.now.since(call.submitted);
        let reason = || wording::out_of_time(&self.name, waited);
        step.refuse(call, retry, reason, StoppedBy::Deadline);
    }

    fn enqueue(&mut self, call: Call, retry: Option<Box<Retry>>, step: &mut Step<'_, T>) {
        let turn = self.queue.push(call.run, call.ticket);
        let deadline = call.deadline;
        self.wait(call, Spot::Place { turn }, deadline, retry, step);
    }

    fn wait(
        &mut self,
        mut call: Call,
        spot: Spot,
        until: Timestamp,
        retry: Option<Box<Retry>>,
        step: &mut Step<'_, T>,
    ) {
        let (ticket, timer) = (call.ticket, call.next_timer());
        step.effects.push(CallEffect::StartTimer { ticket, timer, at: until });
        self.calls.insert(ticket, (call, Phase::Waiting { spot, timer, retry }));
    }

    /// Gives up the spot of a call that no longer waits.
    fn leave(&mut self, spot: Spot) {
        match spot {
            Spot::Place { turn } => self.queue.leave(turn),
            Spot::Gate => self.at_gate -= 1,
            Spot::Backoff => {}
        }
    }

    /// Takes the call out if this very attempt of it runs; anything else is stale.
    fn end_attempt(
        &mut self,
        ticket: Ticket,
        attempt: u32,
        step: &mut Step<'_, T>,
    ) -> Option<(Call, Permit, Timestamp)> {
        match self.calls.remove(&ticket) {
            Some((call, Phase::Running { permit, since })) if call.attempts == attempt => {
                self.running -= 1;
                Some((call, permit, since))
            }
            other => {
                if let Some(entry) = other {
                    self.calls.insert(ticket, entry);
                }
                step.policies.stats.stale();
                step.report(Report::Stale { ticket, attempt });
                None
            }
        }
    }

    fn cancel(&mut self, ticket: Ticket, step: &mut Step<'_, T>) {
        if let Some((call, phase)) = self.calls.remove(&ticket) {
            let running = matches!(phase, Phase::Running { .. });
            let failure = wording::cancelled(&self.name, running);
            self.abandon(call, phase, failure, step);
        }
    }

    /// Ends a call from outside, whatever it is doing.
    fn abandon(&mut self, mut call: Call, phase: Phase, failure: Failure, step: &mut Step<'_, T>) {
        match phase {
            Phase::Running { permit, .. } => {
                self.running -= 1;
                let (ticket, attempt) = (call.ticket, call.attempts);
                step.effects.push(CallEffect::AbortAttempt { ticket, attempt });
                step.record(permit, Weight::Neutral);
                call.remember(EffectState::Unknown);
            }
            Phase::Waiting { spot, retry, .. } => {
                self.leave(spot);
                if let Some(retry) = retry {
                    step.give_back(&mut call, *retry);
                }
            }
        }
        step.fail(call, failure, Some(StoppedBy::Cancelled));
    }

    fn fill_places(&mut self, step: &mut Step<'_, T>) {
        while self.has_place() {
            let Some(ticket) = self.queue.pop() else { return };
            let Some((call, Phase::Waiting { retry, .. })) = self.calls.remove(&ticket) else { continue };
            self.start(call, retry, step);
        }
    }

    fn has_place(&self) -> bool {
        self.running < usize::try_from(self.policy.concurrency).unwrap_or(usize::MAX)
    }

    /// Whether one more first attempt may not wait. Retries are bounded by the budget instead.
    fn is_full(&self) -> bool {
        self.queue.len() + self.at_gate >= usize::try_from(self.policy.waiting).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests;
