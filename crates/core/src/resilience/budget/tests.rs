use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn at(ms: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_millis(ms)
}

fn empty_at(now: Timestamp) -> RetryBudget {
    let mut budget = RetryBudget::new(&BudgetPolicy::default());
    while budget.withdraw(now, 1000).is_some() {}
    budget
}

#[test]
fn rb_06_an_empty_budget_refuses_at_once() {
    let mut budget = RetryBudget::new(&BudgetPolicy::default());
    let granted = (0..100).filter(|_| budget.withdraw(at(0), 1000).is_some()).count();
    assert_eq!(granted, 10);
    assert_eq!(budget.withdraw(at(4_999), 1000), None);
    assert!(budget.withdraw(at(5_000), 1000).is_some());
}

#[test]
fn rb_07_successes_and_time_refill_it() {
    let mut budget = empty_at(at(0));
    for _ in 0..5 {
        budget.succeeded(at(0));
    }
    assert_eq!(budget.level_milli(at(0)), 1000);
    assert_eq!(budget.level_milli(at(60_000)), 10_000, "never above what it holds");
}

#[test]
fn rb_05_a_refund_gives_back_exactly_what_was_taken() {
    let mut budget = RetryBudget::new(&BudgetPolicy::default());
    let taken = budget.withdraw(at(0), 2000).unwrap();
    assert_eq!(budget.level_milli(at(0)), 8000);
    budget.refund(at(0), taken);
    assert_eq!(budget.level_milli(at(0)), 10_000);
}

#[test]
fn rb_03_any_ratio_is_exact_over_many_successes() {
    for per_success_milli in 10..=1000 {
        let policy = BudgetPolicy {
            capacity_milli: 1_000_000,
            per_success_milli,
            refill_every: Duration::from_secs(3_000_000),
        };
        let mut budget = RetryBudget::new(&policy);
        while budget.withdraw(at(0), 1000).is_some() {}
        let before = budget.level_milli(at(0));
        for _ in 0..500 {
            budget.succeeded(at(0));
        }
        assert_eq!(budget.level_milli(at(0)) - before, 500 * per_success_milli);
    }
}

#[test]
fn time_is_counted_exactly_however_often_it_is_looked_at() {
    let policy = BudgetPolicy { refill_every: Duration::from_micros(7_777), ..BudgetPolicy::default() };
    let mut budget = RetryBudget::new(&policy);
    while budget.withdraw(at(0), 1).is_some() {}
    for us in 1..=50_000 {
        budget.refill(Timestamp::from_micros(us));
    }
    assert_eq!(budget.level_milli(at(50)), 50_000 * 1000 / 7_777);
}

#[test]
fn time_that_passes_over_a_full_budget_is_not_saved_up() {
    let mut budget = RetryBudget::new(&BudgetPolicy::default());
    let at_us = Timestamp::from_micros;
    let taken = budget.withdraw(at_us(0), 1).unwrap();
    budget.refund(at_us(4_999), taken);
    assert!(budget.withdraw(at_us(5_500), 1).is_some());
    assert_eq!(budget.level_milli(at_us(10_499)), 9_999);
    assert_eq!(budget.level_milli(at_us(10_500)), 10_000);
}

proptest! {
    #[test]
    fn rb_01_retries_never_exceed_what_was_earned(
        ops in proptest::collection::vec((0_u64..3_000, 0_u8..5), 1..400),
    ) {
        let mut budget = RetryBudget::new(&BudgetPolicy::default());
        let (mut now_ms, mut spent, mut successes) = (0, 0, 0);
        let mut held: Vec<(Withdrawal, u64)> = Vec::new();
        for (pause_ms, op) in ops {
            now_ms += pause_ms / 10;
            let now = at(now_ms);
            match op {
                0 => { budget.succeeded(now); successes += 1; }
                1 => if let Some((unused, cost)) = held.pop() { budget.refund(now, unused); spent -= cost; },
                cost => {
                    let cost = [500, 1000, 2000][usize::from(cost - 2)];
                    if let Some(taken) = budget.withdraw(now, cost) { held.push((taken, cost)); spent += cost; }
                }
            }
            prop_assert!(budget.level_milli(now) <= 10_000);
            prop_assert!(spent <= 200 * successes + now_ms / 5 + 10_000);
        }
    }
}
