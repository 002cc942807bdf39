//! A request as it came over the wire.

use std::borrow::Cow;
use std::fmt;
use std::sync::OnceLock;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

/// One chat completion request.
///
/// Only what every answer needs is read at once; [`json`](Self::json) reads the rest when asked,
/// so that a mock under load does not walk whole histories.
pub struct ChatRequest {
    body: Bytes,
    model: String,
    stream: bool,
    stream_usage: bool,
    assistant_messages: usize,
    json: OnceLock<Value>,
}

/// The body is not a chat completion request.
#[derive(Debug)]
pub struct NotChat(serde_json::Error);

impl fmt::Display for NotChat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the body is not a chat completion request: {}", self.0)
    }
}

impl std::error::Error for NotChat {}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, default)]
    model: Cow<'a, str>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    #[serde(borrow)]
    messages: Vec<Role<'a>>,
}

#[derive(Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

#[derive(Deserialize)]
struct Role<'a> {
    #[serde(borrow, default)]
    role: Cow<'a, str>,
}

impl ChatRequest {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// [`NotChat`] when it is not JSON with a list of messages.
    pub fn parse(body: impl Into<Bytes>) -> Result<Self, NotChat> {
        let body = body.into();
        let head: Head<'_> = serde_json::from_slice(&body).map_err(NotChat)?;
        let model = head.model.into_owned();
        let stream_usage = head.stream_options.is_some_and(|options| options.include_usage);
        let assistant_messages = head.messages.iter().filter(|message| message.role == "assistant").count();
        let stream = head.stream == Some(true);
        Ok(Self { model, stream, stream_usage, assistant_messages, json: OnceLock::new(), body })
    }

    /// The model asked for.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Whether the answer is wanted as a stream.
    pub const fn wants_stream(&self) -> bool {
        self.stream
    }

    /// Whether a stream is to end with the usage.
    pub const fn wants_stream_usage(&self) -> bool {
        self.stream_usage
    }

    /// How often the model has spoken already in this conversation.
    pub const fn assistant_messages(&self) -> usize {
        self.assistant_messages
    }

    /// The body as it came.
    pub fn body(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }

    /// The length of the body in bytes.
    pub fn body_bytes(&self) -> usize {
        self.body.len()
    }

    /// The body as a tree.
    pub fn json(&self) -> &Value {
        self.json.get_or_init(|| serde_json::from_slice(&self.body).unwrap_or_default())
    }

    /// The messages, oldest first.
    pub fn messages(&self) -> &[Value] {
        list(self.json(), "messages")
    }

    /// The tools on offer.
    pub fn tools(&self) -> &[Value] {
        list(self.json(), "tools")
    }

    /// The names of the tools on offer.
    pub fn tool_names(&self) -> Vec<&str> {
        self.tools().iter().filter_map(|tool| tool.pointer("/function/name")?.as_str()).collect()
    }

    /// The text of the last message, where it has one.
    pub fn last_text(&self) -> Option<&str> {
        self.messages().last()?.get("content")?.as_str()
    }

    /// What the tools answered since the model last spoke, in order.
    pub fn tool_texts(&self) -> Vec<&str> {
        let is_tool = |message: &&Value| message.get("role").and_then(Value::as_str) == Some("tool");
        let mut texts: Vec<&str> = (self.messages().iter().rev().take_while(is_tool))
            .map(|message| message.get("content").and_then(Value::as_str).unwrap_or_default())
            .collect();
        texts.reverse();
        texts
    }
}

impl fmt::Debug for ChatRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.body())
    }
}

pub(super) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
