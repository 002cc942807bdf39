//! What handling one event works with: the present, the shared policies, and the effects so far.

use std::time::Duration;

use dauntless_contract::{Failure, StoppedBy, Timestamp};

use super::call::{Call, Retry};
use super::{BreakerState, CallEffect, CallEnd, CommonBudget, Permit, Policies, Recorded, Report, Weight};

/// How long an operator's switch is taken to last, since nobody can know: then it is looked at again.
const FORCED_OPEN: Duration = Duration::from_secs(60);

pub(super) struct Step<'a, T> {
    pub(super) now: Timestamp,
    pub(super) policies: &'a mut Policies,
    pub(super) common: &'a mut dyn CommonBudget,
    pub(super) effects: Vec<CallEffect<T>>,
}

impl<T> Step<'_, T> {
    pub(super) fn report(&mut self, report: Report) {
        self.effects.push(CallEffect::Report(report));
    }

    /// Brings a permit back to the breaker, and reports what that changed.
    pub(super) fn record(&mut self, permit: Permit, weight: Weight) {
        match self.policies.breaker.record(permit, weight, self.now) {
            Recorded::Opened { retry_in } => self.report(Report::BreakerOpened { retry_in }),
            Recorded::Closed => self.report(Report::BreakerClosed),
            // The caller still gets its result; only the breaker does not want to know.
            Recorded::Stale | Recorded::Unchanged => {}
        }
    }

    /// Lets the breaker notice a lost probe before it is asked for a permit.
    pub(super) fn settle_breaker(&mut self) {
        if let Some(retry_in) = self.policies.breaker.settle(self.now) {
            self.report(Report::BreakerOpened { retry_in });
        }
    }

    pub(super) fn succeed(&mut self, call: Call, value: T) {
        self.answer(call, Ok(value), None);
    }

    pub(super) fn fail(&mut self, call: Call, failure: Failure, why: Option<StoppedBy>) {
        let effect = call.effect_after(failure.effect);
        self.answer(call, Err(failure.effect(effect)), why);
    }

    /// Ends a call that may not start its next attempt: with its last real failure if it has one.
    pub(super) fn refuse(
        &mut self,
        mut call: Call,
        retry: Option<Box<Retry>>,
        reason: impl FnOnce() -> Failure,
        why: StoppedBy,
    ) {
        let failure = match retry {
            Some(retry) => self.give_back(&mut call, *retry),
            None => reason(),
        };
        self.fail(call, failure, Some(why));
    }

    /// Ends the wait for a retry that will not be made; returns the failure that led to it.
    pub(super) fn give_back(&mut self, call: &mut Call, retry: Retry) -> Failure {
        call.waited += self.now.since(retry.since);
        retry.paid.refund(&mut self.policies.budget, self.common, self.now);
        retry.last
    }

    fn out_for(&self) -> Option<Duration> {
        match self.policies.breaker.state(self.now) {
            BreakerState::Open { until } => Some(until.since(self.now)),
            BreakerState::ForcedOpen => Some(FORCED_OPEN),
            BreakerState::Closed | BreakerState::HalfOpen | BreakerState::ForcedClosed => None,
        }
    }

    fn answer(&mut self, call: Call, result: Result<T, Failure>, stopped_by: Option<StoppedBy>) {
        let (ticket, attempts, waited) = (call.ticket, call.attempts_here(), call.waited);
        let out_for = match &result {
            Ok(_) => None,
            Err(_) => self.out_for(),
        };
        let end = CallEnd { result, attempts, waited, stopped_by, out_for };
        self.effects.push(CallEffect::Answer { ticket, end });
    }
}
