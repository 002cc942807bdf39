//! The Responses API: its requests as the chat requests that say the same, and replies in its form.
//!
//! One set of rules holds for both APIs, and a test that looks at a request finds messages and tools
//! whichever way they came. What the rules do not look at is left as it is.

use bytes::Bytes;
use serde_json::{Value, json};

use super::render::{Frame, halves, id, line};

/// Reads a request of this API as a chat request. What is no such request comes out as none.
///
/// # Errors
/// When the body is not JSON.
pub(super) fn as_chat(body: &[u8]) -> Result<Bytes, serde_json::Error> {
    let mut request: Value = serde_json::from_slice(body)?;
    let Some(fields) = request.as_object_mut() else { return Ok(Bytes::copy_from_slice(body)) };
    let instructions = fields.remove("instructions").filter(|text| !text.is_null());
    if let Some(Value::Array(items)) = fields.remove("input") {
        let mut messages: Vec<Value> =
            instructions.into_iter().map(|text| json!({"role": "system", "content": text})).collect();
        for item in items {
            add(&mut messages, item);
        }
        fields.insert("messages".into(), messages.into());
    }
    if let Some(Value::Array(tools)) = fields.remove("tools") {
        let tools = tools.into_iter().map(|tool| json!({"type": "function", "function": tool}));
        fields.insert("tools".into(), tools.collect());
    }
    Ok(request.to_string().into())
}

/// Adds an item to the messages: a call joins the message of the model that it stands behind.
fn add(messages: &mut Vec<Value>, item: Value) {
    let field = |name: &str| item.get(name).cloned().unwrap_or_default();
    match item.get("type").and_then(Value::as_str).unwrap_or("message") {
        "message" => messages.push(json!({"role": field("role"), "content": words(&item)})),
        "reasoning" => {}
        "function_call_output" => messages
            .push(json!({"role": "tool", "tool_call_id": field("call_id"), "content": field("output")})),
        "function_call" => {
            let call = json!({"id": field("call_id"), "type": "function",
                "function": {"name": field("name"), "arguments": field("arguments")}});
            let of_the_model =
                |message: &&mut Value| message.get("role").and_then(Value::as_str) == Some("assistant");
            match messages.last_mut().filter(of_the_model).and_then(Value::as_object_mut) {
                Some(message) => {
                    let calls = message.entry("tool_calls").or_insert_with(|| json!([]));
                    calls.as_array_mut().into_iter().for_each(|calls| calls.push(call.clone()));
                }
                None => messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]})),
            }
        }
        // No role either, and a rule says so.
        other => messages.push(json!({"role": other})),
    }
}

/// The content of a message; the texts of its parts in one.
fn words(item: &Value) -> Value {
    match item.get("content") {
        Some(Value::Array(parts)) => {
            parts.iter().filter_map(|part| part.get("text")?.as_str()).collect::<String>().into()
        }
        content => content.cloned().unwrap_or_default(),
    }
}

/// A reply in one piece.
pub(super) fn whole(frame: &Frame<'_>) -> Value {
    let items: Vec<Value> = items(frame).into_iter().map(|item| item.whole).collect();
    let reason = cut_by(frame);
    let (prompt, completion) = frame.tokens();
    json!({
        "id": frame.id, "object": "response", "model": frame.request.model(),
        "status": if reason.is_some() { "incomplete" } else { "completed" },
        "incomplete_details": reason.map(|reason| json!({"reason": reason})),
        "output": items,
        "usage": {"input_tokens": prompt, "output_tokens": completion, "total_tokens": prompt + completion},
    })
}

/// Why the reply is not complete, where it is not.
fn cut_by(frame: &Frame<'_>) -> Option<&'static str> {
    match &*frame.spoken.finish {
        "length" => Some("max_output_tokens"),
        "content_filter" => Some("content_filter"),
        _ => None,
    }
}

/// One part of a reply, as it begins, as it is in the end, and what comes in between.
struct Item<'a> {
    begun: Value,
    whole: Value,
    fragments: Vec<(&'static str, &'a str)>,
}

fn items<'a>(frame: &Frame<'a>) -> Vec<Item<'a>> {
    let (spoken, serial) = (frame.spoken, &frame.id);
    let mut items = Vec::new();
    let text = spoken.text.iter().map(|text| ("output_text", "text", &**text));
    let refusal = spoken.refusal.iter().map(|text| ("refusal", "refusal", &**text));
    let words: Vec<(&'static str, &str, &'a str)> = text.chain(refusal).collect();
    if !words.is_empty() {
        let message = |content: Vec<Value>| json!({"type": "message", "id": format!("{serial}_msg"), "role": "assistant", "content": content});
        items.push(Item {
            begun: message(Vec::new()),
            whole: message(words.iter().map(|(kind, key, text)| json!({"type": kind, *key: text})).collect()),
            fragments: words.iter().map(|(kind, _, text)| (*kind, *text)).collect(),
        });
    }
    for (index, call) in spoken.calls.iter().enumerate() {
        let said = |arguments: &str| {
            json!({"type": "function_call", "id": format!("{serial}_{index}"), "call_id": id(call, index),
                "name": call.name, "arguments": arguments})
        };
        items.push(Item {
            begun: said(""),
            whole: said(&call.arguments),
            fragments: vec![("function_call_arguments", &*call.arguments)],
        });
    }
    items
}

/// A reply in pieces: each item begins, comes in fragments and is said once more as a whole.
pub(super) fn events(frame: &Frame<'_>) -> Vec<Bytes> {
    let mut events = vec![json!({"type": "response.created", "response": {"status": "in_progress"}})];
    for (at, Item { begun, whole, fragments }) in items(frame).into_iter().enumerate() {
        let item_id = whole.get("id").cloned();
        events.push(json!({"type": "response.output_item.added", "output_index": at, "item": begun}));
        for (kind, text) in fragments {
            let kind = format!("response.{kind}.delta");
            events
                .extend(halves(text).map(
                    |part| json!({"type": kind, "output_index": at, "item_id": item_id, "delta": part}),
                ));
        }
        events.push(json!({"type": "response.output_item.done", "output_index": at, "item": whole}));
    }
    let end = cut_by(frame).map_or("response.completed", |_| "response.incomplete");
    events.push(json!({"type": end, "response": whole(frame)}));
    events.iter().map(|event| line(&event.to_string())).collect()
}
