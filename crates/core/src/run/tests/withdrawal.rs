//! An optional tool that is out of service is not shown, and the model is told once.

use super::*;

fn out(scene: &mut Scene, index: u32, failure: Failure, out_for: u64) {
    let call = CallKey { turn: scene.turn, index };
    let record = CallRecord {
        verdict: CallVerdict::Failed(failure),
        attempts: 1,
        waited: Duration::ZERO,
        stopped_by: Some(StoppedBy::BreakerOpen),
        out_for: Some(Duration::from_secs(out_for)),
        by: None,
    };
    scene.on(RunEvent::CallEnded { call, record });
}

#[test]
fn an_optional_tool_is_off_the_list_until_its_breaker_half_opens() {
    let mut scene = Scene::new();
    scene.asks(&[("news", "{}")]);
    out(&mut scene, 0, Failure::unavailable("Down."), 5);
    scene.wait(Duration::from_secs(4)).asks(&[("find", "{}")]).ends(0, Ok("x"));
    scene.wait(Duration::from_secs(1)).asks(&[("find", r#"{"q":"y"}"#)]).ends(0, Ok("y"));
    scene.says("Done.");
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        run 1.0 news {}
        ask 2 Without(["news"])
        run 2.0 find {}
        ask 3 Without(["news"])
        run 3.0 find {"q":"y"}
        ask 4 All
        end completed `Done.`
    "#]]);
}

#[test]
fn the_model_is_told_once_however_many_calls_fail() {
    let mut scene = Scene::new();
    scene.asks(&[("news", "{}"), ("news", r#"{"q":"b"}"#)]);
    out(&mut scene, 0, Failure::unavailable("Down."), 5);
    out(&mut scene, 1, Failure::tool_down("Out.").hint("Wait."), 5);
    let hints = [1, 0].map(|back| scene.observation(back)["hint"].clone());
    assert_eq!(
        hints,
        [json!("Go on without it. `news` is off your list of tools for the next 5 s."), json!("Wait.")]
    );
    scene.wait(Duration::from_secs(6)).asks(&[("news", "{}")]);
    out(&mut scene, 0, Failure::tool_down("Out.").hint("Wait."), 10);
    let hint = scene.observation(0)["hint"].clone();
    assert_eq!(hint, json!("Wait. `news` is off your list of tools for the next 10 s."), "a new outage");
}

#[test]
fn what_is_no_outage_and_what_the_run_cannot_do_without_stays() {
    let mut scene = Scene::new();
    scene.asks(&[("news", "{}")]);
    out(&mut scene, 0, Failure::not_found("No."), 5);
    assert_eq!(scene.seen.last().unwrap(), "ask 2 All");
    scene.asks(&[("find", "{}")]);
    out(&mut scene, 0, Failure::unavailable("Down."), 5);
    assert_eq!(scene.machine.outcome().unwrap().reason.name(), "tool_exhausted");
}

#[test]
fn a_call_to_a_tool_that_is_off_the_list_is_still_answered_by_the_tool() {
    let mut scene = Scene::new();
    scene.asks(&[("news", "{}")]);
    out(&mut scene, 0, Failure::unavailable("Down."), 5);
    scene.asks(&[("news", r#"{"q":"b"}"#)]).ends(0, Ok("back early"));
    assert!(scene.seen.contains(&"run 2.0 news {\"q\":\"b\"}".to_owned()));
    scene.history_is_valid();
    scene.replay_is_equal();
}
