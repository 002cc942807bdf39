//! Two budgets pay for a retry: the dependency's own, and the one of the whole runtime.

use std::mem;

use dauntless_contract::{BudgetPolicy, ResiliencePolicy};

use super::sim::Sim;
use crate::resilience::RetryBudget;
use crate::resilience::dependency::*;

fn tool() -> Sim {
    let mut policy = ResiliencePolicy::default();
    policy.retry.max_attempts = u32::MAX;
    policy.breaker.consecutive_failures = u32::MAX;
    policy.breaker.min_calls = u32::MAX;
    policy.deadline = Duration::from_secs(3600);
    Sim::new(policy)
}

fn holds(capacity_milli: u64) -> RetryBudget {
    RetryBudget::new(&BudgetPolicy { capacity_milli, per_success_milli: 100, refill_every: Duration::MAX })
}

/// Makes one call that fails for ever; answers how many retries it was granted.
fn retries_until_refused(sim: &mut Sim, n: u64) -> u32 {
    sim.call(n, Effect::ReadOnly, Timestamp::MAX);
    while !sim.ends.contains_key(&Ticket(n)) {
        match sim.running.get(&Ticket(n)).copied() {
            Some((attempt, _)) => {
                let failure = Failure::unavailable("down");
                sim.event(CallEvent::Failed { ticket: Ticket(n), attempt, failure });
            }
            None => {
                let (due, ..) = *sim.timers.first().unwrap();
                sim.pass_until(due);
            }
        }
    }
    assert_eq!(sim.ends[&Ticket(n)].stopped_by, Some(StoppedBy::Budget));
    sim.ends[&Ticket(n)].attempts - 1
}

#[test]
fn rb_10_the_common_budget_caps_the_sum_and_the_own_ones_stay_independent() {
    let (mut first, mut second, mut third) = (tool(), tool(), tool());
    for sim in [&mut first, &mut second, &mut third] {
        sim.policies.budget = holds(10_000);
    }
    first.common = holds(15_000);
    assert_eq!(retries_until_refused(&mut first, 1), 10, "its own budget is used up");
    mem::swap(&mut first.common, &mut second.common);
    assert_eq!(retries_until_refused(&mut second, 1), 5, "the common one is used up");
    assert_eq!(
        second.policies.budget.level_milli(second.now),
        5_000,
        "its own is not touched by the refusal"
    );
    mem::swap(&mut second.common, &mut third.common);
    assert_eq!(retries_until_refused(&mut third, 1), 0);
    assert_eq!(third.policies.budget.level_milli(third.now), 10_000);
}

#[test]
fn rb_10_a_success_earns_for_both() {
    let mut sim = tool();
    sim.policies.budget = RetryBudget::new(&BudgetPolicy::default());
    while sim.policies.budget.withdraw(sim.now, 1).is_some() {}
    while sim.common.withdraw(sim.now, 1).is_some() {}
    sim.call(1, Effect::ReadOnly, Timestamp::MAX);
    sim.event(CallEvent::Succeeded { ticket: Ticket(1), attempt: 1, value: "value" });
    assert_eq!((sim.policies.budget.level_milli(sim.now), sim.common.level_milli(sim.now)), (200, 100));
}

#[test]
fn rb_10_an_unused_retry_is_given_back_to_both() {
    let mut sim = tool();
    let before = |sim: &Sim| (sim.policies.budget.level_milli(sim.now), sim.common.level_milli(sim.now));
    let full = before(&sim);
    sim.call(1, Effect::ReadOnly, Timestamp::MAX);
    sim.event(CallEvent::Failed { ticket: Ticket(1), attempt: 1, failure: Failure::unavailable("down") });
    assert_eq!(before(&sim), (full.0 - 1000, full.1 - 1000));
    sim.event(CallEvent::CancelRequested { ticket: Ticket(1) });
    assert_eq!(before(&sim), full);
    sim.event(CallEvent::CancelRequested { ticket: Ticket(1) });
    assert_eq!(before(&sim), full, "once");
}

#[test]
fn rb_06_an_empty_common_budget_ends_the_call_with_its_real_failure() {
    let mut sim = tool();
    sim.common = holds(0);
    assert_eq!(retries_until_refused(&mut sim, 1), 0);
    assert_eq!(sim.ends[&Ticket(1)].result, Err(Failure::unavailable("down").effect(EffectState::None)));
}
