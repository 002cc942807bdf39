//! Random orders of events: whatever comes, everybody is answered once and every place comes back.

use dauntless_contract::{BreakerPolicy, BudgetPolicy, FailureCode, ResiliencePolicy};
use proptest::prelude::*;

use super::sim::Sim;
use crate::resilience::dependency::*;
use crate::resilience::{RetryBudget, Rng};

const EFFECTS: [Effect; 5] =
    [Effect::ReadOnly, Effect::Idempotent, Effect::Keyed, Effect::Verifiable, Effect::Once];

/// Draws one event that could happen now, or a late or repeated one.
fn happen(sim: &mut Sim, rng: &mut Rng, submitted: &mut u64) {
    let mut pick = |n: usize| usize::try_from(rng.draw() % (n as u64)).unwrap();
    let what = pick(100);
    let ms = Duration::from_millis(pick(4_000) as u64);
    let running = sim.running.iter().nth(pick(sim.running.len().max(1))).map(|(t, (n, _))| (*t, *n));
    match (what, running) {
        (0..30, _) => {
            *submitted += 1;
            let deadline = sim.now + ms * 10;
            sim.call_of(pick(3) as u128, *submitted, EFFECTS[pick(5)], deadline);
        }
        (30..50, Some((ticket, attempt))) => {
            sim.event(CallEvent::Succeeded { ticket, attempt, value: "value" });
        }
        (50..70, Some((ticket, attempt))) => {
            let mut failure = Failure::new(FailureCode::ALL[pick(FailureCode::ALL.len())], "no");
            if pick(2) == 0 {
                failure.code = FailureCode::Unavailable;
            }
            if pick(4) == 0 {
                failure.retry_after = Some(ms);
            }
            sim.event(CallEvent::Failed { ticket, attempt, failure });
        }
        (70..74, Some((ticket, attempt))) => {
            sim.event(CallEvent::Crashed { ticket, attempt, cause: "bug".into() });
        }
        (74..79, _) => {
            let ticket = Ticket(pick(usize::try_from(*submitted).unwrap() + 2) as u64);
            sim.event(CallEvent::CancelRequested { ticket });
        }
        (79..84, _) => {
            let ticket = Ticket(pick(usize::try_from(*submitted).unwrap() + 2) as u64);
            sim.event(CallEvent::TimerFired { ticket, timer: [1, 2, 3][pick(3)] });
        }
        (84..87, _) => {
            let ticket = Ticket(pick(usize::try_from(*submitted).unwrap() + 2) as u64);
            sim.event(CallEvent::TimedOut { ticket, attempt: [0, 1, 2, 3][pick(4)] });
        }
        (87, _) if pick(20) == 0 => sim.event(CallEvent::Stopped { failure: Failure::tool_down("stopped") }),
        _ => {
            let until = sim.now + ms;
            sim.pass_until(until);
        }
    }
}

fn check_invariants(sim: &Sim, policy: &ResiliencePolicy, submitted: u64) {
    let dependency = &sim.dependency;
    let (mut running, mut placed, mut at_gate) = (0, 0, 0);
    for (ticket, (_, phase)) in &dependency.calls {
        match phase {
            Phase::Running { .. } => running += 1,
            Phase::Waiting { spot: Spot::Place { turn }, .. } => {
                placed += 1;
                assert!(dependency.queue.holds(*turn, *ticket));
            }
            Phase::Waiting { spot: Spot::Gate, .. } => at_gate += 1,
            Phase::Waiting { spot: Spot::Backoff, .. } => {}
        }
    }
    assert_eq!((running, placed, at_gate), (dependency.running, dependency.queue.len(), dependency.at_gate));
    assert!(running <= policy.concurrency as usize);
    assert!(
        placed == 0 || running == policy.concurrency as usize,
        "a place is free and somebody waits for it"
    );
    assert_eq!(sim.ends.len() + dependency.calls.len(), usize::try_from(submitted).unwrap());
    assert!(sim.policies.budget.level_milli(sim.now) <= policy.budget.capacity_milli);
    for (ticket, (_, phase)) in &dependency.calls {
        if let Phase::Waiting { timer, .. } = phase {
            assert!(sim.timers.iter().any(|(_, t, n)| (t, n) == (ticket, timer)), "{ticket:?} has no timer");
        }
    }
}

fn run(seed: u64, events: u32, policy: &ResiliencePolicy) -> Sim {
    run_with(seed, events, policy, &BudgetPolicy::for_runtime())
}

fn run_with(seed: u64, events: u32, policy: &ResiliencePolicy, common: &BudgetPolicy) -> Sim {
    let mut sim = Sim::new(policy.clone());
    sim.common = RetryBudget::new(common);
    let mut rng = Rng::new(seed);
    let mut submitted = 0;
    for n in 0..events {
        happen(&mut sim, &mut rng, &mut submitted);
        if n % 16 == 0 {
            check_invariants(&sim, policy, submitted);
        }
    }
    // No more faults: every call ends by its own timers and timeouts.
    sim.pass_until(sim.now + policy.deadline + Duration::from_secs(1));
    check_invariants(&sim, policy, submitted);
    assert!(sim.dependency.is_idle(), "left over: {:?}", sim.dependency.calls);
    assert!(sim.timers.is_empty() && sim.running.is_empty());
    for end in sim.ends.values() {
        assert!(end.attempts <= policy.retry.max_attempts);
    }
    sim
}

fn policy(concurrency: u32, waiting: u32) -> ResiliencePolicy {
    let breaker = BreakerPolicy { open_for: Duration::from_millis(500), ..BreakerPolicy::default() };
    ResiliencePolicy { concurrency, waiting, breaker, ..ResiliencePolicy::default() }
}

#[test]
fn lim_03_a_hundred_thousand_random_events_leave_every_place_free() {
    run(1, 100_000, &policy(8, 32));
}

#[test]
fn tst_01_the_same_seed_gives_the_same_state_after_every_event() {
    let policy = policy(2, 4);
    let (mut first, mut second) = (Sim::new(policy.clone()), Sim::new(policy));
    let (mut rng_1, mut rng_2) = (Rng::new(9), Rng::new(9));
    let (mut n_1, mut n_2) = (0, 0);
    for _ in 0..2_000 {
        happen(&mut first, &mut rng_1, &mut n_1);
        happen(&mut second, &mut rng_2, &mut n_2);
        assert_eq!(first.dependency, second.dependency);
        assert_eq!(first.policies, second.policies);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_call_is_answered_exactly_once(
        seed in any::<u64>(), events in 1_u32..600, concurrency in 1_u32..4, waiting in 0_u32..4,
    ) {
        run(seed, events, &policy(concurrency, waiting));
    }

    #[test]
    fn rb_05_what_a_retry_did_not_use_is_refunded_exactly_once(seed in any::<u64>(), events in 1_u32..600) {
        let capacity_milli = 1_000_000;
        let budget = BudgetPolicy { capacity_milli, per_success_milli: 0, refill_every: Duration::MAX };
        let policy = ResiliencePolicy { budget: budget.clone(), ..policy(3, 4) };
        let sim = run_with(seed, events, &policy, &budget);
        prop_assert_eq!(sim.policies.budget.level_milli(sim.now), capacity_milli - sim.spent_milli);
        prop_assert_eq!(sim.common.level_milli(sim.now), capacity_milli - sim.spent_milli);
    }
}
