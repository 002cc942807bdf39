//! Questions to the user: they wait as open calls, replay, and never outlive their run.

use super::*;

const COLOUR: (&str, &str) = ("ask_user", r#"{"question":"Which colour?","choices":["red","blue"]}"#);

fn call(index: u32) -> CallKey {
    CallKey { turn: 1, index }
}

impl Scene {
    fn given(&mut self, index: u32, text: &str) -> &mut Self {
        let call = CallKey { turn: self.turn, index };
        self.on(RunEvent::InputGiven { call, text: text.into() })
    }
}

fn unattended() -> Scene {
    Scene::set(RunLimits::default(), PanicPolicy::Observe, None, Attendance::Unattended)
}

#[test]
fn a_question_waits_while_its_siblings_go_on() {
    let mut scene = Scene::new();
    scene.asks(&[COLOUR, ("find", "{}")]).ends(1, Ok("found"));
    let question = Question {
        call: call(0),
        question: "Which colour?".into(),
        choices: vec!["red".into(), "blue".into()],
    };
    assert_eq!(scene.machine.questions(), [question]);
    scene.wait(Duration::from_secs(60)).given(0, " Blue, \"dark\".\n").says("Done.");
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        question 1.0 Which colour? ["red", "blue"]
        run 1.1 find {}
        ask 2 All
        end completed `Done.`
    "#]]);
    assert_eq!(scene.observation(1), json!({ "answered_by": "user", "answer": "Blue, \"dark\"." }));
    assert_eq!((scene.machine.totals().tool_calls, scene.machine.totals().failed_calls), (2, 0));
    assert_eq!(scene.machine.questions(), []);
}

#[test]
fn only_an_open_question_takes_an_answer_and_only_once() {
    let mut scene = Scene::new();
    scene.asks(&[COLOUR, ("find", "{}"), ("ask_user", r#"{"question":"How many?"}"#)]);
    let before = scene.machine.clone();
    scene.given(1, "not a question").given(7, "no call");
    scene.on(RunEvent::InputGiven { call: CallKey { turn: 9, index: 0 }, text: "another turn".into() });
    assert_eq!(scene.machine, before);
    scene.given(0, "red").given(0, "no, blue");
    assert_eq!(scene.machine.questions().len(), 1);
    scene.given(2, "3").ends(1, Ok("x"));
    assert_eq!(scene.observation(2)["answer"], "red");
    scene.replay_is_equal();
}

#[test]
fn no_words_are_an_answer_too() {
    let mut scene = Scene::new();
    scene.asks(&[COLOUR]).given(0, " \n");
    assert_eq!(scene.observation(0)["answer"], Value::Null);
    assert!(scene.observation(0)["note"].as_str().unwrap().contains("gave no answer"));
}

#[test]
fn a_question_that_does_not_fit_is_not_asked() {
    let mut scene = Scene::new();
    scene.asks(&[("ask_user", r#"{"questoin":"Which?"}"#)]);
    assert_eq!(scene.observation(0)["error"], "invalid_arguments");
    assert!(!scene.seen.iter().any(|line| line.starts_with("question")));
}

#[test]
fn where_nobody_is_there_the_model_is_told_once_and_asks_no_more() {
    let mut scene = unattended();
    scene.asks(&[COLOUR, ("find", "{}")]).ends(1, Ok("x")).says("Red, I assume.");
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        run 1.1 find {}
        ask 2 Without(["ask_user"])
        end completed `Red, I assume.`
    "#]]);
    expect![[r#"{"effect":"none","error":"no_results","hint":"Go on with the assumption that fits best, and say in your answer what you assumed. `ask_user` is off your list of tools for the next 60 min.","message":"Nobody is there to answer questions in this run."}"#]]
        .assert_eq(&scene.observation(1).to_string());
}

#[test]
fn the_same_question_again_and_again_is_a_loop() {
    let mut scene = unattended();
    for _ in 0..5 {
        scene.asks(&[COLOUR]);
    }
    assert_eq!(scene.machine.outcome().unwrap().reason.name(), "stuck");
    let mut scene = Scene::new();
    for _ in 0..8 {
        scene.asks(&[COLOUR]).given(0, "red");
    }
    assert_eq!(scene.machine.outcome().unwrap().reason.name(), "stuck");
}

#[test]
fn cancel_and_the_end_of_time_answer_what_waits() {
    for (event, reason) in [
        (RunEvent::CancelRequested { by: "a test".into() }, "cancelled by a test"),
        (RunEvent::TimerFired { timer: RunTimer::WallClock }, "limit_reached: wall_clock"),
    ] {
        let mut scene = Scene::new();
        scene.asks(&[COLOUR]).on(event);
        assert_eq!(scene.machine.outcome().unwrap().reason.to_string(), reason);
        assert_eq!(scene.observation(0)["error"], "cancelled");
        let ended = scene.machine.clone();
        scene.given(0, "too late");
        assert_eq!(scene.machine, ended);
        scene.replay_is_equal();
    }
}

#[test]
fn a_terminal_sibling_drops_the_question() {
    let mut scene = Scene::new();
    scene.asks(&[COLOUR, ("find", "{}"), ("pay", "{}")]).ends(1, Err(Failure::gone("Closed.")));
    assert_eq!(scene.machine.questions(), []);
    scene.ends(2, Ok("paid"));
    assert_eq!(scene.machine.outcome().unwrap().reason.name(), "tool_terminal");
    scene.history_is_valid();
    scene.replay_is_equal();
}

#[test]
fn a_question_beyond_the_call_limit_is_not_asked() {
    let limits = RunLimits { tool_calls: 1, ..RunLimits::default() };
    let mut scene = Scene::with(limits, PanicPolicy::Observe);
    scene.asks(&[COLOUR, ("ask_user", r#"{"question":"Which size?"}"#)]);
    assert_eq!(scene.seen.iter().filter(|line| line.starts_with("question")).count(), 1);
}

#[test]
fn a_tool_of_the_same_name_is_kept_only_where_the_built_in_is_off() {
    let own = || vec![spec("ask_user", |_| {}), spec("find", |_| {})];
    let off = AgentSpec { ask_user: false, ..AGENT.clone() };
    let (offered, bad) = toolbox(&off, own());
    assert!(bad.is_empty() && offered.get("ask_user").unwrap().description.starts_with("Does"));
    let (offered, bad) = toolbox(&AGENT, own());
    assert!(offered.get("ask_user").unwrap().description.starts_with("Ask the user"));
    expect!["tool `ask_user` is a built-in one that this agent has switched on: give your own tool another name, or switch the built-in `ask_user` off"]
        .assert_eq(&bad[0].reason);
}

#[test]
fn a_journal_from_before_there_were_questions_still_folds() {
    let old = r#"{"run_started":{"agent":"a","goal":"g","limits":"#;
    let old = format!("{old}{}}}}}", serde_json::to_string(&RunLimits::default()).unwrap());
    let event: RunEvent = serde_json::from_str(&old).unwrap();
    assert!(matches!(event, RunEvent::RunStarted { attendance: Attendance::Unattended, .. }));
}
