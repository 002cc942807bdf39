//! The conversation, in a shape that cannot be broken.
//!
//! Providers refuse a history in which a tool call has no answer, or an answer has no call. So
//! calls and answers enter together, as a [`Round`], and never apart.

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
