//! Whatever conversation comes from elsewhere, what is sent of it keeps every rule.

use dauntless_contract::{History, Message};
use proptest::prelude::*;

use super::*;

/// The conversation as a client writes it.
fn written(history: &History) -> Vec<Value> {
    let message = |message: &Message| match message {
        Message::System { text } => json!({ "role": "system", "content": &**text }),
        Message::User { text } => json!({ "role": "user", "content": &**text }),
        Message::Assistant { text, calls, .. } if calls.is_empty() => {
            json!({ "role": "assistant", "content": text.as_deref() })
        }
        Message::Assistant { text, calls, .. } => {
            let calls: Vec<Value> = calls
                .iter()
                .map(|call| {
                    let function = json!({ "name": &*call.name, "arguments": call.arguments.as_str() });
                    json!({ "id": &*call.id, "type": "function", "function": function })
                })
                .collect();
            json!({ "role": "assistant", "content": text.as_deref(), "tool_calls": calls })
        }
        Message::Tool { call_id, name, text } => {
            json!({ "role": "tool", "tool_call_id": &**call_id, "name": &**name, "content": &**text })
        }
    };
    history.messages().iter().map(message).collect()
}

fn text() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => "[a-z ]{0,6}".prop_map(Value::from),
        1 => Just(json!("a\u{0}b")),
        1 => Just(json!("\u{0}")),
        1 => Just(Value::Null),
        1 => Just(json!([{ "type": "text", "text": "part" }, { "type": "image_url" }])),
        1 => Just(json!([])),
        1 => Just(json!({ "odd": 1 })),
        1 => Just(json!(7)),
    ]
}

fn word(words: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let one = prop::sample::select(words).prop_map(Value::from);
    prop_oneof![8 => one, 1 => Just(Value::Null), 1 => Just(json!(3))]
}

fn call() -> impl Strategy<Value = Value> {
    let arguments = prop_oneof![
        word(&["{}", r#"{"a":1}"#, r#"{"a":1"#, "", "null", "[1]", r#""{\"a\":2}""#, r#"{"a":"\ud800"}"#]),
        Just(json!({ "a": [1, 2] })),
    ];
    (word(&["a", "b", "", "call_1"]), word(&["find", "pay", "", "no such.name"]), arguments).prop_map(
        |(id, name, arguments)| json!({ "id": id, "function": { "name": name, "arguments": arguments } }),
    )
}

fn message() -> impl Strategy<Value = Value> {
    let roles = word(&["system", "developer", "user", "assistant", "tool", "function", "Human", "x"]);
    let calls = prop::collection::vec(call(), 0..4);
    let fields = (roles, text(), prop::option::of(calls), prop::option::of(word(&["a", "b", "", "z"])));
    let object = fields.prop_map(|(role, content, calls, id)| {
        let mut message = json!({ "role": role, "content": content });
        if let Some(calls) = calls {
            message["tool_calls"] = calls.into();
        }
        if let Some(id) = id {
            message["tool_call_id"] = id;
        }
        message
    });
    prop_oneof![20 => object, 1 => Just(json!(null)), 1 => Just(json!("words")), 1 => Just(json!([]))]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn any_messages_give_a_conversation_that_keeps_every_rule(
        messages in prop::collection::vec(message(), 0..12)
    ) {
        let repaired = History::repair(&messages);
        let resumed = repaired.history.clone().resume(&"Be good.".into(), &"Go on.".into());
        let request = json!({ "model": "m", "messages": written(&resumed) });
        let broken = check(&ChatRequest::parse(request.to_string()).unwrap());
        prop_assert!(broken.is_empty(), "{broken:?}");

        let again = History::repair(&written(&repaired.history));
        prop_assert_eq!(&again.history, &repaired.history, "a second repair changes nothing");
        prop_assert_eq!(again.repairs, vec![], "and finds nothing");

        let stored = serde_json::to_string(&repaired.history).unwrap();
        prop_assert_eq!(serde_json::from_str::<History>(&stored).unwrap(), repaired.history);
    }

    #[test]
    fn messages_that_keep_every_rule_come_through_as_they_are(
        rounds in prop::collection::vec((1..4_usize, "[a-z]{1,5}", "[a-z]{0,5}"), 0..6)
    ) {
        let mut messages = vec![json!({ "role": "user", "content": "Go." })];
        for (turn, (calls, said, answer)) in rounds.iter().enumerate() {
            let id = |index: usize| format!("t{turn}-{index}");
            let asked: Vec<Value> = (0..*calls)
                .map(|index| {
                    let function = json!({ "name": "find", "arguments": format!("{{\"q\": \"{said}\"}}") });
                    json!({ "id": id(index), "type": "function", "function": function })
                })
                .collect();
            messages.push(json!({ "role": "assistant", "content": said, "tool_calls": asked }));
            for index in 0..*calls {
                let content = format!("{answer}!");
                messages.push(json!({ "role": "tool", "tool_call_id": id(index), "name": "find", "content": content }));
            }
            messages.push(json!({ "role": "user", "content": said }));
        }
        let repaired = History::repair(&messages);
        prop_assert_eq!(repaired.repairs, vec![]);
        prop_assert_eq!(written(&repaired.history), messages);
    }
}
