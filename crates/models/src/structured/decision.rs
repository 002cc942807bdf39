//! Reads a decision out of the model's words.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use dauntless_contract::{Finish, ModelReply, RawCall};
use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The name of the call that stands for words that are no decision.
pub(super) const NO_DECISION: &str = "no_decision";

const NOT_ONE_OBJECT: &str = "the reply is not one JSON object with \"name\" and \"parameters\", or with \
                              \"answer\" alone for the final answer";

/// The reply that a model with tool calls of its own would have given.
///
/// `taken` are the call ids of the conversation so far. An answer with a schema stays JSON; else a
/// text in it is the answer.
pub(super) fn read(reply: ModelReply, taken: &HashSet<&str>, has_schema: bool) -> ModelReply {
    let is_final = reply.refusal.is_some() || reply.finish == Finish::ContentFilter;
    if is_final || !reply.calls.is_empty() {
        return reply;
    }
    let Some(text) = reply.text.clone().filter(|text| !text.trim().is_empty()) else { return reply };
    let cut = reply.finish == Finish::Length;
    match (Decision::read(unfenced(&text), has_schema), cut) {
        (Some(Decision::Answer(answer)), _) => {
            ModelReply { text: Some(answer.into()), finish: Finish::Stop, ..reply }
        }
        (Some(Decision::Call { name, parameters }), _) => {
            calling(reply, None, call(taken, &name, parameters, None), Finish::ToolCalls)
        }
        (None, true) => match Decision::read_cut(text.trim(), has_schema) {
            Some(Decision::Call { name, parameters }) => {
                calling(reply, None, call(taken, &name, parameters, None), Finish::Length)
            }
            Some(Decision::Answer(answer)) => ModelReply { text: Some(answer.into()), ..reply },
            None => reply,
        },
        (None, false) => {
            let odd = call(taken, NO_DECISION, "", Some(NOT_ONE_OBJECT));
            calling(reply, Some(text), odd, Finish::ToolCalls)
        }
    }
}

fn calling(reply: ModelReply, text: Option<Arc<str>>, call: RawCall, finish: Finish) -> ModelReply {
    ModelReply { text, calls: vec![call], finish, ..reply }
}

fn call(taken: &HashSet<&str>, name: &str, arguments: &str, garbled: Option<&str>) -> RawCall {
    let mut number = taken.len();
    let id = loop {
        number += 1;
        let id = format!("call_{number}");
        if !taken.contains(&*id) {
            break id.into();
        }
    };
    RawCall { id, name: name.into(), arguments: arguments.into(), garbled: garbled.map(Into::into) }
}

enum Decision<'a> {
    Call { name: String, parameters: &'a str },
    Answer(String),
}

impl<'a> Decision<'a> {
    /// Reads a whole decision: one object with its fields and no others, each once.
    fn read(text: &'a str, has_schema: bool) -> Option<Self> {
        let (fields, is_whole) = fields(text);
        if !is_whole {
            return None;
        }
        match fields.as_slice() {
            [(answer, value)] if answer == "answer" => {
                let words = Some(value).filter(|_| !has_schema).and_then(|value| string(value));
                Some(Self::Answer(words.unwrap_or_else(|| value.get().to_owned())))
            }
            [(name, value), (parameters, object)] | [(parameters, object), (name, value)]
                if name == "name" && parameters == "parameters" =>
            {
                Some(Self::Call { name: string(value)?, parameters: object.get() })
            }
            _ => None,
        }
    }

    /// Reads what there is of a decision that broke off.
    fn read_cut(text: &'a str, has_schema: bool) -> Option<Self> {
        let (fields, _) = fields(text);
        match fields.as_slice() {
            [] => {
                let value = value_of("answer", text.strip_prefix('{')?)?;
                let words = value.strip_prefix('"').filter(|_| !has_schema);
                Some(Self::Answer(words.map_or_else(|| value.to_owned(), beginning)))
            }
            [(name, value)] if name == "name" => {
                let (_, rest) = text.split_once("\"parameters\"").unwrap_or_default();
                let parameters = rest.trim_start().strip_prefix(':').unwrap_or_default().trim_start();
                Some(Self::Call { name: string(value)?, parameters })
            }
            _ => None,
        }
    }
}

/// The text behind a key that is the first, up to where it broke off.
fn value_of<'a>(key: &str, text: &'a str) -> Option<&'a str> {
    let rest = text.trim_start().strip_prefix('"')?.strip_prefix(key)?.strip_prefix('"')?;
    Some(rest.trim_start().strip_prefix(':')?.trim_start())
}

/// As much of a JSON string without its end as is certain: half an escape is none.
fn beginning(text: &str) -> String {
    // The longest escape that can be cut is a pair of surrogates.
    let ends = (0..=text.len()).rev().take(12).filter(|end| text.is_char_boundary(*end));
    let mut whole = ends.filter_map(|end| serde_json::from_str(&format!("\"{}\"", text.get(..end)?)).ok());
    whole.next().unwrap_or_default()
}

fn string(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// The inside of a code fence around the whole text, which models put there where nothing keeps
/// them to a schema.
fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let inside = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    inside.and_then(|inside| inside.split_once('\n')).map_or(text, |(_language, inside)| inside)
}

/// The fields of an object up to where it breaks off, and whether it is whole and alone.
fn fields(text: &str) -> (Vec<(String, &RawValue)>, bool) {
    let mut fields = Vec::new();
    let mut json = serde_json::Deserializer::from_str(text);
    let is_whole = json.deserialize_map(Collect(&mut fields)).is_ok() && json.end().is_ok();
    (fields, is_whole)
}

struct Collect<'f, 'a>(&'f mut Vec<(String, &'a RawValue)>);

impl<'a> Visitor<'a> for Collect<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(field) = map.next_entry()? {
            self.0.push(field);
        }
        Ok(())
    }
}
