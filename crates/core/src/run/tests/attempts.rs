//! Attempts that failed before the process came to its end.

use super::*;

impl Scene {
    /// An attempt of a call failed, and another follows.
    fn fails_once(&mut self, index: u32, attempt: u32, failure: Failure) -> &mut Self {
        let call = CallKey { turn: self.turn, index };
        let (by, wait) = (self.by.get(&call).cloned(), Duration::from_millis(250));
        self.on(RunEvent::AttemptFailed { call, by, attempt, failure, wait })
    }

    fn interrupted(&mut self) -> &mut Self {
        self.seen.clear();
        self.on(RunEvent::Interrupted {})
    }
}

fn down() -> Failure {
    Failure::unavailable("The shop is closed.").effect(EffectState::None)
}

#[test]
fn dur_09_a_crash_forgets_no_attempt_that_failed_before_it() {
    let mut scene = Scene::new();
    scene.asks(&[("find", "{}")]).fails_once(0, 1, down()).interrupted();
    scene.seen(expect![[r"
        timer WallClock 3600s
        run 1.0 find {} after 2
    "]]);
    assert_eq!(scene.machine.totals().tool_attempts, 2, "the failed one and the lost one");
    scene.ends(0, Err(Failure::not_found("Not there.")));
    assert_eq!(scene.observation(0)["attempts"], 4, "the end counts its own two");
    assert_eq!(scene.machine.totals().tool_attempts, 4);
}

#[test]
fn the_end_of_a_call_counts_a_failed_attempt_itself() {
    let mut scene = Scene::new();
    scene.asks(&[("find", "{}")]).fails_once(0, 1, down()).ends(0, Err(Failure::not_found("Not there.")));
    assert_eq!(scene.observation(0)["attempts"], 2);
    assert_eq!(scene.machine.totals().tool_attempts, 2);
}

#[test]
fn a_call_without_attempts_left_ends_with_the_last_failure_that_was_seen() {
    let mut scene = Scene::new();
    scene.asks(&[("find", "{}")]).fails_once(0, 1, down()).fails_once(0, 2, down()).interrupted();
    scene.seen(expect![[r"
        timer WallClock 3600s
        end tool_exhausted: find (c0) failed with unavailable after 3 attempts, 0.5 s of waiting
    "]]);
    assert_eq!(scene.machine.totals().tool_attempts, 3);
}

#[test]
fn the_last_failure_is_not_told_as_harmless_where_the_lost_attempt_may_have_done_it() {
    let mut scene = Scene::new();
    scene.asks(&[("transfer", "{}")]).fails_once(0, 1, down()).fails_once(0, 2, down()).interrupted();
    assert_eq!(scene.observation(0)["effect"], "unknown");
    assert_eq!(scene.machine.outcome().unwrap().reason.name(), "tool_exhausted");
}

#[test]
fn attempts_go_on_counting_over_several_crashes() {
    let mut scene = Scene::new();
    scene.asks(&[("find", "{}")]).interrupted().fails_once(0, 2, down()).interrupted();
    assert_eq!(scene.machine.outcome().unwrap().totals.tool_attempts, 3);
}

#[test]
fn a_call_that_was_only_ever_lost_gets_another_attempt_each_time() {
    let mut scene = Scene::new();
    scene.asks(&[("find", "{}")]);
    for lost in 1..=5 {
        scene.interrupted();
        assert_eq!(scene.seen.last().unwrap(), &format!("run 1.0 find {{}} after {lost}"));
    }
}

#[test]
fn a_tool_that_may_not_be_asked_again_is_unknown_whatever_failed_before() {
    let mut scene = Scene::new();
    scene.asks(&[("pay", "{}")]).fails_once(0, 1, down()).interrupted();
    let observation = scene.observation(0);
    assert_eq!((&observation["error"], &observation["attempts"]), (&json!("outcome_unknown"), &json!(2)));
}

#[test]
fn the_fallback_is_asked_where_no_attempt_is_left_and_counts_from_one() {
    let mut scene = Scene::new();
    scene.asks(&[("price", "{}")]).fails_once(0, 1, down()).fails_once(0, 2, down()).interrupted();
    scene.seen(expect![[r"
        timer WallClock 3600s
        fall back 1.0 price to archive {}
    "]]);
    scene.fails_once(0, 1, down()).interrupted();
    assert!(scene.machine.totals().tool_attempts == 5, "three of the first, two of the second");
}

#[test]
fn what_was_seen_before_is_counted_when_nothing_was_under_way() {
    let mut scene = Scene::new();
    scene.asks(&[("pay", "{}")]).fails_once(0, 1, down());
    scene.on(RunEvent::Suspended { calls: Vec::new(), model: false }).interrupted();
    scene.seen(expect![[r"
        timer WallClock 3600s
        run 1.0 pay {} after 1
    "]]);
    assert_eq!(scene.machine.totals().tool_attempts, 1);
}

#[test]
fn a_failed_attempt_that_is_known_or_of_another_call_is_stale() {
    let mut scene = Scene::new();
    scene.asks(&[("find", "{}")]).fails_once(0, 1, down());
    let before = scene.machine.clone();
    scene.fails_once(0, 1, down()).fails_once(0, 7, down()).fails_once(3, 1, down());
    assert_eq!(scene.machine, before);
}
