//! What a reply of the model leads to: an end, a nudge, or calls.

use std::sync::Arc;

use dauntless_contract::{Finish, ModelReply, StopReason, Timestamp, Tokens, Usage};

use super::asking::Summarising;
use super::nudge::{self, Dud};
use super::slots::Slots;
use super::{Phase, Purpose, RunEffect, RunMachine};
use crate::prose;

impl RunMachine {
    pub(super) fn replied(
        &mut self,
        now: Timestamp,
        model: u32,
        purpose: Purpose,
        (reply, attempts): (ModelReply, u32),
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        self.totals.model_attempts += attempts;
        self.context.replied(model, reply.usage);
        if let Some(usage) = reply.usage {
            self.charge(model, usage);
        }
        match purpose {
            Purpose::LastWords(limit) => {
                let text = reply.text.or_else(|| self.history.last_assistant_text().cloned());
                self.end(now, StopReason::LimitReached(limit), None, text, effects)
            }
            Purpose::Work => self.worked(now, reply, effects),
        }
    }

    /// A summary came in place of a turn's reply. A refusal is none.
    pub(super) fn summary_replied(
        &mut self,
        now: Timestamp,
        waiting: Summarising,
        (reply, attempts): (ModelReply, u32),
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        self.totals.model_attempts += attempts;
        if let Some(usage) = reply.usage {
            let foresight = self.foresight;
            self.charge(waiting.model, usage);
            // The prompt of a summary says nothing about the next turn's.
            self.foresight = foresight;
        }
        let held_back = reply.refusal.is_some() || reply.finish == Finish::ContentFilter;
        let text = reply.text.filter(|_| !held_back);
        self.summarised(now, waiting, text.as_deref(), effects)
    }

    fn charge(&mut self, model: u32, usage: Usage) {
        self.totals.usage += usage;
        self.foresight.saw(usage);
        self.totals.cost += self.model(model).price.of(usage);
    }

    fn worked(&mut self, now: Timestamp, reply: ModelReply, effects: &mut Vec<RunEffect>) -> Phase {
        if let Some(words) = reply.refusal {
            return self.end(now, StopReason::ModelRefusal, Some(words), reply.text, effects);
        }
        if reply.finish == Finish::ContentFilter {
            let why = "The provider's content filter held the reply back.";
            return self.end(now, StopReason::ContentFiltered, Some(why.into()), reply.text, effects);
        }
        if !reply.calls.is_empty() {
            let slots = Slots::open(self.turn, &reply);
            return self.take_calls(now, slots, reply, effects);
        }
        let text = reply.text.clone().filter(|text| !text.trim().is_empty());
        match text {
            // Before the cut: a model that repeats a call as text until the limit has to learn to call.
            Some(text)
                if reply.finish == Finish::Length && prose::looks_like_call(&text, &self.spec.toolbox) =>
            {
                Arc::make_mut(&mut self.history).answer(text, reply.extra);
                self.dud(now, Dud::Prose, nudge::prose(self.form()), effects)
            }
            Some(text) if reply.finish == Finish::Length => {
                Arc::make_mut(&mut self.history).answer(text, reply.extra);
                self.dud(now, Dud::Cut, nudge::cut(reply.output_limit), effects)
            }
            Some(text) => self.answered(now, text, reply.extra, effects),
            None if reply.finish == Finish::Length => {
                self.dud(now, Dud::Cut, nudge::cut(reply.output_limit), effects)
            }
            None => {
                let hidden = reply.usage.map_or(Tokens::ZERO, |usage| usage.completion);
                self.dud(now, Dud::Empty, nudge::empty(hidden.0, self.form()), effects)
            }
        }
    }

    /// A reply that leads nowhere: one nudge and another turn, or the end after too many.
    pub(super) fn dud(
        &mut self,
        now: Timestamp,
        dud: Dud,
        words: Arc<str>,
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        if let Some(reason) = self.unproductive.count(dud) {
            // What was written as a call or came to nothing is no partial answer.
            let text = match dud {
                Dud::Cut => self.history.last_assistant_text().cloned(),
                Dud::Empty | Dud::Prose => None,
            };
            return self.end(now, reason, None, text, effects);
        }
        self.nudge(words, effects);
        self.next_turn(now, effects)
    }
}
