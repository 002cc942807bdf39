use std::time::Duration;

use dauntless_contract::{
    CallRecord, CallVerdict, FailureCode, History, Json, ModelReply, Observation, RawCall, Round, RunId,
    RunTotals, StopReason, ToolCall, ToolOutput,
};
use expect_test::{Expect, expect};

use super::*;
use crate::tests::panic_of;

const C0: CallKey = CallKey { turn: 1, index: 0 };
const C1: CallKey = CallKey { turn: 1, index: 1 };

fn id(call: CallKey) -> Arc<str> {
    format!("c{}", call.index).into()
}

fn asked(call: CallKey) -> Progress {
    Progress::CallAsked { call, call_id: id(call), tool: "t".into(), arguments: "{}".into() }
}

fn started(call: CallKey, attempt: u32) -> Progress {
    Progress::AttemptStarted { call, tool: "t".into(), attempt }
}

fn failed(call: CallKey, attempt: u32) -> Progress {
    let code = FailureCode::Timeout;
    Progress::AttemptFailed {
        call,
        tool: "t".into(),
        attempt,
        code,
        message: "".into(),
        wait: Duration::ZERO,
    }
}

fn ended(call: CallKey, attempts: u32) -> Progress {
    Progress::CallEnded {
        call,
        call_id: id(call),
        tool: "t".into(),
        code: None,
        message: None,
        attempts,
        waited: Duration::ZERO,
        stopped_by: None,
    }
}

fn over(tool_calls: u32) -> Progress {
    let outcome = Outcome {
        run: RunId::from_u128(1),
        reason: StopReason::Completed,
        text: None,
        explanation: None,
        totals: RunTotals { tool_calls, ..RunTotals::default() },
        elapsed: Duration::ZERO,
    };
    Progress::RunEnded { outcome }
}

fn call(name: &str) -> ToolCall {
    ToolCall { id: name.into(), name: "t".into(), arguments: Json::empty_object() }
}

fn asks(ids: &[&str]) -> Message {
    Message::Assistant { text: None, calls: ids.iter().map(|id| call(id)).collect(), extra: None }
}

fn answers(id: &str) -> Message {
    Message::Tool { call_id: id.into(), name: "t".into(), text: "ok".into() }
}

#[track_caller]
fn expect_problems(books: &CallAccounting, expected: Expect) {
    expected.assert_eq(&books.check().err().unwrap_or_default().join("\n"));
}

fn progress(events: &[Progress]) -> CallAccounting {
    CallAccounting::of_progress(events)
}

#[test]
fn calls_that_end_in_any_order_balance() {
    let mut books = progress(&[
        asked(C0),
        asked(C1),
        started(C0, 1),
        started(C1, 1),
        failed(C0, 1),
        ended(C1, 1),
        started(C0, 2),
        ended(C0, 2),
        over(2),
    ]);
    books.see_history(&[asks(&["c0", "c1"]), answers("c0"), answers("c1")]);
    books.assert_balanced();
    assert_eq!(books.calls(), 2);
}

#[test]
fn a_call_without_its_one_end_is_caught() {
    expect_problems(
        &progress(&[asked(C0), asked(C1), ended(C0, 0), ended(C0, 0), over(2)]),
        expect![[r#"
        call 1.0 (t) ended 2 times
        call 1.1 (t) was asked for and never ended"#]],
    );
}

#[test]
fn ends_and_attempts_nobody_asked_for_are_caught() {
    expect_problems(
        &progress(&[started(C0, 1), ended(C0, 1), over(0)]),
        expect![[r#"
        attempt 1 of call 1.0 started, which nobody asked for
        call 1.0 ended, which nobody asked for"#]],
    );
}

#[test]
fn calls_out_of_order_or_twice_are_caught() {
    expect_problems(
        &progress(&[asked(C1), asked(C0), asked(C0), ended(C0, 0), ended(C1, 0), over(2)]),
        expect![[r#"
            call 1.0 (t) was asked for twice or out of order
            call 1.0 (t) was asked for twice or out of order"#]],
    );
}

#[test]
fn attempts_that_do_not_add_up_are_caught() {
    let events =
        [asked(C0), started(C0, 1), started(C0, 1), failed(C0, 3), ended(C0, 1), started(C0, 2), over(1)];
    expect_problems(
        &progress(&events),
        expect![[r#"
            attempt 1 of call 1.0 started twice or out of order
            attempt 3 of call 1.0 failed and never started
            call 1.0 (t) ended after 1 attempts by its own count, 2 were started
            attempt 2 of call 1.0 started after its end"#]],
    );
}

#[test]
fn an_end_under_another_name_is_caught() {
    let mut end = ended(C0, 0);
    if let Progress::CallEnded { call_id, .. } = &mut end {
        *call_id = "c9".into();
    }
    expect_problems(
        &progress(&[asked(C0), end, over(1)]),
        expect!["call 1.0 (t) with id `c0` ended as t with id `c9`"],
    );
}

#[test]
fn a_run_ends_once_and_last_and_counts_its_calls() {
    expect_problems(&progress(&[Progress::TurnStarted { turn: 1 }]), expect!["the run never ended"]);
    expect_problems(
        &progress(&[over(0), Progress::TurnStarted { turn: 2 }, over(3)]),
        expect![[r#"
            after the end of the run came TurnStarted { turn: 2 }
            the run ended twice
            the outcome counts 3 calls, the model asked for 0"#]],
    );
}

#[test]
fn books_with_a_hole_do_not_balance() {
    expect_problems(
        &progress(&[Progress::Lagged { lost: 3 }, over(0)]),
        expect!["3 events were lost, so the books cannot balance: read faster"],
    );
}

#[test]
fn a_broken_conversation_is_caught() {
    let mut books = CallAccounting::default();
    books.see_history(&[
        asks(&["a", "b"]),
        answers("b"),
        answers("a"),
        answers("a"),
        asks(&["c"]),
        Message::User { text: "?".into() },
        asks(&["d"]),
    ]);
    expect_problems(
        &books,
        expect![[r#"
        `b` was answered before an earlier call
        the answer of t to `a` has no call
        `c` is in the conversation without its answer
        `d` is in the conversation without its answer"#]],
    );
    assert!(panic_of(|| books.assert_balanced()).starts_with("the calls do not balance:\n  "));
}

#[test]
fn observations_that_are_not_the_calls_are_caught() {
    let events = [asked(C0), asked(C1), ended(C0, 0), ended(C1, 0), over(2)];
    let mut short = progress(&events);
    short.see_history(&[asks(&["c0"]), answers("c0")]);
    expect_problems(
        &short,
        expect![[r#"the calls were ["c0", "c1"], the observations in the conversation ["c0"]"#]],
    );
    let mut swapped = progress(&events);
    swapped.see_history(&[asks(&["c1", "c0"]), answers("c1"), answers("c0")]);
    assert!(swapped.check().is_err());
}

#[test]
fn a_history_of_rounds_balances_by_construction() {
    let mut history = History::open(&"be good".into(), &"go".into());
    let calls = ["a", "b"].map(|id| (call(id), Observation { text: "ok".into() })).to_vec();
    history.round(Round { text: None, extra: None, calls });
    let mut books = CallAccounting::default();
    books.see_history(history.messages());
    books.assert_balanced();
}

#[test]
fn a_journal_balances_or_names_the_open_call() {
    let raw = |id: &str| RawCall { id: id.into(), name: "t".into(), arguments: "".into(), garbled: None };
    let reply = ModelReply::calls(vec![raw("a"), raw("b")]);
    let replied = RunEvent::ModelReplied { turn: 1, model: 0, reply, attempts: 1 };
    let verdict = CallVerdict::Succeeded(ToolOutput::text("ok"));
    let record = CallRecord {
        verdict,
        attempts: 1,
        waited: Duration::ZERO,
        stopped_by: None,
        out_for: None,
        by: None,
    };
    let end = |call| RunEvent::CallEnded { call, record: record.clone() };
    CallAccounting::of_journal(&[replied.clone(), end(C1), end(C0)]).assert_balanced();
    expect_problems(
        &CallAccounting::of_journal(&[replied, end(C1), end(C1)]),
        expect![[r#"
        call 1.0 (t) was asked for and never ended
        call 1.1 (t) ended 2 times"#]],
    );
}
