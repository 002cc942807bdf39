//! Whole journals of runs, as programs before this one wrote them: each must still be folded, to the
//! same decisions and the same conversation.
//!
//! A journal is a file in `tests/journals`: the agent in its first line, then an event a line, in the
//! stored form. No line of it is ever changed. Beside it is what its run decided, written by this
//! test for a person to read: `UPDATE_EXPECT=1 cargo nextest run -p dauntless-tests journals`.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dauntless_contract::{
    AgentSpec, AnswerSchema, AnswerSpec, Bucket, Effect, MicroUsd, ModelSpec, OnExhausted, PanicPolicy,
    Price, Progress, Recorded, ResiliencePolicy, RunId, Seq, Snapshot, Timestamp, Tokens, ToolSpec,
};
use dauntless_core::redact::Redactor;
use dauntless_core::run::{
    AnswerShape, FOLD_VERSION, ModelFallback, Recovery, RunEffect, RunMachine, RunSpec, Verification, toolbox,
};
use dauntless_core::tree::Delegation;
use expect_test::expect_file;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

const RUN: RunId = RunId::from_u128(1);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Agent {
    agent: String,
    #[serde(default)]
    instructions: String,
    #[serde(default)]
    ask_user: bool,
    #[serde(default)]
    answer: Option<Value>,
    models: Vec<ModelOf>,
    #[serde(default)]
    tools: Vec<ToolOf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelOf {
    name: String,
    #[serde(default)]
    on: Vec<Bucket>,
    #[serde(default)]
    context_window: Option<Tokens>,
    #[serde(default)]
    input_per_million: MicroUsd,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolOf {
    name: String,
    #[serde(default)]
    effect: Effect,
    #[serde(default)]
    on_exhausted: OnExhausted,
    #[serde(default)]
    fallback: Option<Arc<str>>,
    #[serde(default)]
    parameters: Option<Value>,
}

/// An event as a store has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    at: Timestamp,
    kind: String,
    v: u16,
    #[serde(borrow)]
    body: &'a RawValue,
}

impl Agent {
    fn spec(self) -> RunSpec {
        let schema = self.answer.map(|schema| AnswerSchema { name: "answer".into(), schema: schema.into() });
        let agent = AgentSpec {
            name: self.agent.into(),
            instructions: self.instructions.into(),
            on_panic: PanicPolicy::Observe,
            answer: schema.map(|schema| AnswerSpec::new(Arc::new(schema))),
            ask_user: self.ask_user,
            notes: false,
            messages: false,
        };
        let tools = self.tools.into_iter().map(|tool| Arc::new(tool.spec())).collect();
        let (toolbox, quarantined) = toolbox(&agent, tools);
        assert!(quarantined.is_empty(), "{quarantined:?}");
        let mut models = self.models.into_iter().map(ModelOf::fallback);
        RunSpec {
            answer: agent.answer.as_ref().map(|answer| AnswerShape::compile(answer).unwrap()),
            agent,
            toolbox,
            model: models.next().unwrap().model,
            fallbacks: models.collect(),
            redactor: Redactor::new([], &[]).unwrap(),
            links: Default::default(),
        }
    }
}

impl ModelOf {
    fn fallback(self) -> ModelFallback {
        let price = Price { input_per_million: self.input_per_million, ..Price::default() };
        let model = ModelSpec {
            name: self.name.into(),
            provider: "none".into(),
            price,
            output_tokens_max: None,
            context_window: self.context_window,
            counter: None,
            resilience: ResiliencePolicy::for_model(),
        };
        ModelFallback { model: Arc::new(model), on: self.on }
    }
}

impl ToolOf {
    fn spec(self) -> ToolSpec {
        let parameters = self.parameters.unwrap_or_else(|| serde_json::json!({ "type": "object" }));
        let mut spec = ToolSpec::new(self.name.as_str(), format!("Does {}.", self.name), parameters);
        (spec.effect, spec.on_exhausted, spec.fallback) = (self.effect, self.on_exhausted, self.fallback);
        spec
    }
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("journals")
}

#[test]
fn dur_23_a_journal_of_an_earlier_version_folds_to_the_same_run() {
    let mut files: Vec<PathBuf> = folder().read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    assert!(files.len() >= 10, "a journal is gone from {}", folder().display());
    for path in files {
        expect_file![path.with_extension("txt")].assert_eq(&told(&path));
    }
}

/// What the run of a journal decided, event by event, and what came of it.
fn told(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let agent: Agent = serde_json::from_str(lines.next().unwrap()).unwrap();
    let spec = Arc::new(agent.spec());
    let mut machine = RunMachine::new(RUN, Arc::clone(&spec));
    let (mut recovery, mut told) = (Recovery::begin(RUN, Arc::clone(&spec), None), String::new());
    for (line, seq) in lines.zip(1..) {
        let Line { at, kind, v, body } = serde_json::from_str(line).unwrap();
        let event = dauntless_journal::decode(&kind, v, body.get().as_bytes());
        let event = event.unwrap_or_else(|problem| panic!("{} event {seq}: {problem}", path.display()));
        writeln!(told, "{seq} {kind} at {at:?}").unwrap();
        let effects = machine.on(at, event.clone());
        effects
            .iter()
            .filter_map(|effect| shown(effect, at))
            .for_each(|line| told += &format!("    {line}\n"));
        let folded = recovery.fold(Recorded { at, event });
        folded.unwrap_or_else(|error| panic!("{}: {error}\n\n{told}", path.display()));
        recovery = after_a_snapshot(&spec, seq, &machine);
    }
    assert_eq!(recovery.finish().as_ref(), Ok(&machine), "{}", path.display());
    told + &end(&machine)
}

/// The recovery that begins after this event.
fn after_a_snapshot(spec: &Arc<RunSpec>, seq: Seq, machine: &RunMachine) -> Recovery {
    let snapshot = Snapshot { seq, fold_version: FOLD_VERSION, body: machine.snapshot().into() };
    let restored = Recovery::begin(RUN, Arc::clone(spec), Some(&snapshot));
    assert_eq!(restored.seq(), seq, "the snapshot is left aside");
    restored
}

/// An effect as a line, if it is a decision of its own.
fn shown(effect: &RunEffect, now: Timestamp) -> Option<String> {
    let after = |at: Timestamp| at.since(now);
    Some(match effect {
        RunEffect::CallModel { turn, model, offer, built_in, deadline } => {
            let built_in: String = built_in.iter().map(|tool| format!(" and {}", tool.name)).collect();
            format!(
                "ask model {model} in turn {turn}, tools {offer:?}{built_in}, within {:?}",
                after(*deadline)
            )
        }
        RunEffect::Summarise { turn, model, history, deadline } => {
            let bytes: usize = history.messages().iter().map(|message| format!("{message:?}").len()).sum();
            format!(
                "ask model {model} in turn {turn} to summarise {bytes} bytes, within {:?}",
                after(*deadline)
            )
        }
        RunEffect::Dispatch { call, asked, tool, arguments, key_of, attempts_made, deadline: _ } => {
            let key = if key_of == call { String::new() } else { format!(" with the key of {key_of}") };
            let by = if asked == tool { String::new() } else { format!(" in place of {asked}") };
            let made =
                if *attempts_made == 0 { String::new() } else { format!(" after {attempts_made} attempts") };
            format!("call {call} {tool} {arguments}{by}{key}{made}")
        }
        RunEffect::Verify(Verification { call, tool, arguments, key_of, deadline: _ }) => {
            format!("ask {tool} whether {call} happened, with {arguments} and the key of {key_of}")
        }
        RunEffect::Delegate(Delegation { call, attempt, agent, goal, .. }) => {
            format!("delegate {call} to {agent}, try {attempt}: {goal}")
        }
        RunEffect::CancelChild { call, .. } => format!("cancel the run for {call}"),
        RunEffect::CancelCall { call, reach } => format!("cancel {call} {reach:?}"),
        RunEffect::CancelModel { turn } => format!("cancel the model in turn {turn}"),
        RunEffect::StartTimer { timer, at } => format!("timer {timer:?} in {:?}", after(*at)),
        RunEffect::Park { call, tool, at, spread } => {
            format!("park {call} {tool} for {:?}, spread over {spread:?}", after(*at))
        }
        RunEffect::Report(progress) => return reported(progress),
        RunEffect::End => "end".to_owned(),
    })
}

fn reported(progress: &Progress) -> Option<String> {
    Some(match progress {
        Progress::CallEnded { call, code, attempts, waited, .. } => {
            let code = code.map_or("ok", |code| code.as_str());
            format!("{call} ended: {code} after {attempts} attempts and {waited:?} of waiting")
        }
        Progress::Nudged { text, .. } => format!("nudge: {text}"),
        Progress::InputRequested(question) => {
            format!("ask the user in {}: {}", question.call, question.question)
        }
        Progress::ContextTrimmed { trim, before, after, .. } => format!("trim {trim:?}: {before} to {after}"),
        Progress::ModelRetried { code, .. } => format!("ask again after {code}"),
        _ => return None,
    })
}

fn end(machine: &RunMachine) -> String {
    let mut told = "\n".to_owned();
    for message in machine.history().messages() {
        writeln!(told, "{}", serde_json::to_string(message).unwrap()).unwrap();
    }
    match machine.outcome() {
        Some(outcome) => {
            let (text, why) = (outcome.text.as_deref(), outcome.explanation.as_deref());
            writeln!(told, "\n{} after {:?}", outcome.reason, outcome.elapsed).unwrap();
            text.iter().for_each(|text| writeln!(told, "text: {text}").unwrap());
            why.iter().for_each(|why| writeln!(told, "explanation: {why}").unwrap());
        }
        None => told += "\nnot ended\n",
    }
    writeln!(told, "{}", serde_json::to_string(machine.totals()).unwrap()).unwrap();
    told
}
