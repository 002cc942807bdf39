//! What reaches a run from outside of its process. A letter is taken in with the event that it leads
//! to, both or neither, so that one that was sent is neither lost nor heard twice.

use std::collections::VecDeque;
use std::sync::Arc;

use dauntless_contract::{CallKey, Letter, LetterContent, ResolvedBy, RunEvent};

use dauntless_core::tree::mailbox::Room;

use super::RunShell;

/// How many letters back one is known to have been read.
const REMEMBERED_MAX: usize = 256;

/// The letters that were read here. One that was may be brought again before the journal shows it
/// as taken.
#[derive(Default)]
pub(super) struct Read {
    known: VecDeque<Arc<str>>,
    /// Messages that there was no room for; the journal bounds how many it keeps for a run.
    put_off: VecDeque<Letter>,
}

impl Read {
    fn is_new(&mut self, id: &Arc<str>) -> bool {
        if self.known.contains(id) {
            return false;
        }
        if self.known.len() == REMEMBERED_MAX {
            self.known.pop_front();
        }
        self.known.push_back(Arc::clone(id));
        true
    }

    fn forget(&mut self, id: &Arc<str>) {
        self.known.retain(|read| read != id);
    }
}

impl RunShell {
    pub(super) async fn read(&mut self, letter: Letter) {
        // Before the start nothing has been asked, and the letter is brought again.
        if self.start.is_some() || !self.letters.is_new(&letter.id) {
            return;
        }
        let event = match LetterContent::read(&letter) {
            Ok(LetterContent::Cancel { by }) => RunEvent::CancelRequested { by },
            Ok(LetterContent::Answer { call, text }) => {
                match self.machine.questions().iter().any(|question| question.call == call) {
                    true => {
                        RunEvent::InputGiven { call, text: self.crew.brain.redactor().text(&text).into() }
                    }
                    false => set_aside(&letter, format!("call {call} waited for no answer")),
                }
            }
            // It is for whoever claims the run next, and stays unread until then.
            Ok(LetterContent::Configure { .. }) => return,
            Ok(LetterContent::LateResult { call, epoch }) => {
                match self.late_result(&letter, call, epoch).await {
                    Some(event) => event,
                    None => return self.letters.forget(&letter.id),
                }
            }
            Ok(LetterContent::Message { .. }) if !self.machine.takes_messages() => {
                set_aside(&letter, "its agent reads no messages".to_owned())
            }
            Ok(LetterContent::Message { .. }) if self.machine.room_for(&letter.id) == Room::None => {
                return self.letters.put_off.push_back(letter);
            }
            Ok(LetterContent::Message { from, agent, text }) => {
                let text = self.crew.brain.redactor().text(&text).into();
                RunEvent::MessageReceived { letter: Arc::clone(&letter.id), from, agent, text }
            }
            Err(error) => set_aside(&letter, format!("it cannot be read: {error}")),
        };
        self.take(event, Some(letter.id)).await;
    }

    /// Reads the messages that there is room for now.
    pub(super) async fn read_put_off(&mut self) {
        while let Some(letter) = self.letters.put_off.front()
            && self.machine.room_for(&letter.id) != Room::None
            && let Some(letter) = self.letters.put_off.pop_front()
        {
            self.letters.forget(&letter.id);
            self.read(letter).await;
        }
    }
}

impl RunShell {
    /// What a call came to after the run had been taken over; nothing while the journal cannot say.
    async fn late_result(&self, letter: &Letter, call: CallKey, epoch: u64) -> Option<RunEvent> {
        match self.journal.as_ref()?.late_result(call, epoch).await {
            Ok(Some(record)) => {
                Some(RunEvent::OutcomeResolved { call, record, by: ResolvedBy::Late { epoch } })
            }
            Ok(None) => Some(set_aside(letter, format!("nothing is known of call {call} in epoch {epoch}"))),
            Err(error) => {
                tracing::warn!(run = %self.machine.run(), %error, "a late result cannot be read yet");
                None
            }
        }
    }
}

fn set_aside(letter: &Letter, why: String) -> RunEvent {
    tracing::warn!(letter = &*letter.id, why, "a letter to a run leads to nothing");
    RunEvent::LetterSetAside { letter: Arc::clone(&letter.id), why: why.into() }
}
