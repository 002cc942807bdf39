//! What the models and tools of a world do: ask others, use tools, answer, fail, or nothing at all.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    CallKey, CallRecord, CallVerdict, EffectState, Failure, FailureCode, Finish, Json, ModelReply, RawCall,
    Tokens, ToolOutput, Usage,
};
use dauntless_core::run::{Offer, RunSpec};
use serde_json::json;

use super::world::{ACT, LOOK, Temper, one_of};
use crate::simulator::chance::Chance;

/// The longest reply of a model that has a limit.
pub(super) const REPLY_TOKENS_MAX: u32 = 60;

/// A word in good answers, which the rules of plans look for.
pub(super) const GOOD: &str = "good";

/// What a model's request comes to.
pub(super) enum Thought {
    Reply(ModelReply),
    Failure(Failure),
    /// It never answers.
    Nothing,
}

/// What an agent says when it is done. Nobody else says it.
pub(super) fn answer(run: u32) -> String {
    format!("answer-{run}")
}

/// What an agent says on the way there. It is no answer, wherever it turns up.
pub(super) fn partial(run: u32) -> String {
    format!("partial-{run}")
}

/// One run that asks its model.
pub(super) struct Asking<'a> {
    pub(super) number: u32,
    pub(super) goal: &'a str,
    pub(super) spec: &'a RunSpec,
    pub(super) offer: &'a Offer,
    /// What the last request used, and the longest reply so far.
    pub(super) before: Option<(Usage, Tokens)>,
}

impl Asking<'_> {
    pub(super) fn think(&self, temper: &Temper, chance: &mut Chance) -> Thought {
        if chance.percent(temper.unable) {
            return self.is_unable(temper, chance);
        }
        if *self.offer == Offer::Nothing {
            return Thought::Reply(self.reply(Some(partial(self.number)), Vec::new(), temper, chance));
        }
        // The first turn seldom ends it, so that trees grow.
        if chance.percent(if self.before.is_none() { 5 } else { 25 }) {
            let good = if chance.percent(40) { format!(" {GOOD}") } else { String::new() };
            let said = answer(self.number) + &good;
            return Thought::Reply(self.reply(Some(said), Vec::new(), temper, chance));
        }
        let calls = (0..chance.count(1, 4)).map(|index| self.call(index, temper, chance)).collect();
        let said = chance.percent(30).then(|| partial(self.number));
        Thought::Reply(self.reply(said, calls, temper, chance))
    }

    fn is_unable(&self, temper: &Temper, chance: &mut Chance) -> Thought {
        const CODES: [FailureCode; 4] = [
            FailureCode::Unavailable,
            FailureCode::Unauthenticated,
            FailureCode::QuotaExhausted,
            FailureCode::Crashed,
        ];
        let mut reply = self.reply(None, Vec::new(), temper, chance);
        match chance.below(12) {
            0 => return Thought::Nothing,
            1..=4 => {
                let code = one_of(&CODES, chance).copied().unwrap_or(FailureCode::Unavailable);
                let failure =
                    Failure::with_effect(code, EffectState::None, "A simulated fault of the model.");
                return Thought::Failure(failure);
            }
            5 => reply.refusal = Some("No.".into()),
            6 => reply.finish = Finish::ContentFilter,
            7..=8 => {
                reply.text = Some(partial(self.number).into());
                reply.finish = Finish::Length;
            }
            _ => {}
        }
        Thought::Reply(reply)
    }

    fn call(&self, index: u32, temper: &Temper, chance: &mut Chance) -> RawCall {
        let links: Vec<&Arc<str>> = self.spec.links.agents().collect();
        let agent = one_of(&links, chance).filter(|_| chance.percent(temper.delegates));
        let (name, arguments) = match agent {
            Some(agent) => {
                // The same goal again and again, so that some go round.
                let goal = match chance.below(4) {
                    0 => self.goal.to_owned(),
                    _ => format!("Part {}.", chance.below(6)),
                };
                (Arc::clone(agent), json!({ "goal": goal }).to_string())
            }
            None => {
                let name = if chance.percent(70) { LOOK } else { ACT };
                (name.into(), json!({ "n": chance.below(1000) }).to_string())
            }
        };
        let (name, arguments) = match chance.below(50) {
            0 => ("luuk".into(), arguments),
            1 => (name, "{\"n\": ".to_owned()),
            _ => (name, arguments),
        };
        RawCall { id: format!("c{index}").into(), name, arguments: arguments.into(), garbled: None }
    }

    fn reply(
        &self,
        text: Option<String>,
        calls: Vec<RawCall>,
        temper: &Temper,
        chance: &mut Chance,
    ) -> ModelReply {
        let longest = self.spec.model.output_tokens_max.unwrap_or(2 * REPLY_TOKENS_MAX);
        let prompt = match self.before {
            Some((last, _)) if chance.percent(temper.wordy) => last.total().0 + chance.between(1, 300),
            Some((last, _)) => last.total().0,
            None => chance.between(10, 200),
        };
        let usage = Usage::new(Tokens(prompt), Tokens(chance.between(1, longest.into())));
        let base = if calls.is_empty() { ModelReply::text("") } else { ModelReply::calls(calls) };
        ModelReply { text: text.map(Into::into), usage: Some(usage), ..base }
    }
}

/// How a call of a tool ends, and whether it changed the world.
pub(super) fn work(tool: &str, call: CallKey, chance: &mut Chance) -> (CallVerdict, bool) {
    match (tool, chance.below(10)) {
        (LOOK, 0) => (CallVerdict::Failed(Failure::not_found("It is not there.")), false),
        (LOOK, _) => (CallVerdict::Succeeded(ToolOutput::text(did(call))), false),
        (_, 0) => (CallVerdict::Failed(Failure::conflict("Not now.").effect(EffectState::None)), false),
        (_, 1) => (CallVerdict::Failed(Failure::outcome_unknown("No answer came.")), true),
        (_, _) => (CallVerdict::Succeeded(ToolOutput::text(did(call))), true),
    }
}

/// What a tool answers to a call.
pub(super) fn did(call: CallKey) -> String {
    Json::from(json!(format!("did {call}"))).as_str().to_owned()
}

/// The record of one attempt.
pub(super) fn record(verdict: CallVerdict) -> CallRecord {
    CallRecord { verdict, attempts: 1, waited: Duration::ZERO, stopped_by: None, out_for: None, by: None }
}
