//! One response body or one chunk of a stream. Both have the same shape but for one name, so both
//! are read by the same code.

use dauntless_contract::{Tokens, Usage};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::fields::{Fields, exact_text, text};
use super::{SendBack, WireError};

/// What one body or chunk says.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Packet {
    /// The error in it, if it is one although the status says all is well.
    pub(crate) error: Option<WireError>,
    /// The model, as the provider names it.
    pub(crate) model: Option<String>,
    /// Tokens used.
    pub(crate) usage: Option<Usage>,
    /// Its first choice; the request asks for one.
    pub(crate) choice: Option<Choice>,
}

/// One choice: a message or a piece of it.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Choice {
    /// The provider's word for why it stopped; blank is absent.
    pub(crate) finish: Option<String>,
    /// The message, or what this chunk adds to it.
    pub(crate) part: Part,
}

/// A message, or what a chunk adds to it.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Part {
    /// Text.
    pub(crate) text: String,
    /// Words of refusal.
    pub(crate) refusal: String,
    /// Calls, or fragments of calls.
    pub(crate) calls: Vec<CallPart>,
    /// Fields to send back.
    pub(crate) extra: Map<String, Value>,
}

/// A call, or a fragment of one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CallPart {
    /// The place of the call, as numbered by the provider.
    pub(crate) index: Option<u64>,
    /// The id; blank and `"null"` are absent.
    pub(crate) id: Option<String>,
    /// The name or a piece of it; blank is absent.
    pub(crate) name: Option<String>,
    /// The arguments or a piece of them.
    pub(crate) arguments: Arguments,
    /// Fields to send back.
    pub(crate) extra: Map<String, Value>,
}

/// Arguments, in the forms that providers give them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Arguments {
    /// None, or null.
    #[default]
    Absent,
    /// Text: the whole or a piece.
    Text(String),
    /// A JSON value that nobody turned into text; always the whole.
    Value(String),
    /// A string that is no text: it holds half a surrogate pair.
    NotText,
}

impl Packet {
    /// Reads a body or chunk. Any JSON will do; what it lacks is absent.
    pub(crate) fn read(raw: &RawValue, send_back: &SendBack) -> Self {
        let Some(mut fields) = Fields::of(raw) else {
            return Self { error: Some(WireError::of_body(raw.get())), ..Self::default() };
        };
        let mut choice = fields.list("choices").first().and_then(|raw| Fields::of(raw));
        let in_choice = choice.as_mut().and_then(WireError::nested);
        let packet = Self {
            error: WireError::nested(&mut fields).or(in_choice),
            model: fields.word("model"),
            usage: fields.object("usage").and_then(usage),
            choice: choice.map(|fields| Choice::read(fields, send_back)),
        };
        if packet.error.is_some() || packet.choice.is_some() || packet.usage.is_some() {
            return packet;
        }
        let is_error = fields.text("object").is_some_and(|object| object == "error");
        let bare = WireError::of_fields(fields);
        let error = (is_error || bare.message.is_some() || bare.code.is_some()).then_some(bare);
        Self { error, ..packet }
    }
}

fn usage(mut fields: Fields<'_>) -> Option<Usage> {
    let (prompt, completion) = (fields.count("prompt_tokens"), fields.count("completion_tokens"));
    prompt.or(completion)?;
    let cached =
        fields.object("prompt_tokens_details").and_then(|mut details| details.count("cached_tokens"));
    Some(Usage {
        prompt: Tokens(prompt.unwrap_or(0)),
        completion: Tokens(completion.unwrap_or(0)),
        cached: Tokens(cached.unwrap_or(0)),
    })
}

impl Choice {
    fn read(mut fields: Fields<'_>, send_back: &SendBack) -> Self {
        let message = fields.object("delta").or_else(|| fields.object("message"));
        let part = message.map(|message| Part::read(message, send_back)).unwrap_or_default();
        Self { finish: fields.word("finish_reason"), part }
    }
}

impl Part {
    fn read(mut fields: Fields<'_>, send_back: &SendBack) -> Self {
        let mut part = Self { refusal: fields.text("refusal").unwrap_or_default(), ..Self::default() };
        if let Some(content) = fields.take("content") {
            part.add_content(content);
        }
        let calls = fields.list("tool_calls");
        part.calls = calls.into_iter().filter_map(|raw| CallPart::read(raw, send_back)).collect();
        // The old form knows one call at most, so it has a place although it has no number.
        if let Some(function) = fields.object("function_call")
            && part.calls.is_empty()
        {
            let call = CallPart { index: Some(0), ..CallPart::default() };
            part.calls.push(call.with_function(function));
        }
        fields.take("role");
        part.extra = fields.keep(send_back);
        part
    }

    /// Adds content: text, a part with text in it, or a list of these.
    fn add_content(&mut self, raw: &RawValue) {
        if let Some(text) = text(raw) {
            self.text.push_str(&text);
        } else if let Some(mut fields) = Fields::of(raw) {
            self.text.push_str(&fields.text("text").unwrap_or_default());
            self.refusal.push_str(&fields.text("refusal").unwrap_or_default());
        } else if let Ok(list) = serde_json::from_str::<Vec<&RawValue>>(raw.get()) {
            list.into_iter()
                .filter(|item| !item.get().starts_with('['))
                .for_each(|item| self.add_content(item));
        }
    }
}

impl CallPart {
    fn read(raw: &RawValue, send_back: &SendBack) -> Option<Self> {
        let mut fields = Fields::of(raw)?;
        let call = Self {
            index: fields.count("index"),
            id: fields.word("id").filter(|id| id != "null"),
            ..Self::default()
        };
        fields.take("type");
        let function = fields.object("function");
        let call = Self { extra: fields.keep(send_back), ..call };
        Some(match function {
            Some(function) => call.with_function(function),
            // Some leave out the inner object.
            None => call.with_function(fields),
        })
    }

    fn with_function(mut self, mut function: Fields<'_>) -> Self {
        self.name = function.word("name");
        if let Some(raw) = function.take("arguments") {
            self.arguments = match exact_text(raw) {
                Some(text) => Arguments::Text(text),
                None if raw.get().starts_with('"') => Arguments::NotText,
                None => Arguments::Value(raw.get().to_owned()),
            };
        }
        self
    }
}
