//! Many calls: places, the gate, the breaker and the budget between them.

use dauntless_contract::{BreakerPolicy, ResiliencePolicy};
use expect_test::expect;

use super::sim::{Sim, check};
use crate::resilience::dependency::*;

fn places(concurrency: u32, waiting: u32) -> ResiliencePolicy {
    ResiliencePolicy { concurrency, waiting, ..ResiliencePolicy::default() }
}

fn without_breaker() -> BreakerPolicy {
    BreakerPolicy { failure_ratio: f64::INFINITY, consecutive_failures: u32::MAX, ..BreakerPolicy::default() }
}

#[test]
fn lim_01_one_call_more_than_may_wait_is_refused_at_once() {
    check(
        places(1, 1),
        "0s call 1
                         0s call 2
                         0s call 3
                         1s ok 1
                         2s ok 2",
        expect![[r#"
                             0ns start 1.1 timeout_at=30s
                             0ns timer 2 at=60s
                             0ns answer 3: overloaded: `order` is busy: 1 call at work and 1 waiting, and it takes no more. [attempts 0, effect None]
                             1s answer 1: ok value [attempts 1]
                             1s start 2.1 timeout_at=31s
                             2s answer 2: ok value [attempts 1]
                         "#]],
    );
}

#[test]
fn lim_02_calls_are_served_in_order_and_cancelled_ones_skipped() {
    check(
        places(1, 9),
        "0s call 1
                         0s call 2
                         0s call 3
                         0s call 4
                         1s cancel 2
                         2s ok 1
                         3s ok 3
                         4s ok 4",
        expect![[r#"
                             0ns start 1.1 timeout_at=30s
                             0ns timer 2 at=60s
                             0ns timer 3 at=60s
                             0ns timer 4 at=60s
                             1s answer 2: cancelled: The call to `order` was cancelled while it waited for its turn. [attempts 0, effect None, stopped by Cancelled]
                             2s answer 1: ok value [attempts 1]
                             2s start 3.1 timeout_at=32s
                             3s answer 3: ok value [attempts 1]
                             3s start 4.1 timeout_at=33s
                             4s answer 4: ok value [attempts 1]
                         "#]],
    );
}

#[test]
fn lim_02_a_run_with_many_calls_does_not_hold_up_a_run_with_one() {
    let mut sim = Sim::new(places(1, 32));
    for n in 0..10 {
        sim.call_of(1, n, Effect::ReadOnly, Timestamp::MAX);
    }
    sim.call_of(2, 100, Effect::ReadOnly, Timestamp::MAX);
    let mut order = Vec::new();
    while let Some((&ticket, &(attempt, _))) = sim.running.first_key_value() {
        order.push(ticket.0);
        sim.event(CallEvent::Succeeded { ticket, attempt, value: "value" });
    }
    assert_eq!(order, [0, 1, 100, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn lim_02_a_call_that_waited_to_its_deadline_is_never_started() {
    check(
        places(1, 9),
        "0s call 1
                         0s call 2 once deadline=5s
                         0s call 3 once deadline=9s
                         6s ok 1",
        expect![[r#"
                             0ns start 1.1 timeout_at=30s
                             0ns timer 2 at=5s
                             0ns timer 3 at=9s
                             5s answer 2: timeout: The call waited 5 s for a free place at `order` and was not sent. [attempts 0, effect None, stopped by Deadline]
                             6s answer 1: ok value [attempts 1]
                             6s start 3.1 timeout_at=9s
                         "#]],
    );
}

#[test]
fn lim_02_a_call_past_its_deadline_is_skipped_even_before_its_timer() {
    let mut sim = Sim::new(places(1, 9));
    sim.call(1, Effect::ReadOnly, Timestamp::MAX);
    sim.call(2, Effect::Once, Timestamp::ZERO + Duration::from_secs(5));
    sim.now = Timestamp::ZERO + Duration::from_secs(6);
    sim.event(CallEvent::Succeeded { ticket: Ticket(1), attempt: 1, value: "value" });
    let end = &sim.ends[&Ticket(2)];
    assert_eq!((end.attempts, end.stopped_by), (0, Some(StoppedBy::Deadline)));
    assert!(sim.dependency.is_idle());
}

#[test]
fn a_deadline_in_the_past_starts_nothing() {
    check(
        places(1, 1),
        "9s call 1 once deadline=5s",
        expect![[r#"
        9s answer 1: timeout: The time for this call to `order` was over before it could be sent. [attempts 0, effect None, stopped by Deadline]
    "#]],
    );
}

#[test]
fn a_place_is_free_during_backoff_and_a_retry_waits_for_its_turn() {
    check(
        places(1, 9),
        "0s call 1
                         0s call 2
                         0s call 3
                         1s fail 1 unavailable
                         5s ok 2
                         6s ok 3
                         7s ok 1",
        expect![[r#"
                             0ns start 1.1 timeout_at=30s
                             0ns timer 2 at=60s
                             0ns timer 3 at=60s
                             1s retry 1.1 after unavailable in 147.798ms
                             1s timer 1 at=1.147798s
                             1s start 2.1 timeout_at=31s
                             1.147798s timer 1 at=60s
                             5s answer 2: ok value [attempts 1]
                             5s start 3.1 timeout_at=35s
                             6s answer 3: ok value [attempts 1]
                             6s start 1.2 timeout_at=36s
                             7s answer 1: ok value [attempts 2, waited 5s]
                         "#]],
    );
}

#[test]
fn a_retry_whose_turn_never_comes_ends_with_its_real_failure() {
    check(
        places(1, 9),
        "0s call 1 read_only deadline=10s
                         0s call 2
                         1s fail 1 unavailable
                         20s ok 2",
        expect![[r#"
                             0ns start 1.1 timeout_at=10s
                             0ns timer 2 at=60s
                             1s retry 1.1 after unavailable in 147.798ms
                             1s timer 1 at=1.147798s
                             1s start 2.1 timeout_at=31s
                             1.147798s timer 1 at=10s
                             10s answer 1: unavailable: The service said unavailable. [attempts 1, waited 9s, effect None, stopped by Deadline]
                             20s answer 2: ok value [attempts 1]
                         "#]],
    );
}

#[test]
fn a_timer_of_an_earlier_wait_wakes_nothing() {
    check(
        places(1, 9),
        "0s call 1
                         1s fail 1 unavailable
                         1s call 2
                         2s fire 1.1
                         3s ok 2
                         4s fire 1.2
                         5s ok 1
                         5s fire 1.2",
        expect![[r#"
                             0ns start 1.1 timeout_at=30s
                             1s retry 1.1 after unavailable in 147.798ms
                             1s timer 1 at=1.147798s
                             1s start 2.1 timeout_at=31s
                             1.147798s timer 1 at=60s
                             3s answer 2: ok value [attempts 1]
                             3s start 1.2 timeout_at=33s
                             5s answer 1: ok value [attempts 2, waited 2s]
                         "#]],
    );
}

#[test]
fn rt_11_a_shut_gate_holds_others_back_and_lets_them_go_one_by_one() {
    check(
        places(8, 2),
        "0s call 1
                         0s fail 1 rate_limited retry_after=5s
                         1s call 2
                         1s call 3
                         1s call 4
                         9s end",
        expect![[r#"
                             0ns start 1.1 timeout_at=30s
                             0ns retry 1.1 after rate_limited in 5.374575s
                             0ns timer 1 at=5.374575s
                             1s timer 2 at=5.233483s
                             1s timer 3 at=5.017165s
                             1s answer 4: rate_limited: `order` asked for a pause and takes no calls for the next 4 s. This call was not sent. [attempts 0, effect None, retry after 4s, stopped by RetryAfter]
                             5.017165s start 3.1 timeout_at=35.017165s
                             5.233483s start 2.1 timeout_at=35.233483s
                             5.374575s start 1.2 timeout_at=35.374575s
                         "#]],
    );
}

#[test]
fn rt_11_a_retry_waits_at_the_gate_even_when_no_first_attempt_may() {
    check(
        places(8, 1),
        "0s call 1
         0s call 2
         0s fail 1 unavailable
         0s fail 2 rate_limited retry_after=5s
         0s call 3
         0s call 4
         9s end",
        expect![[r#"
            0ns start 1.1 timeout_at=30s
            0ns start 2.1 timeout_at=30s
            0ns retry 1.1 after unavailable in 147.798ms
            0ns timer 1 at=147.798ms
            0ns retry 2.1 after rate_limited in 5.297819s
            0ns timer 2 at=5.297819s
            0ns timer 3 at=5.233483s
            0ns answer 4: rate_limited: `order` asked for a pause and takes no calls for the next 5 s. This call was not sent. [attempts 0, effect None, retry after 5s, stopped by RetryAfter]
            147.798ms timer 1 at=5.022984s
            5.022984s start 1.2 timeout_at=35.022984s
            5.233483s start 3.1 timeout_at=35.233483s
            5.297819s start 2.2 timeout_at=35.297819s
        "#]],
    );
}

#[test]
fn rt_11_throttling_never_opens_the_breaker() {
    let mut sim = Sim::new(places(8, 32));
    for n in 0..100 {
        sim.call(n, Effect::Once, Timestamp::MAX);
        sim.event(CallEvent::Failed {
            ticket: Ticket(n),
            attempt: 1,
            failure: Failure::rate_limited("").retry_after(Duration::from_micros(1)),
        });
        sim.event(CallEvent::CancelRequested { ticket: Ticket(n) });
        sim.now = sim.now + Duration::from_millis(1);
    }
    assert_eq!(sim.attempts, 100);
    assert_eq!(sim.policies.breaker.state(sim.now), BreakerState::Closed);
}

#[test]
fn a_rate_limit_without_a_time_holds_others_back_for_the_backoff() {
    check(
        places(8, 32),
        "0s call 1
                          0s fail 1 rate_limited
                          0s call 2
                          9s end",
        expect![[r#"
                              0ns start 1.1 timeout_at=30s
                              0ns retry 1.1 after rate_limited in 147.798ms
                              0ns timer 1 at=147.798ms
                              0ns timer 2 at=154.699ms
                              147.798ms start 1.2 timeout_at=30.147798s
                              154.699ms start 2.1 timeout_at=30.154699s
                          "#]],
    );
}

#[test]
fn cb_14_an_open_breaker_refuses_first_attempts_and_ends_retries_with_the_real_failure() {
    check(
        places(8, 32),
        "0s call 1
                          0s fail 1 unavailable
                          0s call 2 once
                          0s fail 2 connection_failed
                          0s call 3 once
                          0s fail 3 unavailable
                          0s call 4 once
                          0s fail 4 unavailable
                          0s call 5
                          0s fail 5 unavailable
                          1s call 6
                          9s call 7
                          9s call 8
                          9.1s ok 7
                          9.2s call 9
                          9.3s ok 9",
        expect![[r#"
                              0ns start 1.1 timeout_at=30s
                              0ns retry 1.1 after unavailable in 147.798ms
                              0ns timer 1 at=147.798ms
                              0ns start 2.1 timeout_at=30s
                              0ns retry 2.1 after connection_failed in 187.288ms
                              0ns timer 2 at=187.288ms
                              0ns start 3.1 timeout_at=30s
                              0ns answer 3: unavailable: The service said unavailable. The call may have been carried out all the same, so it was not repeated. [attempts 1, effect Unknown, stopped by Effect]
                              0ns start 4.1 timeout_at=30s
                              0ns answer 4: unavailable: The service said unavailable. The call may have been carried out all the same, so it was not repeated. [attempts 1, effect Unknown, stopped by Effect]
                              0ns start 5.1 timeout_at=30s
                              0ns breaker opened for 4.736379s
                              0ns answer 5: unavailable: The service said unavailable. [attempts 1, effect None, stopped by BreakerOpen]
                              147.798ms answer 1: unavailable: The service said unavailable. [attempts 1, waited 147.798ms, effect None, stopped by BreakerOpen]
                              187.288ms answer 2: connection_failed: The service said connection_failed. [attempts 1, waited 187.288ms, effect None, stopped by BreakerOpen]
                              1s answer 6: tool_down: `order` is out of service after 5 failed calls. This call was not sent. The next try is allowed in 3.8 s. [attempts 0, effect None, retry after 3.736379s, stopped by BreakerOpen]
                              9s start 7.1 timeout_at=39s
                              9s answer 8: tool_down: `order` was out of service, and another call is just trying whether it works again. This call was not sent. The next try is allowed in 31 s at the latest. [attempts 0, effect None, retry after 31s, stopped by BreakerOpen]
                              9.1s answer 7: ok value [attempts 1]
                              9.2s start 9.1 timeout_at=39.2s
                              9.3s breaker closed
                              9.3s answer 9: ok value [attempts 1]
                          "#]],
    );
}

#[test]
fn cb_14_a_retry_that_the_breaker_refuses_is_refunded() {
    let mut sim = Sim::new(places(8, 32));
    sim.call(1, Effect::ReadOnly, Timestamp::MAX);
    sim.event(CallEvent::Failed { ticket: Ticket(1), attempt: 1, failure: Failure::unavailable("down") });
    assert_eq!(sim.policies.budget.level_milli(sim.now), 9_000);
    sim.policies.breaker.force_open();
    sim.pass_until(Timestamp::ZERO + Duration::from_millis(250));
    assert_eq!(sim.ends[&Ticket(1)].stopped_by, Some(StoppedBy::BreakerOpen));
    assert_eq!(sim.policies.budget.level_milli(sim.now), 10_000);
}

#[test]
fn cb_14_no_retry_is_planned_against_a_forced_breaker() {
    let mut sim = Sim::new(places(8, 32));
    sim.call(1, Effect::ReadOnly, Timestamp::MAX);
    sim.policies.breaker.force_open();
    sim.event(CallEvent::Failed { ticket: Ticket(1), attempt: 1, failure: Failure::unavailable("down") });
    assert_eq!(sim.ends[&Ticket(1)].stopped_by, Some(StoppedBy::BreakerOpen));
}

/// A dependency whose breaker is about to let a probe through.
fn after_a_trip() -> Sim {
    let mut sim = Sim::new(places(8, 32));
    for n in 1..=5 {
        sim.call(n, Effect::Once, Timestamp::MAX);
        sim.event(CallEvent::Failed { ticket: Ticket(n), attempt: 1, failure: Failure::unavailable("down") });
    }
    sim.now = sim.now + Duration::from_secs(10);
    sim
}

#[test]
fn cb_06_a_cancelled_probe_lets_the_next_caller_try() {
    let mut sim = after_a_trip();
    sim.call(6, Effect::Once, Timestamp::MAX);
    sim.event(CallEvent::CancelRequested { ticket: Ticket(6) });
    sim.call(7, Effect::Once, Timestamp::MAX);
    assert_eq!(sim.running.len(), 1);
}

#[test]
fn cb_07_a_probe_forgotten_by_an_earlier_incarnation_blocks_nothing_for_long() {
    let mut sim = after_a_trip();
    sim.call(6, Effect::Once, Timestamp::MAX);
    assert_eq!(sim.running.len(), 1, "the probe");

    let mut next = Sim::new(places(8, 32));
    (next.policies, next.now) = (sim.policies, sim.now);
    next.call(1, Effect::Once, Timestamp::MAX);
    assert_eq!(next.running.len(), 0, "a probe is out");
    next.now = next.now + Duration::from_secs(31);
    next.call(2, Effect::Once, Timestamp::MAX);
    assert!(next.log.contains("breaker opened for"), "{}", next.log);
    next.now = next.now + Duration::from_secs(120);
    next.call(3, Effect::Once, Timestamp::MAX);
    assert_eq!(next.running.len(), 1);
}

#[test]
fn rb_02_a_thousand_callers_of_a_dead_tool_get_ten_retries_between_them() {
    let mut sim = Sim::new(ResiliencePolicy { breaker: without_breaker(), ..places(1000, 0) });
    for n in 0..1000 {
        sim.call(n, Effect::ReadOnly, Timestamp::MAX);
    }
    while let Some((&ticket, &(attempt, _))) = sim.running.first_key_value() {
        sim.event(CallEvent::Failed { ticket, attempt, failure: Failure::unavailable("down") });
        if sim.running.is_empty() {
            sim.pass_until(sim.now + Duration::from_millis(500));
        }
    }
    let refilled = u32::try_from(sim.now.as_micros() / 5_000_000).unwrap();
    assert!(sim.attempts <= 1000 + 10 + refilled, "{} attempts in {:?}", sim.attempts, sim.now);
    assert!(sim.attempts >= 1010);
}

#[test]
fn rb_09_first_attempts_need_no_budget_and_no_budget_needs_first_attempts() {
    let mut sim = Sim::new(ResiliencePolicy { breaker: without_breaker(), ..places(8, 0) });
    while sim.policies.budget.withdraw(sim.now, 1).is_some() {}
    for n in 0..100 {
        sim.call(n, Effect::ReadOnly, Timestamp::MAX);
        sim.event(CallEvent::Failed { ticket: Ticket(n), attempt: 1, failure: Failure::unavailable("down") });
        assert_eq!(sim.ends[&Ticket(n)].stopped_by, Some(StoppedBy::Budget));
    }
    assert_eq!((sim.attempts, sim.policies.budget.level_milli(sim.now)), (100, 0));
}

#[test]
fn rb_11_only_successes_earn_budget() {
    let mut sim = Sim::new(places(8, 0));
    while sim.policies.budget.withdraw(sim.now, 1).is_some() {}
    sim.call(1, Effect::ReadOnly, Timestamp::MAX);
    sim.event(CallEvent::Failed { ticket: Ticket(1), attempt: 1, failure: Failure::not_found("no") });
    assert_eq!(sim.policies.budget.level_milli(sim.now), 0);
    sim.call(2, Effect::ReadOnly, Timestamp::MAX);
    sim.event(CallEvent::Succeeded { ticket: Ticket(2), attempt: 1, value: "value" });
    assert_eq!(sim.policies.budget.level_milli(sim.now), 200);
}

#[test]
fn rt_05_no_attempt_runs_past_a_deadline_that_only_the_gate_consumed() {
    check(
        places(1, 4),
        "0s call 1
                         0s fail 1 rate_limited retry_after=5s
                         1s call 2 once deadline=7s
                         8s end",
        expect![[r#"
                             0ns start 1.1 timeout_at=30s
                             0ns retry 1.1 after rate_limited in 5.374575s
                             0ns timer 1 at=5.374575s
                             1s timer 2 at=5.233483s
                             5.233483s start 2.1 timeout_at=7s
                             5.374575s timer 1 at=60s
                             7s answer 2: outcome_unknown: `order` did not answer within 1.8 s. The call may have been carried out all the same, so it was not repeated. [attempts 1, effect Unknown, stopped by Effect]
                             7s start 1.2 timeout_at=37s
                         "#]],
    );
}
