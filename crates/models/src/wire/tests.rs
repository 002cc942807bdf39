use std::sync::Arc;

use dauntless_contract::{AnswerSchema, History, Json, ModelRequest, Observation, Round, ToolCall, ToolSpec};
use expect_test::{Expect, expect};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::strict::is_strict;
use super::{Calling, ChatRequest, Packet, WireError};
use crate::profile::{CallIds, Profile};

fn request(history: History, tools: Vec<ToolSpec>) -> ModelRequest {
    ModelRequest::new(Arc::new(history), tools.into_iter().map(Arc::new).collect())
}

fn body(request: &ModelRequest, stream: bool, settings: &Map<String, Value>) -> String {
    chat(request, stream, settings, &Profile::compatible(), ANY)
}

const ANY: Calling = Calling { parallel: true, strict: false };

fn chat(
    request: &ModelRequest,
    stream: bool,
    settings: &Map<String, Value>,
    profile: &Profile,
    calling: Calling,
) -> String {
    let body = ChatRequest { model: "m", request, stream, settings, profile, calling, shape: true };
    serde_json::to_string(&body).unwrap()
}

fn history() -> History {
    let mut history = History::open(&"Be brief.".into(), &"Where is it?".into());
    let call = |id: &str, name: &str, arguments: &str| {
        let call = ToolCall { id: id.into(), name: name.into(), arguments: Json::parse(arguments).unwrap() };
        (call, Observation { text: "{\"status\":\"sent\"}".into() })
    };
    let extra = json!({"reasoning_content": "r", "secret_plan": 1, "tool_calls": {"b": {"extra_content": {"sig": "s"}, "role": "x"}}});
    history.round(Round {
        text: None,
        extra: Some(extra.into()),
        calls: vec![call("a", "order", "{\"id\": 12345678901234567890123}"), call("b", "fs.read file", "{}")],
    });
    history.answer("It is on its way.".into(), None);
    history
}

#[test]
fn the_shape_of_an_answer_is_sent_where_a_provider_can_take_it() {
    let shaped = |schema: Value| {
        let answer = AnswerSchema { name: "ticket".into(), schema: Arc::new(schema) };
        ModelRequest { answer: Some(Arc::new(answer)), ..request(History::default(), Vec::new()) }
    };
    let object = shaped(json!({"type": "object", "required": ["id"]}));
    expect![[r#"{"model":"m","messages":[],"response_format":{"type":"json_schema","json_schema":{"name":"ticket","schema":{"required":["id"],"type":"object"},"strict":false}},"stream":false}"#]]
        .assert_eq(&body(&object, false, &Map::new()));
    let own = json!({"response_format": {"type": "json_object"}}).as_object().unwrap().clone();
    expect![[r#"{"model":"m","messages":[],"stream":false,"response_format":{"type":"json_object"}}"#]]
        .assert_eq(&body(&object, false, &own));
    let list = body(&shaped(json!({"type": "array"})), false, &Map::new());
    let unknown = ChatRequest {
        model: "m",
        request: &object,
        stream: false,
        settings: &Map::new(),
        profile: &Profile::compatible(),
        calling: ANY,
        shape: false,
    };
    let unknown = serde_json::to_string(&unknown).unwrap();
    assert_eq!((&*list, &*unknown), (r#"{"model":"m","messages":[],"stream":false}"#, &*list));
}

#[test]
fn a_conversation_is_written_as_providers_want_it() {
    let order = ToolSpec::new("order", "Looks up an order.", json!({"type": "object"}));
    let settings = json!({"max_tokens": 9, "temperature": 0.5}).as_object().unwrap().clone();
    expect![[r#"{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Where is it?"},{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"order","arguments":"{\"id\": 12345678901234567890123}"}},{"id":"b","type":"function","function":{"name":"fs_read_file","arguments":"{}"},"extra_content":{"sig":"s"}}],"reasoning_content":"r"},{"role":"tool","tool_call_id":"a","content":"{\"status\":\"sent\"}"},{"role":"tool","tool_call_id":"b","content":"{\"status\":\"sent\"}"},{"role":"assistant","content":"It is on its way."}],"tools":[{"type":"function","function":{"name":"order","description":"Looks up an order.","parameters":{"type":"object"}}}],"stream":true,"stream_options":{"include_usage":true},"max_tokens":9,"temperature":0.5}"#]]
        .assert_eq(&body(&request(history(), vec![order]), true, &settings));
}

#[test]
fn texts_of_the_user_that_follow_each_other_are_one_message() {
    let mut history = History::open(&"".into(), &"hi".into());
    history.user("Say more.".into());
    history.answer("More.".into(), None);
    history.user("And now?".into());
    expect![[r#"{"model":"m","messages":[{"role":"user","content":"hi\n\nSay more."},{"role":"assistant","content":"More."},{"role":"user","content":"And now?"}],"stream":false}"#]].assert_eq(&body(&request(history, Vec::new()), false, &Map::new()));
}

#[test]
fn without_tools_there_is_no_list_of_them() {
    let request = request(History::open(&"".into(), &"hi".into()), Vec::new());
    expect![[r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":false}"#]]
        .assert_eq(&body(&request, false, &Map::new()));
}

fn error(body: &str, expected: Expect) {
    let WireError { code, kind, message, failed_generation, .. } = WireError::of_body(body);
    expected.assert_eq(&format!(
        "{} | {} | {} | {}",
        code.unwrap_or_default(),
        kind.unwrap_or_default(),
        message.unwrap_or_default(),
        failed_generation.unwrap_or_default()
    ));
}

#[test]
fn errors_are_read_in_every_shape_that_providers_give_them() {
    error(
        r#"{"error":{"message":"m","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#,
        expect!["insufficient_quota | insufficient_quota | m | "],
    );
    error(
        r#"{"error":{"code":400,"message":"too long","type":"exceed_context_size_error","n_ctx":2048}}"#,
        expect!["400 | exceed_context_size_error | too long | "],
    );
    error(r#"{"error":"model 'x' not found"}"#, expect![" |  | model 'x' not found | "]);
    error(
        r#"{"object":"error","message":"m","type":"BadRequestError","param":null,"code":400}"#,
        expect!["400 | BadRequestError | m | "],
    );
    error(
        r#"[{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED"}}]"#,
        expect!["429 | RESOURCE_EXHAUSTED | m | "],
    );
    error(r#"{"code":"rate_limit_daily","message":"429"}"#, expect!["rate_limit_daily |  | 429 | "]);
    error(r#"{"detail":"Not Found"}"#, expect![" |  | Not Found | "]);
    error(
        r#"{"error":{"message":"m","code":"tool_use_failed","failed_generation":"<function=f>"}}"#,
        expect!["tool_use_failed |  | m | <function=f>"],
    );
    for nothing in ["<html>", "", "null", "[]", "7", "[7]", r#"{"error":null}"#, r#"{"error":{}}"#] {
        assert_eq!(WireError::of_body(nothing), WireError::default(), "{nothing}");
    }
}

fn packet(body: &str) -> Packet {
    Packet::read(&serde_json::from_str::<Box<RawValue>>(body).unwrap(), &[])
}

#[test]
fn an_error_inside_a_good_answer_is_an_error() {
    for body in [
        r#"{"choices":null,"error":{"code":429,"message":"rate limited"}}"#,
        r#"{"code":"rate_limit_daily","message":"429 x"}"#,
        r#"{"object":"error"}"#,
        r#"[{"error":{"code":500}}]"#,
        r#"{"choices":[{"error":{"code":502,"message":"m"},"finish_reason":"error"}]}"#,
    ] {
        assert!(packet(body).error.is_some(), "{body}");
    }
    for body in [
        r#"{"choices":[{"message":{"content":"x"}}],"error":null}"#,
        r#"{"choices":[{"message":{"content":"x"}}],"error":false,"message":"hi","code":0}"#,
        r#"{"choices":[]}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":1}}"#,
    ] {
        assert_eq!(packet(body).error, None, "{body}");
    }
}

#[test]
fn a_field_of_the_wrong_type_costs_only_itself() {
    let packet = packet(
        r#"{"id":7,"model":["x"],"created":1.5,"service_tier":"on_demand","usage":"none","choices":[{"index":"0",
            "finish_reason":{"a":1},"message":{"role":"robot","content":"hi","content":"ho","refusal":3,
            "tool_calls":"none","function_call":[]}}]}"#,
    );
    let choice = packet.choice.unwrap();
    assert_eq!(choice.part.text, "ho");
    assert_eq!(choice.finish, None);
    assert!(choice.part.calls.is_empty());
    assert_eq!((packet.model, packet.usage, packet.error), (None, None, None));
}

#[test]
fn names_come_from_code_and_type_and_are_never_numbers() {
    let error = WireError::of_body(r#"{"error":{"code":"429","type":"throttling_error"}}"#);
    assert_eq!(error.names().collect::<Vec<_>>(), ["throttling_error"]);
    assert_eq!(error.status(), Some(429));
}

fn bodies(profile: &Profile, calling: Calling) -> Value {
    let order = ToolSpec::new("order", "Looks up an order.", json!({"type": "object"}));
    let request = request(history(), vec![order]);
    serde_json::from_str(&chat(&request, true, &Map::new(), profile, calling)).unwrap()
}

#[test]
fn mistral_gets_ids_of_nine_letters_and_digits_and_no_field_that_it_does_not_know() {
    let body = bodies(&Profile::mistral(), ANY);
    let [first, second] = [0, 1].map(|at| body["messages"][2]["tool_calls"][at]["id"].as_str().unwrap());
    for id in [first, second] {
        assert!(id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
    }
    assert_ne!(first, second);
    assert_eq!(
        (&body["messages"][3]["tool_call_id"], &body["messages"][4]["tool_call_id"]),
        (&json!(first), &json!(second))
    );
    // Another version of the program must not change them: the provider caches by them.
    expect!["COUtnvw1b nAinI0t2b"].assert_eq(&format!("{first} {second}"));
    assert_eq!(body.get("stream_options"), None);
    assert_eq!(body["messages"][2].get("reasoning_content"), None);
    assert_eq!(body["messages"][2]["tool_calls"][1].get("extra_content"), None);
}

#[test]
fn a_good_id_is_left_alone() {
    assert_eq!(CallIds::Nine.sendable("aB3dE6gH9"), "aB3dE6gH9");
    assert_ne!(CallIds::Nine.sendable("aB3dE6gH-"), "aB3dE6gH-");
    assert_eq!(CallIds::Any.sendable("functions.eval:301"), "functions.eval:301");
}

#[test]
fn each_provider_gets_back_the_fields_it_knows() {
    let fields = |profile: &Profile| {
        let message = &bodies(profile, ANY)["messages"][2];
        let signed = message["tool_calls"][1].get("extra_content").is_some();
        (message.get("reasoning_content").is_some(), signed)
    };
    assert_eq!(fields(&Profile::compatible()), (true, true));
    assert_eq!(fields(&Profile::deepseek()), (true, false));
    assert_eq!(fields(&Profile::gemini()), (false, true));
    assert_eq!(fields(&Profile::groq()), (false, false));
    assert_eq!(fields(&Profile::openai()), (false, false));
}

#[test]
fn cloudflare_gets_a_text_even_where_there_is_none() {
    assert_eq!(bodies(&Profile::cloudflare(), ANY)["messages"][2]["content"], json!(""));
    assert_eq!(bodies(&Profile::compatible(), ANY)["messages"][2]["content"], Value::Null);
}

#[test]
fn one_call_at_a_time_is_asked_for_only_where_there_are_tools() {
    let one = Calling { parallel: false, strict: false };
    assert_eq!(bodies(&Profile::compatible(), one)["parallel_tool_calls"], json!(false));
    assert_eq!(bodies(&Profile::compatible(), ANY).get("parallel_tool_calls"), None);
    let bare = request(history(), Vec::new());
    assert!(!chat(&bare, true, &Map::new(), &Profile::compatible(), one).contains("parallel_tool_calls"));
}

#[test]
fn only_a_schema_that_strict_mode_takes_is_held_to() {
    let closed = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    let inner = closed(json!({"n": {"type": ["integer", "null"], "minimum": 0}}), json!(["n"]));
    for schema in [
        closed(json!({}), json!([])),
        closed(
            json!({"when": {"type": "string", "format": "date-time", "description": "d"}}),
            json!(["when"]),
        ),
        closed(json!({"list": {"type": "array", "items": inner}}), json!(["list"])),
        closed(json!({"one": {"anyOf": [inner, {"type": "null"}]}}), json!(["one"])),
        closed(json!({"format": {"const": 1}}), json!(["format"])),
    ] {
        assert!(is_strict(&schema), "{schema}");
    }
    for schema in [
        json!({"type": "object"}),
        json!({"type": "string"}),
        json!(true),
        closed(json!({"n": {"type": "integer"}}), json!([])),
        closed(json!({"n": {"type": "integer", "format": "uint8"}}), json!(["n"])),
        closed(json!({"n": {"type": "integer", "default": 1}}), json!(["n"])),
        closed(json!({"o": {"type": "object"}}), json!(["o"])),
        closed(json!({"o": {"oneOf": [{"type": "null"}]}}), json!(["o"])),
    ] {
        assert!(!is_strict(&schema), "{schema}");
    }
    let spec = ToolSpec::new("t", "T.", closed(json!({}), json!([])));
    let strict = Calling { parallel: true, strict: true };
    let body = chat(&request(history(), vec![spec]), false, &Map::new(), &Profile::compatible(), strict);
    assert!(body.contains(r#""strict":true"#), "{body}");
}
