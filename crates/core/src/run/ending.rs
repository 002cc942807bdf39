//! The ways out of a run: whatever is under way is stopped, and still accounted for.

use std::sync::Arc;

use dauntless_contract::{Outcome, Progress, StopReason, Timestamp};

use super::asking::Summarising;
use super::{CancelReach, Phase, RunEffect, RunMachine, SETTLE_MAX};

impl RunMachine {
    /// Cancel and the end of time: whatever is under way is stopped, and still accounted for.
    pub(super) fn stop_early(
        &mut self,
        now: Timestamp,
        phase: Phase,
        reason: StopReason,
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        match phase {
            Phase::Created => self.end(now, reason, None, None, effects),
            Phase::Summarising(Summarising { turn, .. }) | Phase::Asking { turn, model: _, purpose: _ } => {
                effects.push(RunEffect::CancelModel { turn });
                let text = self.history.last_assistant_text().cloned();
                self.end(now, reason, None, text, effects)
            }
            Phase::Calling(mut slots) => {
                self.drop_questions(now, &mut slots, effects);
                for call in slots.running() {
                    effects.push(RunEffect::CancelCall { call, reach: CancelReach::Running });
                }
                self.settle(now, slots, reason, None, SETTLE_MAX, effects)
            }
            Phase::Settling { slots, reason, explanation } => {
                for call in slots.running() {
                    effects.push(RunEffect::CancelCall { call, reach: CancelReach::Running });
                }
                Phase::Settling { slots, reason, explanation }
            }
            Phase::Ended(outcome) => Phase::Ended(outcome),
        }
    }

    pub(super) fn end(
        &self,
        now: Timestamp,
        reason: StopReason,
        explanation: Option<Arc<str>>,
        text: Option<Arc<str>>,
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        let outcome = Outcome {
            run: self.run,
            reason,
            text: text.filter(|text| !text.trim().is_empty()),
            explanation,
            totals: self.totals,
            elapsed: now.since(self.started),
        };
        effects.push(RunEffect::Report(Progress::RunEnded { outcome: outcome.clone() }));
        effects.push(RunEffect::End);
        Phase::Ended(outcome)
    }
}
