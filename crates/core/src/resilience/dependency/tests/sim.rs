//! A shell for tests: it fires the timers and timeouts that the effects ask for, in order of time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use dauntless_contract::{BudgetPolicy, FailureCode, RunId};
use expect_test::Expect;

use crate::resilience::dependency::*;
use crate::resilience::{CallEnd, RetryBudget};

pub(super) type Value = &'static str;

/// One dependency called `order`, its policies, and what the effects so far ask for.
pub(super) struct Sim {
    pub(super) dependency: Dependency<Value>,
    pub(super) policies: Policies,
    pub(super) common: RetryBudget,
    pub(super) now: Timestamp,
    pub(super) timers: BTreeSet<(Timestamp, Ticket, u32)>,
    pub(super) running: BTreeMap<Ticket, (u32, Timestamp)>,
    pub(super) ends: BTreeMap<Ticket, CallEnd<Value>>,
    pub(super) attempts: u32,
    /// What the retries that were started have cost.
    pub(super) spent_milli: u64,
    paid: BTreeMap<Ticket, u64>,
    pub(super) log: String,
}

impl Sim {
    pub(super) fn new(policy: ResiliencePolicy) -> Self {
        Self {
            policies: Policies::new(&policy, 1),
            common: RetryBudget::new(&BudgetPolicy::for_runtime()),
            dependency: Dependency::new("order".into(), Arc::new(policy), 2),
            now: Timestamp::ZERO,
            timers: BTreeSet::new(),
            running: BTreeMap::new(),
            ends: BTreeMap::new(),
            attempts: 0,
            spent_milli: 0,
            paid: BTreeMap::new(),
            log: String::new(),
        }
    }

    pub(super) fn call(&mut self, n: u64, effect: Effect, deadline: Timestamp) {
        self.call_of(1, n, effect, deadline);
    }

    pub(super) fn call_of(&mut self, run: u128, n: u64, effect: Effect, deadline: Timestamp) {
        let (ticket, run, attempts_made) = (Ticket(n), RunId::from_u128(run), 0);
        self.event(CallEvent::Submitted { ticket, run, effect, deadline, attempts_made });
    }

    /// A call that another process had begun.
    fn call_again(&mut self, n: u64, effect: Effect, attempts_made: u32) {
        let (ticket, run, deadline) = (Ticket(n), RunId::from_u128(1), Timestamp::MAX);
        self.event(CallEvent::Submitted { ticket, run, effect, deadline, attempts_made });
    }

    pub(super) fn event(&mut self, event: CallEvent<Value>) {
        match &event {
            CallEvent::Succeeded { ticket, attempt, .. }
            | CallEvent::Failed { ticket, attempt, .. }
            | CallEvent::TimedOut { ticket, attempt }
            | CallEvent::Crashed { ticket, attempt, .. } => {
                if self.running.get(ticket).is_some_and(|(running, _)| running == attempt) {
                    self.running.remove(ticket);
                }
            }
            CallEvent::Submitted { .. }
            | CallEvent::TimerFired { .. }
            | CallEvent::CancelRequested { .. }
            | CallEvent::WindDownRequested { .. }
            | CallEvent::Stopped { .. } => {}
        }
        for effect in self.dependency.on(self.now, event, &mut self.policies, &mut self.common) {
            self.carry_out(effect);
        }
        assert_eq!(self.dependency.in_flight(), self.running.len(), "places and attempts differ");
    }

    fn carry_out(&mut self, effect: CallEffect<Value>) {
        let text = match effect {
            CallEffect::StartAttempt { ticket, attempt, timeout_at } => {
                self.attempts += 1;
                // The first attempt here is paid by nobody, whatever its number.
                self.spent_milli += self.paid.get(&ticket).copied().unwrap_or_default();
                let before = self.running.insert(ticket, (attempt, timeout_at));
                assert_eq!(before, None, "two attempts of {ticket:?} at once");
                format!("start {}.{attempt} timeout_at={timeout_at:?}", ticket.0)
            }
            CallEffect::AbortAttempt { ticket, attempt } => {
                assert_eq!(self.running.remove(&ticket).map(|(running, _)| running), Some(attempt));
                format!("abort {}.{attempt}", ticket.0)
            }
            CallEffect::StartTimer { ticket, timer, at } => {
                self.timers.insert((at, ticket, timer));
                format!("timer {} at={at:?}", ticket.0)
            }
            CallEffect::Answer { ticket, end } => {
                let text = format!("answer {}: {}", ticket.0, describe(&end));
                assert_eq!(self.ends.insert(ticket, end), None, "{ticket:?} answered twice");
                text
            }
            CallEffect::Report(Report::WillRetry { ticket, attempt, failure, wait }) => {
                self.paid.insert(ticket, classify(&failure).cost_milli());
                format!("retry {}.{attempt} after {} in {wait:?}", ticket.0, failure.code)
            }
            CallEffect::Report(Report::BreakerOpened { retry_in }) => {
                format!("breaker opened for {retry_in:?}")
            }
            CallEffect::Report(Report::BreakerClosed) => "breaker closed".to_owned(),
            CallEffect::Report(Report::ErrorSpike(spike)) => format!("{spike:?}"),
            CallEffect::Report(Report::Stale { ticket, attempt }) => format!("stale {}.{attempt}", ticket.0),
        };
        writeln!(self.log, "{:?} {text}", self.now).unwrap();
    }

    /// Lets time pass, with the timers and timeouts that fall due.
    pub(super) fn pass_until(&mut self, until: Timestamp) {
        loop {
            let timeout = self.running.iter().map(|(ticket, (attempt, at))| (*at, *ticket, *attempt)).min();
            let timer = self.timers.first().copied();
            let timeout_first = timeout.is_some_and(|t| timer.is_none_or(|timer| t.0 <= timer.0));
            let due = if timeout_first { timeout } else { timer };
            let Some((at, ticket, number)) = due.filter(|(at, ..)| *at <= until) else { break };
            self.now = self.now.max(at);
            if timeout_first {
                self.event(CallEvent::TimedOut { ticket, attempt: number });
            } else {
                self.timers.remove(&(at, ticket, number));
                self.event(CallEvent::TimerFired { ticket, timer: number });
            }
        }
        self.now = self.now.max(until);
    }

    /// One line of a script: `<time> <verb> <call> …`.
    fn line(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        self.pass_until(Timestamp::ZERO + length(words.next().unwrap()));
        let verb = words.next().unwrap();
        let (n, attempt) = number(words.next());
        let ticket = Ticket(n);
        let attempt = attempt.or_else(|| self.running.get(&ticket).map(|(attempt, _)| *attempt));
        let rest: Vec<&str> = words.collect();
        let option = |name: &str| rest.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        match verb {
            "call" => {
                let deadline = option("deadline").map_or(Timestamp::MAX, |d| Timestamp::ZERO + length(d));
                let run = option("run").map_or(1, |run| run.parse().unwrap());
                let effect = effect(rest.first().copied().unwrap_or("read_only"));
                match option("made") {
                    Some(made) => self.call_again(n, effect, made.parse().unwrap()),
                    None => self.call_of(run, n, effect, deadline),
                }
            }
            "ok" => self.event(CallEvent::Succeeded { ticket, attempt: attempt.unwrap(), value: "value" }),
            "fail" => {
                let code: FailureCode = rest[0].parse().unwrap();
                let mut failure = Failure::new(code, format!("The service said {code}."));
                failure.retry_after = option("retry_after").map(length);
                match option("effect") {
                    Some("none") => failure.effect = EffectState::None,
                    Some("unknown") => failure.effect = EffectState::Unknown,
                    Some(other) => panic!("effect {other}"),
                    None => {}
                }
                self.event(CallEvent::Failed { ticket, attempt: attempt.unwrap(), failure });
            }
            "crash" => {
                let cause = "index out of bounds".into();
                self.event(CallEvent::Crashed { ticket, attempt: attempt.unwrap(), cause });
            }
            "cancel" => self.event(CallEvent::CancelRequested { ticket }),
            "wind_down" => self.event(CallEvent::WindDownRequested { ticket }),
            "fire" => self.event(CallEvent::TimerFired { ticket, timer: attempt.unwrap() }),
            "stop" => self.event(CallEvent::Stopped { failure: Failure::tool_down("`order` was stopped.") }),
            "empty_budget" => while self.policies.budget.withdraw(self.now, 1).is_some() {},
            "end" => {}
            other => panic!("verb {other}"),
        }
    }
}

/// Runs a script against a policy and compares the transcript.
pub(super) fn check(policy: ResiliencePolicy, script: &str, expected: Expect) {
    let mut sim = Sim::new(policy);
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        sim.line(line);
    }
    expected.assert_eq(&sim.log);
}

fn describe(end: &CallEnd<Value>) -> String {
    let mut text = match &end.result {
        Ok(value) => format!("ok {value}"),
        Err(failure) => format!("{failure}"),
    };
    write!(text, " [attempts {}", end.attempts).unwrap();
    if !end.waited.is_zero() {
        write!(text, ", waited {:?}", end.waited).unwrap();
    }
    if let Err(failure) = &end.result {
        write!(text, ", effect {:?}", failure.effect).unwrap();
        if let Some(wait) = failure.retry_after {
            write!(text, ", retry after {wait:?}").unwrap();
        }
    }
    if let Some(why) = end.stopped_by {
        write!(text, ", stopped by {why:?}").unwrap();
    }
    text + "]"
}

fn number(word: Option<&str>) -> (u64, Option<u32>) {
    let word = word.unwrap_or("0");
    match word.split_once('.') {
        Some((n, attempt)) => (n.parse().unwrap(), Some(attempt.parse().unwrap())),
        None => (word.parse().unwrap(), None),
    }
}

fn length(text: &str) -> Duration {
    Duration::from_secs_f64(text.strip_suffix('s').unwrap().parse().unwrap())
}

fn effect(text: &str) -> Effect {
    [Effect::ReadOnly, Effect::Idempotent, Effect::Keyed, Effect::Verifiable, Effect::Once]
        .into_iter()
        .find(|effect| effect.as_str() == text)
        .unwrap()
}
