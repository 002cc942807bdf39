//! A run that its process let go of in good order, and that another takes up.

use super::*;

fn key(turn: u32, index: u32) -> CallKey {
    CallKey { turn, index }
}

impl Scene {
    /// The process lets go of the run, and another takes it up; this was under way.
    fn suspend(&mut self, calls: &[CallKey], model: bool) -> &mut Self {
        self.on(RunEvent::Suspended { calls: calls.to_vec(), model });
        self.seen.clear();
        self.on(RunEvent::Interrupted {})
    }
}

#[test]
fn what_was_not_begun_is_sent_out_as_for_the_first_time_whatever_its_effect() {
    let mut scene = Scene::new();
    scene.asks(&[("find", "{}"), ("pay", "{}"), ("give", "{}"), ("transfer", "{}")]);
    scene.suspend(&[key(1, 2), key(1, 3)], false);
    scene.seen(expect![[r#"
        timer WallClock 3600s
        run 1.0 find {}
        run 1.1 pay {}
        run 1.3 transfer {} after 1
    "#]]);
    assert_eq!(scene.machine.totals().tool_attempts, 2, "only what was under way is charged");
    scene.ends(0, Ok("found")).ends(1, Ok("\"paid\"")).ends(3, Ok("sent"));
    assert_eq!(scene.observation(2), "paid");
    assert_eq!(scene.observation(1)["error"], "outcome_unknown");
}

#[test]
fn a_call_survives_any_number_of_suspensions() {
    let mut scene = Scene::new();
    scene.asks(&[("pay", "{}")]);
    for _ in 0..20 {
        scene.suspend(&[], false);
    }
    scene.seen(expect![[r"
        timer WallClock 3600s
        run 1.0 pay {}
    "]]);
    scene.ends(0, Ok("paid"));
    assert_eq!(scene.machine.totals().tool_attempts, 2, "the attempts of the one end");
}

#[test]
fn a_model_that_was_not_asked_is_asked_at_no_charge() {
    let mut scene = Scene::new();
    for _ in 0..20 {
        scene.suspend(&[], false);
    }
    scene.seen(expect![[r"
        timer WallClock 3600s
        ask 1 All
    "]]);
    assert_eq!(scene.machine.totals().model_attempts, 0);
    scene.suspend(&[], true);
    assert_eq!(scene.machine.totals().model_attempts, 1);
}

#[test]
fn the_word_holds_until_the_next_event() {
    let mut scene = Scene::new();
    scene.asks(&[("pay", "{}"), ("find", "{}")]);
    scene.on(RunEvent::Suspended { calls: Vec::new(), model: false });
    scene.ends(1, Ok("found")).on(RunEvent::Interrupted {});
    assert_eq!(scene.observation(1)["error"], "outcome_unknown");
    let mut scene = Scene::new();
    scene.asks(&[("pay", "{}")]).suspend(&[], false).on(RunEvent::Interrupted {});
    assert_eq!(scene.observation(0)["error"], "outcome_unknown", "the next owner may have begun it");
}

#[test]
fn a_question_and_a_parked_call_wait_on() {
    let mut scene = Scene::new();
    scene.out_for = Some(Duration::from_secs(20));
    scene.asks(&[("ask_user", r#"{"question":"Which?"}"#), ("stock", "{}")]);
    scene.ends(1, Err(Failure::unavailable("Down."))).wait(Duration::from_secs(5)).suspend(&[], false);
    scene.seen(expect![[r#"
        timer WallClock 3600s
        question 1.0 Which? []
        park 1.1 stock for 15 s
    "#]]);
}

#[test]
fn a_run_that_winds_down_knows_what_was_not_begun() {
    let mut scene = Scene::new();
    scene.asks(&[("pay", "{}"), ("give", "{}"), ("news", "{}")]);
    scene.ends(2, Err(Failure::gone("Closed for good."))).suspend(&[key(1, 1)], false);
    scene.seen(expect![[r"
        end tool_terminal: news (c2) failed with gone after 2 attempts
    "]]);
    let effects = [2, 1].map(|back| scene.observation(back)["effect"].as_str().unwrap().to_owned());
    assert_eq!(effects, ["none", "unknown"]);
    assert_eq!(scene.observation(2)["message"], "The run ended before this call was begun.");
}

#[test]
fn what_an_earlier_process_may_have_done_is_not_forgotten() {
    let mut scene = Scene::new();
    scene.asks(&[("transfer", "{}"), ("news", "{}")]).on(RunEvent::Interrupted {});
    scene.ends(1, Err(Failure::gone("Closed for good."))).suspend(&[], false);
    assert_eq!(scene.observation(1)["effect"], "unknown");
}

#[test]
fn an_ended_run_is_not_suspended() {
    let mut scene = Scene::new();
    scene.says("Done.");
    let before = scene.machine.clone();
    scene.on(RunEvent::Suspended { calls: Vec::new(), model: false });
    assert_eq!(scene.machine, before);
}
