//! The request, written straight from the conversation: nothing of the history is copied.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::iter::Peekable;

use dauntless_contract::{AnswerSchema, Json, Message, ModelRequest, ToolCall, ToolSpec};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::SendBack;
use super::strict::is_strict;
use crate::profile::{NoText, Profile};

/// The body of one request.
pub(crate) struct ChatRequest<'a> {
    /// The model's name.
    pub(crate) model: &'a str,
    /// The conversation and the tools.
    pub(crate) request: &'a ModelRequest,
    /// Whether the answer is to come in pieces.
    pub(crate) stream: bool,
    /// Everything else, as it goes into the body.
    pub(crate) settings: &'a Map<String, Value>,
    /// What the provider wants otherwise than others.
    pub(crate) profile: &'a Profile,
    /// How tools may be called.
    pub(crate) calling: Calling,
    /// Whether the shape of the answer may stand in the request.
    pub(crate) shape: bool,
}

/// How the model may call tools.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calling {
    /// Whether it may ask for several calls in one reply.
    pub(crate) parallel: bool,
    /// Whether the provider holds arguments to the schema, where strict mode takes the schema.
    pub(crate) strict: bool,
}

impl Calling {
    /// Whether this schema is held to.
    pub(super) fn holds(self, schema: &Value) -> bool {
        self.strict && is_strict(schema)
    }
}

impl Serialize for ChatRequest<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut body = serializer.serialize_map(None)?;
        body.serialize_entry("model", self.model)?;
        body.serialize_entry(
            "messages",
            &Messages { history: self.request.history.messages(), profile: self.profile },
        )?;
        if !self.request.tools.is_empty() {
            let tools: Vec<Tool<'_>> =
                self.request.tools.iter().map(|spec| Tool::of(spec, self.calling)).collect();
            body.serialize_entry("tools", &tools)?;
            // Providers refuse the word where there are no tools, and some do not know it.
            if !self.calling.parallel {
                body.serialize_entry("parallel_tool_calls", &false)?;
            }
        }
        if let Some(format) = self.response_format() {
            body.serialize_entry("response_format", &format)?;
        }
        body.serialize_entry("stream", &self.stream)?;
        if self.stream && self.profile.stream_options {
            body.serialize_entry("stream_options", &json!({"include_usage": true}))?;
        }
        for (name, value) in self.settings {
            body.serialize_entry(name, value)?;
        }
        body.end()
    }
}

impl ChatRequest<'_> {
    /// The shape of the answer, where the provider may be sent one. Providers take only objects; any
    /// other shape stands in the instructions alone, where each of them stands as well.
    fn response_format(&self) -> Option<ResponseFormat<'_>> {
        let answer = self.request.answer.as_deref().filter(|answer| self.shape && is_object(answer))?;
        let AnswerSchema { name, schema } = answer;
        // A format of the operator's own, like `json_object`, is what this provider knows.
        let free = !self.settings.contains_key("response_format");
        let strict = self.calling.holds(schema);
        free.then(|| ResponseFormat {
            r#type: "json_schema",
            json_schema: JsonSchema { name, schema, strict },
        })
    }
}

/// Whether the answer is to be an object: the one shape that every provider takes.
pub(super) fn is_object(answer: &AnswerSchema) -> bool {
    answer.schema.get("type").is_some_and(|kind| kind == "object")
}

#[derive(Serialize)]
struct ResponseFormat<'a> {
    r#type: &'static str,
    json_schema: JsonSchema<'a>,
}

#[derive(Serialize)]
struct JsonSchema<'a> {
    name: &'a str,
    schema: &'a Value,
    strict: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: ToolFunction<'a>,
}

#[derive(Serialize)]
struct ToolFunction<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

impl<'a> Tool<'a> {
    fn of(spec: &'a ToolSpec, calling: Calling) -> Self {
        let function = ToolFunction {
            name: &spec.name,
            description: &spec.description,
            parameters: &spec.parameters,
            strict: calling.holds(&spec.parameters).then_some(true),
        };
        Self { r#type: "function", function }
    }
}

struct Messages<'a> {
    history: &'a [Message],
    profile: &'a Profile,
}

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        let mut messages = self.history.iter().peekable();
        while let Some(message) = messages.next() {
            match message {
                Message::System { text } => {
                    list.serialize_element(&Plain { role: "system", content: text })?
                }
                Message::User { text } => {
                    let content = &together(text, &mut messages);
                    list.serialize_element(&Plain { role: "user", content })?;
                }
                Message::Assistant { text, calls, extra } => {
                    let extra = Extra::read(extra.as_ref(), &self.profile.send_back);
                    let profile = self.profile;
                    list.serialize_element(&Assistant { text: text.as_deref(), calls, extra, profile })?;
                }
                Message::Tool { call_id, name: _, text } => {
                    let tool_call_id = self.profile.call_ids.sendable(call_id);
                    list.serialize_element(&Answer { role: "tool", tool_call_id, content: text })?;
                }
            }
        }
        list.end()
    }
}

/// A text of the user with those that follow at once: some providers refuse two in a row.
fn together<'a>(first: &'a str, rest: &mut Peekable<impl Iterator<Item = &'a Message>>) -> Cow<'a, str> {
    let mut whole = Cow::Borrowed(first);
    while let Some(Message::User { text }) = rest.peek() {
        let whole = whole.to_mut();
        whole.push_str("\n\n");
        whole.push_str(text);
        rest.next();
    }
    whole
}

#[derive(Serialize)]
struct Plain<'a> {
    role: &'static str,
    content: &'a str,
}

#[derive(Serialize)]
struct Answer<'a> {
    role: &'static str,
    tool_call_id: Cow<'a, str>,
    content: &'a str,
}

struct Assistant<'a> {
    text: Option<&'a str>,
    calls: &'a [ToolCall],
    extra: Extra<'a>,
    profile: &'a Profile,
}

impl Serialize for Assistant<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut message = serializer.serialize_map(None)?;
        message.serialize_entry("role", "assistant")?;
        let no_text = match self.profile.no_text {
            NoText::Null => None,
            NoText::Empty => Some(""),
        };
        message.serialize_entry("content", &self.text.or(no_text))?;
        if !self.calls.is_empty() {
            let calls: Vec<Call<'_>> =
                self.calls.iter().map(|call| Call::of(call, &self.extra, self.profile)).collect();
            message.serialize_entry("tool_calls", &calls)?;
        }
        for (name, value) in &self.extra.message {
            message.serialize_entry(name, value)?;
        }
        message.end()
    }
}

#[derive(Serialize)]
struct Call<'a> {
    id: Cow<'a, str>,
    r#type: &'static str,
    function: Function<'a>,
    #[serde(flatten)]
    extra: Option<&'a BTreeMap<String, &'a RawValue>>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: Cow<'a, str>,
    arguments: &'a str,
}

impl<'a> Call<'a> {
    fn of(call: &'a ToolCall, extra: &'a Extra<'_>, profile: &Profile) -> Self {
        let function = Function { name: sendable_name(&call.name), arguments: call.arguments.as_str() };
        let id = profile.call_ids.sendable(&call.id);
        Self { id, r#type: "function", function, extra: extra.calls.get(&*call.id) }
    }
}

/// The name in a form that every provider takes back.
///
/// A name that the model made up may hold anything, and a provider refuses the whole history for it.
pub(super) fn sendable_name(name: &str) -> Cow<'_, str> {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.len() <= 64 && name.chars().all(legal) {
        return Cow::Borrowed(name);
    }
    let cleaned: String = name.chars().take(64).map(|c| if legal(c) { c } else { '_' }).collect();
    Cow::Owned(if cleaned.is_empty() { "unnamed".to_owned() } else { cleaned })
}

/// The fields of one earlier reply that go back: those of the message, and those of each call.
#[derive(Default)]
pub(super) struct Extra<'a> {
    pub(super) message: BTreeMap<String, &'a RawValue>,
    pub(super) calls: BTreeMap<String, BTreeMap<String, &'a RawValue>>,
}

impl<'a> Extra<'a> {
    /// Reads what the assembler kept, and holds it against the list again: another client, with
    /// another list, may have written this part of the history.
    pub(super) fn read(kept: Option<&'a Json>, send_back: &SendBack) -> Self {
        let fields = kept.and_then(|json| serde_json::from_str(json.as_str()).ok());
        let Some(mut message) = fields else { return Self::default() };
        let calls = BTreeMap::remove(&mut message, CALLS_KEY);
        let mut calls: BTreeMap<String, BTreeMap<String, &'a RawValue>> =
            calls.and_then(|raw: &'a RawValue| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        let wanted = |name: &String, _: &mut &'a RawValue| send_back.contains(name);
        message.retain(wanted);
        calls.values_mut().for_each(|fields| fields.retain(wanted));
        Self { message, calls }
    }
}

/// Where a reply's extra fields keep those of its calls, by id.
pub(crate) const CALLS_KEY: &str = "tool_calls";
