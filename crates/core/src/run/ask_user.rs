//! The built-in tool `ask_user`: a call that waits for a person's words.
//!
//! Nothing is occupied while it waits and nothing is spent; only the run's own time goes on. What
//! the person says is an event, so that it replays, and reaches the model as data in a JSON string,
//! never as instructions. Where nobody is there, the model is told at once and asks no more.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    Attendance, CallKey, CallRecord, CallVerdict, Effect, Failure, Json, OnExhausted, Progress, Question,
    StoppedBy, Timestamp, ToolOutput, ToolSpec,
};
use serde::Deserialize;
use serde_json::json;

use super::builtin::Builtin;
use super::slots::{Slot, SlotState, Slots};
use super::{Phase, RunEffect, RunMachine};

pub(crate) const NAME: &str = "ask_user";

const DESCRIPTION: &str = "Ask the user one question and wait for the answer. Ask only what you cannot find \
     out yourself and cannot sensibly assume.";

/// What the model sees of the tool.
pub(super) fn spec() -> ToolSpec {
    let parameters = json!({
        "type": "object",
        "properties": {
            "question": {
                "type": "string",
                "minLength": 1,
                "description": "The question, with what the user must know to answer it.",
            },
            "choices": {
                "type": "array",
                "items": { "type": "string", "minLength": 1 },
                "maxItems": 20,
                "description": "Answers to choose from, if there are only a few. The user may still say something else.",
            },
        },
        "required": ["question"],
        "additionalProperties": false,
    });
    ToolSpec {
        effect: Effect::ReadOnly,
        on_exhausted: OnExhausted::Observe,
        ..ToolSpec::new(NAME, DESCRIPTION, parameters)
    }
}

/// The arguments; they have been held against the schema.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Asked {
    question: String,
    choices: Vec<String>,
}

impl RunMachine {
    /// The questions that wait for an answer, in the order of the calls.
    pub fn questions(&self) -> Vec<Question> {
        match &self.phase {
            Phase::Calling(slots) => {
                self.waiting(slots).map(|(call, slot)| self.question(call, slot)).collect()
            }
            Phase::Created
            | Phase::Summarising(_)
            | Phase::Asking { .. }
            | Phase::Settling { .. }
            | Phase::Ended(_) => Vec::new(),
        }
    }

    fn waiting<'s>(&self, slots: &'s Slots) -> impl Iterator<Item = (CallKey, &'s Slot)> {
        let agent = &self.spec.agent;
        slots.open_calls().filter(|(_, slot)| Builtin::of(agent, &slot.call.name) == Some(Builtin::AskUser))
    }

    fn question(&self, call: CallKey, slot: &Slot) -> Question {
        let Asked { question, choices } = slot.call.arguments.to().unwrap_or_default();
        let redacted = |text: String| self.spec.redactor.text(&text).into();
        Question { call, question: redacted(question), choices: choices.into_iter().map(redacted).collect() }
    }

    /// Asks, or answers at once where nobody is there to be asked.
    pub(super) fn ask_user(
        &mut self,
        now: Timestamp,
        call: CallKey,
        slots: &mut Slots,
        effects: &mut Vec<RunEffect>,
    ) {
        if self.attendance == Attendance::Unattended {
            // The tool is of no use for the rest of the run, so the model is not shown it again.
            let rest = self.deadline().since(now);
            let failure = self.withdrawn.take_out(now, &NAME.into(), rest, nobody());
            let record = record(CallVerdict::Failed(failure), Some(StoppedBy::Permanent));
            return self.take_end(now, slots, call, record, effects);
        }
        effects.extend(self.open_question(slots, call));
    }

    /// The question that this call asks, if it waits for an answer.
    pub(super) fn open_question(&self, slots: &Slots, call: CallKey) -> Option<RunEffect> {
        let slot = slots.slot(call).filter(|slot| matches!(slot.state, SlotState::Running(_)))?;
        Builtin::of(&self.spec.agent, &slot.call.name).filter(|builtin| *builtin == Builtin::AskUser)?;
        Some(RunEffect::Report(Progress::InputRequested(self.question(call, slot))))
    }

    /// The user's words for an open question; for anything else they change nothing.
    pub(super) fn input_given(
        &mut self,
        now: Timestamp,
        slots: Slots,
        call: CallKey,
        text: Arc<str>,
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        if !self.waiting(&slots).any(|(key, _)| key == call) {
            return Phase::Calling(slots);
        }
        let record = record(CallVerdict::Succeeded(observed(&text)), None);
        effects.push(RunEffect::Report(Progress::InputGiven { call, text }));
        self.call_ended(now, slots, call, record, effects)
    }

    /// Answers every open question of a run that is ending.
    pub(super) fn drop_questions(&mut self, now: Timestamp, slots: &mut Slots, effects: &mut Vec<RunEffect>) {
        let open: Vec<CallKey> = self.waiting(slots).map(|(call, _)| call).collect();
        for call in open {
            let failure = Failure::cancelled("The run was stopped before the user answered.");
            let record = record(CallVerdict::Failed(failure), Some(StoppedBy::Cancelled));
            self.take_end(now, slots, call, record, effects);
        }
    }
}

/// No attempt is made and nothing is waited for that a retry could have spared.
const fn record(verdict: CallVerdict, stopped_by: Option<StoppedBy>) -> CallRecord {
    CallRecord { verdict, attempts: 0, waited: Duration::ZERO, stopped_by, out_for: None, by: None }
}

fn nobody() -> Failure {
    Failure::no_results("Nobody is there to answer questions in this run.")
        .hint("Go on with the assumption that fits best, and say in your answer what you assumed.")
}

/// A person's words inside a JSON string, where they cannot be taken for anything else.
fn observed(text: &str) -> ToolOutput {
    let observed = match text.trim() {
        "" => json!({
            "answered_by": "user",
            "answer": null,
            "note": "The user was asked and gave no answer. Go on with the assumption that fits best.",
        }),
        words => json!({ "answered_by": "user", "answer": words }),
    };
    ToolOutput::text(Json::from(observed).as_str())
}
