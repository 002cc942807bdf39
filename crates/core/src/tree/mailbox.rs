//! Messages between the runs of one tree: a bounded box for each run.
//!
//! A reply is known by the message that it answers, never by its sender alone, and one that is there
//! before anybody waits for it is kept. Delivering a message a second time, after a crash, changes
//! nothing. A box that is full refuses, and says so to the sender.

use std::collections::BTreeMap;
use std::sync::Arc;

use dauntless_contract::{Failure, RunId};
use serde::{Deserialize, Serialize};

/// Messages that wait in one box.
pub const MESSAGES_MAX: usize = 64;
/// Bytes of one message.
pub const MESSAGE_BYTES_MAX: usize = 32 * 1024;

/// Names one message: who sent it, and its number among all that the sender sent to this box.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MessageId {
    /// The run that sent it.
    pub from: RunId,
    /// Counted from 1.
    pub number: u64,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeMessage {
    /// Its name.
    pub id: MessageId,
    /// The agent that sent it.
    pub agent: Arc<str>,
    /// The message that it answers, if it is a reply.
    pub reply_to: Option<MessageId>,
    /// What it says: data.
    pub text: Arc<str>,
}

/// What became of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It is in the box.
    Delivered,
    /// It was delivered before.
    Again,
}

/// The messages that wait for one run, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mailbox {
    waiting: Vec<TreeMessage>,
    /// The last number that came from each sender.
    seen: BTreeMap<RunId, u64>,
}

impl Mailbox {
    /// Puts a message into the box.
    ///
    /// # Errors
    /// `overloaded` when the box is full, `too_large` when the message is. Nothing changes then, and
    /// the sender may try again with the same number.
    pub fn put(&mut self, message: TreeMessage) -> Result<Delivery, Failure> {
        let last = self.seen.get(&message.id.from).copied().unwrap_or_default();
        if message.id.number <= last {
            return Ok(Delivery::Again);
        }
        if message.text.len() > MESSAGE_BYTES_MAX {
            return Err(Failure::too_large(format!(
                "The message has {} bytes, and a message has at most {MESSAGE_BYTES_MAX}.",
                message.text.len()
            ))
            .hint("Send less, or put it into a note and send the note's name."));
        }
        if self.waiting.len() >= MESSAGES_MAX {
            return Err(Failure::overloaded(format!(
                "The message was not delivered: {MESSAGES_MAX} messages wait there and have not been read."
            ))
            .hint("Go on without an answer, or send it later."));
        }
        self.seen.insert(message.id.from, message.id.number);
        self.waiting.push(message);
        Ok(Delivery::Delivered)
    }

    /// Takes the reply to a message, if it is there. Nothing else from the same sender counts.
    pub fn take_reply(&mut self, to: MessageId) -> Option<TreeMessage> {
        let place = self.waiting.iter().position(|message| message.reply_to == Some(to))?;
        Some(self.waiting.remove(place))
    }

    /// Takes the oldest message that is no reply.
    pub fn take_next(&mut self) -> Option<TreeMessage> {
        let place = self.waiting.iter().position(|message| message.reply_to.is_none())?;
        Some(self.waiting.remove(place))
    }

    /// How many messages wait.
    pub const fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests;
