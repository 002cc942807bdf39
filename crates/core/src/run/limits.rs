//! Whether the run can afford what it is about to do: a limit is reserved before it is spent.
//!
//! Tokens and cost are known only after a request, so the next one is estimated: its prompt is at
//! least the last prompt with the last reply, and its reply as long as the model's output limit
//! or, where there is none, as the longest reply so far. A turn of work begins only if the last
//! words after it can be paid as well. What is not known is what the tools' answers add.

use dauntless_contract::{LimitKind, ModelSpec, RunTotals, StopReason, Timestamp, Tokens, Usage};
use serde::{Deserialize, Serialize};

use super::nudge;
use super::{Phase, Purpose, RunEffect, RunMachine};

/// What the replies so far say about the next request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Foresight {
    prompt: Tokens,
    longest_reply: Tokens,
}

impl Foresight {
    /// Takes what a reply used.
    pub(super) fn saw(&mut self, usage: Usage) {
        self.prompt = usage.prompt + usage.completion;
        self.longest_reply = self.longest_reply.max(usage.completion);
    }

    /// What so many further requests will use; nothing while nothing is known.
    fn of(self, requests: u32, model: &ModelSpec) -> Usage {
        if self == Self::default() {
            return Usage::default();
        }
        let reply = model.output_tokens_max.map_or(self.longest_reply, |most| Tokens(most.into()));
        let mut foreseen = Usage::default();
        let mut prompt = self.prompt;
        for _ in 0..requests {
            foreseen += Usage::new(prompt, reply);
            prompt += reply;
        }
        foreseen
    }
}

impl RunMachine {
    /// Asks the model again, or for its last words when a limit is reached.
    pub(super) fn next_turn(&mut self, now: Timestamp, effects: &mut Vec<RunEffect>) -> Phase {
        self.tell_news(effects);
        self.tell_messages(effects);
        match self.reached_limit() {
            Some(limit) => self.ask_last_words(now, limit, effects),
            None => self.ask(now, Purpose::Work, effects),
        }
    }

    pub(super) fn reached_limit(&self) -> Option<LimitKind> {
        let RunTotals { tool_calls, .. } = self.totals;
        // The turns of its children are in the totals, and are none of its own.
        if self.turn >= self.limits.turns {
            Some(LimitKind::Turns)
        } else if let Some(limit) = self.unaffordable(0, 2) {
            Some(limit)
        } else if tool_calls > self.limits.tool_calls {
            Some(LimitKind::ToolCalls)
        } else {
            None
        }
    }

    /// Which limit so many further requests of a model would pass, if any.
    pub(super) fn unaffordable(&self, model: u32, requests: u32) -> Option<LimitKind> {
        let RunTotals { usage, cost, .. } = self.totals;
        let model = self.model(model);
        let foreseen = self.foresight.of(requests, model);
        let used = usage.total();
        if used >= self.limits.tokens || used + foreseen.total() > self.limits.tokens {
            return Some(LimitKind::Tokens);
        }
        let spent = !model.price.is_free() && cost >= self.limits.cost;
        (spent || cost + model.price.of(foreseen) > self.limits.cost).then_some(LimitKind::Cost)
    }

    /// Asks for the last words, if they fit into what is left of tokens and cost.
    fn ask_last_words(&mut self, now: Timestamp, limit: LimitKind, effects: &mut Vec<RunEffect>) -> Phase {
        if let Some(spent) = self.unaffordable(0, 1) {
            let explanation = format!(
                "There was no last answer: another request would have passed the limit of {}.",
                nudge::amount(spent, &self.limits)
            );
            let text = self.history.last_assistant_text().cloned();
            return self.end(now, StopReason::LimitReached(limit), Some(explanation.into()), text, effects);
        }
        self.nudge(nudge::last_words(limit, &self.limits, self.form()), effects);
        self.ask(now, Purpose::LastWords(limit), effects)
    }
}
