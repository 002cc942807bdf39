//! What other runs of the tree say to this one: kept until its next turn, and told then, once.

use std::sync::Arc;

use super::{Phase, RunEffect, RunMachine};
use crate::tree::mailbox::Room;
use crate::tree::{Kin, TreeTool};

impl RunMachine {
    /// Itself and the runs above it.
    pub const fn kin(&self) -> &Kin {
        &self.kin
    }

    /// Whether its agent takes part in messages.
    pub fn takes_messages(&self) -> bool {
        TreeTool::SendMessage.is_on(&self.spec.agent)
    }

    /// What would become of a message of this name, while the run is under way.
    pub fn room_for(&self, letter: &str) -> Room {
        self.mailbox.room(letter)
    }

    /// A message came.
    pub(super) fn message_received(
        &mut self,
        phase: &Phase,
        letter: Arc<str>,
        agent: Arc<str>,
        text: Arc<str>,
    ) {
        if !matches!(phase, Phase::Created | Phase::Ended(_)) {
            self.mailbox.put(letter, agent, text);
        }
    }

    /// Tells the model what the others said since the last request.
    pub(super) fn tell_messages(&mut self, effects: &mut Vec<RunEffect>) {
        if let Some(told) = self.mailbox.read() {
            self.nudge(told.into(), effects);
        }
    }
}
