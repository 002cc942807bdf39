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

/// A reply that asks for one call and says what it used.
fn costs(prompt: u64, completion: u64, call: &str) -> ModelReply {
    let usage = Some(Usage::new(Tokens(prompt), Tokens(completion)));
    ModelReply { usage, ..asking(&[("find", call)]) }
}

/// Works as long as it may, each prompt holding the last one and the reply to it.
fn works_on(limits: RunLimits) -> Scene {
    let mut scene = Scene::with(limits, PanicPolicy::Observe);
    let mut prompt = 100;
    for n in 0..50 {
        if scene.machine.outcome().is_some()
            || scene.seen.last().is_some_and(|line| line.ends_with("Nothing"))
        {
            break;
        }
        scene.reply(costs(prompt, 10, &format!(r#"{{"q":"{n}"}}"#))).ends(0, Ok("x"));
        prompt += 10;
    }
    let usage = Some(Usage::new(Tokens(prompt), Tokens(10)));
    scene.reply(ModelReply { usage, ..ModelReply::text("Best.") });
    scene
}

#[test]
fn a_turn_of_work_begins_only_if_the_last_words_after_it_can_be_paid() {
    for most in [0, 1, 109, 110, 229, 230, 359, 360, 1000, 5000] {
        for (limits, spent) in [
            (RunLimits { tokens: Tokens(most), ..RunLimits::default() }, "tokens"),
            (RunLimits { cost: MicroUsd(most), ..RunLimits::default() }, "cost"),
        ] {
            let scene = works_on(limits);
            let outcome = scene.machine.outcome().unwrap();
            let used = if spent == "tokens" { outcome.totals.usage.total().0 } else { outcome.totals.cost.0 };
            assert_eq!(outcome.reason.to_string(), format!("limit_reached: {spent}"), "of {most}");
            // Only the first request, of which nothing is known, can pass a limit above zero.
            let first = if spent == "tokens" { 110 } else { 100 };
            assert!(used <= most.max(if most == 0 { 0 } else { first }), "{used} of {most} {spent}");
            assert_eq!(outcome.text.is_some(), most >= 2 * first + 10, "{used} of {most} {spent}");
            assert_eq!(outcome.text.is_none(), outcome.explanation.is_some());
        }
    }
}

#[test]
fn nothing_is_asked_or_called_after_the_stop_decision() {
    let limits = RunLimits { turns: 3, ..RunLimits::default() };
    let mut scene = Scene::with(limits, PanicPolicy::Observe);
    for n in 0..3 {
        scene.asks(&[("find", &format!(r#"{{"q":"{n}"}}"#))]).ends(0, Ok("x"));
    }
    scene.asks(&[("pay", "{}")]);
    let (asked, ran) = (
        scene.seen.iter().filter(|line| line.starts_with("ask")).count(),
        scene.seen.iter().filter(|line| line.starts_with("run")).count(),
    );
    assert_eq!((asked, ran), (4, 3), "{:?}", scene.seen);
    assert_eq!(scene.machine.outcome().unwrap().reason.to_string(), "limit_reached: turns");
}

#[test]
fn what_runs_out_with_the_time_of_the_run_is_the_runs_limit_whichever_timer_is_first() {
    let hour = RunLimits::default().wall_clock;
    let reason = |scene: &Scene| scene.machine.outcome().unwrap().reason.to_string();
    let late = || Failure::timeout("No answer in time.");
    let mut scene = Scene::new();
    scene.asks(&[("find", "{}")]).wait(hour).ends(0, Err(late()));
    assert_eq!(reason(&scene), "limit_reached: wall_clock");
    let mut scene = Scene::new();
    scene.wait(hour).on(RunEvent::ModelFailed { turn: 1, model: 0, failure: late(), attempts: 1 });
    assert_eq!(reason(&scene), "limit_reached: wall_clock");
}
