//! The model of a simulation: asks for calls, good and bad, fails at times, and answers in the end.
//!
//! It stands where a provider stands, so it also holds each conversation it is shown against what a
//! provider would take, and against what it said itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dauntless_contract::{
    BoxFuture, EffectState, Failure, FailureCode, Finish, Json, Message, Model, ModelCtx, ModelReply,
    ModelRequest, ModelSpec, Price, RawCall, ResiliencePolicy, RunId, ToolSpec,
};

use super::chance::Chance;
use super::history::Fact;
use super::stage::{Faults, Stage};
use crate::CallAccounting;

/// The goal of a run whose outcome alone is awaited starts with this and ends with its number.
pub(super) const GOAL: &str = "Do the work of run ";

pub(super) struct SeededModel {
    spec: Arc<ModelSpec>,
    stage: Stage,
    /// Arguments that fit, for tools whose schema is not known here.
    arguments: Arc<BTreeMap<Arc<str>, Json>>,
    state: Mutex<State>,
}

struct State {
    chance: Chance,
    runs: BTreeMap<RunId, Conversation>,
}

/// What the model remembers of one run.
#[derive(Default)]
struct Conversation {
    /// The turn after which it answers.
    turns: u32,
    /// The ids it asked for, by turn; several sets where a turn was tried again.
    asked: BTreeMap<u32, Vec<Vec<Arc<str>>>>,
    /// How many messages it was last shown, and the last of them.
    shown: Option<(usize, Message)>,
}

impl SeededModel {
    pub(super) fn new(stage: Stage, seed: u64, arguments: Arc<BTreeMap<Arc<str>, Json>>) -> Self {
        let resilience = ResiliencePolicy {
            attempt_timeout: Duration::from_secs(10),
            deadline: Duration::from_secs(40),
            ..ResiliencePolicy::for_model()
        };
        let spec = ModelSpec {
            name: "simulated".into(),
            provider: "simulated".into(),
            price: Price::default(),
            output_tokens_max: None,
            context_window: None,
            counter: None,
            resilience,
        };
        let state = State { chance: Chance::new(seed, 1), runs: BTreeMap::new() };
        Self { spec: Arc::new(spec), stage, arguments, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is wrong with a conversation, if anything is.
    fn flaw(&self, ctx: &ModelCtx, messages: &[Message]) -> Option<String> {
        let mut state = self.state();
        let known = state.runs.entry(ctx.run).or_default();
        let mut books = CallAccounting::default();
        books.see_history(messages);
        if let Err(problems) = books.check() {
            return Some(problems.join("; "));
        }
        if let Some((count, last)) = &known.shown
            && messages.get(count.saturating_sub(1)) != Some(last)
        {
            return Some("what was shown before was changed".to_owned());
        }
        known.shown = messages.last().map(|last| (messages.len(), last.clone()));
        let answered = messages.iter().rev().find_map(|message| match message {
            Message::Assistant { calls, .. } => Some(calls),
            Message::System { .. } | Message::User { .. } | Message::Tool { .. } => None,
        })?;
        let asked = known.asked.get(&ctx.turn.saturating_sub(1))?;
        // A reply without anything leaves no trace in the conversation.
        let same =
            |ids: &Vec<Arc<str>>| ids.is_empty() || ids.iter().eq(answered.iter().map(|call| &call.id));
        (!asked.iter().any(same)).then(|| "the calls of the last turn are not those asked for".to_owned())
    }

    fn reply(&self, ctx: &ModelCtx, tools: &[Arc<ToolSpec>]) -> Thought {
        let calm = self.stage.faults() == Faults::Off;
        let mut state = self.state();
        let State { chance, runs } = &mut *state;
        let known = runs.entry(ctx.run).or_default();
        if calm {
            let calls: Vec<RawCall> = match ctx.turn {
                1 => tools.iter().zip(0_u32..).map(|(tool, index)| self.good(tool, index, chance)).collect(),
                _ => Vec::new(),
            };
            let reply = if calls.is_empty() { ModelReply::text("done") } else { ModelReply::calls(calls) };
            return Thought { wait: Duration::ZERO, says: Says::Reply(reply) };
        }
        if known.turns == 0 {
            known.turns = chance.count(1, 4);
        }
        let wait = chance.length_ms(0, 1500);
        let says = match chance.below(100) {
            0 => Says::Panic,
            1..=2 => Says::Hang,
            3..=9 => Says::Failure(model_failure(chance)),
            10..=12 => Says::Reply(ModelReply::text("")),
            13 => Says::Reply(ModelReply::text("<tool_call>{\"name\": \"work\"}</tool_call>")),
            14 => Says::Reply(ModelReply { finish: Finish::Length, ..ModelReply::text("I was about to") }),
            _ if ctx.turn > known.turns || tools.is_empty() => Says::Reply(ModelReply::text("done")),
            _ => Says::Reply(self.calls(tools, chance)),
        };
        if let Says::Reply(reply) = &says {
            let ids = reply.calls.iter().map(|call| Arc::clone(&call.id)).collect();
            known.asked.entry(ctx.turn).or_default().push(ids);
        }
        Thought { wait, says }
    }

    /// One to eight calls, some of them no good.
    fn calls(&self, tools: &[Arc<ToolSpec>], chance: &mut Chance) -> ModelReply {
        let count = if chance.percent(10) { 8 } else { chance.count(1, 4) };
        let calls = (0..count).filter_map(|index| self.call(tools, index, chance)).collect();
        let finish = if chance.percent(5) { Finish::Length } else { Finish::ToolCalls };
        ModelReply { finish, ..ModelReply::calls(calls) }
    }

    fn call(&self, tools: &[Arc<ToolSpec>], index: u32, chance: &mut Chance) -> Option<RawCall> {
        let place = usize::try_from(chance.below(tools.len() as u64)).ok()?;
        let mut call = self.good(tools.get(place)?, index, chance);
        match chance.below(100) {
            0..=2 => call.name = "worc".into(),
            3..=4 => call.arguments = r#"{"n": "#.into(),
            5..=6 => call.arguments = r#"{"n": "many"}"#.into(),
            7 => call.garbled = Some("Two calls share one index.".into()),
            _ => {}
        }
        Some(call)
    }

    fn good(&self, tool: &ToolSpec, index: u32, chance: &mut Chance) -> RawCall {
        let arguments = match self.arguments.get(&tool.name) {
            Some(known) => known.as_str().into(),
            // Seldom the same twice, so that the guard against loops ends few runs.
            None => {
                let different = if chance.percent(10) { 2 } else { 1000 };
                format!(r#"{{"n": {}}}"#, chance.below(different)).into()
            }
        };
        // Real models use the same ids on every turn.
        RawCall { id: format!("c{index}").into(), name: Arc::clone(&tool.name), arguments, garbled: None }
    }
}

struct Thought {
    wait: Duration,
    says: Says,
}

enum Says {
    Reply(ModelReply),
    Failure(Failure),
    Hang,
    Panic,
}

fn model_failure(chance: &mut Chance) -> Failure {
    let code = match chance.below(20) {
        0..=8 => FailureCode::Unavailable,
        9..=13 => FailureCode::ConnectionFailed,
        14..=17 => FailureCode::RateLimited,
        18 => FailureCode::QuotaExhausted,
        _ => FailureCode::InvalidArguments,
    };
    let failure = Failure::with_effect(code, EffectState::Unknown, "A simulated fault of the model.");
    match code {
        FailureCode::RateLimited if chance.percent(50) => failure.retry_after(chance.length_ms(0, 5000)),
        _ => failure,
    }
}

impl Model for SeededModel {
    fn spec(&self) -> &Arc<ModelSpec> {
        &self.spec
    }

    fn call(&self, ctx: ModelCtx, request: ModelRequest) -> BoxFuture<'_, Result<ModelReply, Failure>> {
        Box::pin(async move {
            let messages = request.history.messages();
            if let Some(number) = messages.iter().find_map(number_of_goal) {
                self.stage.name_run(ctx.run, number);
            }
            let flaw = self.flaw(&ctx, messages);
            let who = self.stage.who(ctx.run);
            self.stage.note(Fact::ModelAsked { who, turn: ctx.turn, attempt: ctx.attempt, flaw });
            let Thought { wait, says } = self.reply(&ctx, &request.tools);
            drop(request);
            tokio::time::sleep(wait).await;
            match says {
                Says::Reply(reply) => Ok(reply),
                Says::Failure(failure) => Err(failure),
                Says::Hang => std::future::pending().await,
                Says::Panic => std::panic::resume_unwind(Box::new("a simulated defect of the model")),
            }
        })
    }
}

fn number_of_goal(message: &Message) -> Option<u32> {
    match message {
        Message::User { text } => text.strip_prefix(GOAL)?.strip_suffix('.')?.parse().ok(),
        Message::System { .. } | Message::Assistant { .. } | Message::Tool { .. } => None,
    }
}
