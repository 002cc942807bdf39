//! What the attempts at one tool must keep to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{CallKey, Effect, EffectState, Failure, FailureCode, OnExhausted, ToolSpec};
use dauntless_runtime::{RestartPolicy, RevivalPolicy};

use super::Findings;
use super::breaker::{BreakerBook, Sight};
use super::endings::{Endings, Sign};
use crate::simulator::history::{Attempt, AttemptEnd, Who};

/// How much later than its deadline an attempt may end.
const GRACE: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(super) struct ToolBook {
    spec: Arc<ToolSpec>,
    breaker: BreakerBook,
    running: BTreeMap<Attempt, Running>,
    calls: BTreeMap<(Who, CallKey), Call>,
    /// Thousandths of a retry.
    spent: u64,
    successes: u64,
    /// Until then every place was taken.
    full_until: Duration,
    shut_until: Duration,
    shut_since: Duration,
    panics: Vec<Duration>,
    down_since: Option<Duration>,
}

#[derive(Debug)]
struct Running {
    began: Duration,
    deadline: Duration,
}

#[derive(Debug)]
struct Call {
    key: u32,
    began: Duration,
    attempts: u32,
    effects: u32,
    last: Option<Last>,
}

/// How the last attempt of a call ended.
#[derive(Debug)]
struct Last {
    at: Duration,
    end: AttemptEnd,
    /// At its deadline an attempt may count as timed out, whatever it still said.
    tied: bool,
}

impl ToolBook {
    pub(super) fn new(spec: &Arc<ToolSpec>) -> Self {
        Self {
            breaker: BreakerBook::new(spec.resilience.breaker.clone()),
            spec: Arc::clone(spec),
            running: BTreeMap::new(),
            calls: BTreeMap::new(),
            spent: 0,
            successes: 0,
            full_until: Duration::ZERO,
            shut_until: Duration::ZERO,
            shut_since: Duration::ZERO,
            panics: Vec::new(),
            down_since: None,
        }
    }

    /// Whether so many attempts panicked that the tool is out of service.
    pub(super) const fn is_down(&self) -> bool {
        self.down_since.is_some()
    }

    /// Whether its calls carry a key that makes a repetition harmless.
    pub(super) fn is_keyed(&self) -> bool {
        self.spec.effect == Effect::Keyed
    }

    pub(super) fn began(
        &mut self,
        at: Duration,
        attempt: &Attempt,
        key: u32,
        deadline: Duration,
        findings: &mut Findings,
    ) {
        let policy = Arc::clone(&self.spec);
        let policy = &policy.resilience;
        self.breaker.began(at, attempt, findings);
        self.revive(at);
        findings.hold(
            at <= self.shut_since || at >= self.shut_until,
            at,
            "nobody asks before the other side said it may help (RT-9)",
            || format!("{attempt}, though it asked to be left alone until {:?}", self.shut_until),
        );
        findings.hold(
            self.down_since.is_none_or(|down| at <= down),
            at,
            "a tool that keeps breaking is taken out of service (SUP-1)",
            || format!("{attempt} after {} panics", self.panics.len()),
        );
        let twin = self.running.keys().find(|other| (other.who, other.call) == (attempt.who, attempt.call));
        findings.hold(twin.is_none(), at, "attempts of a call do not overlap", || {
            format!("{attempt} begins while another runs")
        });
        let places = self.places();
        findings.hold(self.running.len() < places, at, "no more attempts than places (LIM-1)", || {
            format!("{attempt} begins while {} run, and {places} may", self.running.len())
        });
        self.count(at, attempt, key, findings);
        let call_began = self.calls.get(&(attempt.who, attempt.call)).map_or(at, |call| call.began);
        let latest = (at + policy.attempt_timeout).min(call_began + policy.deadline);
        findings.hold(deadline <= latest, at, "an attempt has no more time than it may (RT-5)", || {
            format!("{attempt} may run until {deadline:?}, {latest:?} would be the latest")
        });
        self.running.insert(attempt.clone(), Running { began: at, deadline });
    }

    /// A tool that was out of service for its cool-down is started afresh.
    fn revive(&mut self, at: Duration) {
        let cool_down = RevivalPolicy::default().after;
        if self.down_since.is_some_and(|down| at >= down + cool_down) {
            self.down_since = None;
            self.panics.clear();
        }
    }

    fn places(&self) -> usize {
        usize::try_from(self.spec.resilience.concurrency).unwrap_or(usize::MAX)
    }

    /// A call ran out of time before its first attempt.
    pub(super) fn starved(&self, at: Duration, findings: &mut Findings) {
        let full = self.running.len() >= self.places() || self.full_until >= at;
        findings.hold(full, at, "a free place is given to who waits (LIM-2)", || {
            format!(
                "a call at {} waited in vain, with places free since {:?}",
                self.spec.name, self.full_until
            )
        });
    }

    /// Books an attempt on its call: the first, or one more.
    fn count(&mut self, at: Duration, attempt: &Attempt, key: u32, findings: &mut Findings) {
        let first = Call { key, began: at, attempts: 0, effects: 0, last: None };
        let call = self.calls.entry((attempt.who, attempt.call)).or_insert(first);
        // A call that was parked is made anew, with the key it had.
        let anew = self.spec.on_exhausted == OnExhausted::Park && attempt.number == 1;
        if anew {
            (call.attempts, call.began) = (0, at);
        }
        call.attempts += 1;
        let max = self.spec.resilience.retry.max_attempts;
        findings.hold(attempt.number == call.attempts, at, "attempts are counted one by one", || {
            format!("{attempt} is number {}", call.attempts)
        });
        findings.hold(attempt.number <= max, at, "no more attempts than allowed (RT-1)", || {
            format!("{attempt}, and {max} are allowed")
        });
        findings.hold(call.key == key, at, "every attempt of a call has one key (RT-13)", || {
            format!("{attempt} has key {key}, the first had {}", call.key)
        });
        let Some(last) = call.last.take() else { return };
        self.repeated(at, attempt, &last, findings);
        if !anew {
            self.pay(at, attempt, &last, findings);
        }
    }

    /// Whether a call that ended an attempt so may be tried again.
    fn repeated(
        &self,
        at: Duration,
        attempt: &Attempt,
        Last { at: ended, end: last, tied }: &Last,
        findings: &mut Findings,
    ) {
        let harmless = match (self.spec.effect, last) {
            (Effect::ReadOnly | Effect::Idempotent | Effect::Keyed, _) => true,
            (Effect::Verifiable | Effect::Once, AttemptEnd::Failed(failure)) => {
                failure.effect == EffectState::None
            }
            (
                Effect::Verifiable | Effect::Once,
                AttemptEnd::Worked | AttemptEnd::Panicked | AttemptEnd::Dropped,
            ) => false,
        };
        findings.hold(harmless, at, "what may have happened is not repeated (RT-12)", || {
            format!("{attempt}, though the one before {last}")
        });
        if let (AttemptEnd::Failed(Failure { retry_after: Some(wait), .. }), false) = (last, *tied) {
            findings.hold(at >= *ended + *wait, at, "a wait that was asked for is kept (RT-8)", || {
                format!("{attempt}, {:?} after being asked to wait for {wait:?}", at.saturating_sub(*ended))
            });
        }
    }

    /// Whether the tool's budget had a retry left.
    fn pay(
        &mut self,
        at: Duration,
        attempt: &Attempt,
        Last { end: last, tied, .. }: &Last,
        findings: &mut Findings,
    ) {
        let cost = if *tied { 500 } else { cost_milli(last) };
        findings.hold(cost > 0, at, "only what may pass is tried again (RT-3)", || {
            format!("{attempt}, though the one before {last}")
        });
        self.spent += cost;
        let budget = &self.spec.resilience.budget;
        let refill_us = budget.refill_every.as_micros().max(1);
        let refilled = u64::try_from(at.as_micros() * 1000 / refill_us).unwrap_or(u64::MAX);
        let granted =
            budget.capacity_milli + self.successes * budget.per_success_milli + refilled.saturating_add(1);
        findings.hold(self.spent <= granted, at, "retries stay within the budget (RB-1)", || {
            format!("{attempt} makes {} thousandths of a retry, and {granted} were granted", self.spent)
        });
    }

    /// A run tells that it starts an attempt; the tool may never see it, if it is stopped at once.
    pub(super) fn told_start(&mut self, at: Duration, findings: &mut Findings) {
        self.breaker.started(at, &self.spec.name, findings);
    }

    /// The history is over.
    pub(super) fn close(&mut self, findings: &mut Findings) {
        self.breaker.settle(Duration::MAX, &self.spec.name, findings);
    }

    /// A call was answered without an attempt, because the breaker is open.
    pub(super) fn refused(&mut self, at: Duration, sight: Sight, findings: &mut Findings) {
        let due = self.running.values().filter(|running| running.deadline <= at).count();
        let due = u32::try_from(due).unwrap_or(u32::MAX);
        self.breaker.refused(at, &self.spec.name, due, sight, findings);
    }

    pub(super) fn ended(
        &mut self,
        at: Duration,
        attempt: &Attempt,
        end: &AttemptEnd,
        endings: &Endings,
        findings: &mut Findings,
    ) {
        if self.running.len() >= self.places() {
            self.full_until = at;
        }
        let Some(Running { began, deadline }) = self.running.remove(attempt) else {
            return findings.hold(false, at, "what ends has begun", || format!("{attempt} {end}"));
        };
        findings.hold(at <= deadline + GRACE, at, "no attempt outlives its deadline (RT-5)", || {
            format!("{attempt} {end}, its deadline was {deadline:?}")
        });
        let sign = endings.sign(at, attempt, end, deadline);
        self.breaker.ended(at, began, attempt, sign);
        match end {
            AttemptEnd::Worked => self.successes += 1,
            AttemptEnd::Panicked => self.panicked(at),
            AttemptEnd::Failed(failure) if sign == Sign::Neutral => self.throttled(at, failure),
            AttemptEnd::Failed(_) | AttemptEnd::Dropped => {}
        }
        if let Some(call) = self.calls.get_mut(&(attempt.who, attempt.call)) {
            call.last =
                Some(Last { at, end: end.clone(), tied: at >= deadline && *end != AttemptEnd::Dropped });
        }
    }

    fn throttled(&mut self, at: Duration, failure: &Failure) {
        let (FailureCode::RateLimited | FailureCode::Unavailable, Some(wait)) =
            (failure.code, failure.retry_after)
        else {
            return;
        };
        if at + wait > self.shut_until {
            self.shut_until = at + wait;
            self.shut_since = at;
        }
    }

    fn panicked(&mut self, at: Duration) {
        let RestartPolicy { intensity, period, .. } = RestartPolicy::default();
        self.panics.push(at);
        self.panics.retain(|panic| at.saturating_sub(*panic) <= period);
        if self.panics.len() > usize::try_from(intensity).unwrap_or(usize::MAX) {
            self.down_since.get_or_insert(at);
        }
    }

    pub(super) fn took_effect(&mut self, at: Duration, attempt: &Attempt, findings: &mut Findings) {
        let Some(call) = self.calls.get_mut(&(attempt.who, attempt.call)) else { return };
        call.effects += 1;
        let once = matches!(self.spec.effect, Effect::Once | Effect::Verifiable);
        findings.hold(!once || call.effects == 1, at, "an effect happens once (RT-12)", || {
            format!("{attempt} takes effect, which makes {} times", call.effects)
        });
    }
}

/// What a retry after this costs, in thousandths; zero for what is never tried again.
const fn cost_milli(end: &AttemptEnd) -> u64 {
    let failure = match end {
        AttemptEnd::Worked => return 0,
        AttemptEnd::Panicked | AttemptEnd::Dropped => return 2000,
        AttemptEnd::Failed(failure) => failure,
    };
    match (failure.code, failure.effect, failure.retry_after) {
        (FailureCode::RateLimited, ..) | (FailureCode::Unavailable, _, Some(_)) => 500,
        (FailureCode::Unavailable, _, None)
        | (FailureCode::Timeout | FailureCode::ConnectionFailed, EffectState::None, _) => 1000,
        (FailureCode::Timeout | FailureCode::ConnectionFailed | FailureCode::Crashed, ..) => 2000,
        _ => 0,
    }
}
