use std::collections::HashSet;
use std::sync::Arc;

use dauntless_contract::{
    Finish, History, Json, Message, ModelReply, Observation, Round, ToolCall, ToolSpec,
};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::super::{decision, schema, transcript};

/// What a schema with these parts may refer to, in every way that a reference can be written.
const REFERENCES: [&str; 9] = [
    "#",
    "#/$defs/a~1b",
    "#/$defs/a%20c",
    "#/$defs/again",
    "#here",
    "#/definitions/old",
    "#/properties/$ref",
    "#/$defs/listed/anyOf/1",
    "#/$defs/nowhere",
];

fn part() -> impl Strategy<Value = Value> {
    let reference = || proptest::sample::select(&REFERENCES[..]);
    let leaf = prop_oneof![
        1 => Just(json!({"type": "integer"})),
        1 => Just(json!({"const": {"$ref": "#/$defs/again", "$id": "x"}})),
        1 => Just(json!({"enum": ["x", {"$anchor": "here"}]})),
        1 => Just(json!(true)),
        8 => reference().prop_map(|to| json!({"$ref": to})),
        2 => reference().prop_map(|to| json!({"$ref": to, "title": "t"})),
    ];
    leaf.prop_recursive(3, 12, 3, |part| {
        prop_oneof![
            vec(part.clone(), 1..3).prop_map(|parts| json!({"anyOf": parts})),
            part.clone().prop_map(|items| json!({"type": "array", "items": items})),
            (part.clone(), part.clone()).prop_map(|(a, b)| json!({"properties": {"a": a, "$ref": b}})),
            part.prop_map(|part| json!({"additionalProperties": part})),
        ]
    })
}

/// A schema of parameters. Each definition is behind a property, so that no reference leads back to
/// itself without a step into the value.
fn parameters() -> impl Strategy<Value = Value> {
    vec(part(), 8).prop_map(|parts| {
        let [a, b, c, d, e, f, g, h] = <[Value; 8]>::try_from(parts).unwrap();
        let within = |part| json!({"type": ["object", "integer"], "properties": {"x": part}});
        let anchored = json!({"$anchor": "here", "type": ["object", "integer"], "properties": {"x": f}});
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.com/tool",
            "type": "object", "default": {"z": {"$anchor": "here"}},
            "properties": {"a": a, "$ref": within(b), "anchored": anchored},
            "$defs": {"a/b": within(c), "a c": within(d), "again": within(e),
                      "listed": {"anyOf": [true, within(g)]}},
            "definitions": {"old": within(h)},
        })
    })
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(1)),
        Just(json!("x")),
        Just(json!({"$ref": "#/$defs/again", "$id": "x"})),
        Just(json!({"$anchor": "here"})),
        Just(json!(null)),
    ];
    let value = leaf.prop_recursive(3, 8, 2, |value| {
        prop_oneof![object(value.clone()), vec(value, 0..3).prop_map(Value::Array)]
    });
    object(value)
}

fn object(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let key = proptest::sample::select(vec!["a", "x", "$ref", "anchored"]);
    vec((key, value), 1..4).prop_map(|fields| {
        fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>().into()
    })
}

/// The schema as a validator reads it: a reference to nowhere, which none compiles, allows anything.
fn forgiving(schema: &Value) -> Value {
    let text = schema.to_string().replace("\"#/$defs/nowhere\"", "\"#/$defs/anything\"");
    let mut schema: Value = serde_json::from_str(&text).unwrap();
    schema["$defs"]["anything"] = json!(true);
    schema
}

fn tool(name: &str, parameters: Value) -> Arc<ToolSpec> {
    Arc::new(ToolSpec::new(name, "Does it.", parameters))
}

fn spoken() -> impl Strategy<Value = String> {
    prop_oneof![
        ".{0,40}",
        "[\\[\\]{}:,\"a-z0-9 \\\\]{0,40}",
        Just(r#"{"name":"clock","parameters":{"zone":"é\n\u00e9😀"}}"#.to_owned()),
        Just(r#"{"answer":"é \ud83d\ude00 \"noon\""}"#.to_owned()),
    ]
}

/// Text, calls with their results, and a nudge.
type Told = (Option<String>, Vec<(String, String)>, Option<String>);

fn round() -> impl Strategy<Value = Told> {
    let call = ("[a-z_]{1,8}", "(</?result_{0,2}>|[ a-z\n]){0,6}");
    (proptest::option::of("[a-z ]{0,8}"), vec(call, 0..3), proptest::option::of("[a-z ]{0,8}"))
}

fn history(rounds: Vec<Told>) -> History {
    let mut history = History::open(&"Work.".into(), &"go".into());
    for (at, (text, calls, nudge)) in rounds.into_iter().enumerate() {
        let calls = calls.into_iter().enumerate().map(|(index, (name, text))| {
            let id = format!("{at}.{index}").into();
            let call = ToolCall { id, name: name.into(), arguments: Json::empty_object() };
            (call, Observation { text: text.into() })
        });
        history.round(Round { text: text.map(Into::into), extra: None, calls: calls.collect() });
        history.user(nudge.unwrap_or_default().into());
    }
    history
}

proptest! {
    #[test]
    fn parameters_fit_the_one_schema_when_they_fit_their_own(
        first in parameters(), second in parameters(), value in value()
    ) {
        let answer = second.clone();
        let tools = [tool("first", first.clone()), tool("second", second.clone())];
        let all = jsonschema::validator_for(&schema::of_decisions(&tools, Some(&answer))).unwrap();
        for (name, own) in [("first", &first), ("second", &second)] {
            let own = jsonschema::validator_for(&forgiving(own)).unwrap();
            let call = json!({"name": name, "parameters": value});
            prop_assert_eq!(all.is_valid(&call), own.is_valid(&value), "{}", call);
        }
        let own = jsonschema::validator_for(&forgiving(&answer)).unwrap();
        prop_assert_eq!(all.is_valid(&json!({"answer": value})), own.is_valid(&value));
    }

    #[test]
    fn a_reply_ends_the_run_only_with_a_whole_decision(text in spoken(), end in 0_usize..64, cut: bool) {
        let end = (0..=end.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap();
        let text = if cut { &text[..end] } else { &text };
        let finish = if cut { Finish::Length } else { Finish::Stop };
        let reply = ModelReply { finish, ..ModelReply::text(text) };
        let read = decision::read(reply.clone(), &HashSet::new(), false);
        let decision: Option<Map<String, Value>> = serde_json::from_str(text).ok();
        let ends = read.calls.is_empty() && read.finish == Finish::Stop && !text.trim().is_empty();
        let answers = decision.as_ref().is_some_and(|fields| fields.len() == 1 && fields.contains_key("answer"));
        prop_assert_eq!(ends, answers, "{:?}", read);
        let runs = read.calls.iter().any(|call| call.garbled.is_none()) && read.finish == Finish::ToolCalls;
        let calls = decision.is_some_and(|fields| {
            fields.len() == 2 && fields.get("name").is_some_and(Value::is_string) && fields.contains_key("parameters")
        });
        prop_assert_eq!(runs, calls, "{:?}", read);
        prop_assert!(read.calls.len() <= 1);
    }

    #[test]
    fn a_plain_conversation_takes_turns_and_quotes_whole_results(rounds in vec(round(), 0..5)) {
        let history = history(rounds);
        let plain = transcript::plain(&history, "More.");
        let mut roles = Vec::new();
        let mut all = String::new();
        for message in plain.messages() {
            let (role, text) = match message {
                Message::System { text } => ("system", text),
                Message::User { text } => ("user", text),
                Message::Assistant { text: Some(text), calls, extra: None } if calls.is_empty() => ("model", text),
                message => return Err(TestCaseError::fail(format!("{message:?}"))),
            };
            roles.push(role);
            all.push_str(text);
        }
        prop_assert_eq!(&roles[..2], &["system", "user"]);
        prop_assert!(roles.windows(2).all(|two| two[0] != two[1]), "{:?}", roles);
        for message in history.messages() {
            if let Message::Tool { text, .. } = message {
                let quoted = |tag: &str| all.contains(&format!("<{tag}>\n{text}\n</{tag}>")) && !text.contains(&format!("</{tag}>"));
                let mut tags = (0..4).map(|n| format!("result{}", "_".repeat(n)));
                prop_assert!(tags.any(|tag| quoted(&tag)), "{}", text);
            }
        }
    }
}
