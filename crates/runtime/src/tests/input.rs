//! Questions to the user, and answers of a shape, through the whole runtime.

use serde_json::json;

use super::*;
use crate::AnswerError;
use crate::Parting;

const CALL: CallKey = CallKey { turn: 1, index: 0 };

fn asks() -> Scripted {
    let question =
        json!({ "question": "Which colour, key sk-canary-0123456789?", "choices": ["red", "blue"] });
    Scripted::new([
        Turn::new().call("ask_user", question).call("find", json!({})),
        Turn::new().text("You said {{obs.ask_user}}."),
    ])
}

fn agent() -> Agent {
    Agent::new("a").ask_user(true).tool(reads("find", [Behaviour::ok("found")]))
}

#[tokio::test(start_paused = true)]
async fn a_question_waits_for_its_answer_and_the_calls_balance() {
    let runtime =
        Runtime::builder().model(asks()).secrets(["sk-canary-0123456789".to_owned()]).build().await.unwrap();
    let mut stream = runtime.stream(&agent(), "go").await.unwrap();
    let answerer = stream.answerer();
    let (mut events, mut ended) = (Vec::new(), None);
    while let Some(event) = stream.next().await {
        if let Progress::CallEnded { tool, .. } = &event
            && &**tool == "find"
        {
            // The sibling went on; the question still waits.
            let open = answerer.questions().await;
            assert_eq!((open.len(), open[0].call, open[0].choices.len()), (1, CALL, 2));
            assert!(!open[0].question.contains("sk-canary"), "{open:?}");
            tokio::time::sleep(Duration::from_secs(600)).await;
            answerer.answer(CALL, "blue, sk-canary-0123456789").await.unwrap();
        }
        if let Progress::RunEnded { outcome } = &event {
            ended = Some(outcome.clone());
        }
        events.push(event);
    }
    CallAccounting::of_progress(&events).assert_balanced();
    let outcome = ended.unwrap();
    let answer = outcome.answer().unwrap();
    assert!(answer.contains(r#""answer":"blue, "#) && !answer.contains("sk-canary"), "{answer}");
    assert!(outcome.elapsed >= Duration::from_secs(600));
    let told = |event: &Progress| matches!(event, Progress::InputRequested(_) | Progress::InputGiven { .. });
    assert_eq!(events.iter().filter(|event| told(event)).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_waits_for_is_an_error_and_changes_nothing() {
    let runtime = runtime(asks()).await;
    let mut handle = runtime.submit(&agent(), "go").await.unwrap();
    while handle.questions().await.is_empty() {
        tokio::task::yield_now().await;
    }
    let wrong = CallKey { turn: 1, index: 1 };
    let error = handle.answer(wrong, "x").await.unwrap_err();
    assert_eq!(error, AnswerError::NotOpen { call: wrong, open: vec![CALL] });
    assert_eq!(error.to_string(), "call 1.1 waits for no answer; open are 1.0");
    handle.answer(CALL, "red").await.unwrap();
    assert!(handle.answer(CALL, "blue").await.is_err());
    let answerer = handle.answerer();
    let Parting::Ended(outcome) = (&mut handle.parting).await.unwrap() else { panic!("it did not end") };
    assert!(outcome.answer().unwrap().contains("red"));
    handle.actor.wait(None).await.unwrap();
    assert_eq!(answerer.answer(CALL, "red").await, Err(AnswerError::Ended));
    assert_eq!(answerer.questions().await, []);
}

#[tokio::test(start_paused = true)]
async fn where_nobody_can_answer_the_run_goes_on_at_once() {
    let by_run = runtime(asks()).await.run(&agent(), "go").await;
    let unattended =
        Runtime::builder().model(asks()).attendance(Attendance::Unattended).build().await.unwrap();
    let submitted = unattended.submit(&agent(), "go").await.unwrap().outcome().await;
    for outcome in [by_run, submitted] {
        assert!(outcome.answer().unwrap().contains("Nobody is there"), "{outcome:?}");
        assert_eq!((outcome.totals.failed_calls, outcome.elapsed), (1, Duration::ZERO));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_and_the_wall_clock_end_a_run_that_waits() {
    let runtime = runtime(asks()).await;
    let handle = runtime.submit(&agent(), "go").await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.cancel("a test");
    assert_eq!(handle.outcome().await.reason.to_string(), "cancelled by a test");
    let brief = agent().limits(RunLimits { wall_clock: Duration::from_secs(60), ..RunLimits::default() });
    let outcome = runtime.submit(&brief, "go").await.unwrap().outcome().await;
    assert_eq!(outcome.reason.to_string(), "limit_reached: wall_clock");
    assert_eq!(outcome.elapsed, Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_repaired_or_asked_for_again() {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
    let agent = Agent::new("a").answer_schema("count", schema);
    let model = Scripted::replies(["Three.", "```json\n{\"n\":\"3\"}\n```"]);
    let outcome = runtime(model).await.run(&agent, "go").await;
    assert_eq!((outcome.answer(), outcome.totals.turns), (Some(r#"{"n":3}"#), 2));
    let stubborn = runtime(Scripted::replies(["Three."; 4])).await;
    let outcome = stubborn.run(&agent.clone().answer_reasks(1), "go").await;
    assert_eq!((outcome.reason, outcome.totals.turns), (StopReason::MalformedOutput, 2));
}

#[tokio::test]
async fn a_shape_that_cannot_be_used_is_refused_with_its_agent() {
    let agent = Agent::new("a").answer_schema("nothing", json!(false));
    assert!(agent.check_answer().is_some());
    let built = Runtime::builder().model(asks()).agent(&agent).build().await;
    assert_eq!(
        built.err().unwrap().to_string(),
        "agent `a` cannot run: the answer's schema `nothing` allows no value at all, so that no answer could fit"
    );
    let clash = Agent::new("a").ask_user(true).tool(reads("ask_user", []));
    let reason = &clash.check()[0].reason;
    assert!(reason.contains("give your own tool another name"), "{reason}");
}
