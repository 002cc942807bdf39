use proptest::prelude::*;

use super::*;

const TTL: Duration = Duration::from_secs(31);

fn at(ms: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_millis(ms)
}

fn closed() -> Breaker {
    Breaker::new(&BreakerPolicy::default(), TTL, 1)
}

fn attempt(breaker: &mut Breaker, weight: Weight, now: Timestamp) -> Recorded {
    let permit = breaker.acquire(now).unwrap();
    breaker.record(permit, weight, now)
}

fn tripped_at(now: Timestamp) -> Breaker {
    let mut breaker = closed();
    for _ in 0..4 {
        assert_eq!(attempt(&mut breaker, Weight::Failure, now), Recorded::Unchanged);
    }
    assert!(matches!(attempt(&mut breaker, Weight::Failure, now), Recorded::Opened { .. }));
    breaker
}

fn open_until(breaker: &Breaker, now: Timestamp) -> Timestamp {
    match breaker.state(now) {
        BreakerState::Open { until } => until,
        other => panic!("{other:?}"),
    }
}

/// Lets one probe fail as soon as it is allowed; returns the length of the next wait.
fn fail_next_probe(breaker: &mut Breaker, now: &mut Timestamp) -> Duration {
    *now = open_until(breaker, *now);
    assert!(matches!(attempt(breaker, Weight::Failure, *now), Recorded::Opened { .. }));
    open_until(breaker, *now).since(*now)
}

#[test]
fn cb_01_it_opens_at_five_failures_in_a_row_and_not_before() {
    let breaker = tripped_at(at(0));
    assert!(matches!(breaker.state(at(0)), BreakerState::Open { .. }));
}

#[test]
fn cb_01_it_opens_at_half_of_five_calls_and_not_before() {
    let mut breaker = closed();
    for weight in [Weight::Failure, Weight::Healthy, Weight::Failure, Weight::Healthy] {
        assert_eq!(attempt(&mut breaker, weight, at(0)), Recorded::Unchanged);
    }
    assert!(matches!(attempt(&mut breaker, Weight::Failure, at(0)), Recorded::Opened { .. }));

    let mut rarer = closed();
    for weight in [Weight::Healthy, Weight::Healthy, Weight::Healthy, Weight::Failure, Weight::Failure] {
        assert_eq!(attempt(&mut rarer, weight, at(0)), Recorded::Unchanged);
    }
}

#[test]
fn cb_01_a_success_in_between_ends_a_row_of_failures() {
    let mut breaker = closed();
    for _ in 0..100 {
        attempt(&mut breaker, Weight::Healthy, at(0));
    }
    for n in 1..20 {
        let weight = if n % 5 == 0 { Weight::Healthy } else { Weight::Failure };
        assert_eq!(attempt(&mut breaker, weight, at(0)), Recorded::Unchanged);
    }
    assert!(matches!(attempt(&mut breaker, Weight::Failure, at(0)), Recorded::Opened { .. }));
}

#[test]
fn cb_01_successes_and_neutral_results_never_open_it() {
    let mut breaker = closed();
    for n in 0..100_000_u64 {
        let weight = if n % 3 == 0 { Weight::Healthy } else { Weight::Neutral };
        assert_eq!(attempt(&mut breaker, weight, at(n)), Recorded::Unchanged);
    }
}

#[test]
fn cb_02_a_long_good_past_does_not_delay_opening() {
    let mut breaker = closed();
    for _ in 0..10_000 {
        attempt(&mut breaker, Weight::Healthy, at(0));
    }
    let opened: Vec<Recorded> = (0..5).map(|_| attempt(&mut breaker, Weight::Failure, at(1))).collect();
    assert!(matches!(opened[4], Recorded::Opened { .. }));

    let mut half = closed();
    for _ in 0..10_000 {
        attempt(&mut half, Weight::Healthy, at(0));
    }
    let opened_ms = (0..).step_by(1_000).find(|ms| {
        attempt(&mut half, Weight::Healthy, at(*ms));
        matches!(attempt(&mut half, Weight::Failure, at(*ms)), Recorded::Opened { .. })
    });
    assert!(opened_ms.unwrap() <= 66_000, "opened after {opened_ms:?} ms");
}

#[test]
fn cb_03_a_refusal_tells_when_to_come_back_and_changes_nothing() {
    let mut breaker = tripped_at(at(0));
    let until = open_until(&breaker, at(0));
    let before = breaker.clone();
    let refused = breaker.acquire(at(1_000)).unwrap_err();
    assert_eq!(refused, Rejected::Open { retry_in: until.since(at(1_000)), failures: 5 });
    assert_eq!(breaker, before);
}

#[test]
fn cb_04_time_alone_half_opens_it() {
    let mut breaker = tripped_at(at(0));
    let until = open_until(&breaker, at(0));
    assert_eq!(breaker.state(until), BreakerState::HalfOpen);
    assert!(breaker.acquire(until - Duration::from_micros(1)).is_err());
    assert!(breaker.acquire(until).is_ok());
}

#[test]
fn cb_05_only_one_probe_is_out_at_a_time() {
    let mut breaker = tripped_at(at(0));
    let now = open_until(&breaker, at(0));
    let probe = breaker.acquire(now).unwrap();
    assert_eq!(breaker.acquire(now), Err(Rejected::Probing { retry_in: TTL }));
    assert_eq!(breaker.record(probe, Weight::Healthy, now), Recorded::Unchanged);
    let second = breaker.acquire(now).unwrap();
    assert_eq!(breaker.record(second, Weight::Healthy, now), Recorded::Closed);
    assert_eq!(breaker.state(now), BreakerState::Closed);
}

#[test]
fn cb_06_a_probe_that_tells_nothing_frees_its_slot() {
    let mut breaker = tripped_at(at(0));
    let now = open_until(&breaker, at(0));
    for _ in 0..3 {
        assert_eq!(attempt(&mut breaker, Weight::Neutral, now), Recorded::Unchanged);
    }
    assert!(breaker.acquire(now).is_ok());
}

#[test]
fn cb_07_a_probe_that_never_comes_back_counts_as_failed() {
    let mut breaker = tripped_at(at(0));
    let now = open_until(&breaker, at(0));
    let lost = breaker.acquire(now).unwrap();
    assert!(breaker.acquire(now + TTL - Duration::from_micros(1)).is_err());
    let reopened = open_until(&breaker, now + TTL);
    assert!(breaker.settle(now + TTL).is_some());
    assert_eq!(open_until(&breaker, now + TTL), reopened, "`state` tells what `settle` does");
    assert_eq!(breaker.record(lost, Weight::Healthy, now + TTL), Recorded::Stale);
    assert!(breaker.acquire(reopened).is_ok());
}

#[test]
fn cb_08_a_result_of_an_earlier_generation_changes_nothing() {
    let mut breaker = closed();
    let stragglers: Vec<Permit> = (0..3).map(|_| breaker.acquire(at(0)).unwrap()).collect();
    for _ in 0..5 {
        attempt(&mut breaker, Weight::Failure, at(0));
    }
    let now = open_until(&breaker, at(0));
    let probe = breaker.acquire(now).unwrap();
    let weights = [Weight::Healthy, Weight::Failure, Weight::Neutral];
    for (n, (permit, weight)) in stragglers.into_iter().zip(weights).enumerate() {
        let mut expected = breaker.clone();
        expected.stale_results = n as u64 + 1;
        assert_eq!(breaker.record(permit, weight, now), Recorded::Stale);
        assert_eq!(breaker, expected);
    }
    assert_eq!(breaker.stale_results(), 3);
    assert_eq!(breaker.record(probe, Weight::Healthy, now), Recorded::Unchanged);
}

#[test]
fn cb_08_a_probe_that_answered_does_not_answer_again() {
    let policy = BreakerPolicy { close_after: 3, ..BreakerPolicy::default() };
    for (first, next_is_out) in [(Weight::Healthy, true), (Weight::Neutral, true), (Weight::Healthy, false)] {
        let mut breaker = Breaker::new(&policy, TTL, 1);
        for _ in 0..5 {
            let _ = attempt(&mut breaker, Weight::Failure, at(0));
        }
        let now = open_until(&breaker, at(0));
        let probe = breaker.acquire(now).unwrap();
        assert_eq!(breaker.record(probe.clone(), first, now), Recorded::Unchanged);
        let next = next_is_out.then(|| breaker.acquire(now).unwrap());
        for again in [Weight::Healthy, Weight::Failure, Weight::Neutral] {
            assert_eq!(breaker.record(probe.clone(), again, now), Recorded::Stale, "{first:?}, {again:?}");
        }
        if let Some(next) = next {
            assert!(breaker.acquire(now).is_err(), "the next probe is still out");
            assert!(matches!(breaker.record(next, Weight::Failure, now), Recorded::Opened { .. }));
        }
    }
}

#[test]
fn cb_08_a_result_that_comes_after_its_probe_was_lost_is_counted_as_stale() {
    let mut breaker = tripped_at(at(0));
    let now = open_until(&breaker, at(0));
    let probe = breaker.acquire(now).unwrap();
    let recorded = breaker.record(probe, Weight::Healthy, now + TTL);
    assert!(matches!(recorded, Recorded::Opened { .. }), "{recorded:?}");
    assert_eq!(breaker.stale_results(), 1);
}

#[test]
fn cb_09_one_failed_probe_opens_it_once_and_for_longer() {
    let mut breaker = tripped_at(at(0));
    let first = open_until(&breaker, at(0)).since(at(0));
    let mut now = at(0);
    let second = fail_next_probe(&mut breaker, &mut now);
    assert!(first <= Duration::from_secs(6) && second >= Duration::from_secs(8), "{first:?} {second:?}");
}

#[test]
fn cb_10_the_wait_doubles_to_its_cap_with_a_fifth_of_jitter() {
    let mut breaker = tripped_at(at(0));
    let mut now = at(0);
    for bound in [10, 20, 40, 80, 120, 120, 120] {
        let wait = fail_next_probe(&mut breaker, &mut now).as_secs_f64();
        let bound = f64::from(bound);
        assert!(wait >= bound * 0.8 && wait <= (bound * 1.2).min(120.0), "{wait} for {bound}");
    }
}

#[test]
fn cb_10_the_wait_is_short_again_only_after_a_good_while() {
    let wait_after = |closed_for: Duration| {
        let mut breaker = tripped_at(at(0));
        let mut now = at(0);
        for _ in 0..3 {
            fail_next_probe(&mut breaker, &mut now);
        }
        now = open_until(&breaker, now);
        attempt(&mut breaker, Weight::Healthy, now);
        assert_eq!(attempt(&mut breaker, Weight::Healthy, now), Recorded::Closed);
        now = now + closed_for;
        for _ in 0..5 {
            attempt(&mut breaker, Weight::Failure, now);
        }
        open_until(&breaker, now).since(now)
    };
    assert!(wait_after(Duration::from_secs(60)) <= Duration::from_secs(6));
    assert!(wait_after(Duration::from_secs(59)) >= Duration::from_secs(64));
}

#[test]
fn cb_10_a_million_trips_do_not_overflow() {
    let mut breaker = tripped_at(at(0));
    let mut now = at(0);
    for _ in 0..1_000_000 {
        fail_next_probe(&mut breaker, &mut now);
    }
    breaker.trips = u32::MAX;
    assert!(fail_next_probe(&mut breaker, &mut now) <= Duration::from_secs(120));
}

#[test]
fn cb_11_time_that_steps_back_or_leaps_wedges_nothing() {
    let day = Duration::from_secs(86_400);
    let mut breaker = tripped_at(Timestamp::ZERO + day);
    let until = open_until(&breaker, Timestamp::ZERO + day);
    for back in [Timestamp::ZERO, Timestamp::ZERO + day] {
        assert!(breaker.acquire(back).is_err());
        assert_eq!(breaker.state(back), BreakerState::Open { until });
    }
    let _leaked = breaker.acquire(until).unwrap();
    let after_suspend = until + day;
    assert_eq!(breaker.state(after_suspend), BreakerState::HalfOpen, "late, but not stuck");
    let probe = breaker.acquire(after_suspend).unwrap();
    assert_eq!(breaker.record(probe, Weight::Healthy, Timestamp::ZERO), Recorded::Unchanged);
    assert_eq!(attempt(&mut breaker, Weight::Healthy, after_suspend), Recorded::Closed);
}

#[test]
fn cb_12_every_move_is_noted_once_and_in_order() {
    let mut breaker = tripped_at(at(0));
    let until = open_until(&breaker, at(0));
    assert_eq!(breaker.take_changes(), [BreakerState::Open { until }]);
    assert!(!breaker.has_changes() && breaker.acquire(at(1)).is_err() && !breaker.has_changes());
    for _ in 0..2 {
        let _ = attempt(&mut breaker, Weight::Healthy, until);
    }
    breaker.force_open();
    breaker.force_close();
    breaker.reset(until);
    assert_eq!(
        breaker.take_changes(),
        [
            BreakerState::HalfOpen,
            BreakerState::Closed,
            BreakerState::ForcedOpen,
            BreakerState::ForcedClosed,
            BreakerState::Closed,
        ]
    );
    assert_eq!(breaker.take_changes(), []);
}

#[test]
fn cb_12_what_moved_and_what_is_in_the_window_can_be_seen() {
    let mut breaker = closed();
    assert!(!breaker.has_changes());
    for weight in [Weight::Healthy, Weight::Failure, Weight::Healthy, Weight::Neutral] {
        assert_eq!(attempt(&mut breaker, weight, at(0)), Recorded::Unchanged);
    }
    assert_eq!(breaker.window(at(0)), (3, 1), "what tells nothing is not in it");
    let mut breaker = tripped_at(at(0));
    assert!(breaker.has_changes());
    let _ = breaker.take_changes();
    assert!(!breaker.has_changes());
}

#[test]
fn cb_13_an_operator_can_open_close_and_reset_it_in_every_state() {
    let half_open = {
        let mut breaker = tripped_at(at(0));
        let now = open_until(&breaker, at(0));
        let _probe = breaker.acquire(now).unwrap();
        breaker
    };
    let mut forced = closed();
    forced.force_open();
    for start in [closed(), tripped_at(at(0)), half_open, forced] {
        let now = at(7_000);

        let mut breaker = start.clone();
        breaker.force_open();
        assert_eq!(breaker.acquire(now + Duration::from_secs(9_999)), Err(Rejected::Forced));

        let mut breaker = start.clone();
        breaker.force_close();
        for _ in 0..100 {
            assert_eq!(attempt(&mut breaker, Weight::Failure, now), Recorded::Unchanged);
        }
        assert_eq!(breaker.state(now), BreakerState::ForcedClosed);

        let mut breaker = start;
        breaker.reset(now);
        assert_eq!(breaker.state(now), BreakerState::Closed);
        assert_eq!(attempt(&mut breaker, Weight::Failure, now), Recorded::Unchanged);
    }
}

#[test]
fn cb_15_it_is_small() {
    let kept = size_of::<Breaker>() + 8 * size_of::<Duration>();
    assert!(kept < 1024, "{kept} bytes");
}

#[derive(Clone, Debug)]
enum Op {
    Acquire,
    Record(usize, Weight),
    Forget(usize),
    Pass(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let weight = prop_oneof![
        1 => Just(Weight::Healthy),
        3 => Just(Weight::Failure),
        1 => Just(Weight::Neutral),
    ];
    prop_oneof![
        4 => Just(Op::Acquire),
        4 => (any::<usize>(), weight).prop_map(|(n, weight)| Op::Record(n, weight)),
        1 => any::<usize>().prop_map(Op::Forget),
        2 => (0_u64..40_000).prop_map(Op::Pass),
    ]
}

proptest! {
    #[test]
    fn cb_05_and_07_one_probe_at_a_time_and_never_stuck(ops in proptest::collection::vec(op(), 1..300)) {
        let mut breaker = closed();
        let mut now = at(0);
        let mut held: Vec<(Permit, Option<Timestamp>)> = Vec::new();
        let mut forgotten: Vec<Timestamp> = Vec::new();
        for op in ops {
            match op {
                Op::Acquire => {
                    let state = breaker.state(now);
                    let probing = state == BreakerState::HalfOpen;
                    match breaker.acquire(now) {
                        Ok(permit) => {
                            prop_assert!(probing || state == BreakerState::Closed);
                            let mut out = held.iter().filter_map(|(_, given)| *given).chain(forgotten.iter().copied());
                            prop_assert!(!probing || out.all(|given| now >= given + TTL));
                            held.push((permit, probing.then_some(now)));
                        }
                        Err(Rejected::Open { retry_in, .. }) => {
                            prop_assert_eq!(state, BreakerState::Open { until: now + retry_in });
                        }
                        Err(Rejected::Probing { retry_in }) => prop_assert!(probing && retry_in <= TTL),
                        Err(Rejected::Forced) => prop_assert!(false, "nobody forced it"),
                    }
                }
                Op::Record(n, weight) if !held.is_empty() => {
                    let (permit, _) = held.swap_remove(n % held.len());
                    let _ = breaker.record(permit, weight, now);
                }
                Op::Forget(n) if !held.is_empty() => {
                    forgotten.extend(held.swap_remove(n % held.len()).1);
                }
                Op::Record(..) | Op::Forget(_) => {}
                Op::Pass(ms) => now = now + Duration::from_millis(ms),
            }
        }
        let latest = now + TTL + BreakerPolicy::default().open_cap;
        prop_assert!(breaker.acquire(latest).is_ok(), "stuck: {breaker:?}");
    }
}

#[test]
fn what_others_found_out_keeps_it_open_and_then_one_call_tries() {
    let mut breaker = closed();
    breaker.stay_open(at(5_000));
    assert!(
        matches!(breaker.acquire(at(4_999)), Err(Rejected::Open { retry_in, .. }) if retry_in.as_millis() == 1)
    );
    let permit = breaker.acquire(at(5_000)).unwrap();
    assert!(matches!(breaker.acquire(at(5_001)), Err(Rejected::Probing { .. })));
    assert_eq!(
        breaker.record(permit, Weight::Failure, at(5_002)),
        Recorded::Opened { retry_in: breaker_wait(&breaker, at(5_002)) }
    );
    breaker.stay_open(at(60_000));
    assert!(
        matches!(breaker.state(at(59_999)), BreakerState::HalfOpen),
        "one that is open decides for itself"
    );
}

fn breaker_wait(breaker: &Breaker, now: Timestamp) -> Duration {
    match breaker.state(now) {
        BreakerState::Open { until } => until.since(now),
        other => panic!("{other:?}"),
    }
}
