//! Reads one message of a foreign conversation, taking it as it was meant.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Faults, HistoryFault, Loose, LooseCall};
use crate::Json;

/// The message; none where there is nothing to take from it.
pub(super) fn message(at: usize, value: &Value, faults: &mut Faults) -> Option<Loose> {
    let fields = match value {
        Value::Object(fields) => fields,
        Value::String(text) if !text.trim().is_empty() => {
            faults.add(at, HistoryFault::UnknownRole);
            return Some(Loose::User(clean(at, text, faults)));
        }
        other => {
            faults.replaced(at, HistoryFault::NotAMessage, &other.to_string());
            return None;
        }
    };
    let text = content(at, fields.get("content"), faults);
    let role = fields.get("role").and_then(Value::as_str).unwrap_or_default();
    let known = matches!(role, "system" | "developer" | "user" | "assistant" | "tool");
    if !known {
        faults.replaced(at, HistoryFault::UnknownRole, role);
    }
    Some(match role.trim().to_ascii_lowercase().as_str() {
        "system" | "developer" => Loose::System(text),
        "assistant" | "ai" | "model" | "bot" => assistant(at, fields, text, faults),
        "tool" | "function" => answer(at, fields, text, faults),
        _ if fields.contains_key("tool_calls") => assistant(at, fields, text, faults),
        _ if fields.contains_key("tool_call_id") => answer(at, fields, text, faults),
        _ => Loose::User(text),
    })
}

fn assistant(at: usize, fields: &Map<String, Value>, text: Arc<str>, faults: &mut Faults) -> Loose {
    let calls = match fields.get("tool_calls") {
        Some(Value::Array(calls)) => calls.iter().collect(),
        Some(call @ Value::Object(_)) => vec![call],
        _ => Vec::new(),
    };
    let old = fields.get("function_call").filter(|call| call.is_object());
    let calls = calls.into_iter().chain(old).filter_map(|value| call(at, value, faults)).collect();
    let refusal = fields.get("refusal").and_then(Value::as_str).unwrap_or_default();
    let text = if text.trim().is_empty() { clean(at, refusal, faults) } else { text };
    let text = Some(text).filter(|text| !text.trim().is_empty());
    Loose::Assistant { text, calls, extra: None }
}

fn call(at: usize, value: &Value, faults: &mut Faults) -> Option<LooseCall> {
    let Value::Object(call) = value else {
        faults.replaced(at, HistoryFault::NotAMessage, &value.to_string());
        return None;
    };
    let function = call.get("function").and_then(Value::as_object).unwrap_or(call);
    let given = function.get("arguments").unwrap_or(&Value::Null);
    Some(LooseCall {
        id: word(at, call.get("id"), faults),
        name: word(at, function.get("name"), faults),
        arguments: arguments(at, given, faults),
    })
}

fn answer(at: usize, fields: &Map<String, Value>, text: Arc<str>, faults: &mut Faults) -> Loose {
    let id = word(at, fields.get("tool_call_id"), faults);
    Loose::Tool { id, name: word(at, fields.get("name"), faults), text }
}

/// Arguments as the text of an object; `{}` where they are none, with what stood there noted.
fn arguments(at: usize, given: &Value, faults: &mut Faults) -> Json {
    if let Value::String(text) = given
        && let Some(json) = object(text)
    {
        return json;
    }
    let (meant, original) = match given {
        Value::Null => (None, String::new()),
        Value::Object(_) => (Some(Json::from(given)), String::new()),
        Value::String(text) => {
            let inner: Option<String> = serde_json::from_str(text).ok();
            (inner.and_then(|inner| object(&inner)), text.replace('\0', ""))
        }
        other => (None, other.to_string()),
    };
    faults.replaced(at, HistoryFault::Arguments, &original);
    meant.unwrap_or_else(Json::empty_object)
}

/// The text itself, if it is a JSON object that can be read as a tree.
fn object(text: &str) -> Option<Json> {
    serde_json::from_str::<Map<String, Value>>(text).ok()?;
    Json::parse(text).ok()
}

/// An id or a name: a text, or a number in place of one.
fn word(at: usize, value: Option<&Value>, faults: &mut Faults) -> Arc<str> {
    match value {
        Some(Value::String(text)) => clean(at, text.trim(), faults),
        Some(Value::Number(number)) => number.to_string().into(),
        _ => "".into(),
    }
}

/// The text of a content in any of its forms.
fn content(at: usize, value: Option<&Value>, faults: &mut Faults) -> Arc<str> {
    match value {
        None | Some(Value::Null) => "".into(),
        Some(Value::String(text)) => clean(at, text, faults),
        Some(Value::Array(parts)) => {
            let texts: Vec<&str> = parts.iter().filter_map(part).collect();
            if texts.len() < parts.len() {
                faults.add(at, HistoryFault::NotText);
            }
            clean(at, &texts.join("\n"), faults)
        }
        Some(other) => match part(other) {
            Some(text) => clean(at, text, faults),
            None => clean(at, &other.to_string(), faults),
        },
    }
}

fn part(part: &Value) -> Option<&str> {
    part.as_str().or_else(|| part.get("text")?.as_str())
}

fn clean(at: usize, text: &str, faults: &mut Faults) -> Arc<str> {
    if !text.contains('\0') {
        return text.into();
    }
    faults.add(at, HistoryFault::NullBytes);
    text.replace('\0', "").into()
}
