use std::time::Duration;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::Answer;
use crate::tests::{Answered, panic_of, send, send_briefly};

mod histories;
mod responses;

/// A request whose messages after the user's first are these.
fn chat(messages: &Value) -> Value {
    let mut all = vec![json!({"role": "user", "content": "go"})];
    all.extend(messages.as_array().unwrap().iter().cloned());
    json!({"model": "m", "messages": all})
}

fn asked(ids: &[&str]) -> Value {
    let calls: Vec<Value> = ids
        .iter()
        .map(|id| json!({"id": id, "type": "function", "function": {"name": "t", "arguments": "{}"}}))
        .collect();
    json!({"role": "assistant", "content": null, "tool_calls": calls})
}

fn answer(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": ""})
}

fn user() -> Value {
    json!({"role": "user", "content": "and?"})
}

#[track_caller]
fn expect_broken(request: &Value, expected: Expect) {
    let request = ChatRequest::parse(request.to_string()).unwrap();
    let lines: Vec<String> = check(&request).iter().map(|broken| format!("{broken}\n")).collect();
    expected.assert_eq(&lines.concat());
}

fn post(provider: &StrictProvider, request: &Value) -> Answered {
    send("POST", &format!("{}/chat/completions", provider.url()), &request.to_string()).unwrap()
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn provider(script: Script) -> StrictProvider {
    StrictProvider::start(script).unwrap()
}

#[test]
fn a_conversation_that_keeps_the_rules_passes() {
    let mut request = chat(&json!([
        asked(&["call_0", "call_1"]), answer("call_0"), answer("call_1"),
        asked(&["call_0"]), answer("call_0"),
        {"role": "assistant", "content": "done"}, user(),
    ]));
    request["messages"][0] = json!({"role": "user", "content": [{"type": "text", "text": "go"}]});
    request["tools"] = json!([
        {"type": "function", "function": {"name": "a-B_9", "parameters": {"type": "object"}}},
        {"type": "function", "function": {"name": "no_parameters"}},
    ]);
    expect_broken(&request, expect![""]);
}

#[test]
fn every_call_has_its_answer_before_anything_else() {
    expect_broken(
        &chat(&json!([asked(&["c1", "c2"]), answer("c1"), user(), answer("c2")])),
        expect![[r#"
        every_call_answered at messages[3]: call `c2` has no tool message before this
        no_answer_without_call at messages[4]: no call before waits for an answer with id `c2`
    "#]],
    );
    expect_broken(
        &chat(&json!([asked(&["c1"])])),
        expect![[r#"
        every_call_answered at the end: call `c1` has no tool message before this
    "#]],
    );
}

#[test]
fn an_answer_without_a_call_or_a_second_one_is_refused() {
    expect_broken(
        &chat(&json!([answer("c0")])),
        expect![[r#"
        no_answer_without_call at messages[1]: no call before waits for an answer with id `c0`
    "#]],
    );
    expect_broken(
        &chat(&json!([asked(&["c1"]), answer("c1"), answer("c1")])),
        expect![[r#"
        no_answer_without_call at messages[3]: no call before waits for an answer with id `c1`
    "#]],
    );
}

#[test]
fn answers_in_the_order_of_completion_are_refused() {
    expect_broken(
        &chat(&json!([asked(&["c1", "c2"]), answer("c2"), answer("c1")])),
        expect![[r#"
        answers_in_order at messages[2]: call `c2` is answered before an earlier call of the same message
    "#]],
    );
}

#[test]
fn calls_are_whole_and_unlike() {
    let call = |id: &str, name: &str, arguments: Value| {
        let function = json!({"name": name, "arguments": arguments});
        json!({"id": id, "type": "function", "function": function})
    };
    let request = chat(&json!([
        {"role": "assistant", "tool_calls": [
            call("c", "t", json!("{}")), call("c", "t", json!("{}")), call("", "t", json!("{}")),
            call("d", "a.b", json!("{\"cut\": ")), call("e", "t", json!("[1]")), call("f", "t", json!({})),
            call("g", "t", json!("")),
        ]},
        answer("c"), answer("c"), answer(""), answer("d"), answer("e"), answer("f"), answer("g"),
    ]));
    expect_broken(
        &request,
        expect![[r#"
        unique_call_ids at messages[1].tool_calls[1]: a second call of this message has id `c`
        whole_call at messages[1].tool_calls[2]: a call needs an `id` and `"type": "function"`
        tool_name at messages[1].tool_calls[3]: tool name `a.b` is not 1 to 64 of a-z, A-Z, 0-9, `_` and `-`
        arguments_are_object at messages[1].tool_calls[3]: the arguments of `a.b` are not the text of a JSON object
        arguments_are_object at messages[1].tool_calls[4]: the arguments of `t` are not the text of a JSON object
        arguments_are_object at messages[1].tool_calls[5]: the arguments of `t` are not the text of a JSON object
        arguments_are_object at messages[1].tool_calls[6]: the arguments of `t` are not the text of a JSON object
    "#]],
    );
}

#[test]
fn nothing_is_empty() {
    let request = chat(&json!([
        {"role": "user", "content": " "}, {"role": "user", "content": []},
        {"role": "user", "content": [{"type": "text", "text": ""}]},
        {"role": "assistant", "content": null}, {"role": "assistant", "content": "", "tool_calls": []},
        {"role": "assistant", "content": null, "refusal": "No."},
        asked(&["c"]), {"role": "tool", "tool_call_id": "c"},
    ]));
    expect_broken(
        &request,
        expect![[r#"
        no_empty_message at messages[1]: the message has no text
        no_empty_message at messages[2]: the message has no text
        no_empty_message at messages[3]: the message has no text
        no_empty_message at messages[4]: the message has neither text nor calls
        no_empty_list at messages[5]: leave `tool_calls` out where there are none
        no_empty_message at messages[5]: the message has neither text nor calls
        no_empty_message at messages[8]: a tool message needs `content`, be it an empty text
    "#]],
    );
    expect_broken(
        &json!({"model": "", "messages": [], "tools": []}),
        expect![[r#"
        model_named at model: the model is not named
        no_empty_list at tools: leave `tools` out where there are none
        user_first at messages: no message of the user
    "#]],
    );
}

#[test]
fn roles_are_known_and_in_place() {
    let request = json!({"model": "m", "messages": [
        {"role": "system", "content": "be good"}, {"role": "assistant", "content": "hello"},
        {"role": "system", "content": "again"}, {"role": "wizard", "content": "abracadabra"}, {"content": "?"},
    ]});
    expect_broken(
        &request,
        expect![[r#"
        user_first at messages[1]: the conversation does not begin with the user
        system_first at messages[2]: instructions are only allowed as the first message
        known_role at messages[3]: `wizard` is not a role
        known_role at messages[4]: `` is not a role
    "#]],
    );
}

#[test]
fn tools_have_good_and_different_names_and_take_objects() {
    let tool = |name: &str, parameters: Value| json!({"type": "function", "function": {"name": name, "parameters": parameters}});
    let mut request = chat(&json!([]));
    request["tools"] = json!([
        tool("shop.order", json!({"type": "object"})),
        tool(&"x".repeat(65), json!({"type": "object"})),
        tool("list", json!({"type": "array"})),
        tool("list", json!({"anyOf": [{"type": "object"}]})),
        tool("none", json!({})),
    ]);
    expect_broken(
        &request,
        expect![[r#"
        tool_name at tools[0].function: tool name `shop.order` is not 1 to 64 of a-z, A-Z, 0-9, `_` and `-`
        tool_name at tools[1].function: tool name `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx` is not 1 to 64 of a-z, A-Z, 0-9, `_` and `-`
        parameters_are_object at tools[2].function: the root of the parameters of `list` is not `"type": "object"`
        unique_tools at tools[3].function: a second tool is named `list`
        parameters_are_object at tools[3].function: the root of the parameters of `list` is not `"type": "object"`
        parameters_are_object at tools[4].function: the root of the parameters of `none` is not `"type": "object"`
    "#]],
    );
}

#[test]
fn a_broken_request_is_answered_400_and_remembered() {
    let provider = provider(Script::always(Reply::text("never said")));
    let body = r#"{"model":"m","messages":[{"role":"user","content":""}],"tools":[]}"#;
    let refused = send("POST", &format!("{}/chat/completions", provider.url()), body).unwrap();
    assert_eq!(refused.status, 400);
    let message = "no_empty_list at tools: leave `tools` out where there are none";
    let expected = json!({"error": {
        "message": message, "type": "invalid_request_error", "param": "tools", "code": "no_empty_list",
    }});
    assert_eq!(json_of(&refused.body), expected);
    assert_eq!(provider.violations()[1].broken.rule, Rule::NoEmptyMessage);
    expect![[r#"
        requests broke the rules (2):
          request 1: no_empty_list at tools: leave `tools` out where there are none
          request 1: no_empty_message at messages[0]: the message has no text
        the first of these requests:
        {"model":"m","messages":[{"role":"user","content":""}],"tools":[]}"#]]
    .assert_eq(&panic_of(|| provider.assert_clean()));
}

#[test]
fn a_body_that_is_no_request_is_a_violation_too() {
    let provider = provider(Script::always(Reply::text("never said")));
    let refused = send("POST", &format!("{}/chat/completions", provider.url()), "{\"model\"").unwrap();
    assert_eq!(refused.status, 400);
    assert_eq!(provider.violations()[0].broken.rule, Rule::ChatRequest);
    assert_eq!(send("GET", &format!("{}/chat/completions", provider.url()), "").unwrap().status, 405);
    assert_eq!(send("POST", &format!("{}/embeddings", provider.url()), "").unwrap().status, 404);
    assert_eq!(provider.requests(), 1);
}

#[test]
fn without_validation_anything_readable_is_answered() {
    let provider =
        StrictProvider::builder().validate(false).record(0).start(Script::always(Reply::text("ok"))).unwrap();
    assert_eq!(post(&provider, &chat(&json!([asked(&["c1"]), user()]))).status, 200);
    assert_eq!((provider.requests(), provider.recorded().len()), (1, 0));
    provider.assert_clean();
}

#[test]
fn a_whole_reply_looks_like_the_api() {
    let provider = provider(Script::by_turn([
        Reply::calls([Call::new("t", &json!({"n": 1})), Call::raw("t", "{\"n\": ").id("own")])
            .with_text("hm"),
        Reply::text("done").finish("length").usage(7, 2),
    ]));
    let calls = json!([
        {"id": "call_0", "type": "function", "function": {"name": "t", "arguments": "{\"n\":1}"}},
        {"id": "own", "type": "function", "function": {"name": "t", "arguments": "{\"n\": "}},
    ]);
    let first = json_of(&post(&provider, &chat(&json!([]))).body);
    assert_eq!(first["choices"][0]["message"]["tool_calls"], calls);
    assert_eq!(first["choices"][0]["message"]["content"], "hm");
    assert_eq!(first["choices"][0]["finish_reason"], "tool_calls");
    let second = json_of(&post(&provider, &chat(&json!([asked(&["a"]), answer("a")]))).body);
    let expected = json!({
        "id": "chatcmpl-2", "object": "chat.completion", "created": 1_700_000_000, "model": "m",
        "choices": [{"index": 0, "finish_reason": "length", "logprobs": null,
                     "message": {"role": "assistant", "content": "done", "refusal": null}}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9},
    });
    assert_eq!(second, expected);
}

#[test]
fn a_streamed_reply_looks_like_the_api() {
    let provider = provider(Script::always(
        Reply::calls([Call::new("t", &json!({"n": "é"}))]).with_text("é").usage(7, 2),
    ));
    let mut request = chat(&json!([]));
    request["stream"] = json!(true);
    request["stream_options"] = json!({"include_usage": true});
    let streamed = post(&provider, &request);
    assert!(streamed.head.contains("content-type: text/event-stream"));
    let events: Vec<&str> = streamed.body.split_terminator("\n\n").collect();
    assert_eq!(events.last(), Some(&"data: [DONE]"));
    let events: Vec<Value> =
        events[..events.len() - 1].iter().map(|event| json_of(&event["data: ".len()..])).collect();
    let deltas: Vec<&Value> = events.iter().filter_map(|event| event.pointer("/choices/0/delta")).collect();
    let expected = json!([
        {"role": "assistant", "content": null},
        {"content": "é"},
        {"tool_calls": [{"index": 0, "id": "call_0", "type": "function",
                         "function": {"name": "t", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "{\"n\":"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "\"é\"}"}}]},
        {},
    ]);
    assert_eq!(json!(deltas), expected);
    assert_eq!(events[5]["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!((&events[6]["choices"], &events[6]["usage"]["total_tokens"]), (&json!([]), &json!(9)));
}

#[test]
fn faults_of_a_stream_strike_where_asked() {
    let provider = provider(Script::by_order([
        Reply::text("hello").cut_after(2),
        Reply::text("hello").malformed_after(1),
        Reply::stream(["data: {\"half\"", ":1}\n\n"]),
    ]));
    let mut request = chat(&json!([]));
    request["stream"] = json!(true);
    let cut = post(&provider, &request);
    assert_eq!((cut.body.matches("data: ").count(), cut.torn), (2, true));
    let malformed = post(&provider, &request);
    let events: Vec<&str> = malformed.body.split("\n\n").collect();
    assert_eq!(events[1], r#"data: {"id":"broken","choices":[{"del"#);
    assert_eq!((events[events.len() - 2], malformed.torn), ("data: [DONE]", false));
    assert_eq!(post(&provider, &request).body, "data: {\"half\":1}\n\n");
}

#[test]
fn faults_of_a_whole_reply_strike_in_its_middle() {
    let provider = provider(Script::by_order([
        Reply::text("hello").cut_after(0),
        Reply::text("hello").malformed_after(0),
    ]));
    assert!(post(&provider, &chat(&json!([]))).torn);
    let malformed = post(&provider, &chat(&json!([])));
    assert!(!malformed.torn && serde_json::from_str::<Value>(&malformed.body).is_err());
}

#[test]
fn a_stalled_or_dropped_request_gets_no_answer() {
    let provider = provider(Script::by_order([
        Reply::disconnect(),
        Reply::stall(),
        Reply::text("hello").stall_after(1),
    ]));
    let url = format!("{}/chat/completions", provider.url());
    let body = chat(&json!([])).to_string();
    let kinds: Vec<_> = (0..3).map(|_| send_briefly("POST", &url, &body).unwrap_err().kind()).collect();
    use std::io::ErrorKind::{UnexpectedEof, WouldBlock};
    assert_eq!(kinds, [UnexpectedEof, WouldBlock, WouldBlock]);
    assert_eq!(provider.requests(), 3);
}

#[test]
fn failures_have_the_shape_of_the_api() {
    let provider = provider(Script::by_order([
        Reply::rate_limited(Duration::from_millis(1500)),
        Reply::error(401, "invalid_api_key", "Wrong key."),
        Reply::wire(Answer::status(502).body("<html>bad gateway")),
    ]));
    let busy = post(&provider, &chat(&json!([])));
    assert_eq!(busy.status, 429);
    assert!(busy.head.contains("retry-after: 2"), "{}", busy.head);
    let denied = post(&provider, &chat(&json!([])));
    let error = json!({
        "message": "Wrong key.", "type": "authentication_error", "param": null, "code": "invalid_api_key",
    });
    assert_eq!((denied.status, json_of(&denied.body)), (401, json!({"error": error})));
    assert_eq!(post(&provider, &chat(&json!([]))).body, "<html>bad gateway");
}

#[test]
fn a_script_at_its_end_is_a_violation_unless_it_says_what_follows() {
    let short = provider(Script::by_order([Reply::text("one")]));
    post(&short, &chat(&json!([])));
    assert_eq!(post(&short, &chat(&json!([]))).status, 400);
    assert_eq!(short.violations()[0].broken.rule, Rule::Scripted);
    let long = provider(Script::by_order([]).otherwise(Reply::text("always")));
    assert_eq!(post(&long, &chat(&json!([]))).status, 200);
    long.assert_clean();
}

#[test]
fn an_assertion_that_fails_inside_the_script_is_not_lost() {
    let provider = provider(Script::from_fn(|request| {
        assert_eq!(request.tool_names(), ["lookup"]);
        Reply::text("fine")
    }));
    assert_eq!(post(&provider, &chat(&json!([]))).status, 400);
    assert_eq!(provider.violations()[0].broken.rule, Rule::Scripted);
}

#[test]
fn a_closure_sees_what_the_tools_answered() {
    let provider = provider(Script::from_fn(|request| Reply::text(request.tool_texts().join("+"))));
    let mut request = chat(&json!([asked(&["a", "b"]), answer("a"), answer("b")]));
    request["messages"][2]["content"] = json!("one");
    request["messages"][3]["content"] = json!("two");
    assert!(post(&provider, &request).body.contains("one+two"));
}

#[test]
fn only_the_latest_requests_are_kept() {
    let provider = StrictProvider::builder().record(2).start(Script::always(Reply::text("ok"))).unwrap();
    for text in ["one", "two", "three"] {
        post(&provider, &chat(&json!([{"role": "user", "content": text}])));
    }
    let recorded = provider.recorded();
    let texts: Vec<_> = recorded.iter().map(|request| request.last_text().unwrap()).collect();
    assert_eq!((provider.requests(), texts), (3, vec!["two", "three"]));
}

#[test]
fn latency_delays_every_answer() {
    let latency = Duration::from_millis(30);
    let provider =
        StrictProvider::builder().latency(latency).start(Script::always(Reply::text("ok"))).unwrap();
    let start = std::time::Instant::now();
    post(&provider, &chat(&json!([])));
    assert!(start.elapsed() >= latency);
}
