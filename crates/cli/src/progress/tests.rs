use expect_test::{Expect, expect};

use dauntless_contract::{Outcome, RunTotals, Tokens};

use super::*;

const CALL: CallKey = CallKey { turn: 2, index: 5 };

fn asked(call: CallKey, tool: &str, arguments: &str) -> Progress {
    Progress::CallAsked { call, call_id: "c".into(), tool: tool.into(), arguments: arguments.into() }
}

fn started(attempt: u32) -> Progress {
    Progress::AttemptStarted { call: CALL, tool: "stock".into(), attempt }
}

fn failed(attempt: u32, code: FailureCode, wait_ms: u64) -> Progress {
    let wait = Duration::from_millis(wait_ms);
    Progress::AttemptFailed { call: CALL, tool: "stock".into(), attempt, code, message: "x".into(), wait }
}

fn ended(failure: Option<(FailureCode, &str)>, attempts: u32, stopped_by: Option<StoppedBy>) -> Progress {
    Progress::CallEnded {
        call: CALL,
        call_id: "c".into(),
        tool: "stock".into(),
        code: failure.map(|(code, _)| code),
        message: failure.map(|(_, message)| message.into()),
        attempts,
        waited: Duration::ZERO,
        stopped_by,
    }
}

/// After each event, the line that is final with `=`, and those that still change with `~`.
fn check(events: &[Progress], expected: Expect) {
    let mut story = Story::default();
    let mut text = String::new();
    for event in events {
        if let Some(line) = story.see(event) {
            let _ = writeln!(text, "= {}{}", line.columns(), line.what);
        }
        for line in story.open() {
            let _ = writeln!(text, "~ {}{}", line.columns(), line.what);
        }
        text.push('\n');
    }
    expected.assert_eq(text.trim_end());
}

#[test]
fn a_call_is_one_line_that_tells_its_attempts_waits_and_end() {
    check(
        &[
            Progress::TurnStarted { turn: 2 },
            asked(CALL, "stock", r#"{"sku":"SKU-6"}"#),
            started(1),
            failed(1, FailureCode::Unavailable, 210),
            started(2),
            failed(2, FailureCode::RateLimited, 14_000),
            started(3),
            ended(None, 3, None),
        ],
        expect![[r#"
            ~      model, turn 2                              …

            ~ 2.5  stock {"sku":"SKU-6"}                      …

            ~ 2.5  stock {"sku":"SKU-6"}                      running …

            ~ 2.5  stock {"sku":"SKU-6"}                      unavailable, waiting 0.21 s …

            ~ 2.5  stock {"sku":"SKU-6"}                      unavailable, waited 0.21 s; attempt 2 …

            ~ 2.5  stock {"sku":"SKU-6"}                      unavailable, waited 0.21 s; rate_limited, waiting 14 s …

            ~ 2.5  stock {"sku":"SKU-6"}                      unavailable, waited 0.21 s; rate_limited, waited 14 s; attempt 3 …

            = 2.5  stock {"sku":"SKU-6"}                      unavailable, waited 0.21 s; rate_limited, waited 14 s; ok after 3 attempts"#]],
    );
}

#[test]
fn a_call_that_failed_says_why_it_was_not_tried_again() {
    let cases = [
        ended(Some((FailureCode::NotFound, "No such article.")), 1, Some(StoppedBy::Permanent)),
        ended(Some((FailureCode::UnknownTool, "There is no tool `stok`.")), 0, Some(StoppedBy::Permanent)),
        ended(Some((FailureCode::ToolDown, "It is out of service.")), 0, Some(StoppedBy::BreakerOpen)),
        ended(Some((FailureCode::Timeout, "No answer.")), 3, Some(StoppedBy::MaxAttempts)),
        ended(Some((FailureCode::Timeout, "No answer.")), 2, Some(StoppedBy::Budget)),
        ended(Some((FailureCode::OutcomeUnknown, "No answer.")), 1, Some(StoppedBy::Effect)),
        ended(Some((FailureCode::RateLimited, "Later.")), 1, Some(StoppedBy::RetryAfter)),
        ended(Some((FailureCode::Unavailable, "Down.")), 2, Some(StoppedBy::Deadline)),
        ended(Some((FailureCode::Cancelled, "Stopped.")), 1, Some(StoppedBy::Cancelled)),
    ];
    let events: Vec<Progress> = cases.into_iter().flat_map(|end| [asked(CALL, "stock", "{}"), end]).collect();
    let mut story = Story::default();
    let lines: Vec<String> =
        events.iter().filter_map(|event| story.see(event)).map(|line| line.what).collect();
    expect![[r#"
        not_found: No such article.
        unknown_tool, not sent: There is no tool `stok`.
        tool_down, not sent (the breaker is open): It is out of service.
        timeout after 3 attempts: No answer.
        timeout after 2 attempts (the retry budget is empty): No answer.
        outcome_unknown (not repeated, it may have happened): No answer.
        rate_limited (the wait asked for is too long): Later.
        unavailable after 2 attempts (no time for another attempt): Down.
        cancelled: Stopped."#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn a_wait_that_was_not_followed_by_an_attempt_is_told() {
    check(
        &[
            asked(CALL, "stock", "{}"),
            started(1),
            failed(1, FailureCode::Unavailable, 210),
            ended(Some((FailureCode::Cancelled, "Stopped.")), 1, Some(StoppedBy::Cancelled)),
        ],
        expect![[r#"
            ~ 2.5  stock {}                                   …

            ~ 2.5  stock {}                                   running …

            ~ 2.5  stock {}                                   unavailable, waiting 0.21 s …

            = 2.5  stock {}                                   unavailable; cancelled: Stopped."#]],
    );
}

#[test]
fn what_concerns_no_call_has_a_line_of_its_own() {
    let trip = Progress::BreakerOpened { tool: "reviews".into(), retry_in: Duration::from_millis(4600) };
    check(
        &[
            Progress::ModelRetried {
                turn: 1,
                attempt: 1,
                code: FailureCode::RateLimited,
                wait: Duration::from_secs(2),
            },
            trip.clone(),
            trip,
            Progress::Nudged { turn: 3, text: "You said nothing.\nPlease answer.".into() },
            Progress::ContextTrimmed {
                turn: 9,
                trim: Trim::Summarised { rounds: 4 },
                before: Tokens(31_000),
                after: Tokens(18_000),
            },
            Progress::Lagged { lost: 12 },
        ],
        expect![[r#"
            =      model, turn 1                              rate_limited, next attempt in 2 s

            =      breaker of reviews                         open: calls are refused for 4.6 s


            =      nudge after turn 3                         You said nothing. Please answer.

            =      context, turn 9                            rounds summarised: 4; 31000 to 18000 tokens

            =      this view was too slow                     12 events are not shown"#]],
    );
}

#[test]
fn what_a_model_writes_stays_on_its_line_and_in_its_column() {
    let long = format!(r#"{{"text":"{}"}}"#, "x".repeat(100));
    check(
        &[
            asked(CALL, "stock", "{\n\"a\":\u{1b}[2J1}"),
            asked(CallKey { turn: 12, index: 10 }, "stock", &long),
        ],
        expect![[r#"
            ~ 2.5  stock { "a":\u{1b}[2J1}                    …

            ~ 2.5  stock { "a":\u{1b}[2J1}                    …
            ~ 12.10 stock {"text":"xxxxxxxxxxxxxxxxxxxxxxxx…  …"#]],
    );
}

#[test]
fn an_event_about_a_call_that_nobody_asked_for_is_no_line() {
    check(&[started(1), failed(1, FailureCode::Timeout, 1), ended(None, 1, None)], expect![[""]]);
}

#[test]
fn lengths_are_as_exact_as_a_person_cares_for() {
    let lengths = [0, 4, 210, 9_994, 12_340, 119_999, 3_725_000];
    let told: Vec<String> = lengths.map(|ms| length(Duration::from_millis(ms))).to_vec();
    expect!["0 ms, 4 ms, 0.21 s, 9.99 s, 12.3 s, 120 s, 62 min 5 s"].assert_eq(&told.join(", "));
}

fn in_child(run: u128, parent: u128, agent: &str, progress: Progress) -> Progress {
    Progress::InChild {
        run: RunId::from_u128(run),
        parent: RunId::from_u128(parent),
        root: RunId::from_u128(1),
        agent: agent.into(),
        progress: Box::new(progress),
    }
}

fn child_started(call: CallKey, agent: &str, run: u128) -> Progress {
    Progress::ChildStarted { call, agent: agent.into(), run: RunId::from_u128(run), attempt: 1 }
}

fn child_ended(call: CallKey, agent: &str, run: u128, reason: StopReason) -> Progress {
    let outcome = Outcome {
        run: RunId::from_u128(run),
        reason,
        text: None,
        explanation: None,
        totals: RunTotals::default(),
        elapsed: Duration::ZERO,
    };
    Progress::ChildEnded { call, agent: agent.into(), outcome }
}

#[test]
fn what_runs_below_do_is_shown_under_them() {
    let (call, own) = (CallKey { turn: 1, index: 0 }, CallKey { turn: 1, index: 1 });
    check(
        &[
            asked(call, "writer", r#"{"goal":"A poem"}"#),
            child_started(call, "writer", 2),
            in_child(2, 1, "writer", Progress::TurnStarted { turn: 1 }),
            in_child(2, 1, "writer", asked(own, "archive", r#"{"goal":"Poems"}"#)),
            in_child(3, 2, "archive", asked(CALL, "stock", "{}")),
            in_child(3, 2, "archive", ended(None, 1, None)),
            in_child(2, 1, "writer", child_ended(own, "archive", 3, StopReason::Completed)),
            child_ended(call, "writer", 2, StopReason::Completed),
            Progress::CallEnded {
                call,
                call_id: "c".into(),
                tool: "writer".into(),
                code: None,
                message: None,
                attempts: 1,
                waited: Duration::ZERO,
                stopped_by: None,
            },
        ],
        expect![[r#"
            ~ 1.0  writer {"goal":"A poem"}                   …

            ~ 1.0  writer {"goal":"A poem"}                   running …

            ~ 1.0  writer {"goal":"A poem"}                   running …
            ~   writer model, turn 1                          …

            ~ 1.0  writer {"goal":"A poem"}                   running …
            ~   writer 1.1  archive {"goal":"Poems"}          …

            ~ 1.0  writer {"goal":"A poem"}                   running …
            ~   writer 1.1  archive {"goal":"Poems"}          …
            ~     archive 2.5  stock {}                       …

            =     archive 2.5  stock {}                       ok
            ~ 1.0  writer {"goal":"A poem"}                   running …
            ~   writer 1.1  archive {"goal":"Poems"}          …

            ~ 1.0  writer {"goal":"A poem"}                   running …
            ~   writer 1.1  archive {"goal":"Poems"}          …

            ~ 1.0  writer {"goal":"A poem"}                   running …

            = 1.0  writer {"goal":"A poem"}                   ok"#]],
    );
}

#[test]
fn a_step_of_a_plan_is_a_line_although_no_model_asked_for_it() {
    let step = |turn| CallKey { turn, index: 0 };
    check(
        &[
            child_started(step(1), "researcher", 2),
            in_child(2, 1, "researcher", Progress::TurnStarted { turn: 1 }),
            child_ended(step(1), "researcher", 2, StopReason::Completed),
            child_started(step(2), "writer", 3),
            child_ended(step(2), "writer", 3, StopReason::LimitReached(dauntless_contract::LimitKind::Turns)),
        ],
        expect![[r#"
            ~ 1    researcher                                 running …

            ~ 1    researcher                                 running …
            ~   researcher model, turn 1                      …

            = 1    researcher                                 ok

            ~ 2    writer                                     running …

            = 2    writer                                     limit_reached: turns"#]],
    );
}
