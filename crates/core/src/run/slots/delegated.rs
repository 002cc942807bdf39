//! The calls of a turn that other runs work on: which wait, which run, and how many did what.

use std::sync::Arc;

use dauntless_contract::CallKey;
use serde::{Deserialize, Serialize};

use super::{Slot, SlotState, Slots};
use crate::plan::Tally;
use crate::tree::Child;

/// A call that another run works on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Delegated {
    /// The agent that works on it: the one that was asked, or its fallback.
    pub(crate) agent: Arc<str>,
    /// Which run for this call, counted from 1; 0 before the first.
    pub(crate) attempt: u32,
    /// Fresh runs that this agent may still have.
    pub(crate) retries: u32,
    pub(crate) stage: ChildStage,
}

/// How far a child is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum ChildStage {
    /// It waits for a place or for what another child gives back.
    Waiting,
    Running(Child),
    /// It was told to stop, and its end is awaited.
    Stopping(Child),
}

impl Delegated {
    pub(crate) const fn child(&self) -> Option<&Child> {
        match &self.stage {
            ChildStage::Waiting => None,
            ChildStage::Running(child) | ChildStage::Stopping(child) => Some(child),
        }
    }
}

impl Slots {
    pub(crate) fn delegated(&self) -> impl Iterator<Item = (CallKey, &Slot, &Delegated)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| match &slot.state {
            SlotState::Delegated(delegated) => Some((self.key(index), slot, delegated)),
            SlotState::Running(_) | SlotState::Parked(..) | SlotState::Answered { .. } => None,
        })
    }

    pub(crate) fn delegation(&self, key: CallKey) -> Option<(&Slot, &Delegated)> {
        let slot = self.slot(key)?;
        match &slot.state {
            SlotState::Delegated(delegated) => Some((slot, delegated)),
            SlotState::Running(_) | SlotState::Parked(..) | SlotState::Answered { .. } => None,
        }
    }

    /// The calls of which no run is under way, in call order.
    pub(crate) fn waiting_for_a_child(&self) -> Vec<CallKey> {
        let waiting = self.delegated().filter(|(.., delegated)| delegated.stage == ChildStage::Waiting);
        waiting.map(|(key, ..)| key).collect()
    }

    /// The children that were started and have not ended.
    pub(crate) fn children(&self) -> impl Iterator<Item = (CallKey, &Delegated, &Child)> {
        self.delegated().filter_map(|(key, _, delegated)| Some((key, delegated, delegated.child()?)))
    }

    pub(crate) fn change(&mut self, key: CallKey, change: impl FnOnce(&mut Delegated)) {
        if let Some(Slot { state: SlotState::Delegated(delegated), .. }) = self.slot_mut(key) {
            change(delegated);
        }
    }

    /// Notes how a delegation ended.
    pub(crate) const fn tell(&mut self, succeeded: bool) {
        match succeeded {
            true => self.tally.succeeded += 1,
            false => self.tally.failed += 1,
        }
    }

    pub(crate) fn tally(&self) -> Tally {
        let open = u32::try_from(self.delegated().count()).unwrap_or(u32::MAX);
        Tally { open, ..self.tally }
    }

    /// Whether the model asked for nothing else in this turn.
    pub(crate) const fn is_alone(&self) -> bool {
        self.slots.len() == 1
    }
}
