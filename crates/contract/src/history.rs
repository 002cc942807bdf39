//! The conversation, in a shape that cannot be broken.
//!
//! Providers refuse a history in which a tool call has no answer, or an answer has no call. So
//! calls and answers enter together, as a [`Round`], and never apart.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Json, ToolCall};

/// One message, as a model client sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// The instructions.
    System {
        /// The text.
        text: Arc<str>,
    },
    /// The goal, a nudge of the harness, or a person's message.
    User {
        /// The text; never empty.
        text: Arc<str>,
    },
    /// What the model said.
    Assistant {
        /// The text, if there was any.
        text: Option<Arc<str>>,
        /// The calls it asked for. Each is followed by its observation, in this order.
        calls: Vec<ToolCall>,
        /// Fields of the provider's message that we do not know and must send back.
        extra: Option<Json>,
    },
    /// What one call came to.
    Tool {
        /// The id of the call, as the model gave it.
        call_id: Arc<str>,
        /// The tool's name.
        name: Arc<str>,
        /// What the model reads.
        text: Arc<str>,
    },
}

/// What the model gets back for one call: a value, or a failure as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// What the model reads; capped and redacted.
    pub text: Arc<str>,
}

/// One turn that asked for calls, with the answer to each.
#[derive(Clone, Debug, PartialEq)]
pub struct Round {
    /// Text beside the calls.
    pub text: Option<Arc<str>>,
    /// Fields to send back.
    pub extra: Option<Json>,
    /// Each call with its one observation, in the order of the calls.
    pub calls: Vec<(ToolCall, Observation)>,
}

/// A conversation in which every call has exactly one observation, right after it, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    messages: Vec<Message>,
}

impl History {
    /// A conversation that opens with instructions (none when blank) and a goal.
    pub fn open(instructions: &Arc<str>, goal: &Arc<str>) -> Self {
        let mut history = Self::default();
        if !instructions.trim().is_empty() {
            history.messages.push(Message::System { text: Arc::clone(instructions) });
        }
        history.user(Arc::clone(goal));
        history
    }

    /// A conversation from before, continued: the instructions (where there are some) take the place
    /// of those it had, and the goal follows as the user's next words.
    pub fn resume(mut self, instructions: &Arc<str>, goal: &Arc<str>) -> Self {
        if !instructions.trim().is_empty() {
            if let Some(Message::System { .. }) = self.messages.first() {
                self.messages.remove(0);
            }
            self.messages.insert(0, Message::System { text: Arc::clone(instructions) });
        }
        self.user(Arc::clone(goal));
        self
    }

    /// A conversation of exactly these [`messages`](Self::messages); none where they are not those of
    /// one. What comes from elsewhere is [repaired](crate::RepairedHistory) instead.
    pub fn from_messages(messages: Vec<Message>) -> Option<Self> {
        let mut rest = messages.as_slice();
        if let [Message::System { .. }, after @ ..] = rest {
            rest = after;
        }
        while let [message, after @ ..] = rest {
            let calls = match message {
                Message::Assistant { calls, .. } => calls.as_slice(),
                Message::User { .. } => &[],
                Message::System { .. } | Message::Tool { .. } => return None,
            };
            let (answers, after) = after.split_at_checked(calls.len())?;
            let is_answered = calls.iter().zip(answers).all(|(call, answer)| match answer {
                Message::Tool { call_id, name, .. } => (call_id, name) == (&call.id, &call.name),
                Message::System { .. } | Message::User { .. } | Message::Assistant { .. } => false,
            });
            if !is_answered {
                return None;
            }
            rest = after;
        }
        Some(Self { messages })
    }

    /// Puts instructions at the beginning; anywhere else they are left out.
    pub(crate) fn system(&mut self, text: Arc<str>) {
        if self.messages.is_empty() && !text.trim().is_empty() {
            self.messages.push(Message::System { text });
        }
    }

    /// Whether nothing was said.
    pub const fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Adds a message of the user, or of the harness in the user's place. Blank text is left out.
    pub fn user(&mut self, text: Arc<str>) {
        if !text.trim().is_empty() {
            self.messages.push(Message::User { text });
        }
    }

    /// Adds an answer without calls. Blank text is left out: providers refuse empty messages.
    pub fn answer(&mut self, text: Arc<str>, extra: Option<Json>) {
        if !text.trim().is_empty() {
            self.messages.push(Message::Assistant { text: Some(text), calls: Vec::new(), extra });
        }
    }

    /// Adds the calls of one turn with the answer to each.
    pub fn round(&mut self, round: Round) {
        let Round { text, extra, calls } = round;
        let (calls, answers): (Vec<ToolCall>, Vec<Message>) = calls
            .into_iter()
            .map(|(call, observation)| {
                let answer = Message::Tool {
                    call_id: Arc::clone(&call.id),
                    name: Arc::clone(&call.name),
                    text: observation.text,
                };
                (call, answer)
            })
            .unzip();
        if calls.is_empty() {
            if let Some(text) = text {
                self.answer(text, extra);
            }
            return;
        }
        let text = text.filter(|text| !text.trim().is_empty());
        self.messages.push(Message::Assistant { text, calls, extra });
        self.messages.extend(answers);
    }

    /// How many messages open the conversation: the instructions, if there are any, and the goal.
    pub fn head_len(&self) -> usize {
        let system = usize::from(matches!(self.messages.first(), Some(Message::System { .. })));
        system + usize::from(matches!(self.messages.get(system), Some(Message::User { .. })))
    }

    /// What follows the head, in pieces that only make sense whole: a turn's calls with their
    /// observations, or a single message. Each is a range of [`messages`](Self::messages).
    pub fn blocks(&self) -> impl Iterator<Item = Range<usize>> {
        let mut at = self.head_len();
        std::iter::from_fn(move || {
            let start = at;
            let answers = match self.messages.get(start)? {
                Message::Assistant { calls, .. } => calls.len(),
                Message::System { .. } | Message::User { .. } | Message::Tool { .. } => 0,
            };
            at = start + 1 + answers;
            Some(start..at)
        })
    }

    /// Gives an observation another text. False, and nothing changes, where the message at `index`
    /// is none or the text is blank.
    pub fn retell(&mut self, index: usize, text: Arc<str>) -> bool {
        match self.messages.get_mut(index) {
            Some(Message::Tool { text: told, .. }) if !text.trim().is_empty() => {
                *told = text;
                true
            }
            Some(_) | None => false,
        }
    }

    /// Puts one message in the user's place where the first so many [`blocks`](Self::blocks) are.
    /// False, and nothing changes, where there are fewer, or the text is blank, or there is
    /// nothing to replace.
    pub fn replace_oldest(&mut self, blocks: usize, text: Arc<str>) -> bool {
        let Some(last) = blocks.checked_sub(1).and_then(|last| self.blocks().nth(last)) else { return false };
        if text.trim().is_empty() {
            return false;
        }
        let head = self.head_len();
        self.messages.splice(head..last.end, [Message::User { text }]);
        true
    }

    /// The messages, oldest first.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The last text the model wrote, with or without calls beside it.
    pub fn last_assistant_text(&self) -> Option<&Arc<str>> {
        self.messages.iter().rev().find_map(|message| match message {
            Message::Assistant { text, .. } => text.as_ref(),
            Message::System { .. } | Message::User { .. } | Message::Tool { .. } => None,
        })
    }
}
