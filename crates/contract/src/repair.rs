//! Conversations from elsewhere, made fit to be continued.
//!
//! Another program's chat may hold what no provider takes: calls without answers, answers without
//! calls, arguments that are no JSON. Repair gives a [`History`] that every provider takes and says
//! what it changed. It changes nothing that is right, invents no answer of a tool, and never
//! executes a call: one that was not answered is marked as unknown.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::{History, Message};

mod pair;
mod read;

#[cfg(test)]
mod tests;

/// The most of what was replaced that is kept, in bytes.
const ORIGINAL_BYTES_MAX: usize = 2048;

/// A conversation that can be continued, and what was changed to make it so.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RepairedHistory {
    /// The conversation.
    pub history: History,
    /// What was changed, in the order of the messages; empty for a conversation without faults.
    pub repairs: Vec<HistoryRepair>,
}

impl From<History> for RepairedHistory {
    fn from(history: History) -> Self {
        Self { history, repairs: Vec::new() }
    }
}

/// One thing that was changed in a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryRepair {
    /// The message, counted from 0, as it was given.
    pub message: usize,
    /// What was wrong.
    pub fault: HistoryFault,
    /// What stood there, bounded, where something was replaced or left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original: Option<Arc<str>>,
}

/// What can be wrong with a message of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HistoryFault {
    /// It is no message at all; left out.
    NotAMessage,
    /// It has neither text nor calls; left out.
    EmptyMessage,
    /// Its role is none of chat completions; read as the nearest.
    UnknownRole,
    /// Instructions after the beginning; kept in place as words of the user.
    LateInstructions,
    /// The conversation does not begin with the user; a note in the user's place was put before it.
    NoUserFirst,
    /// Part of the content is not text; left out.
    NotText,
    /// It holds null bytes; left out.
    NullBytes,
    /// A call has no id, or one that another call has; it got one of its own.
    CallId,
    /// The name of a tool holds what no provider takes; replaced.
    ToolName,
    /// Arguments that are not the text of a JSON object: read if that is certain, else `{}`.
    Arguments,
    /// A call without an answer; answered as unknown.
    UnansweredCall,
    /// An answer away from its call or out of order; moved to its place.
    MisplacedAnswer,
    /// A second answer to one call; left out.
    SecondAnswer,
    /// An answer without a call; left out.
    AnswerWithoutCall,
}

impl fmt::Display for HistoryRepair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.fault {
            HistoryFault::NotAMessage => "is no message and was left out",
            HistoryFault::EmptyMessage => "has neither text nor calls and was left out",
            HistoryFault::UnknownRole => "has an unknown role and was read as the nearest",
            HistoryFault::LateInstructions => {
                "holds instructions after the beginning, kept as words of the user"
            }
            HistoryFault::NoUserFirst => "begins the conversation without the user; a note was put before it",
            HistoryFault::NotText => "holds content that is not text, which was left out",
            HistoryFault::NullBytes => "holds null bytes, which were left out",
            HistoryFault::CallId => "has a call without an id of its own, which got one",
            HistoryFault::ToolName => "names a tool as no provider takes it; the name was replaced",
            HistoryFault::Arguments => "has arguments that are not the text of a JSON object",
            HistoryFault::UnansweredCall => "has a call without an answer, now answered as unknown",
            HistoryFault::MisplacedAnswer => "answers a call from the wrong place and was moved to it",
            HistoryFault::SecondAnswer => "answers a call a second time and was left out",
            HistoryFault::AnswerWithoutCall => "answers no call and was left out",
        };
        write!(f, "message {} {what}", self.message)
    }
}

impl History {
    /// Reads a conversation in the JSON of chat completions, however broken, and repairs it.
    ///
    /// Content may be a text, a list of parts or missing; arguments may be a text or an object. Any
    /// list of values gives a conversation that providers take; one without faults comes through
    /// as it is. Fields that chat completions do not have are not kept.
    ///
    /// # Examples
    /// ```
    /// use dauntless_contract::{History, HistoryFault};
    ///
    /// let stored = serde_json::json!([
    ///     { "role": "user", "content": "Book it." },
    ///     { "role": "assistant", "tool_calls": [
    ///         { "id": "c1", "type": "function", "function": { "name": "book", "arguments": "{}" } }
    ///     ] },
    /// ]);
    /// let repaired = History::repair(stored.as_array().unwrap());
    /// assert_eq!(repaired.history.messages().len(), 3, "the call has an answer now");
    /// assert_eq!(repaired.repairs[0].fault, HistoryFault::UnansweredCall);
    /// ```
    pub fn repair(messages: &[Value]) -> RepairedHistory {
        let mut faults = Faults::default();
        let loose = messages.iter().enumerate();
        let loose = loose.filter_map(|(at, value)| Some((at, read::message(at, value, &mut faults)?)));
        let loose: Vec<_> = loose.collect();
        let history = pair::pair(loose, &mut faults);
        faults.0.sort_by_key(|repair| repair.message);
        RepairedHistory { history, repairs: faults.0 }
    }
}

/// A list of messages. What is read back is repaired again, so that no stored text can break it.
impl Serialize for History {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.messages().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for History {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let messages = Vec::<Message>::deserialize(deserializer)?;
        let loose = messages.into_iter().map(Loose::from).enumerate().collect();
        Ok(pair::pair(loose, &mut Faults::default()))
    }
}

#[derive(Default)]
struct Faults(Vec<HistoryRepair>);

impl Faults {
    fn add(&mut self, message: usize, fault: HistoryFault) {
        self.0.push(HistoryRepair { message, fault, original: None });
    }

    fn replaced(&mut self, message: usize, fault: HistoryFault, original: &str) {
        let cut = (0..=ORIGINAL_BYTES_MAX.min(original.len())).rev();
        let cut = cut.into_iter().find(|at| original.is_char_boundary(*at)).unwrap_or(0);
        let original = original.get(..cut).filter(|text| !text.is_empty()).map(Into::into);
        self.0.push(HistoryRepair { message, fault, original });
    }
}

/// A message before anything is believed about its place.
enum Loose {
    System(Arc<str>),
    User(Arc<str>),
    Assistant { text: Option<Arc<str>>, calls: Vec<LooseCall>, extra: Option<crate::Json> },
    Tool { id: Arc<str>, name: Arc<str>, text: Arc<str> },
}

struct LooseCall {
    id: Arc<str>,
    name: Arc<str>,
    arguments: crate::Json,
}

impl From<Message> for Loose {
    fn from(message: Message) -> Self {
        match message {
            Message::System { text } => Self::System(text),
            Message::User { text } => Self::User(text),
            Message::Assistant { text, calls, extra } => {
                let calls = calls.into_iter();
                let calls =
                    calls.map(|call| LooseCall { id: call.id, name: call.name, arguments: call.arguments });
                Self::Assistant { text, calls: calls.collect(), extra }
            }
            Message::Tool { call_id, name, text } => Self::Tool { id: call_id, name, text },
        }
    }
}
