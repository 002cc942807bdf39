//! Another tool for one that is exhausted or down, another model for one that failed.

use super::*;

fn ends_by(scene: &mut Scene, by: Option<&str>, verdict: Result<&str, Failure>) {
    let call = CallKey { turn: scene.turn, index: 0 };
    let verdict = match verdict {
        Ok(text) => CallVerdict::Succeeded(ToolOutput::text(text)),
        Err(failure) => CallVerdict::Failed(failure),
    };
    let (attempts, waited) = (2, Duration::from_millis(1500));
    let by = by.map(Into::into);
    let record = CallRecord { verdict, attempts, waited, stopped_by: None, out_for: None, by };
    scene.on(RunEvent::CallEnded { call, record });
}

fn down() -> Failure {
    Failure::unavailable("Down.")
}

#[test]
fn an_exhausted_tool_hands_its_call_to_its_fallback() {
    let mut scene = Scene::new();
    scene.asks(&[("price", r#"{"q":"tea"}"#)]);
    ends_by(&mut scene, None, Err(down()));
    ends_by(&mut scene, Some("archive"), Err(Failure::tool_down("Out.")));
    ends_by(&mut scene, Some("memory"), Ok("3 EUR"));
    scene.says("3 EUR.");
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        run 1.0 price {"q":"tea"}
        fall back 1.0 price to archive {"q":"tea"}
        fall back 1.0 price to memory {"q":"tea"}
        ask 2 All
        end completed `3 EUR.`
    "#]]);
    let totals = scene.machine.totals();
    assert_eq!((totals.tool_attempts, totals.failed_calls, totals.tool_calls), (6, 0, 1));
}

#[test]
fn a_late_end_of_the_tool_before_does_not_end_the_call() {
    let mut scene = Scene::new();
    scene.asks(&[("price", "{}")]);
    ends_by(&mut scene, None, Err(down()));
    let before = scene.machine.clone();
    ends_by(&mut scene, None, Ok("late"));
    ends_by(&mut scene, Some("memory"), Ok("never asked"));
    assert_eq!(scene.machine, before);
}

#[test]
fn arguments_that_do_not_fit_the_fallback_end_the_chain_with_the_real_failure() {
    let mut scene = Scene::new();
    scene.asks(&[("price", r#"{"q":"long name"}"#)]);
    ends_by(&mut scene, None, Err(down()));
    ends_by(&mut scene, Some("archive"), Err(down()));
    let reason = scene.machine.outcome().unwrap().reason.to_string();
    assert_eq!(
        reason,
        "tool_exhausted: archive (c0) failed with unavailable after 4 attempts, 3.0 s of waiting"
    );
}

#[test]
fn what_may_have_happened_is_not_done_again_by_another_tool() {
    let mut scene = Scene::new();
    scene.asks(&[("transfer", "{}")]);
    ends_by(&mut scene, None, Err(Failure::timeout("No answer.")));
    assert!(!scene.seen.iter().any(|line| line.starts_with("fall back")), "its key is unknown to the other");
    let mut scene = Scene::new();
    scene.asks(&[("transfer", "{}")]);
    ends_by(&mut scene, None, Err(Failure::connection_failed("Refused.")));
    assert_eq!(scene.seen.last().unwrap(), "fall back 1.0 transfer to pay {}");
    ends_by(&mut scene, Some("pay"), Ok("paid"));
    scene.history_is_valid();
    scene.replay_is_equal();
}

#[test]
fn an_answer_is_no_reason_to_ask_another_tool() {
    for failure in [Failure::not_found("No."), Failure::crashed("Broke."), Failure::conflict("Locked.")] {
        let mut scene = Scene::new();
        scene.asks(&[("price", "{}")]);
        ends_by(&mut scene, None, Err(failure));
        assert!(!scene.seen.iter().any(|line| line.starts_with("fall back")));
    }
}

#[test]
fn a_run_that_is_stopping_starts_no_fallback() {
    let mut scene = Scene::new();
    scene.asks(&[("price", "{}")]).on(RunEvent::CancelRequested { by: "x".into() });
    ends_by(&mut scene, None, Err(down()));
    assert_eq!(scene.seen.last().unwrap(), "end cancelled by x");
    scene.replay_is_equal();
}

fn model_fails(scene: &mut Scene, model: u32, failure: Failure) {
    let turn = scene.turn;
    scene.on(RunEvent::ModelFailed { turn, model, failure, attempts: 3 });
}

#[test]
fn a_model_that_fails_is_replaced_for_the_turn_and_asked_again_in_the_next() {
    let mut scene = Scene::new();
    model_fails(&mut scene, 0, down());
    model_fails(&mut scene, 0, down());
    model_fails(&mut scene, 1, down());
    let usage = Some(Usage::new(Tokens(100), Tokens(0)));
    let reply = ModelReply { usage, ..asking(&[("find", "{}")]) };
    scene.on(RunEvent::ModelReplied { turn: 1, model: 2, reply, attempts: 1 });
    assert_eq!(scene.machine.totals().cost, MicroUsd(0), "it costs what the model that answered costs");
    scene.ends(0, Ok("x")).says("Done.");
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        ask 1 All model 1
        ask 1 All model 2
        run 1.0 find {}
        ask 2 All
        end completed `Done.`
    "#]]);
    assert_eq!(scene.machine.totals().model_attempts, 3 + 3 + 1 + 1);
}

#[test]
fn a_fallback_is_asked_for_its_kinds_of_failure_alone() {
    for (failure, asked) in [
        (Failure::tool_down("Open."), true),
        (Failure::unauthenticated("Key refused."), false),
        (Failure::cancelled("Stopped."), false),
    ] {
        let mut scene = Scene::new();
        model_fails(&mut scene, 0, failure);
        assert_eq!(scene.seen.last().unwrap() == "ask 1 All model 1", asked);
    }
    let mut scene = Scene::new();
    model_fails(&mut scene, 0, down());
    model_fails(&mut scene, 1, Failure::tool_down("Open."));
    assert_eq!(
        scene.machine.outcome().unwrap().reason.to_string(),
        "model_failed: tool_down after 3 attempts"
    );
}

#[test]
fn fallbacks_that_are_missing_or_lead_round_in_a_circle_are_refused() {
    let to = |name: &str, fallback: &str| spec(name, |spec| spec.fallback = Some(fallback.into()));
    let (_, problems) = Toolbox::build(vec![
        to("a", "b"),
        to("b", "c"),
        to("c", "b"),
        to("d", "d"),
        to("e", "nope"),
        to("f", "a"),
    ]);
    let problems: Vec<String> = problems.iter().map(|bad| format!("{}: {}", bad.name, bad.reason)).collect();
    expect![[r#"
        b: tool `b`: its fallbacks lead back to it (`b` → `c` → `b`): take one of them out
        c: tool `c`: its fallbacks lead back to it (`c` → `b` → `c`): take one of them out
        d: tool `d`: its fallbacks lead back to it (`d` → `d`): take one of them out
        e: tool `e`: its fallback `nope` is not a tool of this agent: add that tool, or take the fallback out"#]]
    .assert_eq(&problems.join("\n"));
}
