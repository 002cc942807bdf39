//! Groq's `tool_use_failed`: the provider could not read the call that its model wrote.
//!
//! That is the model's mistake and not the caller's, although it comes with status 400. Where the
//! text names a tool, it becomes a call that nobody can execute, so that the model learns of it.

use serde_json::value::RawValue;

use crate::wire::{Arguments, CallPart, Choice, Packet, Part, WireError};

/// The call that the model meant, if the failure is of this kind and names a tool.
pub(crate) fn call(error: &WireError) -> Option<Packet> {
    if error.code.as_deref() != Some("tool_use_failed") {
        return None;
    }
    let text = error.failed_generation.as_deref()?.trim();
    let call = CallPart {
        name: Some(name_in_tag(text).or_else(|| name_in_json(text))?),
        arguments: Arguments::Text(text.to_owned()),
        ..CallPart::default()
    };
    let part = Part { calls: vec![call], ..Part::default() };
    Some(Packet { choice: Some(Choice { finish: None, part }), ..Packet::default() })
}

/// `<function=NAME…`
fn name_in_tag(text: &str) -> Option<String> {
    let rest = text.strip_prefix("<function=")?;
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name: String = rest.chars().take_while(|c| legal(*c)).collect();
    (!name.is_empty()).then_some(name)
}

/// `{"name": "NAME", …}`, also as the first of a list.
fn name_in_json(text: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Named {
        name: String,
    }
    let list: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
    let first = list.first().map_or(text, |raw| raw.get());
    serde_json::from_str::<Named>(first).ok().map(|named| named.name).filter(|name| !name.is_empty())
}
