use std::sync::Arc;

use dauntless_contract::{History, Json, ModelRequest, Observation, Round, ToolCall, ToolSpec};
use expect_test::{Expect, expect};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{ChatRequest, Packet, WireError};

fn request(history: History, tools: Vec<ToolSpec>) -> ModelRequest {
    ModelRequest::new(Arc::new(history), tools.into_iter().map(Arc::new).collect())
}

fn body(request: &ModelRequest, stream: bool, settings: &Map<String, Value>) -> String {
    let send_back = ["reasoning_content".to_owned(), "extra_content".to_owned()];
    let body = ChatRequest { model: "m", request, stream, settings, send_back: &send_back };
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
fn a_conversation_is_written_as_providers_want_it() {
    let order = ToolSpec::new("order", "Looks up an order.", json!({"type": "object"}));
    let settings = json!({"max_tokens": 9, "temperature": 0.5}).as_object().unwrap().clone();
    expect![[r#"{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Where is it?"},{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"order","arguments":"{\"id\": 12345678901234567890123}"}},{"id":"b","type":"function","function":{"name":"fs_read_file","arguments":"{}"},"extra_content":{"sig":"s"}}],"reasoning_content":"r"},{"role":"tool","tool_call_id":"a","content":"{\"status\":\"sent\"}"},{"role":"tool","tool_call_id":"b","content":"{\"status\":\"sent\"}"},{"role":"assistant","content":"It is on its way."}],"tools":[{"type":"function","function":{"name":"order","description":"Looks up an order.","parameters":{"type":"object"}}}],"stream":true,"stream_options":{"include_usage":true},"max_tokens":9,"temperature":0.5}"#]]
        .assert_eq(&body(&request(history(), vec![order]), true, &settings));
}

#[test]
fn without_tools_there_is_no_list_of_them() {
    let request = request(History::open(&"".into(), &"hi".into()), Vec::new());
    expect![[r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":false}"#]]
        .assert_eq(&body(&request, false, &Map::new()));
}

fn error(body: &str, expected: Expect) {
    let WireError { code, kind, message, failed_generation, param: _ } = WireError::of_body(body);
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
