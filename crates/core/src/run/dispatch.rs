//! How a call gets to what works on it: the tool, a fallback, the run itself; for the first time, after
//! a wait, or again after the process ended. There is one way, so that the key and the arguments are
//! the same each time.

use std::sync::Arc;

use dauntless_contract::{CallKey, Json, Timestamp, ToolCall};

use super::builtin::Builtin;
use super::slots::{ChildStage, Delegated, Running, Slot, SlotState, Slots};
use super::{RunEffect, RunMachine};
use crate::toolbox::Fingerprint;

impl RunMachine {
    /// Opens a call that may run, and sends it on its way.
    pub(super) fn dispatch(
        &mut self,
        now: Timestamp,
        call: ToolCall,
        fingerprint: Fingerprint,
        running: Running,
        slots: &mut Slots,
        effects: &mut Vec<RunEffect>,
    ) {
        if let Some(link) = self.spec.links.get(&call.name) {
            let state = SlotState::Delegated(Delegated {
                agent: Arc::clone(&link.agent),
                attempt: 0,
                retries: link.policy.retries,
                stage: ChildStage::Waiting,
            });
            // The children of a turn start together, once all its calls are known.
            slots.push(call, fingerprint, state);
            return;
        }
        let builtin = Builtin::of(&self.spec.agent, &call.name);
        let call = slots.push(call, fingerprint, SlotState::Running(running));
        match builtin {
            Some(Builtin::AskUser) => self.ask_user(now, call, slots, effects),
            None => effects.extend(self.dispatched(slots, call)),
        }
    }

    /// What sends a running call to the tool that works on it, each time in the same way. None if
    /// it does not run.
    pub(super) fn dispatched(&self, slots: &Slots, call: CallKey) -> Option<RunEffect> {
        let slot = slots.slot(call)?;
        let SlotState::Running(running) = &slot.state else { return None };
        let (asked, tool) = (Arc::clone(&slot.call.name), Arc::clone(&running.by.name));
        let (arguments, key_of) = carried(call, slot, running);
        let (deadline, attempts_made) = (self.deadline(), running.tried.made());
        Some(RunEffect::Dispatch { call, asked, tool, arguments, key_of, deadline, attempts_made })
    }
}

/// What the tool that works on a call is told of it: the arguments, and the call that names the key.
pub(super) fn carried(call: CallKey, slot: &Slot, running: &Running) -> (Json, CallKey) {
    match &running.elsewhere {
        Some(elsewhere) if running.by.name != slot.call.name => (elsewhere.arguments.clone(), call),
        Some(_) | None => (slot.call.arguments.clone(), running.repeats.unwrap_or(call)),
    }
}
