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
    /// The whole, as JSON text: a value that nobody turned into text, or what is said once more
    /// after the pieces.
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
            usage: usage(&mut fields, ["prompt_tokens", "completion_tokens"]),
            choice: choice.map(|fields| Choice::read(fields, send_back)),
        };
        if packet.error.is_some() || packet.choice.is_some() || packet.usage.is_some() {
            return packet;
        }
        Self { error: WireError::bare(fields), ..packet }
    }
}

/// The tokens used, under the names that an API gives the two counts.
pub(super) fn usage(fields: &mut Fields<'_>, names: [&str; 2]) -> Option<Usage> {
    let mut usage = fields.object("usage")?;
    let [prompt, completion] = names.map(|name| usage.count(name));
    prompt.or(completion)?;
    let details = format!("{}_details", names[0]);
    let cached = usage.object(&details).and_then(|mut details| details.count("cached_tokens"));
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
    pub(super) fn add_content(&mut self, raw: &RawValue) {
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

    pub(super) fn with_function(mut self, mut function: Fields<'_>) -> Self {
        self.name = function.word("name");
        self.arguments = function.take("arguments").map_or(Arguments::Absent, Arguments::of);
        self
    }

    /// A fragment of the call at this place.
    pub(super) fn at(place: usize) -> Self {
        Self { index: u64::try_from(place).ok(), ..Self::default() }
    }
}

impl Arguments {
    /// Reads them in whatever form they have.
    pub(super) fn of(raw: &RawValue) -> Self {
        match exact_text(raw) {
            Some(text) => Self::Text(text),
            None if raw.get().starts_with('"') => Self::NotText,
            None => Self::Value(raw.get().to_owned()),
        }
    }

    /// The same, known not to be a piece; blank text says nothing.
    pub(super) fn whole(self) -> Self {
        match self {
            Self::Text(text) if text.trim().is_empty() => Self::Absent,
            Self::Text(text) => Self::Value(text),
            Self::Absent | Self::Value(_) | Self::NotText => self,
        }
    }
}

/// Adds what a chunk says to what is there: text to text, list to list; else the later one counts.
pub(crate) fn merge(fields: &mut Map<String, Value>, more: Map<String, Value>) {
    for (name, value) in more {
        match (fields.get_mut(&name), value) {
            (Some(Value::String(text)), Value::String(piece)) => text.push_str(&piece),
            (Some(Value::Array(list)), Value::Array(items)) => list.extend(items),
            (_, value) => {
                fields.insert(name, value);
            }
        }
    }
}
