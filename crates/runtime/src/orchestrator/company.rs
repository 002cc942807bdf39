//! A run among the others of its tree: where they find it, and what it takes from them.

use dauntless_contract::Posted;
use dauntless_core::tree::mailbox::Room;

use super::{RunShell, Standing};

impl RunShell {
    /// After each message: takes part once the run has started, and reads what there was no room for.
    pub(super) async fn keep_company(&mut self) {
        if self.membership.is_none()
            && self.start.is_none()
            && let Some(runtime) = self.runtime.upgrade()
        {
            let (kin, agent) = (self.machine.kin(), self.crew.brain.name());
            let takes_messages = self.machine.takes_messages();
            self.membership = Some(runtime.settings().commons.join(kin, agent, takes_messages, &self.me));
        }
        self.read_put_off().await;
    }

    /// What becomes of a message of this name.
    pub(super) fn posted(&self, letter: &str) -> Posted {
        if self.standing == Standing::Lost || self.machine.outcome().is_some() {
            return Posted::Ended;
        }
        match self.machine.room_for(letter) {
            Room::Free => Posted::New,
            Room::Known => Posted::Again,
            Room::None => Posted::Full,
        }
    }
}
