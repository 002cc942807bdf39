use serde_json::json;

use super::*;
use crate::toolbox::{Admission, Toolbox};
use dauntless_contract::{RawCall, ToolSpec};

fn call(tool: &str, arguments: &str) -> Fingerprint {
    let spec = ToolSpec::new(tool, "Does something.", json!({ "type": "object" }));
    let (toolbox, _) = Toolbox::build(vec![Arc::new(spec)]);
    let raw = RawCall { id: "c".into(), name: tool.into(), arguments: arguments.into(), garbled: None };
    match toolbox.admit(&raw, None) {
        Admission::Run { fingerprint, .. } | Admission::Answered { fingerprint, .. } => fingerprint,
    }
}

/// Asks for one call in a turn of its own, and lets it fail if it may run.
fn fails(guard: &mut LoopGuard, call: &Fingerprint, code: FailureCode) -> GuardVerdict {
    let verdict = guard.check(call);
    match verdict {
        GuardVerdict::Run => guard.failed(call, code),
        GuardVerdict::Repeated { .. } | GuardVerdict::Stuck { .. } => {
            guard.failed(call, FailureCode::RepeatedFailure);
        }
    }
    guard.turn_finished();
    verdict
}

/// One turn of calls that work; returns how often the guard says it came round, and what it says.
fn works(guard: &mut LoopGuard, calls: &[(&Fingerprint, &str)]) -> TurnVerdict {
    for (call, result) in calls {
        assert_eq!(guard.check(call), GuardVerdict::Run);
        guard.succeeded(call, &ToolOutput::text(*result), false);
    }
    guard.turn_finished()
}

fn name(verdict: &TurnVerdict) -> String {
    match verdict {
        TurnVerdict::GoOn => "go on".to_owned(),
        TurnVerdict::Nudge { times, .. } => format!("nudge {times}"),
        TurnVerdict::Stuck { times, .. } => format!("stuck {times}"),
        TurnVerdict::NudgeUnknown(unknown) => format!("nudge unknown {}", unknown.listed()),
        TurnVerdict::StuckUnknown(unknown) => format!("stuck unknown {}", unknown.listed()),
    }
}

/// The turns, counted from 1, at which the guard speaks.
fn spoken(turns: u32, mut turn: impl FnMut(u32) -> TurnVerdict) -> Vec<(u32, String)> {
    (1..=turns).map(|n| (n, name(&turn(n)))).filter(|(_, said)| said != "go on").collect()
}

const NOT_FOUND: FailureCode = FailureCode::NotFound;

#[test]
fn the_third_identical_failure_is_not_executed_and_ignoring_that_twice_is_stuck() {
    let (mut guard, search) = (LoopGuard::default(), call("search", r#"{"q":1}"#));
    let verdicts: Vec<_> = (0..5).map(|_| fails(&mut guard, &search, NOT_FOUND)).collect();
    let repeated = GuardVerdict::Repeated { failures: 2, code: NOT_FOUND };
    assert_eq!(
        verdicts,
        [GuardVerdict::Run, GuardVerdict::Run, repeated, repeated, GuardVerdict::Stuck { times: 5 }]
    );
}

#[test]
fn other_arguments_are_another_call() {
    let mut guard = LoopGuard::default();
    for n in 0..50 {
        let search = call("search", &format!("{{\"q\":{n}}}"));
        assert_eq!(fails(&mut guard, &search, NOT_FOUND), GuardVerdict::Run);
    }
}

#[test]
fn another_kind_of_failure_starts_anew() {
    let (mut guard, search) = (LoopGuard::default(), call("search", "{}"));
    for code in [NOT_FOUND, FailureCode::Conflict, NOT_FOUND, FailureCode::Conflict] {
        assert_eq!(fails(&mut guard, &search, code), GuardVerdict::Run);
    }
}

#[test]
fn a_success_in_between_clears_it() {
    let (mut guard, search) = (LoopGuard::default(), call("search", "{}"));
    fails(&mut guard, &search, NOT_FOUND);
    works(&mut guard, &[(&search, "found")]);
    for _ in 0..2 {
        assert_eq!(fails(&mut guard, &search, NOT_FOUND), GuardVerdict::Run);
    }
    assert_ne!(guard.check(&search), GuardVerdict::Run);
}

#[test]
fn failures_of_other_calls_in_between_clear_nothing() {
    let (mut guard, one, other) = (LoopGuard::default(), call("one", "{}"), call("other", "{}"));
    for _ in 0..2 {
        fails(&mut guard, &one, NOT_FOUND);
        fails(&mut guard, &other, NOT_FOUND);
    }
    assert_ne!(guard.check(&one), GuardVerdict::Run);
    assert_ne!(guard.check(&other), GuardVerdict::Run);
}

#[test]
fn what_tells_of_the_moment_is_not_the_repetition_of_the_model() {
    let search = call("search", "{}");
    let moments: Vec<&str> = FailureCode::ALL
        .into_iter()
        .filter(|code| {
            let mut guard = LoopGuard::default();
            (0..20).all(|_| fails(&mut guard, &search, *code) == GuardVerdict::Run)
        })
        .map(FailureCode::as_str)
        .collect();
    assert_eq!(
        moments,
        [
            "rate_limited",
            "unavailable",
            "timeout",
            "connection_failed",
            "truncated_call",
            "cancelled",
            "tool_down",
            "overloaded",
            // Given by the guard itself, to calls that it refused already.
            "repeated_failure",
        ]
    );
}

#[test]
fn equal_calls_of_one_turn_are_refused_together_and_count_once() {
    let (mut guard, search) = (LoopGuard::default(), call("search", "{}"));
    for _ in 0..3 {
        assert_eq!(guard.check(&search), GuardVerdict::Run);
    }
    (0..3).for_each(|_| guard.failed(&search, NOT_FOUND));
    guard.turn_finished();
    for _ in 0..2 {
        for _ in 0..5 {
            assert_eq!(guard.check(&search), GuardVerdict::Repeated { failures: 3, code: NOT_FOUND });
        }
        guard.turn_finished();
    }
    assert_eq!(guard.check(&search), GuardVerdict::Stuck { times: 6 });
}

#[test]
fn the_same_turn_with_the_same_results_is_nudged_at_four_and_stuck_at_eight() {
    let (mut guard, list) = (LoopGuard::default(), call("list", "{}"));
    let spoken = spoken(8, |_| works(&mut guard, &[(&list, "nothing new")]));
    assert_eq!(spoken, [(4, "nudge 4".to_owned()), (8, "stuck 8".to_owned())]);
}

#[test]
fn another_result_is_progress() {
    let (mut guard, list) = (LoopGuard::default(), call("list", "{}"));
    assert_eq!(spoken(50, |n| works(&mut guard, &[(&list, &format!("{} items", n / 3))])), []);
}

#[test]
fn fifty_different_turns_are_no_loop() {
    let mut guard = LoopGuard::default();
    let said = spoken(50, |n| works(&mut guard, &[(&call("read", &format!("{{\"line\":{n}}}")), "text")]));
    assert_eq!(said, []);
}

#[test]
fn the_order_of_calls_in_a_turn_does_not_matter() {
    let (mut guard, a, b) = (LoopGuard::default(), call("a", "{}"), call("b", "{}"));
    let said = spoken(4, |n| {
        if n % 2 == 0 {
            works(&mut guard, &[(&a, "1"), (&b, "2")])
        } else {
            works(&mut guard, &[(&b, "2"), (&a, "1")])
        }
    });
    assert_eq!(said, [(4, "nudge 4".to_owned())]);
}

#[test]
fn a_cycle_of_two_or_three_turns_counts_by_its_rounds() {
    let calls = [call("a", "{}"), call("b", "{}"), call("c", "{}")];
    for period in [2_usize, 3] {
        let mut guard = LoopGuard::default();
        let said = spoken(24, |n| {
            let call = &calls[n as usize % period];
            works(&mut guard, &[(call, "same")])
        });
        let period = u32::try_from(period).unwrap();
        assert_eq!(said[0], (4 * period, "nudge 4".to_owned()));
        assert_eq!(said[1], (8 * period, "stuck 8".to_owned()));
    }
}

#[test]
fn a_cycle_with_failures_in_it_counts_too() {
    let (mut guard, a, b) = (LoopGuard::default(), call("a", "{}"), call("b", "{}"));
    let said = spoken(16, |n| {
        guard.succeeded(&a, &ToolOutput::text("same"), false);
        guard.failed(&b, if n % 2 == 0 { NOT_FOUND } else { FailureCode::Conflict });
        guard.turn_finished()
    });
    assert_eq!(said, [(8, "nudge 4".to_owned()), (16, "stuck 8".to_owned())]);
}

#[test]
fn a_polling_tool_may_ask_for_ever() {
    let (mut guard, status) = (LoopGuard::default(), call("status", "{}"));
    let said = spoken(100, |_| {
        guard.succeeded(&status, &ToolOutput::text("running"), true);
        guard.turn_finished()
    });
    assert_eq!(said, []);
}

#[test]
fn a_turn_in_which_nothing_counts_ends_the_repetition() {
    let (mut guard, list) = (LoopGuard::default(), call("list", "{}"));
    let said =
        spoken(
            20,
            |n| {
                if n % 4 == 0 { guard.turn_finished() } else { works(&mut guard, &[(&list, "same")]) }
            },
        );
    assert_eq!(said, []);
}

#[test]
fn memory_stays_bounded_and_keeps_what_was_seen_last() {
    let mut guard = LoopGuard::default();
    let latest = call("search", r#"{"q":"latest"}"#);
    for n in 0..2_000 {
        fails(&mut guard, &call("search", &format!("{{\"q\":{n}}}")), NOT_FOUND);
    }
    fails(&mut guard, &latest, NOT_FOUND);
    fails(&mut guard, &latest, NOT_FOUND);
    assert_eq!(guard.failed.len(), REMEMBERED_MAX);
    assert_ne!(guard.check(&latest), GuardVerdict::Run);
}

#[test]
fn the_words_name_the_call_and_the_way_out() {
    let search = call("search", r#"{"q":"shoes","token":"FAKE-123"}"#);
    let failure = repeated_failure(&search, 2, NOT_FOUND);
    assert_eq!(
        &*failure.message,
        "This call of `search` was not executed: the same call failed 2 times with not_found."
    );
    let nudge = repetition_nudge(search.display(), 4);
    assert!(nudge.contains(r#"`search {"q":"shoes","token":"[redacted]"}`"#), "{nudge}");
}

/// One turn of calls, each with whether there is such a tool.
fn names(guard: &mut LoopGuard, calls: &[(&str, bool)]) -> TurnVerdict {
    for (tool, exists) in calls {
        guard.named(&call(tool, "{}"), *exists);
    }
    guard.turn_finished()
}

#[test]
fn replies_that_call_only_unknown_tools_are_nudged_at_two_and_stuck_at_three() {
    let mut guard = LoopGuard::default();
    let turns = [&["a", "b"][..], &["c"], &["a"]];
    let spoken = spoken(3, |n| {
        let turn = turns[usize::try_from(n).unwrap() - 1];
        names(&mut guard, &turn.iter().map(|name| (*name, false)).collect::<Vec<_>>())
    });
    assert_eq!(spoken, [(2, "nudge unknown `a`, `c`".to_owned()), (3, "stuck unknown `a`, `c`".to_owned())]);
}

#[test]
fn a_known_tool_among_unknown_ones_starts_their_count_afresh() {
    let mut guard = LoopGuard::default();
    for _ in 0..20 {
        assert_eq!(name(&names(&mut guard, &[("a", false)])), "go on");
        assert_eq!(name(&names(&mut guard, &[("b", false), ("known", true)])), "go on");
    }
}
