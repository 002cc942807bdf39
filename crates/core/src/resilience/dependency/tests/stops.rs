//! One call after a failed attempt: tried again, or ended, and why.

use dauntless_contract::RetryPolicy;
use expect_test::expect;

use super::sim::check;
use crate::resilience::dependency::*;

fn defaults() -> ResiliencePolicy {
    ResiliencePolicy::default()
}

fn attempts(max_attempts: u32) -> ResiliencePolicy {
    ResiliencePolicy { retry: RetryPolicy { max_attempts, ..RetryPolicy::default() }, ..defaults() }
}

#[test]
fn a_success_is_answered_at_once() {
    check(
        defaults(),
        "0s call 1 once
                       1s ok 1",
        expect![[r#"
                           0ns start 1.1 timeout_at=30s
                           1s answer 1: ok value [attempts 1]
                       "#]],
    );
}

#[test]
fn rt_01_a_call_makes_no_more_attempts_than_allowed() {
    check(
        defaults(),
        "0s call 1
                       1s fail 1 unavailable
                       3s fail 1 unavailable
                       6s fail 1 unavailable",
        expect![[r#"
                           0ns start 1.1 timeout_at=30s
                           1s retry 1.1 after unavailable in 147.798ms
                           1s timer 1 at=1.147798s
                           1.147798s start 1.2 timeout_at=31.147798s
                           3s retry 1.2 after unavailable in 374.575ms
                           3s timer 1 at=3.374575s
                           3.374575s start 1.3 timeout_at=33.374575s
                           6s answer 1: unavailable: The service said unavailable. [attempts 3, waited 522.373ms, effect None, stopped by MaxAttempts]
                       "#]],
    );
}

#[test]
fn attempts_of_an_earlier_process_are_taken_from_those_that_are_allowed() {
    check(
        attempts(4),
        "0s call 1 read_only made=2
                       1s fail 1 unavailable
                       3s fail 1 unavailable
                       3s call 2 once made=9
                       4s fail 2 unavailable effect=none",
        expect![[r#"
            0ns start 1.3 timeout_at=30s
            1s retry 1.3 after unavailable in 591.19ms
            1s timer 1 at=1.59119s
            1.59119s start 1.4 timeout_at=31.59119s
            3s answer 1: unavailable: The service said unavailable. [attempts 2, waited 591.19ms, effect None, stopped by MaxAttempts]
            3s start 2.10 timeout_at=33s
            4s answer 2: unavailable: The service said unavailable. [attempts 1, effect None, stopped by MaxAttempts]
        "#]],
    );
}

#[test]
fn rt_03_a_permanent_failure_is_answered_unchanged_after_one_attempt() {
    check(
        defaults(),
        "0s call 1 once
                       1s fail 1 not_found
                       1s call 2 once
                       2s fail 2 permission_denied
                       2s call 3 once
                       3s fail 3 tool_error",
        expect![[r#"
                           0ns start 1.1 timeout_at=30s
                           1s answer 1: not_found: The service said not_found. [attempts 1, effect None, stopped by Permanent]
                           1s start 2.1 timeout_at=31s
                           2s answer 2: permission_denied: The service said permission_denied. [attempts 1, effect None, stopped by Permanent]
                           2s start 3.1 timeout_at=32s
                           3s answer 3: tool_error: The service said tool_error. [attempts 1, effect Unknown, stopped by Permanent]
                       "#]],
    );
}

#[test]
fn rt_04_no_wait_goes_past_the_deadline_and_the_real_failure_is_told() {
    check(
        defaults(),
        "0s call 1 read_only deadline=2s
                       1.84s fail 1 unavailable",
        expect![[r#"
            0ns start 1.1 timeout_at=2s
            1.84s answer 1: unavailable: The service said unavailable. [attempts 1, effect None, stopped by Deadline]
        "#]],
    );
}

#[test]
fn rt_05_an_attempt_ends_at_the_deadline_of_its_call() {
    check(
        defaults(),
        "0s call 1 read_only deadline=5s
                       9s end",
        expect![[r#"
                           0ns start 1.1 timeout_at=5s
                           5s answer 1: timeout: `order` did not answer within 5 s. [attempts 1, effect None, stopped by Deadline]
                       "#]],
    );
}

#[test]
fn rt_05_the_policys_deadline_holds_for_a_caller_with_more_time() {
    check(
        defaults(),
        "0s call 1 read_only deadline=3600s
                       99s end",
        expect![[r#"
                           0ns start 1.1 timeout_at=30s
                           30s retry 1.1 after timeout in 147.798ms
                           30s timer 1 at=30.147798s
                           30.147798s start 1.2 timeout_at=60s
                           60s answer 1: timeout: `order` did not answer within 30 s. [attempts 2, waited 147.798ms, effect None, stopped by Deadline]
                       "#]],
    );
}

#[test]
fn rt_08_a_rate_limit_waits_as_long_as_the_server_asked_and_a_little_more() {
    check(
        defaults(),
        "0s call 1 once
                       1s fail 1 rate_limited retry_after=7s
                       9s ok 1",
        expect![[r#"
                           0ns start 1.1 timeout_at=30s
                           1s retry 1.1 after rate_limited in 7.524405s
                           1s timer 1 at=8.524405s
                           8.524405s start 1.2 timeout_at=38.524405s
                           9s answer 1: ok value [attempts 2, waited 7.524405s]
                       "#]],
    );
}

#[test]
fn rt_09_a_wait_beyond_the_cap_fails_now_and_for_everybody() {
    check(
        defaults(),
        "0s call 1
                       1s fail 1 rate_limited retry_after=90s
                       2s call 2
                       40s call 3",
        expect![[r#"
                           0ns start 1.1 timeout_at=30s
                           1s answer 1: rate_limited: The service said rate_limited. [attempts 1, effect None, retry after 90s, stopped by RetryAfter]
                           2s answer 2: rate_limited: `order` asked for a pause and takes no calls for the next 89 s. This call was not sent. [attempts 0, effect None, retry after 89s, stopped by Deadline]
                           40s timer 3 at=91.034331s
                       "#]],
    );
}

#[test]
fn rt_09_others_with_time_enough_do_not_wait_beyond_the_cap_either() {
    let policy = ResiliencePolicy { deadline: Duration::from_secs(600), ..defaults() };
    check(
        policy,
        "0s call 1
         1s fail 1 rate_limited retry_after=90s
         2s call 2
         40s call 3
         99s ok 3",
        expect![[r#"
            0ns start 1.1 timeout_at=30s
            1s answer 1: rate_limited: The service said rate_limited. [attempts 1, effect None, retry after 90s, stopped by RetryAfter]
            2s answer 2: rate_limited: `order` asked for a pause and takes no calls for the next 89 s. This call was not sent. [attempts 0, effect None, retry after 89s, stopped by RetryAfter]
            40s timer 3 at=91.034331s
            91.034331s start 3.1 timeout_at=121.034331s
            99s answer 3: ok value [attempts 1]
        "#]],
    );
}

#[test]
fn rt_09_a_wait_beyond_the_deadline_fails_now() {
    check(
        defaults(),
        "0s call 1 read_only deadline=10s
                       1s fail 1 rate_limited retry_after=20s
                       2s call 2 read_only deadline=15s",
        expect![[r#"
                           0ns start 1.1 timeout_at=10s
                           1s answer 1: rate_limited: The service said rate_limited. [attempts 1, effect None, retry after 20s, stopped by Deadline]
                           2s answer 2: rate_limited: `order` asked for a pause and takes no calls for the next 19 s. This call was not sent. [attempts 0, effect None, retry after 19s, stopped by Deadline]
                       "#]],
    );
}

#[test]
fn rt_10_a_used_up_quota_is_not_retried() {
    check(
        defaults(),
        "0s call 1
                       1s fail 1 quota_exhausted retry_after=2s",
        expect![[r#"
                           0ns start 1.1 timeout_at=30s
                           1s answer 1: quota_exhausted: The service said quota_exhausted. [attempts 1, effect None, retry after 2s, stopped by Permanent]
                       "#]],
    );
}

#[test]
fn rt_12_a_write_whose_answer_is_lost_is_not_repeated() {
    check(
        defaults(),
        "0s call 1 once
                       30s end
                       30s call 2 verifiable
                       31s fail 2 connection_failed effect=unknown
                       32s call 3 once
                       33s crash 3
                       34s call 4 once
                       35s fail 4 unavailable
                       35s call 5 once
                       36s fail 5 unavailable retry_after=1s",
        expect![[r#"
                           0ns start 1.1 timeout_at=30s
                           30s answer 1: outcome_unknown: `order` did not answer within 30 s. The call may have been carried out all the same, so it was not repeated. [attempts 1, effect Unknown, stopped by Effect]
                           30s start 2.1 timeout_at=60s
                           31s answer 2: outcome_unknown: The service said connection_failed. The call may have been carried out all the same, so it was not repeated. [attempts 1, effect Unknown, stopped by Effect]
                           32s start 3.1 timeout_at=62s
                           33s answer 3: crashed: `order` broke while it worked on this call. This is a defect in `order`. The call may have been carried out all the same, so it was not repeated. [attempts 1, effect Unknown, stopped by Effect]
                           34s start 4.1 timeout_at=64s
                           35s answer 4: unavailable: The service said unavailable. The call may have been carried out all the same, so it was not repeated. [attempts 1, effect Unknown, stopped by Effect]
                           35s start 5.1 timeout_at=65s
                           36s answer 5: unavailable: The service said unavailable. The call may have been carried out all the same, so it was not repeated. [attempts 1, effect Unknown, retry after 1s, stopped by Effect]
                       "#]],
    );
}

#[test]
fn rt_12_even_the_last_attempt_of_a_write_tells_that_it_may_have_happened() {
    check(
        attempts(1),
        "0s call 1 once
                        1s fail 1 timeout",
        expect![[r#"
                            0ns start 1.1 timeout_at=30s
                            1s answer 1: outcome_unknown: The service said timeout. The call may have been carried out all the same, so it was not repeated. [attempts 1, effect Unknown, stopped by Effect]
                        "#]],
    );
}

#[test]
fn rt_14_a_write_that_certainly_did_not_happen_is_tried_again() {
    check(
        defaults(),
        "0s call 1 once
                       1s fail 1 connection_failed
                       2s fail 1 unavailable effect=none
                       3s ok 1
                       4s call 2 once
                       4s fail 2 rate_limited
                       5s ok 2",
        expect![[r#"
                           0ns start 1.1 timeout_at=30s
                           1s retry 1.1 after connection_failed in 147.798ms
                           1s timer 1 at=1.147798s
                           1.147798s start 1.2 timeout_at=31.147798s
                           2s retry 1.2 after unavailable in 374.575ms
                           2s timer 1 at=2.374575s
                           2.374575s start 1.3 timeout_at=32.374575s
                           3s answer 1: ok value [attempts 3, waited 522.373ms]
                           4s start 2.1 timeout_at=34s
                           4s retry 2.1 after rate_limited in 148.91ms
                           4s timer 2 at=4.14891s
                           4.14891s start 2.2 timeout_at=34.14891s
                           5s answer 2: ok value [attempts 2, waited 148.91ms]
                       "#]],
    );
}

#[test]
fn a_lost_answer_is_not_forgotten_when_a_later_attempt_was_not_sent() {
    check(
        attempts(2),
        "0s call 1 keyed
                        1s fail 1 timeout
                        2s fail 1 connection_failed
                        2s call 2 read_only
                        3s fail 2 timeout
                        5s fail 2 connection_failed",
        expect![[r#"
                            0ns start 1.1 timeout_at=30s
                            1s retry 1.1 after timeout in 147.798ms
                            1s timer 1 at=1.147798s
                            1.147798s start 1.2 timeout_at=31.147798s
                            2s answer 1: connection_failed: The service said connection_failed. [attempts 2, waited 147.798ms, effect Unknown, stopped by MaxAttempts]
                            2s start 2.1 timeout_at=32s
                            3s retry 2.1 after timeout in 148.91ms
                            3s timer 2 at=3.14891s
                            3.14891s start 2.2 timeout_at=33.14891s
                            5s answer 2: connection_failed: The service said connection_failed. [attempts 2, waited 148.91ms, effect None, stopped by MaxAttempts]
                        "#]],
    );
}

#[test]
fn sup_19_a_call_that_breaks_the_tool_twice_is_not_given_to_it_again() {
    check(
        attempts(9),
        "0s call 1 idempotent
                        1s crash 1
                        2s crash 1",
        expect![[r#"
                            0ns start 1.1 timeout_at=30s
                            1s retry 1.1 after crashed in 147.798ms
                            1s timer 1 at=1.147798s
                            1.147798s start 1.2 timeout_at=31.147798s
                            2s answer 1: crashed: `order` broke while it worked on this call. This is a defect in `order`. [attempts 2, waited 147.798ms, effect Unknown, stopped by Permanent]
                        "#]],
    );
}

#[test]
fn rb_06_an_empty_budget_ends_the_call_with_its_real_failure() {
    check(
        defaults(),
        "0s call 1
                       0s empty_budget
                       1s fail 1 unavailable",
        expect![[r#"
                           0ns start 1.1 timeout_at=30s
                           1s answer 1: unavailable: The service said unavailable. [attempts 1, effect None, stopped by Budget]
                       "#]],
    );
}

#[test]
fn rt_15_a_cancel_ends_an_attempt_and_a_wait() {
    check(
        defaults(),
        "0s call 1 once
                       1s cancel 1
                       1s ok 1.1
                       2s call 2 read_only
                       3s fail 2 unavailable
                       3s cancel 2
                       4s call 3 keyed
                       5s fail 3 timeout
                       5s cancel 3
                       6s cancel 3
                       9s end",
        expect![[r#"
                           0ns start 1.1 timeout_at=30s
                           1s abort 1.1
                           1s answer 1: cancelled: The call to `order` was cancelled while it was running. [attempts 1, effect Unknown, stopped by Cancelled]
                           1s stale 1.1
                           2s start 2.1 timeout_at=32s
                           3s retry 2.1 after unavailable in 147.798ms
                           3s timer 2 at=3.147798s
                           3s answer 2: cancelled: The call to `order` was cancelled while it waited for its turn. [attempts 1, effect None, stopped by Cancelled]
                           4s start 3.1 timeout_at=34s
                           5s retry 3.1 after timeout in 187.288ms
                           5s timer 3 at=5.187288s
                           5s answer 3: cancelled: The call to `order` was cancelled while it waited for its turn. [attempts 1, effect Unknown, stopped by Cancelled]
                       "#]],
    );
}

#[test]
fn rt_15_a_call_that_winds_down_ends_with_its_attempt() {
    check(
        defaults(),
        "0s call 1 keyed
                       1s wind_down 1
                       2s fail 1 timeout
                       3s call 2 keyed
                       4s wind_down 2
                       5s ok 2
                       6s call 3 read_only
                       7s fail 3 unavailable
                       7s wind_down 3
                       8s wind_down 4
                       9s call 5 once
                       9s wind_down 5
                       10s fail 5 timeout
                       11s end",
        expect![[r#"
            0ns start 1.1 timeout_at=30s
            2s answer 1: timeout: The service said timeout. [attempts 1, effect Unknown, stopped by Cancelled]
            3s start 2.1 timeout_at=33s
            5s answer 2: ok value [attempts 1]
            6s start 3.1 timeout_at=36s
            7s retry 3.1 after unavailable in 187.288ms
            7s timer 3 at=7.187288s
            7s answer 3: cancelled: The call to `order` was cancelled while it waited for its turn. [attempts 1, effect None, stopped by Cancelled]
            9s start 5.1 timeout_at=39s
            10s answer 5: outcome_unknown: The service said timeout. The call may have been carried out all the same, so it was not repeated. [attempts 1, effect Unknown, stopped by Effect]
        "#]],
    );
}

#[test]
fn rt_16_what_comes_for_an_attempt_that_is_over_is_dropped() {
    check(
        defaults(),
        "0s call 1
                       1s fail 1 unavailable
                       2s ok 1.1
                       3s ok 1.2
                       3s ok 1.2
                       4s call 1
                       4s call 1
                       5s ok 7.1",
        expect![[r#"
                           0ns start 1.1 timeout_at=30s
                           1s retry 1.1 after unavailable in 147.798ms
                           1s timer 1 at=1.147798s
                           1.147798s start 1.2 timeout_at=31.147798s
                           2s stale 1.1
                           3s answer 1: ok value [attempts 2, waited 147.798ms]
                           3s stale 1.2
                           4s start 1.1 timeout_at=34s
                           4s stale 1.0
                           5s stale 7.1
                       "#]],
    );
}

#[test]
fn a_tool_that_says_cancelled_or_overloaded_is_taken_at_its_word() {
    check(
        defaults(),
        "0s call 1
                       1s fail 1 cancelled
                       1s call 2
                       2s fail 2 overloaded",
        expect![[r#"
                           0ns start 1.1 timeout_at=30s
                           1s answer 1: cancelled: The service said cancelled. [attempts 1, effect None, stopped by Cancelled]
                           1s start 2.1 timeout_at=31s
                           2s answer 2: overloaded: The service said overloaded. [attempts 1, effect None, stopped by Permanent]
                       "#]],
    );
}

#[test]
fn sup_19_when_the_tool_stops_everybody_is_answered_once() {
    let policy = ResiliencePolicy { concurrency: 2, ..defaults() };
    check(
        policy,
        "0s call 1 once
                   0s call 2 read_only
                   0s call 3 once
                   1s fail 2 unavailable
                   1s stop
                   2s ok 1.1
                   9s call 4
                   9s ok 4",
        expect![[r#"
                       0ns start 1.1 timeout_at=30s
                       0ns start 2.1 timeout_at=30s
                       0ns timer 3 at=60s
                       1s retry 2.1 after unavailable in 147.798ms
                       1s timer 2 at=1.147798s
                       1s start 3.1 timeout_at=31s
                       1s abort 1.1
                       1s answer 1: tool_down: `order` was stopped. [attempts 1, effect Unknown, stopped by Cancelled]
                       1s answer 2: tool_down: `order` was stopped. [attempts 1, effect None, stopped by Cancelled]
                       1s abort 3.1
                       1s answer 3: tool_down: `order` was stopped. [attempts 1, effect Unknown, stopped by Cancelled]
                       2s stale 1.1
                       9s start 4.1 timeout_at=39s
                       9s answer 4: ok value [attempts 1]
                   "#]],
    );
}
