//! A run that goes on from its journal after the process that drove it came to its end.

use super::*;

impl Scene {
    /// Another process reads the journal and goes on; what the old one had under way is lost.
    fn crash(&mut self) -> &mut Self {
        self.machine = self.recovered();
        self.seen.push("--".into());
        self.on(RunEvent::Interrupted {})
    }

    fn recovered(&self) -> RunMachine {
        let spec = Arc::clone(&self.machine.spec);
        RunMachine::recover(self.machine.run(), spec, self.recorded()).unwrap()
    }

    fn recorded(&self) -> impl Iterator<Item = Recorded> {
        self.events.iter().map(|(at, event)| Recorded { at: *at, event: event.clone() })
    }

    /// What was seen since the last crash.
    fn since(&self, expected: Expect) {
        let lines = self.seen.rsplit(|line| line == "--").next().unwrap();
        expected.assert_eq(&(lines.join("\n") + "\n"));
        self.replay_is_equal();
        self.history_is_valid();
        assert_eq!(self.recovered(), self.machine, "recovery is the same fold");
    }
}

#[test]
fn a_model_that_was_asked_is_asked_again_and_the_lost_attempt_is_charged() {
    let mut scene = Scene::new();
    scene.wait(Duration::from_secs(60)).crash();
    scene.since(expect![[r"
        timer WallClock 3600s
        ask 1 All
    "]]);
    scene.says("Done.");
    let totals = scene.machine.outcome().unwrap().totals;
    assert_eq!((totals.model_attempts, totals.turns), (2, 1));
}

#[test]
fn a_model_that_stands_in_is_asked_again_and_not_the_one_that_failed() {
    let mut scene = Scene::new();
    let failure = Failure::unavailable("Down.");
    scene.on(RunEvent::ModelFailed { turn: 1, model: 0, failure, attempts: 3 }).crash();
    scene.since(expect![[r"
        timer WallClock 3600s
        ask 1 All model 1
    "]]);
}

#[test]
fn the_last_words_are_asked_for_again_without_tools_and_without_another_nudge() {
    let limits = RunLimits { turns: 1, ..RunLimits::default() };
    let mut scene = Scene::with(limits, PanicPolicy::Observe);
    scene.asks(&[("find", "{}")]).ends(0, Ok("half")).crash();
    scene.since(expect![[r"
        timer WallClock 3600s
        ask 2 Nothing
    "]]);
}

#[test]
fn a_reply_that_kills_every_process_is_given_up() {
    let mut scene = Scene::new();
    for _ in 0..6 {
        scene.crash();
    }
    let outcome = scene.machine.outcome().unwrap();
    assert_eq!(outcome.reason.to_string(), "model_failed: crashed after 6 attempts");
    let why = outcome.explanation.as_deref().unwrap();
    assert_eq!(why, "The process that waited for the model's answer came to its end 6 times in a row.");
    assert_eq!(outcome.totals.model_attempts, 6);
}

#[test]
fn another_model_is_asked_where_one_is_declared_for_that() {
    let mut scene = Scene::changed(RunLimits::default(), PanicPolicy::Observe, |spec| {
        spec.fallbacks[0].on = vec![Bucket::Defect];
    });
    for _ in 0..6 {
        scene.crash();
    }
    scene.since(expect![[r"
        timer WallClock 3600s
        ask 1 All model 1
    "]]);
    scene.crash().crash();
    assert!(scene.machine.outcome().is_none(), "the count is of one request");
}

#[test]
fn each_open_call_goes_on_by_its_effect_and_a_recorded_end_is_not_asked_for_again() {
    let mut scene = Scene::new();
    scene.asks(&[("find", "{}"), ("pay", "{}"), ("transfer", "{}"), ("news", "{}")]);
    scene.ends(0, Ok("\"found\"")).crash();
    scene.since(expect![[r#"
        timer WallClock 3600s
        run 1.2 transfer {} after 1
        run 1.3 news {} after 1
    "#]]);
    scene.ends(3, Ok("news")).ends(2, Ok("sent"));
    assert_eq!(scene.observation(3), "found");
    let unknown = scene.observation(2);
    expect![[r#"
        {
          "attempts": 1,
          "effect": "unknown",
          "error": "outcome_unknown",
          "hint": "Check whether it happened before you repeat it.",
          "message": "This call of `pay` was interrupted: the process that ran it came to its end before the answer was there. The call may or may not have happened."
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&unknown).unwrap());
    let totals = scene.machine.totals();
    assert_eq!((totals.tool_attempts, totals.failed_calls), (2 + 1 + 3 + 3, 1));
    scene.asks(&[("pay", "{}")]);
    assert_eq!(scene.observation(0)["error"], "repeated_failure", "it is not paid twice");
}

#[test]
fn dur_05_a_round_whose_calls_are_all_unknown_goes_to_the_model() {
    let mut scene = Scene::new();
    scene.asks(&[("pay", "{}"), ("give", "{}")]).crash();
    scene.since(expect![[r"
        timer WallClock 3600s
        ask 2 All
    "]]);
    scene.crash();
    scene.since(expect![[r"
        timer WallClock 3600s
        ask 2 All
    "]]);
}

#[test]
fn a_repetition_keeps_the_key_of_the_first_call() {
    let mut scene = Scene::new();
    scene.asks(&[("transfer", "{}")]).ends(0, Err(Failure::outcome_unknown("Perhaps.")));
    scene.asks(&[("transfer", "{}")]).crash();
    scene.since(expect![[r#"
        timer WallClock 3600s
        run 2.0 transfer {} key of 1.0 after 1
    "#]]);
}

#[test]
fn a_call_that_a_fallback_works_on_goes_on_there_by_the_effect_of_the_fallback() {
    let mut scene = Scene::new();
    scene.asks(&[("price", r#"{"q":"tea"}"#), ("transfer", "{}")]);
    scene.ends(0, Err(Failure::tool_down("Out."))).ends(1, Err(Failure::tool_down("Out."))).crash();
    scene.since(expect![[r#"
        timer WallClock 3600s
        fall back 1.0 price to archive {"q":"tea"}
    "#]]);
    scene.ends(0, Ok("3"));
    let unknown = scene.observation(0);
    assert!(
        unknown["message"].as_str().unwrap().starts_with("This call of `pay` was interrupted"),
        "{unknown}"
    );
}

#[test]
fn a_fallback_gets_the_arguments_again_that_fitted_its_own_schema() {
    let mut scene = Scene::changed(RunLimits::default(), PanicPolicy::Observe, |agent| {
        let count = json!({ "type": "object", "properties": { "q": { "type": "integer" } } });
        let own = vec![
            spec("price", |spec| spec.fallback = Some("archive".into())),
            spec("archive", |spec| spec.parameters = Arc::new(count)),
        ];
        agent.toolbox = toolbox(&AGENT, own).0;
    });
    scene.asks(&[("price", r#"{"q":"7"}"#)]).ends(0, Err(Failure::tool_down("Out."))).crash();
    scene.since(expect![[r#"
        timer WallClock 3600s
        fall back 1.0 price to archive {"q":7}
    "#]]);
}

#[test]
fn no_other_tool_does_what_a_lost_attempt_may_have_done() {
    let mut scene = Scene::new();
    scene.asks(&[("transfer", "{}")]).crash().ends(0, Err(Failure::tool_down("Out.")));
    let outcome = scene.machine.outcome().unwrap();
    assert_eq!(outcome.reason.name(), "tool_exhausted", "`pay` does not know the key");
    assert_eq!(scene.observation(0)["effect"], "unknown");
}

#[test]
fn a_tool_that_kills_every_process_is_given_up_and_the_run_is_not() {
    let mut scene = Scene::new();
    scene.asks(&[("find", "{}"), ("transfer", "{}")]);
    for _ in 0..6 {
        scene.crash();
    }
    scene.since(expect![[r"
        timer WallClock 3600s
        ask 2 All
    "]]);
    let last = scene.observation(0);
    assert_eq!(
        (&last["error"], &last["attempts"], &last["effect"]),
        (&json!("crashed"), &json!(6), &json!("unknown"))
    );
    assert_eq!(
        scene.observation(1)["message"],
        "The process that ran this call came to its end 6 times while `find` worked on it, so it is not begun again."
    );
}

#[test]
fn a_parked_call_waits_for_what_is_left() {
    let mut scene = Scene::new();
    scene.out_for = Some(Duration::from_secs(20));
    scene.asks(&[("stock", "{}")]).ends(0, Err(Failure::unavailable("Down.")));
    scene.wait(Duration::from_secs(15)).crash();
    scene.since(expect![[r"
        timer WallClock 3600s
        park 1.0 stock for 5 s
    "]]);
    scene.wait(Duration::from_secs(15)).crash();
    scene.since(expect![[r"
        timer WallClock 3600s
        park 1.0 stock for 0 s
    "]]);
    scene.on(RunEvent::TimerFired { timer: RunTimer::Unpark(CallKey { turn: 1, index: 0 }) });
    scene.ends(0, Ok("3 left"));
    assert_eq!(scene.machine.totals().tool_attempts, 4, "nothing was under way, so nothing was lost");
}

#[test]
fn an_open_question_is_asked_again() {
    let mut scene = Scene::new();
    scene.asks(&[("ask_user", r#"{"question":"Which?"}"#)]);
    for _ in 0..9 {
        scene.crash();
    }
    scene.since(expect![[r#"
        timer WallClock 3600s
        question 1.0 Which? []
    "#]]);
    scene.on(RunEvent::InputGiven { call: CallKey { turn: 1, index: 0 }, text: "this".into() });
    assert_eq!(scene.observation(0)["answer"], "this");
}

#[test]
fn a_run_that_winds_down_begins_nothing_again_and_ends() {
    let mut scene = Scene::new();
    scene.asks(&[("find", "{}"), ("pay", "{}"), ("transfer", "{}"), ("news", "{}")]);
    scene.ends(3, Err(Failure::gone("Closed for good."))).crash();
    scene.since(expect![[r"
        end tool_terminal: news (c3) failed with gone after 2 attempts
    "]]);
    let codes = [3, 2, 1, 0].map(|back| scene.observation(back)["error"].as_str().unwrap().to_owned());
    assert_eq!(codes, ["cancelled", "outcome_unknown", "outcome_unknown", "gone"]);
}

#[test]
fn a_run_whose_time_went_by_meanwhile_ends() {
    let mut scene = Scene::new();
    scene.wait(Duration::from_secs(3600)).crash();
    assert_eq!(scene.machine.outcome().unwrap().reason.to_string(), "limit_reached: wall_clock");
    let mut scene = Scene::new();
    scene.out_for = Some(Duration::from_secs(20));
    scene.asks(&[("find", "{}"), ("pay", "{}"), ("ask_user", r#"{"question":"Which?"}"#), ("stock", "{}")]);
    scene.ends(3, Err(Failure::unavailable("Down."))).wait(Duration::from_secs(4000)).crash();
    assert_eq!(scene.machine.outcome().unwrap().reason.to_string(), "limit_reached: wall_clock");
    let codes = [3, 2, 1, 0].map(|back| scene.observation(back)["error"].as_str().unwrap().to_owned());
    assert_eq!(codes, ["cancelled", "outcome_unknown", "cancelled", "cancelled"]);
    scene.history_is_valid();
}

#[test]
fn an_ended_run_is_owed_nothing() {
    let mut scene = Scene::new();
    scene.says("Done.");
    let before = scene.recovered();
    scene.crash();
    assert_eq!(scene.seen.last().unwrap(), "--");
    assert_eq!(scene.machine, before);
}

#[test]
fn a_journal_begins_with_the_start_of_the_run() {
    let scene = Scene::new();
    let (run, spec) = (scene.machine.run(), &scene.machine.spec);
    let no_start = Err(RecoverError::NoStart(run));
    assert_eq!(RunMachine::recover(run, Arc::clone(spec), []), no_start);
    let cancelled = RunEvent::CancelRequested { by: "a".into() };
    let cancelled = Recorded { at: Timestamp::ZERO, event: cancelled };
    assert_eq!(RunMachine::recover(run, Arc::clone(spec), [cancelled]), no_start);
}

/// The run of a scene, recovered for an agent whose tools are these.
fn recovered_with(scene: &Scene, keep: impl Fn(&str) -> bool) -> Result<RunMachine, RecoverError> {
    let kept = tools().into_iter().filter(|tool| keep(&tool.name)).collect();
    let spec = RunSpec { toolbox: toolbox(&AGENT, kept).0, ..(*scene.machine.spec).clone() };
    RunMachine::recover(scene.machine.run(), Arc::new(spec), scene.recorded())
}

#[test]
fn a_run_is_not_driven_on_without_a_tool_that_it_called() {
    let mut scene = Scene::new();
    scene.asks(&[("nope", "{}"), ("price", "{}")]);
    let missing =
        |tool: &str| Err(RecoverError::MissingTool { run: scene.machine.run(), seq: 2, tool: tool.into() });
    assert_eq!(recovered_with(&scene, |tool| tool != "price"), missing("price"));
    assert_eq!(recovered_with(&scene, |tool| tool != "memory"), missing("memory"), "its fallback's fallback");
    assert!(recovered_with(&scene, |tool| tool != "find").is_ok(), "it called no `find`");
    expect!["run 00000000-0000-0000-0000-000000000001 called `memory` in event 2, and its agent no longer has that tool: give the agent the tool back, or cancel the run"]
        .assert_eq(&recovered_with(&scene, |tool| tool != "memory").unwrap_err().to_string());
}

#[test]
fn a_run_is_not_driven_on_from_events_that_it_would_not_have_asked_for() {
    let mut scene = Scene::new();
    scene.asks(&[("find", r#"{"q":"x"}"#)]).ends(0, Ok("found")).asks(&[("pay", "{}")]);
    let strict = tools().into_iter().map(|tool| match &*tool.name {
        "find" => {
            spec("find", |spec| spec.parameters = Arc::new(json!({ "type": "object", "required": ["p"] })))
        }
        _ => tool,
    });
    let spec = RunSpec { toolbox: toolbox(&AGENT, strict.collect()).0, ..(*scene.machine.spec).clone() };
    let diverged = RunMachine::recover(scene.machine.run(), Arc::new(spec), scene.recorded());
    assert_eq!(diverged, Err(RecoverError::Diverged { run: scene.machine.run(), seq: 3 }));
}

#[test]
fn a_summary_is_asked_for_again_with_the_same_text() {
    let mut scene = Scene::changed(RunLimits::default(), PanicPolicy::Observe, |spec| {
        Arc::make_mut(&mut spec.model).context_window = Some(Tokens(3000));
    });
    let long = "so it is ".repeat(400);
    for n in 0..40 {
        if scene.summary.is_some() {
            break;
        }
        let arguments = json!({ "q": format!("{n} {long}") }).to_string();
        scene.asks(&[("find", &arguments)]).ends(0, Ok(&format!("{n}")));
    }
    let asked = scene.summary.take().expect("the window is full");
    let turn = scene.turn;
    scene.crash();
    assert_eq!(scene.summary.take(), Some(asked));
    assert_eq!(scene.seen.last().unwrap(), &format!("summarise {turn}"));
    for _ in 0..5 {
        scene.crash();
    }
    assert!(scene.seen.iter().any(|line| line.starts_with("trim Dropped")), "no summary can be had");
    scene.says("Done.");
    assert!(scene.machine.outcome().is_some());
    scene.replay_is_equal();
}
