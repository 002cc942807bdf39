//! A tool that the provider does not take costs one request, and not the run.

use super::*;

fn refuses(scene: &mut Scene, tool: Option<&str>) {
    let failure = Failure::invalid_arguments("The provider refused the request as invalid.");
    let failure = tool.map_or_else(|| failure.clone(), |tool| failure.clone().rejects_tool(tool));
    let (turn, model) = (scene.turn, scene.model);
    scene.on(RunEvent::ModelFailed { turn, model, failure, attempts: 1 });
}

#[test]
fn a_refused_tool_is_off_the_list_for_the_run_and_the_request_is_repeated() {
    let mut scene = Scene::new();
    refuses(&mut scene, Some("pay"));
    refuses(&mut scene, Some("poll"));
    scene.asks(&[("find", "{}")]).ends(0, Ok("x")).says("Done.");
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        ask 1 Without(["pay"])
        ask 1 Without(["pay", "poll"])
        run 1.0 find {}
        ask 2 Without(["pay", "poll"])
        end completed `Done.`
    "#]]);
    assert_eq!(scene.machine.totals().turns, 2, "a repeated request is the same turn");
}

#[test]
fn a_tool_that_is_refused_again_or_is_not_there_ends_the_run() {
    for again in [Some("pay"), Some("nope"), None] {
        let mut scene = Scene::new();
        refuses(&mut scene, Some("pay"));
        refuses(&mut scene, again);
        let outcome = scene.machine.outcome().unwrap();
        assert_eq!(outcome.reason.to_string(), "model_failed: invalid_arguments after 1 attempt");
        scene.replay_is_equal();
    }
}

#[test]
fn a_refusal_that_names_no_tool_is_one_request() {
    let mut scene = Scene::new();
    refuses(&mut scene, None);
    assert_eq!(scene.seen.iter().filter(|line| line.starts_with("ask")).count(), 1);
    assert_eq!(scene.machine.outcome().unwrap().reason.name(), "model_failed");
}
