//! The request. The provider keeps nothing: the whole conversation goes with each.

use std::borrow::Cow;

use dauntless_contract::{AnswerSchema, Message, ModelRequest, ToolCall, ToolSpec};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::REASONING_KEY;
use crate::profile::Profile;
use crate::wire::Calling;
use crate::wire::request::{Extra, is_object, sendable_name};

/// The body of one request.
pub(crate) struct ResponsesRequest<'a> {
    /// The model's name.
    pub(crate) model: &'a str,
    /// The conversation, the tools and the shape of the answer.
    pub(crate) request: &'a ModelRequest,
    /// Whether the answer is to come in pieces.
    pub(crate) stream: bool,
    /// Whether the model's reasoning is asked for, sealed, to be sent back with the next request.
    pub(crate) keep_reasoning: bool,
    /// Everything else, as it goes into the body.
    pub(crate) settings: &'a Map<String, Value>,
    /// What the provider wants otherwise than others.
    pub(crate) profile: &'a Profile,
    /// How tools may be called.
    pub(crate) calling: Calling,
    /// Whether the shape of the answer may stand in the request.
    pub(crate) shape: bool,
}

impl Serialize for ResponsesRequest<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut body = serializer.serialize_map(None)?;
        let messages = self.request.history.messages();
        body.serialize_entry("model", self.model)?;
        let instructions = instructions(messages);
        if !instructions.is_empty() {
            body.serialize_entry("instructions", &instructions)?;
        }
        body.serialize_entry(
            "input",
            &Input { messages, keep_reasoning: self.keep_reasoning, profile: self.profile },
        )?;
        if !self.request.tools.is_empty() {
            let tools: Vec<Tool<'_>> =
                self.request.tools.iter().map(|spec| Tool::of(spec, self.calling)).collect();
            body.serialize_entry("tools", &tools)?;
            if !self.calling.parallel {
                body.serialize_entry("parallel_tool_calls", &false)?;
            }
        }
        body.serialize_entry("stream", &self.stream)?;
        body.serialize_entry("store", &false)?;
        if self.keep_reasoning {
            body.serialize_entry("include", &["reasoning.encrypted_content"])?;
        }
        let shape = self.request.answer.as_deref().filter(|answer| self.shape && is_object(answer));
        let text = shape.map(|answer| self.text(answer));
        if let Some(text) = &text {
            body.serialize_entry("text", text)?;
        }
        for (name, value) in self.settings {
            if text.is_none() || name != "text" {
                body.serialize_entry(name, value)?;
            }
        }
        body.end()
    }
}

impl ResponsesRequest<'_> {
    /// The shape of the answer, beside what else was set for text.
    fn text(&self, answer: &AnswerSchema) -> Value {
        let format = json!({
            "type": "json_schema",
            "name": answer.name,
            "schema": answer.schema,
            "strict": self.calling.holds(&answer.schema),
        });
        let mut text = self.settings.get("text").and_then(Value::as_object).cloned().unwrap_or_default();
        text.insert("format".to_owned(), format);
        text.into()
    }
}

fn instructions(messages: &[Message]) -> String {
    let texts = messages.iter().filter_map(|message| match message {
        Message::System { text } => Some(&**text),
        Message::User { .. } | Message::Assistant { .. } | Message::Tool { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

/// Here the default of `strict` is true, so it is always said.
#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
    strict: bool,
}

impl<'a> Tool<'a> {
    fn of(spec: &'a ToolSpec, calling: Calling) -> Self {
        Self {
            r#type: "function",
            name: &spec.name,
            description: &spec.description,
            parameters: &spec.parameters,
            strict: calling.holds(&spec.parameters),
        }
    }
}

struct Input<'a> {
    messages: &'a [Message],
    keep_reasoning: bool,
    profile: &'a Profile,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'a> {
    Message { role: &'static str, content: Content<'a> },
    FunctionCall { call_id: Cow<'a, str>, name: Cow<'a, str>, arguments: &'a str },
    FunctionCallOutput { call_id: Cow<'a, str>, output: &'a str },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Written([Written<'a>; 1]),
}

/// A text of the model. It has a type of its own, which llama.cpp insists on.
#[derive(Serialize)]
struct Written<'a> {
    r#type: &'static str,
    text: &'a str,
}

impl Serialize for Input<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ids = self.profile.call_ids;
        let mut list = serializer.serialize_seq(None)?;
        for message in self.messages {
            match message {
                Message::System { .. } => {}
                Message::User { text } => {
                    list.serialize_element(&Item::Message { role: "user", content: Content::Text(text) })?;
                }
                Message::Assistant { text, calls, extra } => {
                    let extra = extra.as_ref().filter(|_| self.keep_reasoning);
                    let extra = Extra::read(extra, &[REASONING_KEY.to_owned()]);
                    self.assistant(&mut list, text.as_deref(), calls, &extra)?;
                }
                Message::Tool { call_id, name: _, text } => {
                    let call_id = ids.sendable(call_id);
                    list.serialize_element(&Item::FunctionCallOutput { call_id, output: text })?;
                }
            }
        }
        list.end()
    }
}

impl Input<'_> {
    /// One reply: each of its parts behind the reasoning that led to it.
    fn assistant<L: SerializeSeq>(
        &self,
        list: &mut L,
        text: Option<&str>,
        calls: &[ToolCall],
        extra: &Extra<'_>,
    ) -> Result<(), L::Error> {
        for item in reasoning(extra.message.get(REASONING_KEY)) {
            list.serialize_element(item)?;
        }
        if let Some(text) = text {
            let content = Content::Written([Written { r#type: "output_text", text }]);
            list.serialize_element(&Item::Message { role: "assistant", content })?;
        }
        for call in calls {
            let kept = extra.calls.get(&*call.id).and_then(|fields| fields.get(REASONING_KEY));
            for item in reasoning(kept) {
                list.serialize_element(item)?;
            }
            list.serialize_element(&Item::FunctionCall {
                call_id: self.profile.call_ids.sendable(&call.id),
                name: sendable_name(&call.name),
                arguments: call.arguments.as_str(),
            })?;
        }
        Ok(())
    }
}

fn reasoning<'a>(kept: Option<&&'a RawValue>) -> Vec<&'a RawValue> {
    kept.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}
