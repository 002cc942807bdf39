//! What is owed to a run whose process came to its end: what was under way is begun again where a
//! repetition does no harm, and is answered as unknown where it could.
//!
//! The event is a fact like any other, so what it leads to replays. A lost attempt is charged as
//! one, though its tokens are unknown, and what is lost again and again is given up: a call or a
//! reply that kills every process that takes it must come to an end too. What a suspended run had
//! not begun is sent out as for the first time.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    CallKey, CallRecord, CallVerdict, Effect, EffectState, Failure, LimitKind, RunTimer, StopReason,
    StoppedBy, Timestamp,
};

use super::asking::Summarising;
use super::attempts::exhausted;
use super::slots::{Running, Slot, SlotState, Slots, Stage};
use super::suspended::UnderWay;
use super::{Phase, Purpose, RunEffect, RunMachine};

/// How often a request or a call is begun again; as often as a run is claimed without progress.
const INTERRUPTIONS_MAX: u32 = 5;

impl RunMachine {
    /// Answers everything that has to be under way, and nothing that was done.
    pub(super) fn interrupted(
        &mut self,
        now: Timestamp,
        phase: Phase,
        under_way: &UnderWay,
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        let phase = match phase {
            Phase::Created | Phase::Ended(_) => return phase,
            Phase::Settling { ref slots, .. } => {
                self.wait_again(now, slots, effects);
                phase
            }
            Phase::Summarising(_) | Phase::Asking { .. } | Phase::Calling(_) if now < self.deadline() => {
                effects.push(RunEffect::StartTimer { timer: RunTimer::WallClock, at: self.deadline() });
                phase
            }
            Phase::Summarising(_) | Phase::Asking { .. } | Phase::Calling(_) => {
                // The time went by while nobody drove the run.
                if let Phase::Calling(slots) = &phase {
                    self.attach_all(now, slots, effects);
                }
                self.stop_early(now, phase, StopReason::LimitReached(LimitKind::WallClock), effects)
            }
        };
        match phase {
            Phase::Asking { turn: _, model, purpose } if under_way.has_request() => {
                self.request_lost(now, model, purpose, effects)
            }
            Phase::Asking { turn: _, model, purpose } => self.request(now, model, purpose, effects),
            Phase::Summarising(waiting) if under_way.has_request() => {
                self.summary_lost(now, waiting, effects)
            }
            Phase::Summarising(waiting) => self.summarise(waiting, effects),
            Phase::Calling(mut slots) => {
                for call in slots.open_keys() {
                    // A child is found again, whatever became of the process.
                    match under_way.has(call) || slots.delegation(call).is_some() {
                        true => self.begin_again(now, &mut slots, call, effects),
                        false => {
                            self.totals.tool_attempts += slots.put_down(call);
                            effects.extend(self.owed(&slots, call));
                        }
                    }
                }
                self.go_on(now, slots, effects)
            }
            Phase::Settling { mut slots, reason, explanation } => {
                for call in slots.open_keys() {
                    self.give_up(now, &mut slots, call, under_way, effects);
                }
                self.settled(now, slots, reason, explanation, effects)
            }
            phase @ (Phase::Created | Phase::Ended(_)) => phase,
        }
    }

    /// Counts a request that was lost. Answers whether it may be made again.
    const fn lose_request(&mut self) -> bool {
        self.lost += 1;
        self.totals.model_attempts += 1;
        self.lost <= INTERRUPTIONS_MAX
    }

    fn request_lost(
        &mut self,
        now: Timestamp,
        model: u32,
        purpose: Purpose,
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        if self.lose_request() {
            return self.request(now, model, purpose, effects);
        }
        let failure = Failure::crashed(format!(
            "The process that waited for the model's answer came to its end {} times in a row.",
            self.lost
        ));
        match self.fallback_for(model, &failure) {
            Some(next) => self.ask_fallback(now, next, purpose, (&failure, self.lost), effects),
            None => self.model_failed(now, purpose, failure, self.lost, effects),
        }
    }

    fn summary_lost(&mut self, now: Timestamp, waiting: Summarising, effects: &mut Vec<RunEffect>) -> Phase {
        if self.lose_request() {
            return self.summarise(waiting, effects);
        }
        self.summarised(now, waiting, None, effects)
    }

    /// What an open call waits for, where nothing of it was begun.
    fn owed(&self, slots: &Slots, call: CallKey) -> Option<RunEffect> {
        let slot = slots.slot(call)?;
        match &slot.state {
            SlotState::Answered { .. } | SlotState::Delegated(_) => None,
            SlotState::Parked(_, wait) => {
                let (tool, at, spread) = (Arc::clone(&slot.call.name), wait.at, wait.spread);
                Some(RunEffect::Park { call, tool, at, spread })
            }
            SlotState::Running(running) => match running.stage {
                Stage::Working => self.open_question(slots, call).or_else(|| self.dispatched(slots, call)),
                Stage::Verifying => self.asked_about(slots, call),
            },
        }
    }

    /// Begins again what an open call waited for, by what a repetition of it would do.
    fn begin_again(
        &mut self,
        now: Timestamp,
        slots: &mut Slots,
        call: CallKey,
        effects: &mut Vec<RunEffect>,
    ) {
        if slots.delegation(call).is_some() {
            return self.attach(now, slots, call, effects);
        }
        let Some(owed) = self.owed(slots, call) else { return };
        let state = slots.slot(call).map(|slot| &slot.state);
        let (RunEffect::Dispatch { .. } | RunEffect::Verify(_), Some(SlotState::Running(running))) =
            (&owed, state)
        else {
            return effects.push(owed);
        };
        let (effect, ends) = (running.by.effect, running.interruptions >= INTERRUPTIONS_MAX);
        self.totals.tool_attempts += slots.interrupt(call);
        let Some(Slot { state: SlotState::Running(running), .. }) = slots.slot(call) else { return };
        match effect {
            Effect::ReadOnly | Effect::Idempotent | Effect::Keyed if ends => {
                let record = lost(running, deadly(running), StoppedBy::MaxAttempts);
                self.take_end(now, slots, call, record, effects);
            }
            Effect::ReadOnly | Effect::Idempotent | Effect::Keyed => {
                self.make_again(now, slots, call, effects);
            }
            Effect::Verifiable if !ends => self.verify(slots, call, effects),
            Effect::Verifiable | Effect::Once => {
                let record = lost(running, unknown(running), StoppedBy::Effect);
                self.take_end(now, slots, call, record, effects);
            }
        }
    }

    /// Sends an interrupted call to its tool again, if an attempt is left for it.
    pub(super) fn make_again(
        &mut self,
        now: Timestamp,
        slots: &mut Slots,
        call: CallKey,
        effects: &mut Vec<RunEffect>,
    ) {
        let Some(Slot { state: SlotState::Running(running), .. }) = slots.slot(call) else { return };
        match exhausted(running) {
            Some(record) => self.end_call(now, slots, call, record, effects),
            None => effects.extend(self.dispatched(slots, call)),
        }
    }

    /// Answers a call of a run that winds down: nothing is begun again for its sake.
    fn give_up(
        &mut self,
        now: Timestamp,
        slots: &mut Slots,
        call: CallKey,
        under_way: &UnderWay,
        effects: &mut Vec<RunEffect>,
    ) {
        let Some(SlotState::Running(running)) = slots.slot(call).map(|slot| &slot.state) else { return };
        if !under_way.has(call) && running.is_untouched() {
            let failure = Failure::cancelled("The run ended before this call was begun.");
            let record = lost(running, failure, StoppedBy::Cancelled);
            let record = slots.with_what_was_lost(call, record);
            return self.take_end(now, slots, call, record, effects);
        }
        self.totals.tool_attempts +=
            if under_way.has(call) { slots.interrupt(call) } else { slots.put_down(call) };
        slots.set_stage(call, Stage::Working);
        let Some(SlotState::Running(running)) = slots.slot(call).map(|slot| &slot.state) else { return };
        let failure = match running.by.effect {
            Effect::ReadOnly | Effect::Idempotent => {
                Failure::cancelled("The run ended before this call answered.").effect(EffectState::Unknown)
            }
            Effect::Keyed | Effect::Verifiable | Effect::Once => unknown(running),
        };
        let record = lost(running, failure, StoppedBy::Cancelled);
        self.take_end(now, slots, call, record, effects);
    }
}

/// The end of a call whose last attempt was lost, and is counted: it may have been made.
pub(super) fn lost(running: &Running, failure: Failure, why: StoppedBy) -> CallRecord {
    CallRecord {
        verdict: CallVerdict::Failed(failure),
        attempts: 0,
        waited: Duration::ZERO,
        stopped_by: Some(why),
        out_for: None,
        by: Some(Arc::clone(&running.by.name)),
    }
}

pub(super) fn unknown(running: &Running) -> Failure {
    Failure::outcome_unknown(format!(
        "This call of `{}` was interrupted: the process that ran it came to its end before the answer was there. \
         The call may or may not have happened.",
        running.by.name
    ))
    .hint("Check whether it happened before you repeat it.")
}

fn deadly(running: &Running) -> Failure {
    Failure::crashed(format!(
        "The process that ran this call came to its end {} times while `{}` worked on it, so it is not begun again.",
        running.interruptions, running.by.name
    ))
}
