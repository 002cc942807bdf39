//! A conversation that another agent takes over: this run says no more, and ends as the other does.

use std::sync::Arc;

use dauntless_contract::{CallKey, Outcome, Timestamp, ToolOutput};

use super::delegate::Came;
use super::slots::Slots;
use super::{Phase, RunEffect, RunMachine};
use crate::tree::LinkKind;

impl RunMachine {
    /// Whether whoever works on this call has the conversation.
    pub(super) fn takes_over(&self, slots: &Slots, call: CallKey) -> bool {
        let name = slots.slot(call).map(|slot| &slot.call.name);
        let link = name.and_then(|name| self.spec.links.get(name));
        link.is_some_and(|link| link.kind == LinkKind::Handoff)
    }

    /// Ends with the reason and the words of the run that took over, and says which that is.
    pub(super) fn handed_over(
        &mut self,
        now: Timestamp,
        mut slots: Slots,
        call: CallKey,
        outcome: &Outcome,
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        let Some((_, delegated)) = slots.delegation(call) else { return Phase::Calling(slots) };
        let told = format!("`{}` (run {}) took the conversation over", delegated.agent, outcome.run);
        let output = ToolOutput::text(format!("{told}."));
        self.answer_delegation(&mut slots, call, Came::Answer(output), effects);
        Arc::make_mut(&mut self.history).round(slots.into_round());
        let explanation = match &outcome.explanation {
            Some(why) => format!("{told}: {why}"),
            None => format!("{told}."),
        };
        self.end(now, outcome.reason.clone(), Some(explanation.into()), outcome.text.clone(), effects)
    }
}
