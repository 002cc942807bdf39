//! The reply that is put together from what a provider sends.
//!
//! Each line of the input is one chunk of a stream, and each one is read as a whole body as well.
//! Every reply must have sound ids, and must come out the same when it is sent again in pieces.

use std::collections::HashSet;

use dauntless_contract::{Finish, ModelReply, Usage};
use dauntless_models::fuzzing::{Setting, streamed, whole};
use serde_json::{Map, Value, json};

const OUTPUT_LIMIT: u32 = 32;
/// Where a reply keeps the extra fields of its calls.
const EXTRA_OF_CALLS: &str = "tool_calls";

/// Reads the lines, as a stream and one by one.
pub fn holds(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    let send_back = ["extra_content", "reasoning_content", "reasoning_details"].map(str::to_owned);
    let setting = Setting {
        send_back: &send_back,
        output_limit: Some(OUTPUT_LIMIT),
        taken: HashSet::from(["a", "call_1", "call_3"]),
    };
    let at_once = streamed(lines.iter().copied(), &setting);
    assert_eq!(at_once, streamed(lines.iter().copied(), &setting), "the same chunks give the same reply");
    for reply in at_once.into_iter().chain(lines.iter().filter_map(|line| whole(line, &setting))) {
        ids_are_sound(&reply, &setting);
        if reply.calls.iter().all(|call| call.garbled.is_none()) {
            is_the_same_in_pieces(&reply, bytes, &setting);
        }
    }
}

fn ids_are_sound(reply: &ModelReply, setting: &Setting<'_>) {
    let ids: HashSet<&str> = reply.calls.iter().map(|call| &*call.id).collect();
    assert_eq!(ids.len(), reply.calls.len(), "each call has an id of its own: {reply:?}");
    assert!(!ids.iter().any(|id| id.trim().is_empty()), "no id is blank: {reply:?}");
    assert!(ids.is_disjoint(&setting.taken), "no id is one of the conversation: {reply:?}");
}

/// Sends a reply again as a stream, cut at places that the input decides on.
fn is_the_same_in_pieces(reply: &ModelReply, cuts: &[u8], setting: &Setting<'_>) {
    let mut chunks = vec![delta(opening(reply))];
    let mut sizes = cuts.iter().map(|byte| 1 + usize::from(byte % 13)).cycle();
    let text = reply.text.as_deref().unwrap_or_default();
    chunks.extend(cut(text, &mut sizes).map(|piece| delta(json!({ "content": piece }))));
    let mut waiting: Vec<(usize, Vec<&str>)> = Vec::new();
    for (index, call) in reply.calls.iter().enumerate() {
        let mut entry = extra_of_call(reply, &call.id);
        entry.insert("index".into(), index.into());
        entry.insert("id".into(), (*call.id).into());
        entry.insert("function".into(), json!({ "name": &*call.name, "arguments": "" }));
        chunks.push(delta(json!({ "tool_calls": [entry] })));
        let mut pieces: Vec<&str> = cut(&call.arguments, &mut sizes).collect();
        pieces.reverse();
        waiting.push((index, pieces));
    }
    // The pieces of all calls take turns; a chunk holds one of each call that has some left.
    while waiting.iter().any(|(_, pieces)| !pieces.is_empty()) {
        let entry = |(index, pieces): &mut (usize, Vec<&str>)| {
            let piece = pieces.pop()?;
            Some(json!({ "index": *index, "function": { "arguments": piece } }))
        };
        let entries: Vec<Value> = waiting.iter_mut().filter_map(entry).collect();
        chunks.push(delta(json!({ "tool_calls": entries })));
    }
    chunks.extend(ending(reply));
    let chunks: Vec<String> = chunks.iter().map(Value::to_string).collect();
    let again = streamed(chunks.iter().map(String::as_str), setting);
    assert_eq!(again.as_ref(), Some(reply), "however it is cut it is the same reply: {chunks:#?}");
}

fn delta(delta: Value) -> Value {
    json!({ "choices": [{ "index": 0, "delta": delta }] })
}

/// Everything but the text and the calls.
fn opening(reply: &ModelReply) -> Value {
    let mut delta = extra(reply);
    delta.remove(EXTRA_OF_CALLS);
    delta.insert("role".into(), "assistant".into());
    delta.insert("refusal".into(), reply.refusal.as_deref().into());
    delta.into()
}

fn extra(reply: &ModelReply) -> Map<String, Value> {
    reply.extra.as_ref().and_then(|extra| extra.to().ok()).unwrap_or_default()
}

fn extra_of_call(reply: &ModelReply, id: &str) -> Map<String, Value> {
    match extra(reply).get(EXTRA_OF_CALLS).and_then(|calls| calls.get(id)) {
        Some(Value::Object(fields)) => fields.clone(),
        _ => Map::new(),
    }
}

/// The reason to stop, then what was used.
fn ending(reply: &ModelReply) -> [Value; 2] {
    let word = match &reply.finish {
        Finish::Stop => "stop",
        Finish::ToolCalls => "tool_calls",
        Finish::Length => "length",
        Finish::ContentFilter => "content_filter",
        Finish::Other(word) => word,
    };
    let usage = reply.usage.map(|Usage { prompt, completion, cached }| {
        json!({
            "prompt_tokens": prompt.0,
            "completion_tokens": completion.0,
            "prompt_tokens_details": { "cached_tokens": cached.0 },
        })
    });
    [
        json!({ "model": reply.model, "choices": [{ "delta": {}, "finish_reason": word }] }),
        json!({ "choices": [], "usage": usage }),
    ]
}

/// Cuts a text into pieces of so many characters.
fn cut<'t>(text: &'t str, sizes: &mut impl Iterator<Item = usize>) -> impl Iterator<Item = &'t str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let size = sizes.next()?;
        let end = rest.char_indices().nth(size).map_or(rest.len(), |(at, _)| at);
        let (piece, left) = rest.split_at(end);
        rest = left;
        (!piece.is_empty()).then_some(piece)
    })
}
