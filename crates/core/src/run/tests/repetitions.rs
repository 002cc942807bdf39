//! Calls that may have happened, and calls that can come to nothing.

use super::*;

fn perhaps() -> Failure {
    Failure::outcome_unknown("The answer was lost.").hint("Look it up with `find`.")
}

#[test]
fn a_call_that_may_have_happened_is_not_done_again_and_insisting_ends_the_run() {
    let mut scene = Scene::new();
    scene.asks(&[("pay", r#"{"q":"7"}"#)]).ends(0, Err(perhaps()));
    scene.asks(&[("pay", r#"{ "q" : "7" }"#), ("find", "{}")]).ends(1, Ok("nothing"));
    let answer = scene.observation(1);
    assert_eq!(answer["error"], "repeated_failure");
    assert_eq!(answer["effect"], "unknown");
    scene.asks(&[("pay", r#"{"q":"7"}"#), ("pay", r#"{"q":"7"}"#)]).asks(&[("pay", r#"{"q":"7"}"#)]);
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        run 1.0 pay {"q":"7"}
        ask 2 All
        run 2.1 find {}
        ask 3 All
        ask 4 All
        end stuck: pay {"q":"7"}, 4 times
    "#]]);
    expect![[r#"{"effect":"unknown","error":"repeated_failure","hint":"Look it up with `find`. If you cannot find out, say in your answer that its outcome is unknown.","message":"This call of `pay` was not executed: the same call ended with outcome_unknown in turn 1, and it may have happened. Doing it again could do it twice."}"#]].assert_eq(&answer.to_string());
}

#[test]
fn other_arguments_are_another_effect() {
    let mut scene = Scene::new();
    scene.asks(&[("pay", r#"{"q":"order 1"}"#)]).ends(0, Err(perhaps()));
    scene.asks(&[("pay", r#"{"q":"order 2"}"#)]).ends(0, Ok("paid"));
    assert_eq!(scene.seen.iter().filter(|line| line.starts_with("run")).count(), 2);
}

#[test]
fn any_failure_that_may_have_happened_is_held_and_one_that_did_not_is_free() {
    for (failure, runs) in [
        (Failure::tool_error("Broke."), 1),
        (Failure::timeout("No answer.").effect(EffectState::None), 2),
        (Failure::crashed("Broke."), 1),
        (Failure::conflict("Not now."), 2),
    ] {
        let mut scene = Scene::new();
        scene.asks(&[("give", "{}")]).ends(0, Err(failure)).asks(&[("give", "{}")]);
        assert_eq!(
            scene.seen.iter().filter(|line| line.starts_with("run")).count(),
            runs,
            "{:?}",
            scene.seen
        );
    }
}

#[test]
fn a_keyed_tool_is_asked_again_under_the_key_of_the_first_call() {
    let mut scene = Scene::new();
    scene.asks(&[("transfer", "{}")]).ends(0, Err(Failure::outcome_unknown("The answer was lost.")));
    scene.asks(&[("transfer", "{}")]).ends(0, Err(Failure::tool_error("Broke.")));
    scene.asks(&[("transfer", "{}")]).ends(0, Ok("done once"));
    scene.asks(&[("transfer", "{}")]);
    let runs: Vec<_> = scene.seen.iter().filter(|line| line.starts_with("run")).collect();
    assert_eq!(
        runs,
        [
            "run 1.0 transfer {}",
            "run 2.0 transfer {} key of 1.0",
            "run 3.0 transfer {} key of 1.0",
            "run 4.0 transfer {}",
        ]
    );
}

#[test]
fn a_repetition_under_a_key_goes_to_no_fallback() {
    let mut scene = Scene::new();
    scene.asks(&[("transfer", "{}")]).ends(0, Err(Failure::outcome_unknown("The answer was lost.")));
    scene.asks(&[("transfer", "{}")]).ends(0, Err(Failure::rate_limited("Later.")));
    assert!(!scene.seen.iter().any(|line| line.starts_with("fall back")), "{:?}", scene.seen);
}

#[test]
fn what_a_fallback_may_have_done_is_held_under_either_name() {
    let mut scene = Scene::new();
    scene.asks(&[("transfer", "{}")]).ends(0, Err(Failure::rate_limited("Later.")));
    scene.ends(0, Err(perhaps()));
    scene.asks(&[("transfer", "{}"), ("pay", "{}")]);
    let ran: Vec<_> = scene.seen.iter().filter(|line| !line.starts_with("ask")).collect();
    assert_eq!(
        ran,
        ["timer WallClock 3600s", "run 1.0 transfer {}", "fall back 1.0 transfer to pay {}"],
        "neither the tool nor its fallback is asked again"
    );
}

#[test]
fn an_unknown_tool_again_and_again_is_told_and_then_ends_the_run() {
    let mut scene = Scene::new();
    for _ in 0..3 {
        scene.asks(&[("WebSearch", r#"{"q":"x"}"#)]);
    }
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        ask 2 All
        nudge Your last 2 replies called only tools that do not exist: `WebSearch`. Call one of your own tools by its exact name, or answer without a tool. One more such reply ends this run.
        ask 3 All
        end stuck: `WebSearch` (no such tool), 3 times
    "#]]);
}

#[test]
fn three_unknown_tools_in_a_row_end_the_run_by_their_names() {
    let mut scene = Scene::new();
    scene.asks(&[("get_date", "{}"), ("find", "{}")]).ends(1, Ok("x"));
    for name in ["get_time", "get_now", "get_day"] {
        scene.asks(&[(name, "{}")]);
    }
    let outcome = scene.machine.outcome().unwrap();
    assert_eq!(outcome.reason.name(), "stuck");
    assert_eq!(
        outcome.explanation.as_deref(),
        Some("The last 3 replies called only tools that do not exist: `get_time`, `get_now`, `get_day`.")
    );
}

#[test]
fn fifty_calls_that_get_somewhere_complete_and_a_cycle_of_three_does_not() {
    let mut scene = Scene::new();
    for n in 0..49 {
        scene.asks(&[("find", &format!(r#"{{"q":"{n}"}}"#))]).ends(0, Ok("x"));
    }
    scene.says("Done.");
    assert_eq!(scene.machine.outcome().unwrap().reason, StopReason::Completed);

    let mut scene = Scene::new();
    for n in 0..24 {
        scene.asks(&[("find", &format!(r#"{{"q":"{}"}}"#, n % 3))]).ends(0, Ok("x"));
    }
    assert_eq!(scene.machine.outcome().unwrap().reason.name(), "stuck");
    assert_eq!(scene.seen.iter().filter(|line| line.starts_with("nudge")).count(), 1);
}
