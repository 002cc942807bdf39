//! What becomes of an interrupted call whose tool can tell whether it happened: the tool is asked
//! before anything else, and only its word lets the call be made again.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    CallKey, CallRecord, CallVerdict, EffectState, Failure, Json, StoppedBy, Timestamp, Verified,
    VerifyVerdict,
};

use super::dispatch::carried;
use super::interrupted::{lost, unknown};
use super::slots::{Running, SlotState, Slots, Stage};
use super::{Phase, RunEffect, RunMachine};

/// The question whether an interrupted call happened. It changes nothing, however often it is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Verification {
    /// The call; the answer names it.
    pub call: CallKey,
    /// The tool that worked on it.
    pub tool: Arc<str>,
    /// The arguments of the call.
    pub arguments: Json,
    /// The call whose idempotency key it had.
    pub key_of: CallKey,
    /// When the run is out of time, whatever the tool allows.
    pub deadline: Timestamp,
}

impl Slots {
    /// The call that `key` names, if its tool was asked whether it happened.
    fn verifying(&self, key: CallKey) -> Option<&Running> {
        match &self.slot(key)?.state {
            SlotState::Running(running) if running.stage == Stage::Verifying => Some(running),
            SlotState::Running(_)
            | SlotState::Parked(..)
            | SlotState::Delegated(_)
            | SlotState::Answered { .. } => None,
        }
    }

    /// Whether the tool of this call was asked whether it happened.
    pub(super) fn is_verifying(&self, key: CallKey) -> bool {
        self.verifying(key).is_some()
    }

    pub(super) fn set_stage(&mut self, key: CallKey, stage: Stage) {
        if let Some(running) = self.running_mut(key) {
            running.stage = stage;
        }
    }
}

impl RunMachine {
    /// Asks the tool of an interrupted call whether it happened.
    pub(super) fn verify(&self, slots: &mut Slots, call: CallKey, effects: &mut Vec<RunEffect>) {
        effects.extend(self.asked_about(slots, call));
        slots.set_stage(call, Stage::Verifying);
    }

    /// What asks the tool of a call whether it happened, each time in the same way.
    pub(super) fn asked_about(&self, slots: &Slots, call: CallKey) -> Option<RunEffect> {
        let slot = slots.slot(call)?;
        let SlotState::Running(running) = &slot.state else { return None };
        let (arguments, key_of) = carried(call, slot, running);
        let (tool, deadline) = (Arc::clone(&running.by.name), self.deadline());
        Some(RunEffect::Verify(Verification { call, tool, arguments, key_of, deadline }))
    }

    /// Takes what the tool said; a question that nobody asked is stale.
    pub(super) fn verified(
        &mut self,
        now: Timestamp,
        phase: Phase,
        call: CallKey,
        verdict: VerifyVerdict,
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        match phase {
            Phase::Calling(mut slots) if slots.is_verifying(call) => {
                slots.set_stage(call, Stage::Working);
                match end_of(&slots, call, verdict) {
                    Some(record) => self.take_end(now, &mut slots, call, record, effects),
                    None => self.make_again(now, &mut slots, call, effects),
                }
                self.go_on(now, slots, effects)
            }
            Phase::Settling { mut slots, reason, explanation } if slots.is_verifying(call) => {
                slots.set_stage(call, Stage::Working);
                let record = end_of(&slots, call, verdict).or_else(|| not_made(&slots, call));
                if let Some(record) = record {
                    self.take_end(now, &mut slots, call, record, effects);
                }
                self.settled(now, slots, reason, explanation, effects)
            }
            phase => phase,
        }
    }
}

/// The end of a call by what its tool says; none if it did not happen.
fn end_of(slots: &Slots, call: CallKey, verdict: VerifyVerdict) -> Option<CallRecord> {
    let SlotState::Running(running) = &slots.slot(call)?.state else { return None };
    match verdict {
        VerifyVerdict::Answered(Verified::NotHappened) => None,
        VerifyVerdict::Answered(Verified::Happened(output)) => Some(CallRecord {
            verdict: CallVerdict::Succeeded(output),
            attempts: 0,
            waited: Duration::ZERO,
            stopped_by: None,
            out_for: None,
            by: Some(Arc::clone(&running.by.name)),
        }),
        VerifyVerdict::Answered(Verified::CannotTell) | VerifyVerdict::Failed(_) => {
            Some(lost(running, unknown(running), StoppedBy::Effect))
        }
    }
}

/// The end of a call that did not happen, and that the run, which winds down, does not make again.
fn not_made(slots: &Slots, call: CallKey) -> Option<CallRecord> {
    let SlotState::Running(running) = &slots.slot(call)?.state else { return None };
    let failure = Failure::cancelled(format!(
        "This call of `{}` was interrupted and did not happen, and the run ended before it was made again.",
        running.by.name
    ));
    Some(lost(running, failure.effect(EffectState::None), StoppedBy::Cancelled))
}
