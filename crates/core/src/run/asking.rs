//! Asks the model, once the conversation fits its window; and what follows when it did not.

use std::collections::BTreeSet;
use std::sync::Arc;

use dauntless_contract::{
    CallKey, Failure, FailureCode, History, LimitKind, Observation, Progress, StopReason, Timestamp,
    ToolCall, ToolOutput, ToolSpec,
};
use serde::{Deserialize, Serialize};

use super::slots::{Cut, SlotState, Slots};
use super::{Offer, Phase, Purpose, RunEffect, RunMachine, nudge};
use crate::context::{Fit, Plan, Room, Trimmed};
use crate::observation;
use crate::toolbox::Fingerprint;

/// A turn that waits for a summary before its model is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Summarising {
    pub(super) turn: u32,
    pub(super) model: u32,
    /// Made again from the plan where the run is restored: the conversation is there already.
    #[serde(skip)]
    pub(super) request: Arc<History>,
    purpose: Purpose,
    plan: Plan,
}

impl Summarising {
    pub(super) fn is_for(&self, turn: u32, model: u32) -> bool {
        (self.turn, self.model) == (turn, model)
    }

    /// Makes the request again, from the conversation that it is about.
    pub(super) fn restore(&mut self, history: &History) {
        self.request = self.plan.request(history);
    }
}

impl RunMachine {
    /// Asks the model, or first for a summary of what no longer fits its window.
    pub(super) fn ask_model(
        &mut self,
        now: Timestamp,
        model: u32,
        purpose: Purpose,
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        // The newest observations answer the turn before this one.
        let answered = self.turn.saturating_sub(1);
        self.context.take_in(&self.history, answered);
        self.lost = 0;
        let turn = self.turn;
        if let Some(room) = self.room(model, &purpose)
            && let Fit::Summary { plan, request } = self.fit(room, effects)
        {
            return self.summarise(Summarising { turn, model, request, purpose, plan }, effects);
        }
        if let Err((failure, attempts)) = self.context.may_send(model, self.tool_tokens(&purpose)) {
            let failure = unfit(failure, "Nothing more can be left out of it.");
            return self.model_failed(now, purpose, failure, attempts, effects);
        }
        self.request(now, model, purpose, effects)
    }

    /// Sends the conversation as it is to the model.
    pub(super) fn request(
        &mut self,
        now: Timestamp,
        model: u32,
        purpose: Purpose,
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        let (turn, deadline) = (self.turn, self.deadline());
        let (offer, built_in) = match purpose {
            Purpose::LastWords(_) => (Offer::Nothing, Vec::new()),
            Purpose::Work => {
                let out = self.withdrawn.names(now).into_iter().chain(self.rejected.iter().cloned());
                let out: BTreeSet<_> = out.chain(self.out_of_reach()).collect();
                let offer =
                    if out.is_empty() { Offer::All } else { Offer::Without(out.into_iter().collect()) };
                (offer, self.built_in())
            }
        };
        effects.push(RunEffect::CallModel { turn, model, offer, built_in, deadline });
        Phase::Asking { turn, model, purpose }
    }

    /// Asks for a summary.
    pub(super) fn summarise(&self, waiting: Summarising, effects: &mut Vec<RunEffect>) -> Phase {
        let Summarising { turn, model, ref request, .. } = waiting;
        let (history, deadline) = (Arc::clone(request), self.deadline());
        effects.push(RunEffect::Summarise { turn, model, history, deadline });
        Phase::Summarising(waiting)
    }

    fn built_in(&self) -> Vec<Arc<ToolSpec>> {
        self.context.reader(&self.spec.toolbox).into_iter().cloned().collect()
    }

    fn tool_tokens(&self, purpose: &Purpose) -> u64 {
        match purpose {
            Purpose::LastWords(_) => 0,
            Purpose::Work => {
                self.spec.toolbox.declared_tokens() + self.context.reader_tokens(&self.spec.toolbox)
            }
        }
    }

    /// The room for the next request of this model, if anything is known of its window.
    fn room(&mut self, number: u32, purpose: &Purpose) -> Option<Room> {
        let tools = self.tool_tokens(purpose);
        let room = self.context.room(number, self.model(number), tools)?;
        match self.context.sharpen(&self.history, self.spec.model.counter.as_ref(), room) {
            true => self.context.room(number, self.model(number), tools),
            false => Some(room),
        }
    }

    fn fit(&mut self, room: Room, effects: &mut Vec<RunEffect>) -> Fit {
        let (fit, trimmed) = self.context.fit(&mut self.history, room, &self.spec.toolbox);
        effects.extend(trimmed.map(|trimmed| self.told(trimmed)));
        fit
    }

    fn told(&self, Trimmed { trim, before, after }: Trimmed) -> RunEffect {
        RunEffect::Report(Progress::ContextTrimmed { turn: self.turn, trim, before, after })
    }

    /// The summary is here, or none can be had: what it was for goes, and the turn goes on.
    pub(super) fn summarised(
        &mut self,
        now: Timestamp,
        waiting: Summarising,
        summary: Option<&str>,
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        let Summarising { turn: _, model, request: _, purpose, plan } = waiting;
        let summary = summary.filter(|text| !text.trim().is_empty());
        if let Some(room) = self.room(model, &purpose) {
            let trimmed = self.context.replace(&mut self.history, plan, summary, room);
            effects.push(self.told(trimmed));
        }
        let purpose = match (purpose, self.reached_limit()) {
            // A summary is no turn, but it is paid for.
            (Purpose::Work, Some(limit @ (LimitKind::Tokens | LimitKind::Cost))) => {
                self.nudge(nudge::last_words(limit, &self.limits, self.form()), effects);
                Purpose::LastWords(limit)
            }
            (purpose, _) => purpose,
        };
        self.ask_model(now, model, purpose, effects)
    }

    /// The model failed: the next one is asked, or the same with less, or the run ends.
    pub(super) fn model_gave_up(
        &mut self,
        now: Timestamp,
        model: u32,
        purpose: Purpose,
        (failure, attempts): (Failure, u32),
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        self.totals.model_attempts += attempts;
        if now >= self.deadline() {
            let phase = Phase::Asking { turn: self.turn, model, purpose };
            return self.stop_early(now, phase, StopReason::LimitReached(LimitKind::WallClock), effects);
        }
        if self.reject_tool(now, &purpose, &failure, effects) {
            return self.ask_model(now, model, purpose, effects);
        }
        match (self.fallback_for(model, &failure), failure.code) {
            (Some(next), _) => self.ask_fallback(now, next, purpose, (&failure, attempts), effects),
            (None, FailureCode::TooLarge) => {
                self.too_large(now, model, purpose, (failure, attempts), effects)
            }
            (None, _) => self.model_failed(now, purpose, failure, attempts, effects),
        }
    }

    /// The provider refused the conversation as too large: it is made smaller and sent again, a few
    /// times at most.
    fn too_large(
        &mut self,
        now: Timestamp,
        model: u32,
        purpose: Purpose,
        (failure, attempts): (Failure, u32),
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        let window = self.model(model).context_window;
        if let Err(attempts) = self.context.overflowed(model, window, &failure, attempts) {
            let failure = unfit(&failure, "It was made shorter several times, and was refused each time.");
            return self.model_failed(now, purpose, failure, attempts, effects);
        }
        let (turn, code, wait) = (self.turn, failure.code, std::time::Duration::ZERO);
        effects.push(RunEffect::Report(Progress::ModelRetried { turn, attempt: attempts, code, wait }));
        self.ask_model(now, model, purpose, effects)
    }

    /// What the model reads of a success. What is cut is kept for it to read.
    pub(super) fn observe(&mut self, call: CallKey, output: &ToolOutput, by: &ToolSpec) -> Observation {
        let is_cut = output.text.len() > by.output_bytes_max;
        let kept = is_cut.then(|| self.context.keep(call, &output.text, &self.spec.toolbox)).flatten();
        observation::success_kept(output, by, kept)
    }

    /// Answers a call of a tool that the run has itself. None for every other.
    pub(super) fn answer_itself(
        &mut self,
        call: &ToolCall,
        fingerprint: &Fingerprint,
        spec: &Arc<ToolSpec>,
        slots: &mut Slots,
        effects: &mut Vec<RunEffect>,
    ) -> Option<Result<(), Failure>> {
        let text = match self.context.answer(spec, &call.arguments)? {
            Ok(text) => text,
            Err(failure) => return Some(Err(failure)),
        };
        self.guard.succeeded(fingerprint, &ToolOutput { text: Arc::clone(&text) }, spec.polling);
        let (call_id, tool) = (Arc::clone(&call.id), Arc::clone(&call.name));
        let state =
            SlotState::Answered { observation: Observation { text }, cut: Cut::Whole, terminal: None };
        let call = slots.push(call.clone(), fingerprint.clone(), state);
        effects.push(RunEffect::Report(Progress::CallEnded {
            call,
            call_id,
            tool,
            code: None,
            message: None,
            attempts: 0,
            waited: std::time::Duration::ZERO,
            stopped_by: None,
        }));
        Some(Ok(()))
    }
}

/// The refusal, with what was tried against it.
fn unfit(failure: &Failure, tried: &str) -> Failure {
    Failure { message: format!("{} {tried}", failure.message).into(), ..failure.clone() }
}
