//! What is learned of a call besides its end, in whatever phase the run is; and what is stale.

use dauntless_contract::{RunEvent, Timestamp};

use super::{Phase, RunEffect, RunMachine};

impl RunMachine {
    /// Takes a fact that answers nothing in this phase.
    pub(super) fn learned(
        &mut self,
        now: Timestamp,
        phase: Phase,
        event: RunEvent,
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        match event {
            RunEvent::AttemptFailed { call, by, attempt, failure, wait } => {
                Self::attempt_failed(phase, (call, by.as_ref()), attempt, failure, wait)
            }
            RunEvent::CallVerified { call, verdict } => self.verified(now, phase, call, verdict, effects),
            RunEvent::OutcomeResolved { call, record, by: _ } => self.resolved(phase, call, record),
            RunEvent::MessageReceived { letter, from: _, agent, text } => {
                self.message_received(&phase, letter, agent, text);
                phase
            }
            RunEvent::RunStarted { .. }
            | RunEvent::ModelReplied { .. }
            | RunEvent::ModelFailed { .. }
            | RunEvent::SummaryReplied { .. }
            | RunEvent::SummaryFailed { .. }
            | RunEvent::CallEnded { .. }
            | RunEvent::ChildEnded { .. }
            | RunEvent::InputGiven { .. }
            | RunEvent::TimerFired { .. }
            | RunEvent::CancelRequested { .. }
            | RunEvent::ConfigChosen { .. }
            | RunEvent::LetterSetAside { .. }
            | RunEvent::Suspended { .. }
            | RunEvent::Interrupted {} => phase,
        }
    }
}
