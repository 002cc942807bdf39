//! What is owed to a run whose process came to its end: what was under way is begun again where a
//! repetition does no harm, and is answered as unknown where it could.
//!
//! The event is a fact like any other, so what it leads to replays. A lost attempt is charged as
//! one, though its tokens are unknown, and what is lost again and again is given up: a call or a
//! reply that kills every process that takes it must come to an end too.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    CallKey, CallRecord, CallVerdict, Effect, EffectState, Failure, LimitKind, RunTimer, StopReason,
    StoppedBy, Timestamp,
};

use super::asking::Summarising;
use super::slots::{Running, SlotState, Slots};
use super::{Phase, Purpose, RunEffect, RunMachine};

/// How often a request or a call is begun again; as often as a run is claimed without progress.
const INTERRUPTIONS_MAX: u32 = 5;

impl RunMachine {
    /// Answers everything that has to be under way, and nothing that was done.
    pub(super) fn interrupted(
        &mut self,
        now: Timestamp,
        phase: Phase,
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
                    self.cancel_again(now, slots, effects);
                }
                self.stop_early(now, phase, StopReason::LimitReached(LimitKind::WallClock), effects)
            }
        };
        match phase {
            Phase::Asking { turn: _, model, purpose } => self.request_lost(now, model, purpose, effects),
            Phase::Summarising(waiting) => self.summary_lost(now, waiting, effects),
            Phase::Calling(mut slots) => {
                for call in slots.open_keys() {
                    self.begin_again(now, &mut slots, call, effects);
                }
                self.go_on(now, slots, effects)
            }
            Phase::Settling { mut slots, reason, explanation } => {
                for call in slots.open_keys() {
                    self.give_up(now, &mut slots, call, effects);
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

    /// Begins again what an open call waited for, by what a repetition of it would do.
    fn begin_again(
        &mut self,
        now: Timestamp,
        slots: &mut Slots,
        call: CallKey,
        effects: &mut Vec<RunEffect>,
    ) {
        if let Some(question) = self.open_question(slots, call) {
            return effects.push(question);
        }
        let Some(slot) = slots.slot(call) else { return };
        let running = match &slot.state {
            SlotState::Answered { .. } => return,
            SlotState::Parked(_, wait) => {
                let (tool, at, spread) = (Arc::clone(&slot.call.name), wait.at, wait.spread);
                return effects.push(RunEffect::Park { call, tool, at, spread });
            }
            SlotState::Delegated(_) => return self.attach(now, slots, call, effects),
            SlotState::Running(running) => running,
        };
        if !running.by.effect.repeatable() {
            let record = lost(running, unknown(running), StoppedBy::Effect);
            return self.take_end(now, slots, call, record, effects);
        }
        if running.interruptions >= INTERRUPTIONS_MAX {
            let record = lost(running, deadly(running), StoppedBy::MaxAttempts);
            return self.take_end(now, slots, call, record, effects);
        }
        effects.extend(self.dispatched(slots, call));
        self.totals.tool_attempts += 1;
        slots.interrupt(call);
    }

    /// Answers a call of a run that winds down: nothing is begun again for its sake.
    fn give_up(&mut self, now: Timestamp, slots: &mut Slots, call: CallKey, effects: &mut Vec<RunEffect>) {
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

/// The end of a call whose last attempt was lost. The attempt is counted: it may have been made.
fn lost(running: &Running, failure: Failure, why: StoppedBy) -> CallRecord {
    CallRecord {
        verdict: CallVerdict::Failed(failure),
        attempts: 1,
        waited: Duration::ZERO,
        stopped_by: Some(why),
        out_for: None,
        by: Some(Arc::clone(&running.by.name)),
    }
}

fn unknown(running: &Running) -> Failure {
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
        running.interruptions + 1,
        running.by.name
    ))
}
