//! The Responses API: its requests as the chat requests that say the same, and replies in its form.
//!
//! One set of rules holds for both APIs, and a test that looks at a request finds messages and tools
//! whichever way they came. What the rules do not look at is left as it is.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::render::{Frame, halves, id, line};
use super::request::list;

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
            let last = messages.last_mut().filter(|message| message["role"] == "assistant");
            match last.and_then(Value::as_object_mut) {
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
    let spoken = frame.spoken;
    let reason = match &*spoken.finish {
        "length" => Some("max_output_tokens"),
        "content_filter" => Some("content_filter"),
        _ => None,
    };
    let usage = frame.usage();
    json!({
        "id": frame.id, "object": "response", "model": frame.request.model(),
        "status": if reason.is_some() { "incomplete" } else { "completed" },
        "incomplete_details": reason.map(|reason| json!({"reason": reason})),
        "output": items(frame),
        "usage": {"input_tokens": usage["prompt_tokens"], "output_tokens": usage["completion_tokens"],
            "total_tokens": usage["total_tokens"]},
    })
}

fn items(frame: &Frame<'_>) -> Vec<Value> {
    let spoken = frame.spoken;
    let text = spoken.text.iter().map(|text| json!({"type": "output_text", "text": text, "annotations": []}));
    let refusal = spoken.refusal.iter().map(|text| json!({"type": "refusal", "refusal": text}));
    let parts: Vec<Value> = text.chain(refusal).collect();
    let message = json!({"type": "message", "id": format!("{}_msg", frame.id), "role": "assistant",
        "status": "completed", "content": parts});
    let calls = spoken.calls.iter().enumerate().map(|(index, call)| {
        json!({"type": "function_call", "id": format!("{}_{index}", frame.id), "status": "completed",
            "call_id": id(call, index), "name": call.name, "arguments": call.arguments})
    });
    (!parts.is_empty()).then_some(message).into_iter().chain(calls).collect()
}

/// A reply in pieces: each item begins, comes in fragments and is said once more as a whole.
pub(super) fn events(frame: &Frame<'_>) -> Vec<Bytes> {
    let mut events = vec![json!({"type": "response.created", "response": {"status": "in_progress"}})];
    for (index, item) in items(frame).into_iter().enumerate() {
        let event = |kind: &str, fields: Value| {
            let mut event = Map::from_iter([("type".to_owned(), json!(format!("response.{kind}")))]);
            event.insert("output_index".into(), index.into());
            event.insert("item_id".into(), item["id"].clone());
            event.extend(fields.as_object().cloned().unwrap_or_default());
            Value::Object(event)
        };
        let mut begun = item.clone();
        begun["status"] = json!("in_progress");
        for (field, empty) in [("arguments", json!("")), ("content", json!([]))] {
            if begun.get(field).is_some() {
                begun[field] = empty;
            }
        }
        events.push(event("output_item.added", json!({"item": begun})));
        let fragments: Vec<(&str, &str)> = match item["arguments"].as_str() {
            Some(arguments) => vec![("function_call_arguments", arguments)],
            None => list(&item, "content")
                .iter()
                .filter_map(|part| match part["text"].as_str() {
                    Some(text) => Some(("output_text", text)),
                    None => Some(("refusal", part["refusal"].as_str()?)),
                })
                .collect(),
        };
        for (kind, text) in fragments {
            events.extend(halves(text).map(|part| event(&format!("{kind}.delta"), json!({"delta": part}))));
        }
        events.push(event("output_item.done", json!({"item": item.clone()})));
    }
    let response = whole(frame);
    let end = format!("response.{}", response["status"].as_str().unwrap_or("completed"));
    events.push(json!({"type": end, "response": response}));
    events.iter().map(|event| line(&event.to_string())).collect()
}
