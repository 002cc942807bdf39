//! A run that cannot do without a tool, and can wait for it.

use super::*;

impl Scene {
    pub(super) fn unparks(&mut self, index: u32) -> &mut Self {
        let call = CallKey { turn: self.turn, index };
        self.on(RunEvent::TimerFired { timer: RunTimer::Unpark(call) })
    }
}

fn down() -> Failure {
    Failure::unavailable("Down.")
}

#[test]
fn a_call_waits_for_its_tool_and_is_made_again() {
    let mut scene = Scene::new();
    scene.out_for = Some(Duration::from_secs(8));
    scene.asks(&[("stock", r#"{"q":"tea"}"#), ("find", "{}")]);
    scene.ends(0, Err(down())).ends(1, Ok("found"));
    scene.wait(Duration::from_secs(9)).unparks(0).ends(0, Ok("3 left")).says("Three.");
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        run 1.0 stock {"q":"tea"}
        run 1.1 find {}
        park 1.0 stock for 8 s
        again run 1.0 stock {"q":"tea"}
        ask 2 All
        end completed `Three.`
    "#]]);
    let totals = scene.machine.totals();
    assert_eq!((totals.tool_attempts, totals.failed_calls, totals.tool_calls), (6, 0, 2));
}

#[test]
fn where_nobody_knows_when_the_tool_is_back_it_is_asked_after_half_a_minute_or_so() {
    let mut scene = Scene::new();
    scene.asks(&[("stock", "{}")]).ends(0, Err(down()));
    assert_eq!(scene.park_seconds(), [30]);
}

#[test]
fn a_call_that_waited_for_too_long_ends_the_run_with_all_its_attempts_and_waits() {
    let mut scene = Scene::new();
    scene.out_for = Some(Duration::from_secs(40));
    scene.asks(&[("stock", "{}")]).ends(0, Err(down()));
    scene.wait(Duration::from_secs(45)).unparks(0).ends(0, Err(down()));
    assert_eq!(scene.park_seconds()[1], 15, "no longer than `max_park` in all");
    scene.wait(Duration::from_secs(15)).unparks(0).ends(0, Err(down()));
    let reason = scene.machine.outcome().unwrap().reason.to_string();
    assert_eq!(
        reason,
        "tool_exhausted: stock (c0) failed with unavailable after 6 attempts, 64.5 s of waiting"
    );
    scene.replay_is_equal();
}

#[test]
fn a_key_protects_a_repetition_and_nothing_protects_a_write_without_one() {
    let mut scene = Scene::new();
    scene.asks(&[("book", "{}")]).ends(0, Err(Failure::timeout("No answer.")));
    assert_eq!(scene.park_seconds().len(), 1);
    let mut scene = Scene::new();
    scene.asks(&[("mail", "{}")]).ends(0, Err(Failure::unavailable("Down.").effect(EffectState::Unknown)));
    assert_eq!(scene.park_seconds().len(), 0);
    assert!(scene.machine.outcome().is_some());
}

#[test]
fn the_fallback_is_asked_first_and_then_the_tool_itself() {
    let mut scene = Scene::new();
    scene.asks(&[("mail", "{}")]).ends(0, Err(Failure::tool_down("Out."))).ends(0, Err(down()));
    scene.wait(Duration::from_secs(50)).unparks(0).ends(0, Ok("sent")).says("Sent.");
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        run 1.0 mail {}
        fall back 1.0 mail to news {}
        park 1.0 mail for 30 s
        again run 1.0 mail {}
        ask 2 All
        end completed `Sent.`
    "#]]);
}

#[test]
fn a_run_that_winds_down_waits_for_no_tool() {
    let mut scene = Scene::new();
    scene.asks(&[("stock", "{}"), ("find", "{}")]).ends(0, Err(down()));
    scene.wait(Duration::from_secs(3)).ends(1, Err(Failure::unauthenticated("Key refused.")));
    scene.unparks(0);
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        run 1.0 stock {}
        run 1.1 find {}
        park 1.0 stock for 30 s
        end tool_terminal: find (c1) failed with unauthenticated after 2 attempts
    "#]]);
    assert_eq!(
        scene.observation(1)["message"],
        "`stock` was out of service, and the run ended while this call waited for it."
    );
    let mut scene = Scene::new();
    scene.asks(&[("stock", "{}")]).ends(0, Err(down()));
    scene.on(RunEvent::CancelRequested { by: "a person".into() });
    assert_eq!(scene.machine.outcome().unwrap().reason.name(), "cancelled");
    scene.history_is_valid();
}

#[test]
fn a_timer_for_a_call_that_is_not_parked_changes_nothing() {
    let mut scene = Scene::new();
    scene.asks(&[("stock", "{}")]);
    let before = scene.machine.clone();
    scene.unparks(0).unparks(7);
    assert_eq!(scene.machine, before);
}

impl Scene {
    /// For how many seconds calls were parked.
    fn park_seconds(&self) -> Vec<u64> {
        let parks = self.seen.iter().filter_map(|line| line.strip_prefix("park ")?.split(' ').nth(3));
        parks.map(|seconds| seconds.parse().unwrap()).collect()
    }
}
