use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use dauntless_contract::*;
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::tree::Delegation;

mod answers;
mod attempts;
mod context;
mod continued;
mod crashes;
mod delegation;
mod fallbacks;
mod growth;
mod limits;
mod messages;
mod parking;
mod properties;
mod questions;
mod recovery;
mod rejection;
mod repetitions;
mod resolution;
mod snapshots;
mod suspension;
mod verification;
mod withdrawal;

/// A run under test, and what it wanted done, line by line.
struct Scene {
    machine: RunMachine,
    now: Timestamp,
    turn: u32,
    model: u32,
    by: BTreeMap<CallKey, Arc<str>>,
    parked: BTreeSet<CallKey>,
    out_for: Option<Duration>,
    summary: Option<Arc<History>>,
    seen: Vec<String>,
    events: Vec<(Timestamp, RunEvent)>,
}

fn spec(name: &str, change: impl FnOnce(&mut ToolSpec)) -> Arc<ToolSpec> {
    let parameters = json!({
        "type": "object",
        "properties": { "q": { "type": "string" } },
        "additionalProperties": false,
    });
    let mut spec = ToolSpec::new(name, format!("Does {name}."), parameters);
    spec.effect = Effect::ReadOnly;
    change(&mut spec);
    Arc::new(spec)
}

fn tools() -> Vec<Arc<ToolSpec>> {
    vec![
        spec("find", |_| {}),
        spec("pay", |spec| spec.effect = Effect::Once),
        spec("news", |spec| spec.on_exhausted = OnExhausted::Observe),
        spec("poll", |spec| spec.polling = true),
        spec("stock", |spec| {
            spec.on_exhausted = OnExhausted::Park;
            spec.max_park = Duration::from_secs(60);
        }),
        spec("book", |spec| {
            spec.on_exhausted = OnExhausted::Park;
            spec.effect = Effect::Keyed;
        }),
        spec("mail", |spec| {
            spec.on_exhausted = OnExhausted::Park;
            spec.effect = Effect::Once;
            spec.fallback = Some("news".into());
        }),
        spec("give", |spec| {
            spec.effect = Effect::Once;
            spec.on_exhausted = OnExhausted::Observe;
        }),
        spec("price", |spec| spec.fallback = Some("archive".into())),
        spec("archive", |spec| spec.fallback = Some("memory".into())),
        spec("memory", |spec| {
            spec.parameters = Arc::new(json!({
                "type": "object",
                "properties": { "q": { "type": "string", "maxLength": 5 } },
            }));
        }),
        spec("file", |spec| spec.effect = Effect::Verifiable),
        spec("transfer", |spec| {
            spec.effect = Effect::Keyed;
            spec.fallback = Some("pay".into());
        }),
    ]
}

static AGENT: LazyLock<AgentSpec> = LazyLock::new(|| AgentSpec {
    name: "a".into(),
    instructions: "Be good.".into(),
    on_panic: PanicPolicy::Observe,
    answer: None,
    ask_user: true,
    notes: false,
    messages: false,
});

/// Compiled once: schemas and patterns cost more than a run.
static TOOLBOX: LazyLock<Toolbox> = LazyLock::new(|| {
    let (toolbox, bad) = toolbox(&AGENT, tools());
    assert!(bad.is_empty(), "{bad:?}");
    toolbox
});
static REDACTOR: LazyLock<Redactor> = LazyLock::new(|| Redactor::new([], &[]).unwrap());

impl Scene {
    fn new() -> Self {
        Self::with(RunLimits::default(), PanicPolicy::Observe)
    }

    fn with(limits: RunLimits, on_panic: PanicPolicy) -> Self {
        Self::changed(limits, on_panic, |_| {})
    }

    fn changed(limits: RunLimits, on_panic: PanicPolicy, change: impl FnOnce(&mut RunSpec)) -> Self {
        Self::attended(limits, on_panic, Attendance::Attended, change)
    }

    fn set(
        limits: RunLimits,
        on_panic: PanicPolicy,
        shape: Option<AnswerShape>,
        attendance: Attendance,
    ) -> Self {
        Self::attended(limits, on_panic, attendance, |spec| spec.answer = shape)
    }

    fn attended(
        limits: RunLimits,
        on_panic: PanicPolicy,
        attendance: Attendance,
        change: impl FnOnce(&mut RunSpec),
    ) -> Self {
        let model = ModelSpec {
            name: "m".into(),
            provider: "test".into(),
            price: Price {
                input_per_million: MicroUsd(1_000_000),
                output_per_million: MicroUsd(0),
                cached_input_per_million: None,
            },
            output_tokens_max: None,
            context_window: None,
            counter: None,
            resilience: ResiliencePolicy::for_model(),
        };
        let second = ModelSpec { name: "m2".into(), price: Price::default(), ..model.clone() };
        let third = ModelSpec { name: "m3".into(), ..second.clone() };
        let mut spec = RunSpec {
            agent: AgentSpec { on_panic, ..AGENT.clone() },
            toolbox: TOOLBOX.clone(),
            answer: None,
            fallbacks: vec![
                ModelFallback { model: Arc::new(second), on: vec![Bucket::Transient, Bucket::Harness] },
                ModelFallback { model: Arc::new(third), on: vec![Bucket::Transient] },
            ],
            model: Arc::new(model),
            links: Links::default(),
            redactor: REDACTOR.clone(),
        };
        change(&mut spec);
        let machine = RunMachine::new(RunId::from_u128(1), Arc::new(spec));
        let mut scene = Self {
            machine,
            now: Timestamp::ZERO,
            turn: 0,
            model: 0,
            by: BTreeMap::new(),
            parked: BTreeSet::new(),
            out_for: None,
            summary: None,
            seen: Vec::new(),
            events: Vec::new(),
        };
        let (history, repairs) = (History::default(), Vec::new());
        let (agent, goal) = ("a".into(), "Do it.".into());
        let tools = scene.machine.spec.toolbox.names().map(Arc::from).collect();
        let lineage = None;
        scene.on(RunEvent::RunStarted { agent, goal, limits, history, repairs, attendance, tools, lineage });
        scene
    }

    fn on(&mut self, event: RunEvent) -> &mut Self {
        self.events.push((self.now, event.clone()));
        for effect in self.machine.on(self.now, event) {
            self.note(&effect);
        }
        self
    }

    fn note(&mut self, effect: &RunEffect) {
        let line = match effect {
            RunEffect::CallModel { turn, model, offer, built_in, .. } => {
                (self.turn, self.model) = (*turn, *model);
                let model = if *model == 0 { String::new() } else { format!(" model {model}") };
                let built_in: String = built_in.iter().map(|spec| format!(" +{}", spec.name)).collect();
                format!("ask {turn} {offer:?}{built_in}{model}")
            }
            RunEffect::Summarise { turn, model, history, .. } => {
                (self.turn, self.model) = (*turn, *model);
                assert!(history.messages().len() == 2, "a task and the text of the rounds");
                self.summary = Some(Arc::clone(history));
                format!("summarise {turn}")
            }
            RunEffect::Dispatch { call, asked, tool, arguments, key_of, attempts_made, .. }
                if asked == tool =>
            {
                let again = if self.parked.remove(call) { "again " } else { "" };
                let key = if key_of == call { String::new() } else { format!(" key of {key_of}") };
                let made =
                    if *attempts_made == 0 { String::new() } else { format!(" after {attempts_made}") };
                format!("{again}run {call} {tool} {arguments}{key}{made}")
            }
            RunEffect::Verify(Verification { call, tool, arguments, .. }) => {
                format!("verify {call} {tool} {arguments}")
            }
            RunEffect::Dispatch { call, asked, tool, arguments, .. } => {
                self.by.insert(*call, Arc::clone(tool));
                format!("fall back {call} {asked} to {tool} {arguments}")
            }
            RunEffect::CancelCall { call, reach } => format!("cancel {call} {reach:?}"),
            RunEffect::Delegate(Delegation { call, attempt, agent, goal, history, limits, .. }) => {
                let hears = history.as_ref().map_or(String::new(), |_| " with the conversation".to_owned());
                let attempt = if *attempt == 1 { String::new() } else { format!(" try {attempt}") };
                format!("child {call}{attempt} {agent} `{goal}` with {}{hears}", limits.tokens)
            }
            RunEffect::CancelChild { call, .. } => format!("cancel child {call}"),
            RunEffect::StartTimer { timer: RunTimer::Child(_), .. } => return,
            RunEffect::CancelModel { turn } => format!("cancel model {turn}"),
            RunEffect::StartTimer { timer, at } => format!("timer {timer:?} {at:?}"),
            RunEffect::Park { call, tool, at, .. } => {
                self.parked.insert(*call);
                self.by.remove(call);
                format!("park {call} {tool} for {} s", at.since(self.now).as_secs())
            }
            RunEffect::Report(Progress::InputRequested(Question { call, question, choices })) => {
                format!("question {call} {question} {choices:?}")
            }
            RunEffect::Report(Progress::Nudged { text, .. }) => format!("nudge {text}"),
            RunEffect::Report(Progress::ContextTrimmed { trim, before, after, .. }) => {
                assert!(after < before, "{before} to {after}");
                format!("trim {trim:?}")
            }
            RunEffect::Report(Progress::RunEnded { outcome }) => {
                let text = outcome.text.as_deref().map_or_else(String::new, |text| format!(" `{text}`"));
                format!("end {}{text}", outcome.reason)
            }
            RunEffect::Report(_) | RunEffect::End => return,
        };
        self.seen.push(line);
    }

    fn wait(&mut self, length: Duration) -> &mut Self {
        self.now = self.now + length;
        self
    }

    fn reply(&mut self, reply: ModelReply) -> &mut Self {
        let (turn, model) = (self.turn, self.model);
        self.on(RunEvent::ModelReplied { turn, model, reply, attempts: 1 })
    }

    fn says(&mut self, text: &str) -> &mut Self {
        self.reply(ModelReply::text(text))
    }

    fn asks(&mut self, calls: &[(&str, &str)]) -> &mut Self {
        self.reply(asking(calls))
    }

    fn ends(&mut self, index: u32, verdict: Result<&str, Failure>) -> &mut Self {
        let call = CallKey { turn: self.turn, index };
        let verdict = match verdict {
            Ok(text) => CallVerdict::Succeeded(ToolOutput::text(text)),
            Err(failure) => CallVerdict::Failed(failure),
        };
        let record = CallRecord {
            verdict,
            attempts: 2,
            waited: Duration::from_millis(1500),
            stopped_by: None,
            out_for: self.out_for,
            by: self.by.get(&call).cloned(),
        };
        self.on(RunEvent::CallEnded { call, record })
    }

    fn seen(&self, expected: Expect) {
        expected.assert_eq(&(self.seen.join("\n") + "\n"));
        self.replay_is_equal();
        self.history_is_valid();
    }

    fn replay_is_equal(&self) {
        let mut again = RunMachine::new(self.machine.run(), Arc::clone(&self.machine.spec));
        for (at, event) in &self.events {
            let text = serde_json::to_string(event).unwrap();
            let _ = again.on(*at, serde_json::from_str(&text).unwrap());
        }
        assert_eq!(again, self.machine, "the journal folds to the same state");
    }

    fn history_is_valid(&self) {
        history_is_valid(self.machine.history());
    }

    fn observation(&self, back: usize) -> Value {
        let texts: Vec<&Arc<str>> = self
            .machine
            .history()
            .messages()
            .iter()
            .filter_map(|message| match message {
                Message::Tool { text, .. } => Some(text),
                _ => None,
            })
            .collect();
        serde_json::from_str(texts[texts.len() - 1 - back]).unwrap()
    }
}

fn history_is_valid(history: &History) {
    let mut open: Vec<&str> = Vec::new();
    for message in history.messages() {
        match message {
            Message::Tool { call_id, .. } => assert_eq!(&**call_id, open.remove(0), "in call order"),
            Message::Assistant { calls, text, .. } => {
                assert!(open.is_empty() && (text.is_some() || !calls.is_empty()));
                open = calls.iter().map(|call| &*call.id).collect();
            }
            Message::System { text } | Message::User { text } => {
                assert!(open.is_empty() && !text.is_empty());
            }
        }
    }
    assert!(open.is_empty(), "every call is answered");
}

fn asking(calls: &[(&str, &str)]) -> ModelReply {
    let raw = |(n, (name, arguments)): (usize, &(&str, &str))| RawCall {
        id: format!("c{n}").into(),
        name: (*name).into(),
        arguments: (*arguments).into(),
        garbled: None,
    };
    ModelReply::calls(calls.iter().enumerate().map(raw).collect())
}

#[test]
fn an_answer_completes_the_run() {
    let mut scene = Scene::new();
    scene.asks(&[("find", r#"{"q":"x"}"#)]).ends(0, Ok("found")).says("Here it is.");
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        run 1.0 find {"q":"x"}
        ask 2 All
        end completed `Here it is.`
    "#]]);
}

#[test]
fn results_enter_the_history_in_call_order() {
    let mut scene = Scene::new();
    scene.asks(&[("find", r#"{"q":"a"}"#), ("find", r#"{"q":"b"}"#), ("find", r#"{"q":"c"}"#)]);
    scene.ends(2, Ok("\"C\"")).ends(0, Ok("\"A\"")).ends(1, Ok("\"B\""));
    assert_eq!([2, 1, 0].map(|back| scene.observation(back)), [json!("A"), json!("B"), json!("C")]);
    scene.history_is_valid();
}

#[test]
fn a_late_or_double_end_changes_nothing() {
    let mut scene = Scene::new();
    scene.asks(&[("find", "{}"), ("find", r#"{"q":"b"}"#)]).ends(0, Ok("1"));
    let before = scene.machine.clone();
    scene.ends(0, Ok("2"));
    scene.ends(7, Ok("3"));
    let reply = ModelReply::text("stale");
    scene.on(RunEvent::ModelReplied { turn: 1, model: 0, reply, attempts: 1 });
    assert_eq!(scene.machine, before);
}

#[test]
fn bad_calls_are_answered_and_good_siblings_run() {
    let mut scene = Scene::new();
    scene.asks(&[("fnd", "{}"), ("find", "{\"q\":"), ("find", r#"{"q":1,"z":2}"#), ("find", "")]);
    scene.ends(3, Ok("ok"));
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        run 1.3 find {}
        ask 2 All
    "#]]);
    let codes = [3, 2, 1].map(|back| scene.observation(back)["error"].as_str().unwrap().to_owned());
    assert_eq!(codes, ["unknown_tool", "truncated_call", "invalid_arguments"]);
    assert_eq!(scene.observation(3)["candidates"][0], "find");
}

#[test]
fn a_terminal_failure_ends_the_run_and_names_tool_call_code_and_attempts() {
    let mut scene = Scene::new();
    scene.asks(&[("find", "{}")]).ends(0, Err(Failure::unauthenticated("The key was refused.")));
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        run 1.0 find {}
        end tool_terminal: find (c0) failed with unauthenticated after 2 attempts
    "#]]);
    let outcome = scene.machine.outcome().unwrap();
    assert_eq!(outcome.explanation.as_deref(), Some("The key was refused."));
}

#[test]
fn a_terminal_failure_in_a_fan_out_cancels_reads_and_awaits_writes() {
    let mut scene = Scene::new();
    scene.asks(&[("find", "{}"), ("pay", "{}"), ("news", "{}"), ("find", r#"{"q":"d"}"#)]);
    scene.ends(3, Err(Failure::gone("Closed for good.")));
    scene.ends(0, Err(Failure::cancelled("Cancelled.")));
    scene.ends(2, Err(Failure::quota_exhausted("No credit left.")));
    scene.ends(1, Ok("paid"));
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        run 1.0 find {}
        run 1.1 pay {}
        run 1.2 news {}
        run 1.3 find {"q":"d"}
        cancel 1.0 Running
        cancel 1.1 Waiting
        cancel 1.2 Running
        timer Settle 35s
        end tool_terminal: news (c2) failed with quota_exhausted after 2 attempts
    "#]]);
    assert_eq!(scene.observation(3)["error"], "cancelled");
}

#[test]
fn a_call_that_never_settles_is_answered_as_unknown() {
    let mut scene = Scene::new();
    scene.asks(&[("pay", "{}"), ("find", "{}")]).ends(1, Err(Failure::gone("Closed.")));
    scene.wait(Duration::from_secs(35)).on(RunEvent::TimerFired { timer: RunTimer::Settle });
    assert_eq!(scene.machine.outcome().unwrap().reason.name(), "tool_terminal");
    assert_eq!(scene.observation(1)["effect"], "unknown");
    scene.history_is_valid();
}

#[test]
fn an_exhausted_tool_ends_the_run_unless_it_is_optional() {
    let mut scene = Scene::new();
    scene.asks(&[("news", "{}")]).ends(0, Err(Failure::unavailable("Down."))).says("Without news: done.");
    assert_eq!(scene.machine.outcome().unwrap().reason, StopReason::Completed);
    let mut scene = Scene::new();
    scene.asks(&[("find", "{}")]).ends(0, Err(Failure::unavailable("Down.")));
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        run 1.0 find {}
        end tool_exhausted: find (c0) failed with unavailable after 2 attempts, 1.5 s of waiting
    "#]]);
}

#[test]
fn a_panic_is_an_observation_unless_the_agent_is_strict() {
    let mut scene = Scene::new();
    scene.asks(&[("find", "{}")]).ends(0, Err(Failure::crashed("The tool broke.")));
    assert_eq!(scene.observation(0)["error"], "crashed");
    let mut scene = Scene::with(RunLimits::default(), PanicPolicy::EndRun);
    scene.asks(&[("find", "{}")]).ends(0, Err(Failure::crashed("The tool broke.")));
    assert_eq!(scene.machine.outcome().unwrap().reason.name(), "tool_terminal");
}

#[test]
fn an_empty_reply_is_nudged_twice_then_ends_the_run() {
    let mut scene = Scene::new();
    scene.says(" ").says("").says("");
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        nudge Your last reply was empty. Call a tool, or write your answer as plain text.
        ask 2 All
        nudge Your last reply was empty. Call a tool, or write your answer as plain text.
        ask 3 All
        end empty_response
    "#]]);
}

#[test]
fn an_empty_reply_with_tokens_is_told_about_them() {
    let mut scene = Scene::new();
    let usage = Usage::new(Tokens(1), Tokens(180));
    scene.reply(ModelReply { usage: Some(usage), ..ModelReply::text("") });
    assert!(scene.seen.iter().any(|line| line.contains("although you wrote 180 tokens")));
}

#[test]
fn a_call_written_as_prose_is_never_an_answer() {
    let mut scene = Scene::new();
    let prose = r#"<tool_call>{"name":"find","arguments":{}}</tool_call>"#;
    scene.says(prose).says(prose);
    let outcome = scene.machine.outcome().unwrap();
    assert_eq!((outcome.reason.clone(), outcome.text.clone()), (StopReason::MalformedOutput, None));
}

#[test]
fn a_call_written_as_prose_until_the_limit_is_told_how_to_call() {
    let mut scene = Scene::new();
    let prose = "<start_function_call>call:find{}<end_function_call>".repeat(20);
    let cut = ModelReply { finish: Finish::Length, ..ModelReply::text(prose) };
    scene.reply(cut.clone()).reply(cut);
    assert_eq!(scene.machine.outcome().unwrap().reason, StopReason::MalformedOutput);
}

#[test]
fn a_secret_is_taken_out_before_a_text_is_cut() {
    let key = "sk-FAKE-0123456789abcdefghij";
    let arguments = json!({ "q": format!("{}{key}", "0 ".repeat(70)) }).to_string();
    let mut scene = Scene::new();
    let reply = asking(&[("find", &arguments)]);
    let event = RunEvent::ModelReplied { turn: 1, model: 0, reply: reply.clone(), attempts: 1 };
    let effects = scene.machine.clone().on(scene.now, event);
    let asked = effects.iter().find_map(|effect| match effect {
        RunEffect::Report(Progress::CallAsked { arguments, .. }) => Some(arguments),
        _ => None,
    });
    assert!(asked.unwrap().ends_with(r#"0 [redacted]"}"#), "{asked:?}");
    for _ in 0..8 {
        scene.reply(reply.clone()).ends(0, Ok("the same"));
    }
    let reason = scene.machine.outcome().unwrap().reason.to_string();
    assert!(reason.starts_with("stuck: find ") && !reason.contains("FAKE"), "{reason}");
}

#[test]
fn a_cut_call_is_never_run_and_a_complete_one_before_it_is() {
    let mut scene = Scene::new();
    let mut reply = asking(&[("find", "{}"), ("pay", r#"{"q":"x"}"#)]);
    reply.finish = Finish::Length;
    reply.output_limit = Some(256);
    scene.reply(reply.clone()).ends(0, Ok("ok"));
    let seen = scene.observation(0);
    assert_eq!(seen["error"], "truncated_call");
    assert!(seen["message"].as_str().unwrap().contains("256"), "{seen}");
    scene.reply(reply.clone()).ends(0, Ok("ok2"));
    scene.reply(reply).ends(0, Ok("ok3"));
    assert_eq!(scene.machine.outcome().unwrap().reason, StopReason::Truncated);
    assert!(!scene.seen.iter().any(|line| line.contains("pay")));
}

#[test]
fn a_cut_answer_is_not_passed_off_as_complete() {
    let mut scene = Scene::new();
    let cut = ModelReply { finish: Finish::Length, ..ModelReply::text("The first half") };
    scene.reply(cut.clone()).reply(cut.clone()).reply(cut);
    let outcome = scene.machine.outcome().unwrap();
    assert_eq!(outcome.reason, StopReason::Truncated);
    assert_eq!(outcome.partial(), Some("The first half"));
}

#[test]
fn duds_of_changing_kinds_are_bounded_too() {
    let mut scene = Scene::new();
    let cut = ModelReply { finish: Finish::Length, ..ModelReply::text("") };
    for _ in 0..3 {
        if scene.machine.outcome().is_none() {
            scene.says("").reply(cut.clone());
        }
    }
    assert!(scene.machine.outcome().is_some(), "{:?}", scene.seen);
}

#[test]
fn a_refusal_and_a_filter_end_the_run_at_once() {
    let mut scene = Scene::new();
    scene.reply(ModelReply { refusal: Some("I will not.".into()), ..ModelReply::text("") });
    let outcome = scene.machine.outcome().unwrap();
    assert_eq!(
        (&outcome.reason, outcome.explanation.as_deref()),
        (&StopReason::ModelRefusal, Some("I will not."))
    );
    let mut scene = Scene::new();
    scene.reply(ModelReply { finish: Finish::ContentFilter, ..ModelReply::text("") });
    assert_eq!(scene.machine.outcome().unwrap().reason, StopReason::ContentFiltered);
}

#[test]
fn a_model_that_fails_ends_the_run_with_its_code() {
    let mut scene = Scene::new();
    let failure = Failure::quota_exhausted("The account has no credit.");
    scene.on(RunEvent::ModelFailed { turn: 1, model: 0, failure, attempts: 1 });
    let reason = &scene.machine.outcome().unwrap().reason;
    assert_eq!(reason.to_string(), "model_failed: quota_exhausted after 1 attempt");
}

#[test]
fn the_third_identical_failing_call_is_not_run_and_going_on_ends_the_run() {
    let mut scene = Scene::new();
    for _ in 0..2 {
        scene.asks(&[("find", r#"{"q":"x"}"#)]).ends(0, Err(Failure::not_found("No x.")));
    }
    for _ in 0..3 {
        scene.asks(&[("find", r#"{ "q" : "x" }"#)]);
    }
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        run 1.0 find {"q":"x"}
        ask 2 All
        run 2.0 find {"q":"x"}
        ask 3 All
        ask 4 All
        ask 5 All
        end stuck: find {"q":"x"}, 5 times
    "#]]);
    assert_eq!(scene.observation(0)["error"], "repeated_failure");
}

#[test]
fn the_same_success_again_and_again_is_nudged_then_stuck_unless_polling() {
    let mut scene = Scene::new();
    for _ in 0..8 {
        scene.asks(&[("find", "{}")]).ends(0, Ok("same"));
    }
    assert_eq!(scene.machine.outcome().unwrap().reason.name(), "stuck");
    assert_eq!(scene.seen.iter().filter(|line| line.starts_with("nudge")).count(), 1);
    let mut scene = Scene::new();
    for _ in 0..12 {
        scene.asks(&[("poll", "{}")]).ends(0, Ok("same"));
    }
    assert!(scene.machine.outcome().is_none());
}

#[test]
fn a_limit_asks_for_last_words_without_tools_and_is_never_completed() {
    let limits = RunLimits { turns: 1, ..RunLimits::default() };
    let mut scene = Scene::with(limits, PanicPolicy::Observe);
    scene.asks(&[("find", "{}")]).ends(0, Ok("half")).says("Half of it.");
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        run 1.0 find {}
        nudge This run has reached its limit of 1 turn, and no more tools can be called. Give the best answer you can from what you know now, and say what is missing.
        ask 2 Nothing
        end limit_reached: turns `Half of it.`
    "#]]);
}

#[test]
fn tokens_and_cost_are_limits() {
    let usage = Usage::new(Tokens(60), Tokens(50));
    for (limits, name) in [
        (RunLimits { tokens: Tokens(100), ..RunLimits::default() }, "tokens"),
        (RunLimits { cost: MicroUsd(50), ..RunLimits::default() }, "cost"),
    ] {
        let mut scene = Scene::with(limits, PanicPolicy::Observe);
        scene.reply(ModelReply { usage: Some(usage), ..asking(&[("find", "{}")]) }).ends(0, Ok("x"));
        scene.says("Best.");
        assert_eq!(scene.machine.outcome().unwrap().reason.to_string(), format!("limit_reached: {name}"));
    }
}

#[test]
fn cancel_answers_every_open_call() {
    let mut scene = Scene::new();
    scene.asks(&[("find", "{}"), ("pay", "{}")]).ends(0, Ok("x"));
    scene.on(RunEvent::CancelRequested { by: "ctrl-c".into() });
    scene.ends(1, Err(Failure::cancelled("Cancelled.").effect(EffectState::Unknown)));
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        run 1.0 find {}
        run 1.1 pay {}
        cancel 1.1 Running
        timer Settle 5s
        end cancelled by ctrl-c
    "#]]);
}

#[test]
fn the_end_of_time_stops_a_model_call() {
    let mut scene = Scene::new();
    scene.wait(Duration::from_secs(3600)).on(RunEvent::TimerFired { timer: RunTimer::WallClock });
    scene.seen(expect![[r#"
        timer WallClock 3600s
        ask 1 All
        cancel model 1
        end limit_reached: wall_clock
    "#]]);
}

#[test]
fn nothing_happens_after_the_end() {
    let mut scene = Scene::new();
    scene.says("Done.");
    let before = scene.machine.clone();
    scene.says("More.").ends(0, Ok("x")).on(RunEvent::CancelRequested { by: "x".into() });
    scene.on(RunEvent::TimerFired { timer: RunTimer::WallClock });
    assert_eq!(scene.machine, before);
}
