//! A conversation from elsewhere, made fit to be continued.
//!
//! The input is a conversation in the JSON of chat completions. Whatever it holds, what comes of it
//! must be one that every provider takes, and one that a second repair leaves alone.

use std::collections::BTreeSet;

use dauntless_contract::{History, Message, RepairedHistory, ToolCall};
use serde_json::{Value, json};

/// Repairs the conversation; a value that is no list is its only message.
pub fn holds(bytes: &[u8]) {
    let messages: Vec<Value> = match serde_json::from_slice(bytes) {
        Ok(Value::Array(messages)) => messages,
        Ok(message) => vec![message],
        Err(_) => return,
    };
    let RepairedHistory { history, repairs } = History::repair(&messages);
    for repair in &repairs {
        assert!(repair.message < messages.len(), "{repair}");
        assert!(repair.original.as_deref().is_none_or(|text| text.len() <= 2048), "{repair}");
    }
    is_taken_by_providers(&history);
    let rendered: Vec<Value> = history.messages().iter().map(rendered).collect();
    let again = History::repair(&rendered);
    assert_eq!(again, RepairedHistory::from(history.clone()), "what is right is left alone");
    let stored = serde_json::to_string(&history).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(serde_json::from_str::<History>(&stored).ok(), Some(history), "{stored}");
}

/// What each provider that we know of demands of a conversation.
fn is_taken_by_providers(history: &History) {
    let mut messages = history.messages().iter().enumerate();
    let mut ids = BTreeSet::new();
    let mut spoken = false;
    while let Some((place, message)) = messages.next() {
        match message {
            Message::System { text } => {
                assert_eq!(place, 0, "instructions come first");
                is_text(text);
            }
            Message::User { text } => {
                is_text(text);
                spoken = true;
            }
            Message::Assistant { text, calls, .. } => {
                assert!(spoken, "the user speaks before the model");
                assert!(text.is_some() || !calls.is_empty(), "no message is empty");
                text.iter().for_each(|text| is_text(text));
                for call in calls {
                    assert!(ids.insert(&call.id), "`{}` is the id of one call alone", call.id);
                    is_a_call(call);
                    match messages.next() {
                        Some((_, Message::Tool { call_id, name, text })) => {
                            assert_eq!(
                                (call_id, name),
                                (&call.id, &call.name),
                                "each call has its answer next"
                            );
                            is_text(text);
                        }
                        other => panic!("`{}` has no answer but {other:?}", call.id),
                    }
                }
            }
            Message::Tool { call_id, .. } => panic!("nothing asked for the answer to `{call_id}`"),
        }
    }
}

fn is_a_call(call: &ToolCall) {
    is_text(&call.id);
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let fits = (1..=64).contains(&call.name.len()) && call.name.chars().all(legal);
    assert!(fits, "{:?} is no name of a tool", call.name);
    assert!(call.arguments.to_value().is_object(), "{} is no object", call.arguments);
}

fn is_text(text: &str) {
    assert!(!text.trim().is_empty() && !text.contains('\0'), "{text:?}");
}

fn rendered(message: &Message) -> Value {
    match message {
        Message::System { text } => json!({ "role": "system", "content": text }),
        Message::User { text } => json!({ "role": "user", "content": text }),
        Message::Assistant { text, calls, .. } => {
            let call = |call: &ToolCall| {
                let function = json!({ "name": call.name, "arguments": call.arguments.as_str() });
                json!({ "id": call.id, "type": "function", "function": function })
            };
            let mut message = json!({ "role": "assistant", "content": text });
            if let (Some(fields), false) = (message.as_object_mut(), calls.is_empty()) {
                fields.insert("tool_calls".into(), calls.iter().map(call).collect());
            }
            message
        }
        Message::Tool { call_id, text, .. } => {
            json!({ "role": "tool", "tool_call_id": call_id, "content": text })
        }
    }
}
