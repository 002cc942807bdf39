use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

/// The conversation, line by line, and what was changed.
fn check(messages: Value, expected: Expect) -> RepairedHistory {
    let repaired = History::repair(messages.as_array().unwrap());
    let mut text = String::new();
    for message in repaired.history.messages() {
        let line = match message {
            Message::System { text } => format!("system {text}"),
            Message::User { text } => format!("user {text}"),
            Message::Assistant { text, calls, .. } => {
                let calls: Vec<String> =
                    calls.iter().map(|call| format!("{}:{}{}", call.id, call.name, call.arguments)).collect();
                format!("assistant {} {calls:?}", text.as_deref().unwrap_or("-"))
            }
            Message::Tool { call_id, name, text } => format!("tool {call_id}:{name} {text}"),
        };
        text.push_str(&format!("{line}\n"));
    }
    for repair in &repaired.repairs {
        text.push_str(&format!("! {repair} {:?}\n", repair.original.as_deref().unwrap_or_default()));
    }
    expected.assert_eq(&text);
    let stored = serde_json::to_string(&repaired.history).unwrap();
    assert_eq!(serde_json::from_str::<History>(&stored).unwrap(), repaired.history, "it stays as it is");
    repaired
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
}

#[test]
fn broken_arguments_become_an_object_and_are_kept_aside() {
    check(
        json!([
            { "role": "user", "content": "Go." },
            { "role": "assistant", "content": null, "tool_calls": [
                call("a", "t", "{\"a\": 1, \"b\""), call("b", "t", "\"{\\\"x\\\":1}\""), call("c", "t", ""),
                { "id": "d", "function": { "name": "t", "arguments": { "k": [1] } } },
            ] },
            { "role": "tool", "tool_call_id": "a", "content": "1" },
            { "role": "tool", "tool_call_id": "b", "content": "2" },
            { "role": "tool", "tool_call_id": "c", "content": "3" },
            { "role": "tool", "tool_call_id": "d", "content": [{ "type": "text", "text": "4" }] },
        ]),
        expect![[r#"
            user Go.
            assistant - ["a:t{}", "b:t{\"x\":1}", "c:t{}", "d:t{\"k\":[1]}"]
            tool a:t 1
            tool b:t 2
            tool c:t 3
            tool d:t 4
            ! message 1 has arguments that are not the text of a JSON object "{\"a\": 1, \"b\""
            ! message 1 has arguments that are not the text of a JSON object "\"{\\\"x\\\":1}\""
            ! message 1 has arguments that are not the text of a JSON object ""
            ! message 1 has arguments that are not the text of a JSON object ""
        "#]],
    );
}

#[test]
fn calls_without_answers_are_answered_as_unknown_wherever_they_are() {
    check(
        json!([
            { "role": "user", "content": "Go." },
            { "role": "assistant", "content": null, "tool_calls": [call("c9", "pay", "{}")] },
            { "role": "user", "content": "And?" },
            { "role": "assistant", "content": "Wait.", "tool_calls": [] },
            { "role": "assistant", "tool_calls": [call("c10", "pay", "{}")] },
        ]),
        expect![[r#"
            user Go.
            assistant - ["c9:pay{}"]
            tool c9:pay {"error":"outcome_unknown","message":"The conversation was interrupted before this call of `pay` was answered.","hint":"It may have happened. Check whether it did before you repeat the call.","effect":"unknown"}
            user And?
            assistant Wait. []
            assistant - ["c10:pay{}"]
            tool c10:pay {"error":"outcome_unknown","message":"The conversation was interrupted before this call of `pay` was answered.","hint":"It may have happened. Check whether it did before you repeat the call.","effect":"unknown"}
            ! message 1 has a call without an answer, now answered as unknown ""
            ! message 4 has a call without an answer, now answered as unknown ""
        "#]],
    );
}

#[test]
fn answers_find_their_calls_and_strays_are_left_out() {
    check(
        json!([
            { "role": "tool", "tool_call_id": "x", "content": "before all" },
            { "role": "user", "content": "Go." },
            { "role": "assistant", "tool_calls": [call("a", "t", "{}"), call("b", "t", "{}")] },
            { "role": "tool", "tool_call_id": "b", "content": "second" },
            { "role": "user", "content": "Still there?" },
            { "role": "tool", "tool_call_id": "a", "content": "late" },
            { "role": "tool", "tool_call_id": "a", "content": "twice" },
        ]),
        expect![[r#"
            user Go.
            assistant - ["a:t{}", "b:t{}"]
            tool a:t late
            tool b:t second
            user Still there?
            ! message 0 answers no call and was left out "before all"
            ! message 5 answers a call from the wrong place and was moved to it ""
            ! message 6 answers a call a second time and was left out "twice"
        "#]],
    );
}

#[test]
fn ids_that_are_missing_or_not_unique_are_made_so() {
    check(
        json!([
            { "role": "user", "content": "Go." },
            { "role": "assistant", "tool_calls": [call("", "a", "{}"), call("", "b", "{}"), call("call_1", "c", "{}")] },
            { "role": "tool", "tool_call_id": "", "name": "b", "content": "B" },
            { "role": "tool", "content": "A" },
            { "role": "tool", "tool_call_id": "call_1", "content": "C" },
            { "role": "assistant", "tool_calls": [call("s", "s", "{\"q\":1}"), call("s", "s", "{\"q\":2}")] },
            { "role": "tool", "tool_call_id": "s", "content": "one" },
            { "role": "tool", "tool_call_id": "s", "content": "two" },
        ]),
        expect![[r#"
            user Go.
            assistant - ["call_2:a{}", "call_3:b{}", "call_1:c{}"]
            tool call_2:a A
            tool call_3:b B
            tool call_1:c C
            assistant - ["s:s{\"q\":1}", "call_4:s{\"q\":2}"]
            tool s:s one
            tool call_4:s two
            ! message 1 has a call without an id of its own, which got one ""
            ! message 1 has a call without an id of its own, which got one ""
            ! message 3 answers a call from the wrong place and was moved to it ""
            ! message 5 has a call without an id of its own, which got one "s"
        "#]],
    );
}

#[test]
fn odd_messages_are_read_as_they_were_meant() {
    check(
        json!([
            { "role": "assistant", "content": "Hello." },
            { "role": "system", "content": "Be brief." },
            { "role": "human", "content": "Hi\u{0}!" },
            { "role": "user", "content": [{ "type": "image_url", "image_url": {} }, { "type": "text", "text": "Look." }] },
            { "role": "assistant", "content": null },
            { "role": "user", "content": "  " },
            { "role": "assistant", "function_call": { "name": "old name", "arguments": "{}" } },
            { "role": "function", "name": "old name", "content": "" },
            7,
            "just words",
        ]),
        expect![[r#"
            user [The beginning of this conversation is missing.]
            assistant Hello. []
            user Be brief.
            user Hi!
            user Look.
            assistant - ["call_1:old_name{}"]
            tool call_1:old_name The call worked. It has nothing to show.
            user just words
            ! message 0 begins the conversation without the user; a note was put before it ""
            ! message 1 holds instructions after the beginning, kept as words of the user ""
            ! message 2 holds null bytes, which were left out ""
            ! message 2 has an unknown role and was read as the nearest "human"
            ! message 3 holds content that is not text, which was left out ""
            ! message 4 has neither text nor calls and was left out ""
            ! message 5 has neither text nor calls and was left out ""
            ! message 6 has a call without an id of its own, which got one ""
            ! message 6 names a tool as no provider takes it; the name was replaced "old name"
            ! message 6 has neither text nor calls and was left out ""
            ! message 7 has an unknown role and was read as the nearest "function"
            ! message 8 is no message and was left out "7"
            ! message 9 has an unknown role and was read as the nearest ""
        "#]],
    );
}

#[test]
fn a_conversation_without_faults_comes_through_as_it_is() {
    let repaired = check(
        json!([
            { "role": "system", "content": "Be good." },
            { "role": "user", "content": "Go." },
            { "role": "user", "content": "Now." },
            { "role": "assistant", "content": "Sure.", "tool_calls": [call("a", "t", "{\"n\": 1.0}")] },
            { "role": "tool", "tool_call_id": "a", "content": "1" },
            { "role": "assistant", "content": "Done." },
        ]),
        expect![[r#"
            system Be good.
            user Go.
            user Now.
            assistant Sure. ["a:t{\"n\": 1.0}"]
            tool a:t 1
            assistant Done. []
        "#]],
    );
    assert!(repaired.repairs.is_empty());
    let resumed = repaired.history.resume(&"New.".into(), &"Next.".into());
    let roles: Vec<_> =
        resumed.messages().iter().map(|message| matches!(message, Message::System { .. })).collect();
    assert_eq!(roles.iter().filter(|system| **system).count(), 1);
    assert_eq!(resumed.messages()[0], Message::System { text: "New.".into() });
}
