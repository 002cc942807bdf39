//! No limit is overspent, and a run that reaches one never looks completed.

use super::*;

#[test]
fn a_batch_with_three_calls_left_runs_its_first_three_and_answers_the_rest() {
    let limits = RunLimits { tool_calls: 5, ..RunLimits::default() };
    let mut scene = Scene::with(limits, PanicPolicy::Observe);
    scene.asks(&[("find", "{}"), ("nope", "{}")]).ends(0, Ok("x"));
    let batch: Vec<String> = (0..10).map(|n| format!(r#"{{"q":"{n}"}}"#)).collect();
    let batch: Vec<(&str, &str)> = batch.iter().map(|arguments| ("find", &**arguments)).collect();
    scene.asks(&batch).ends(2, Ok("c")).ends(0, Ok("a")).ends(1, Ok("b")).says("Best.");
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        run 1.0 find {}
        ask 2 All
        run 2.0 find {"q":"0"}
        run 2.1 find {"q":"1"}
        run 2.2 find {"q":"2"}
        nudge This run has reached its limit of 5 tool calls, and no more tools can be called. Give the best answer you can from what you know now, and say what is missing.
        ask 3 Nothing
        end limit_reached: tool_calls `Best.`
    "#]]);
    assert_eq!(scene.observation(0)["error"], "cancelled");
    assert_eq!(scene.machine.totals().tool_calls, 12);
}

#[test]
fn a_limit_of_no_calls_runs_none() {
    let limits = RunLimits { tool_calls: 0, ..RunLimits::default() };
    let mut scene = Scene::with(limits, PanicPolicy::Observe);
    scene.asks(&[("find", "{}"), ("pay", "{}")]).says("Best.");
    assert!(!scene.seen.iter().any(|line| line.starts_with("run")));
    assert_eq!(scene.machine.outcome().unwrap().reason.to_string(), "limit_reached: tool_calls");
}
