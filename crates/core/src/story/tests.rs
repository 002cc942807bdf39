use std::fmt::Write as _;

use dauntless_contract::{
    AgentSpec, CallVerdict, Effect, EffectState, Failure, History, ModelSpec, OnExhausted, PanicPolicy,
    Price, ResiliencePolicy, ResolvedBy, RunId, RunLimits, ToolOutput, ToolSpec,
};
use expect_test::{Expect, expect};
use serde_json::json;

use super::*;
use crate::run::{RunSpec, toolbox};

const SECRET: &str = "hunter2-hunter2";

/// A clerk with two tools, of which it can wait for one, and somebody to ask.
fn spec() -> RunSpec {
    let agent = AgentSpec {
        name: "clerk".into(),
        instructions: "".into(),
        on_panic: PanicPolicy::default(),
        answer: None,
        ask_user: true,
        notes: false,
        messages: false,
    };
    let parameters = json!({ "type": "object", "properties": { "id": { "type": "string" } } });
    let tool = |name: &str, effect, on_exhausted| {
        let declared = ToolSpec::new(name, "Does.", parameters.clone());
        Arc::new(ToolSpec { effect, on_exhausted, ..declared })
    };
    let order = tool("order", Effect::Verifiable, OnExhausted::Observe);
    let stock = tool("stock", Effect::ReadOnly, OnExhausted::Park);
    let model = ModelSpec {
        name: "m".into(),
        provider: "scripted".into(),
        price: Price { input_per_million: MicroUsd(1_000_000), ..Price::default() },
        output_tokens_max: None,
        context_window: None,
        counter: None,
        resilience: ResiliencePolicy::for_model(),
    };
    RunSpec {
        toolbox: toolbox(&agent, vec![order, stock]).0,
        agent,
        answer: None,
        model: Arc::new(model),
        fallbacks: Vec::new(),
        redactor: Redactor::new([], &[]).unwrap(),
        links: crate::tree::Links::default(),
    }
}

fn at(ms: u64, event: RunEvent) -> Recorded {
    Recorded { at: Timestamp::from_micros(1_000_000_000 + ms * 1000), event }
}

fn begun() -> Recorded {
    at(
        0,
        RunEvent::RunStarted {
            agent: "clerk".into(),
            goal: format!("Find the parcel. The password is {SECRET}.").into(),
            limits: RunLimits::default(),
            history: History::default(),
            repairs: Vec::new(),
            attendance: Attendance::Attended,
            tools: ["ask_user", "order", "stock"].map(Arc::from).into(),
            lineage: None,
        },
    )
}

fn replied(ms: u64, turn: u32, calls: &[(&str, &str)], tokens: u64) -> Recorded {
    let raw = |(index, (name, arguments)): (usize, &(&str, &str))| RawCall {
        id: format!("c{index}").into(),
        name: (*name).into(),
        arguments: (*arguments).into(),
        garbled: None,
    };
    let reply = ModelReply {
        usage: Some(Usage::new(Tokens(tokens), Tokens(20))),
        ..ModelReply::calls(calls.iter().enumerate().map(raw).collect())
    };
    at(ms, RunEvent::ModelReplied { turn, model: 0, reply, attempts: 1 })
}

fn ended(ms: u64, call: CallKey, verdict: CallVerdict, attempts: u32) -> Recorded {
    let out_for = match &verdict {
        CallVerdict::Failed(failure) => failure.retry_after,
        CallVerdict::Succeeded(_) => None,
    };
    let waited = Duration::from_millis(700 * u64::from(attempts - 1));
    let record = CallRecord { verdict, attempts, waited, stopped_by: None, out_for, by: None };
    at(ms, RunEvent::CallEnded { call, record })
}

fn ok(text: &str) -> CallVerdict {
    CallVerdict::Succeeded(ToolOutput { text: text.into() })
}

/// Two turns with everything that can go wrong, up to a call that is parked.
fn rich() -> Vec<Recorded> {
    let call = |turn, index| CallKey { turn, index };
    let down = Failure::unavailable("The stock service is closed.").retry_after(Duration::from_secs(60));
    vec![
        begun(),
        replied(
            1500,
            1,
            &[
                ("order", r#"{"id":"ORD-1"}"#),
                ("ask_user", r#"{"question":"Which parcel?","choices":["red","blue"]}"#),
                ("nothing", "{}"),
            ],
            1000,
        ),
        ended(1700, call(1, 0), ok(&format!("found,\n  with {SECRET}")), 2),
        at(9000, RunEvent::InputGiven { call: call(1, 1), text: "the red one".into() }),
        at(9100, RunEvent::Interrupted {}),
        replied(11_000, 2, &[("stock", r#"{"id":"red"}"#), ("order", r#"{"id":"ORD-2"}"#)], 1500),
        ended(12_000, call(2, 0), CallVerdict::Failed(down.effect(EffectState::None)), 3),
    ]
}

fn story(events: &[Recorded]) -> Story {
    let mut story = Story::new(Redactor::new([SECRET.to_owned()], &[]).unwrap());
    events.iter().for_each(|event| story.see(event));
    story
}

fn check(events: &[Recorded], expected: Expect) {
    let story = story(events);
    let mut text = String::new();
    for Line { seq, after, text: line, more } in story.timeline() {
        let _ = writeln!(text, "{seq:>2} {:>8} {line}", length(*after));
        for more in more {
            let _ = writeln!(text, "             {more}");
        }
    }
    let run = RunId::from_u128(7);
    let machine = RunMachine::recover(run, Arc::new(spec()), events.iter().cloned()).unwrap();
    for (knows, machine) in [("events", None), ("machine", Some(&machine))] {
        let headline = story.headline(machine.map(Folded::from));
        let _ = writeln!(text, "by the {knows}: {}: {}", headline.goal, headline.used());
        for wait in &headline.waits {
            let _ = writeln!(text, "  waits for {}", wait.told(story.last_at() + Duration::from_secs(5)));
        }
    }
    expected.assert_eq(&text);
}

#[test]
fn a_run_is_told_from_its_start_to_what_it_waits_for() {
    check(
        &rich(),
        expect![[r#"
             1     0 ms started for clerk with ask_user, order, stock; somebody can be asked
             2    1.5 s turn 1: the model asks for 3 calls (1020 tokens)
                         1.0 order {"id":"ORD-1"}
                         1.1 ask_user {"question":"Which parcel?","choices":["red","blue"]}
                         1.2 nothing {}
             3    1.7 s 1.0 order: ok after 2 attempts: found, with [redacted]; 0.7 s of waiting
             4      9 s 1.1: the user answered: the red one
             5    9.1 s interrupted: the process that drove the run came to its end, and another goes on
             6     11 s turn 2: the model asks for 2 calls (1520 tokens)
                         2.0 stock {"id":"red"}
                         2.1 order {"id":"ORD-2"}
             7     12 s 2.0 stock: unavailable after 3 attempts: The stock service is closed.; 1.4 s of waiting; out of service for 60 s
            by the events: Find the parcel. The password is [redacted].: 2 turns, 5 calls, 5 attempts, 2540 tokens, 1 interruption
              waits for call 2.1 of order, for 6 s
            by the machine: Find the parcel. The password is [redacted].: 2 turns, 5 calls, 5 attempts, 2540 tokens, $0.002500, 1 interruption
              waits for stock to be back in service, for call 2.0, for 5 s; it is asked again in 55 s at the latest
              waits for call 2.1 of order, for 6 s
        "#]],
    );
}

#[test]
fn a_question_is_what_a_run_waits_for() {
    check(
        &rich()[..3],
        expect![[r#"
             1     0 ms started for clerk with ask_user, order, stock; somebody can be asked
             2    1.5 s turn 1: the model asks for 3 calls (1020 tokens)
                         1.0 order {"id":"ORD-1"}
                         1.1 ask_user {"question":"Which parcel?","choices":["red","blue"]}
                         1.2 nothing {}
             3    1.7 s 1.0 order: ok after 2 attempts: found, with [redacted]; 0.7 s of waiting
            by the events: Find the parcel. The password is [redacted].: 1 turn, 3 calls, 2 attempts, 1020 tokens
              waits for the user's answer to 1.1: Which parcel? (red / blue), for 5.2 s
            by the machine: Find the parcel. The password is [redacted].: 1 turn, 3 calls, 2 attempts, 1020 tokens, $0.001000
              waits for the user's answer to 1.1: Which parcel? (red / blue), for 5.2 s
        "#]],
    );
}

#[test]
fn what_ends_before_its_time_is_told() {
    let mut events = rich();
    events.truncate(5);
    let failure = Failure::timeout("No answer in 2 minutes.");
    events.extend([
        at(9200, RunEvent::Suspended { calls: vec![CallKey { turn: 1, index: 0 }], model: true }),
        at(
            9300,
            RunEvent::LetterSetAside { letter: "x".into(), why: "The question 1.1 is not open.".into() },
        ),
        at(9400, RunEvent::Interrupted {}),
        at(9500, RunEvent::ModelFailed { turn: 2, model: 0, failure, attempts: 3 }),
    ]);
    check(
        &events,
        expect![[r#"
             1     0 ms started for clerk with ask_user, order, stock; somebody can be asked
             2    1.5 s turn 1: the model asks for 3 calls (1020 tokens)
                         1.0 order {"id":"ORD-1"}
                         1.1 ask_user {"question":"Which parcel?","choices":["red","blue"]}
                         1.2 nothing {}
             3    1.7 s 1.0 order: ok after 2 attempts: found, with [redacted]; 0.7 s of waiting
             4      9 s 1.1: the user answered: the red one
             5    9.1 s interrupted: the process that drove the run came to its end, and another goes on
             6    9.2 s suspended in good order, with a request of the model, call 1.0 under way
             7    9.3 s a letter led to nothing: The question 1.1 is not open.
             8    9.4 s interrupted: the process that drove the run came to its end, and another goes on
             9    9.5 s turn 2: the model failed with timeout after 3 attempts: No answer in 2 minutes.
            by the events: Find the parcel. The password is [redacted].: 2 turns, 3 calls, 2 attempts, 1020 tokens, 2 interruptions
              waits for the model, turn 3, for 5 s
            by the machine: Find the parcel. The password is [redacted].: 2 turns, 3 calls, 2 attempts, 1020 tokens, $0.001000, 2 interruptions
        "#]],
    );
}

/// A call that was lost with its process, of a tool that can say whether it happened.
fn lost() -> Vec<Recorded> {
    vec![
        begun(),
        replied(1500, 1, &[("order", r#"{"id":"ORD-1"}"#)], 1000),
        at(9000, RunEvent::Interrupted {}),
    ]
}

#[test]
fn a_tool_that_is_asked_whether_its_call_happened_is_waited_for() {
    check(
        &lost(),
        expect![[r#"
         1     0 ms started for clerk with ask_user, order, stock; somebody can be asked
         2    1.5 s turn 1: the model asks for 1 call (1020 tokens)
                     1.0 order {"id":"ORD-1"}
         3      9 s interrupted: the process that drove the run came to its end, and another goes on
        by the events: Find the parcel. The password is [redacted].: 1 turn, 1 call, 1020 tokens, 1 interruption
          waits for call 1.0 of order, for 12.5 s
        by the machine: Find the parcel. The password is [redacted].: 1 turn, 1 call, 1020 tokens, $0.001000, 1 interruption
          waits for order to say whether call 1.0 happened, for 12.5 s
    "#]],
    );
}

#[test]
fn a_call_that_did_not_happen_is_begun_again_and_told_by_attempts() {
    let call = CallKey { turn: 1, index: 0 };
    let failure = Failure::unavailable("Busy.").effect(EffectState::None);
    let mut events = lost();
    events.extend([
        at(9100, RunEvent::CallVerified { call, verdict: VerifyVerdict::Answered(Verified::NotHappened) }),
        at(
            9500,
            RunEvent::AttemptFailed { call, by: None, attempt: 1, failure, wait: Duration::from_millis(250) },
        ),
    ]);
    check(
        &events,
        expect![[r#"
         1     0 ms started for clerk with ask_user, order, stock; somebody can be asked
         2    1.5 s turn 1: the model asks for 1 call (1020 tokens)
                     1.0 order {"id":"ORD-1"}
         3      9 s interrupted: the process that drove the run came to its end, and another goes on
         4    9.1 s 1.0 order: asked whether the call happened: it did not happen
         5    9.5 s 1.0 order: attempt 1 failed with unavailable: Busy.; the next after 0.25 s
        by the events: Find the parcel. The password is [redacted].: 1 turn, 1 call, 1020 tokens, 1 interruption
          waits for call 1.0 of order, for 13 s
        by the machine: Find the parcel. The password is [redacted].: 1 turn, 1 call, 1020 tokens, $0.001000, 1 interruption
          waits for call 1.0 of order, for 13 s
    "#]],
    );
}

#[test]
fn what_was_unknown_is_told_once_it_is_known() {
    let call = CallKey { turn: 1, index: 0 };
    let record = CallRecord {
        verdict: ok("sent"),
        attempts: 1,
        waited: Duration::ZERO,
        stopped_by: None,
        out_for: None,
        by: None,
    };
    let mut events = lost();
    events.extend([
        at(9100, RunEvent::CallVerified { call, verdict: VerifyVerdict::Answered(Verified::CannotTell) }),
        at(
            9500,
            RunEvent::OutcomeResolved {
                call,
                record: record.clone(),
                by: ResolvedBy::Person { name: "ann".into() },
            },
        ),
        at(9600, RunEvent::OutcomeResolved { call, record, by: ResolvedBy::Late { epoch: 1 } }),
    ]);
    check(
        &events,
        expect![[r#"
         1     0 ms started for clerk with ask_user, order, stock; somebody can be asked
         2    1.5 s turn 1: the model asks for 1 call (1020 tokens)
                     1.0 order {"id":"ORD-1"}
         3      9 s interrupted: the process that drove the run came to its end, and another goes on
         4    9.1 s 1.0 order: asked whether the call happened: it cannot tell
         5    9.5 s told by ann, what was unknown: 1.0 order: ok: sent
         6    9.6 s told by the worker that had begun it, what was unknown: 1.0 order: ok: sent
        by the events: Find the parcel. The password is [redacted].: 1 turn, 1 call, 1020 tokens, 1 interruption
          waits for the model, turn 2, for 5.5 s
        by the machine: Find the parcel. The password is [redacted].: 1 turn, 1 call, 1020 tokens, $0.001000, 1 interruption
          waits for the model, turn 2, for 5.5 s
    "#]],
    );
}

#[test]
fn a_run_is_told_the_same_at_every_event_as_at_the_end() {
    let events = rich();
    let whole = story(&events);
    for n in 0..events.len() {
        assert_eq!(story(&events[..n]).timeline(), &whole.timeline()[..n]);
    }
}

#[test]
fn lengths_read_well_from_milliseconds_to_days() {
    let told = |ms: u64| length(Duration::from_millis(ms));
    let all = [4, 250, 9_990, 12_340, 119_999, 150_000, 7_260_000, 400_000_000].map(told);
    assert_eq!(all, ["4 ms", "0.25 s", "9.99 s", "12.3 s", "120 s", "2 min 30 s", "2 h 1 min", "4 d 15 h"]);
}
