//! Interrupted calls whose tool can tell whether they happened.

use super::*;

impl Scene {
    fn said(&mut self, index: u32, said: Verified) -> &mut Self {
        let (call, verdict) = (CallKey { turn: self.turn, index }, VerifyVerdict::Answered(said));
        self.seen.clear();
        self.on(RunEvent::CallVerified { call, verdict })
    }

    /// A call of the verifiable tool, whose process came to its end.
    fn filed() -> Self {
        let mut scene = Self::new();
        scene.asks(&[("file", "{}")]);
        scene.seen.clear();
        scene.on(RunEvent::Interrupted {});
        scene
    }
}

#[test]
fn its_tool_is_asked_first() {
    let scene = Scene::filed();
    scene.seen(expect![[r"
        timer WallClock 3600s
        verify 1.0 file {}
    "]]);
    assert_eq!(scene.machine.totals().tool_attempts, 1, "the lost one; a question is none");
}

#[test]
fn a_call_that_happened_ends_with_its_result() {
    let mut scene = Scene::filed();
    scene.said(0, Verified::Happened(ToolOutput::text("\"issue 7\"")));
    scene.seen(expect![[r"
        ask 2 All
    "]]);
    assert_eq!(scene.observation(0), "issue 7");
    scene.asks(&[("file", "{}")]);
    assert_eq!(scene.seen.last().unwrap(), "run 2.0 file {}", "nothing is held");
}

#[test]
fn a_call_that_did_not_happen_is_made_again_and_its_failure_is_its_own() {
    let mut scene = Scene::filed();
    scene.said(0, Verified::NotHappened);
    scene.seen(expect![[r"
        run 1.0 file {} after 1
    "]]);
    scene.ends(0, Err(Failure::not_found("Not there.")));
    assert_eq!(scene.observation(0)["effect"], "none", "the attempt before it did not happen");
}

#[test]
fn a_call_of_which_nobody_can_tell_is_unknown_and_held() {
    let verdicts =
        [VerifyVerdict::Answered(Verified::CannotTell), VerifyVerdict::Failed(Failure::unavailable("Down."))];
    for verdict in verdicts {
        let mut scene = Scene::filed();
        scene.on(RunEvent::CallVerified { call: CallKey { turn: 1, index: 0 }, verdict });
        let observation = scene.observation(0);
        assert_eq!((&observation["error"], &observation["attempts"]), (&json!("outcome_unknown"), &json!(1)));
        scene.asks(&[("file", "{}")]);
        assert_eq!(scene.observation(0)["error"], "repeated_failure");
    }
}

#[test]
fn a_crash_while_the_tool_is_asked_asks_again_but_not_for_ever() {
    let mut scene = Scene::filed();
    for _ in 0..4 {
        scene.seen.clear();
        scene.on(RunEvent::Interrupted {});
        assert_eq!(scene.seen.last().unwrap(), "verify 1.0 file {}");
    }
    scene.on(RunEvent::Interrupted {});
    let observation = scene.observation(0);
    assert_eq!((&observation["error"], &observation["attempts"]), (&json!("outcome_unknown"), &json!(1)));
    assert_eq!(scene.machine.totals().tool_attempts, 1);
    scene.replay_is_equal();
}

#[test]
fn a_question_that_was_not_begun_is_asked_as_for_the_first_time() {
    let mut scene = Scene::filed();
    for _ in 0..20 {
        scene.on(RunEvent::Suspended { calls: Vec::new(), model: false });
        scene.seen.clear();
        scene.on(RunEvent::Interrupted {});
    }
    scene.seen(expect![[r"
        timer WallClock 3600s
        verify 1.0 file {}
    "]]);
}

#[test]
fn no_end_of_the_call_is_taken_while_its_tool_is_asked_and_no_answer_that_nobody_asked_for() {
    let mut scene = Scene::filed();
    let before = scene.machine.clone();
    scene.ends(0, Ok("late"));
    assert_eq!(scene.machine, before);
    scene.said(0, Verified::NotHappened);
    let before = scene.machine.clone();
    scene.said(0, Verified::NotHappened);
    assert_eq!(scene.machine, before);
}

#[test]
fn a_run_that_winds_down_takes_the_answer_and_makes_nothing_again() {
    let answers = [
        (Verified::Happened(ToolOutput::text("{\"issue\":7}")), json!({ "issue": 7 })),
        (
            Verified::NotHappened,
            json!({
                "error": "cancelled",
                "message": "This call of `file` was interrupted and did not happen, and the run ended before it was made again.",
                "attempts": 1,
                "effect": "none",
            }),
        ),
    ];
    for (said, observation) in answers {
        let mut scene = Scene::filed();
        scene.on(RunEvent::CancelRequested { by: "ann".into() }).said(0, said);
        assert_eq!(scene.machine.outcome().unwrap().reason.to_string(), "cancelled by ann");
        assert_eq!(scene.observation(0), observation);
    }
}

#[test]
fn a_run_that_winds_down_when_its_process_ends_asks_nothing() {
    let mut scene = Scene::filed();
    scene.on(RunEvent::CancelRequested { by: "ann".into() }).on(RunEvent::Interrupted {});
    assert_eq!(scene.observation(0)["error"], "outcome_unknown");
    scene.replay_is_equal();
}
