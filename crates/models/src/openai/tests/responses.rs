//! The Responses API through the whole client: one request, its path, its failures.

use std::sync::{Arc, Mutex};

use dauntless_contract::{EffectState, FailureCode, Finish, Model, ModelCtx, TextSink};
use expect_test::expect;
use serde_json::json;

use super::server::{Answer, Server};
use super::{Failure, KEY, ModelReply, builder, ctx, request};
use crate::openai::Api;

const RESPONSES: Api = Api::Responses { keep_reasoning: false };

async fn call(stream: bool, answer: Answer) -> Result<ModelReply, Failure> {
    let server = Server::start(vec![answer]).await;
    let model = builder(&server).api(RESPONSES).stream(stream).build().unwrap();
    let outcome = model.call(ctx(), request()).await;
    assert_eq!(server.requests().len(), 1, "one call is one request");
    outcome
}

fn response(status: &str) -> serde_json::Value {
    let part = json!({"type": "output_text", "text": "hi"});
    json!({"model": "m-1-2026", "status": status, "output": [{"type": "message", "content": [part]}],
        "usage": {"input_tokens": 5, "output_tokens": 2}})
}

#[tokio::test]
async fn a_request_goes_to_its_own_path_and_says_what_was_set_up() {
    let server = Server::start(vec![Answer::json(response("completed"))]).await;
    let model = builder(&server).api(RESPONSES).stream(false).max_output_tokens(64).build().unwrap();
    let reply = model.call(ctx(), request()).await.unwrap();
    assert_eq!((reply.text.as_deref(), &reply.finish), (Some("hi"), &Finish::Stop));
    assert_eq!((reply.output_limit, reply.model.as_deref()), (Some(64), Some("m-1-2026")));
    assert_eq!(reply.usage.unwrap().completion.0, 2);
    let sent = server.requests().remove(0);
    let (head, body) = sent.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /v1/responses HTTP/1.1"), "{head}");
    assert!(head.contains(&format!("authorization: Bearer {KEY}")), "{head}");
    expect![[r#"{"model":"m-1","input":[{"type":"message","role":"user","content":"Where is it?"}],"tools":[{"type":"function","name":"order","description":"Looks up an order.","parameters":{"type":"object"},"strict":false}],"stream":false,"store":false,"max_output_tokens":64}"#]]
        .assert_eq(body);
}

#[tokio::test]
async fn a_stream_is_told_piece_by_piece_and_ends_with_the_response() {
    // Without the ids and numbers that llama.cpp leaves out, and with nothing read after the end.
    let events = [
        r#"{"type":"response.created","response":{"status":"in_progress"}}"#,
        r#"{"type":"response.output_text.delta","item_id":"msg_1","delta":"Let me "}"#,
        r#"{"type":"response.output_text.delta","item_id":"msg_1","delta":"look."}"#,
        r#"{"type":"response.output_item.added","item":{"type":"function_call","call_id":"a","name":"order","arguments":""}}"#,
        r#"{"type":"response.function_call_arguments.delta","delta":"{}"}"#,
        r#"{"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":9,"output_tokens":4}}}"#,
    ];
    let server = Server::start(vec![Answer::stream(&events).then_stall()]).await;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&heard);
    let on_text: TextSink = Arc::new(move |text| sink.lock().unwrap().push(text.to_owned()));
    let model = builder(&server).api(RESPONSES).build().unwrap();
    let reply = model.call(ModelCtx { on_text: Some(on_text), ..ctx() }, request()).await.unwrap();
    assert_eq!(*heard.lock().unwrap(), ["Let me ", "look."]);
    assert_eq!((&*reply.calls[0].name, &*reply.calls[0].arguments), ("order", "{}"));
    assert_eq!(reply.finish, Finish::ToolCalls);
    assert_eq!(reply.usage.unwrap().prompt.0, 9);
}

#[tokio::test]
async fn a_stream_without_an_end_is_no_reply() {
    let piece = r#"{"type":"response.output_text.delta","delta":"Let me ch"}"#;
    let done = r#"{"type":"response.output_text.done","text":"Let me check."}"#;
    for answer in [
        Answer::stream(&[piece, done]),
        Answer::stream(&[piece, "[DONE]"]),
        Answer::stream(&[]),
        Answer::stream(&[piece]).cut_off(),
    ] {
        let failure = call(true, answer).await.unwrap_err();
        let kind = (failure.code, failure.effect);
        assert_eq!(kind, (FailureCode::ConnectionFailed, EffectState::Unknown), "{failure}");
    }
    let stalled = call(true, Answer::stream(&[piece]).then_stall()).await.unwrap_err();
    assert_eq!(stalled.code, FailureCode::Timeout);
}

#[tokio::test]
async fn failures_are_classified_as_in_chat_completions() {
    let limited = Answer::new("429 x", &[("retry-after", "3")], r#"{"error":{"type":"rate_limit_error"}}"#);
    let limited = call(true, limited).await.unwrap_err();
    assert_eq!((limited.code, limited.retry_after.unwrap().as_secs()), (FailureCode::RateLimited, 3));
    // Many local servers do not have this API.
    let absent = call(false, Answer::new("501 Not Implemented", &[], "")).await.unwrap_err();
    assert_eq!(absent.code, FailureCode::Unavailable);
    for (event, code) in [
        (r#"{"type":"error","code":"rate_limit_exceeded","message":"m"}"#, FailureCode::RateLimited),
        (r#"{"type":"error","error":{"code":429,"message":"m"}}"#, FailureCode::RateLimited),
        (
            r#"{"type":"response.failed","response":{"error":{"code":"server_error"}}}"#,
            FailureCode::Unavailable,
        ),
        (
            r#"{"type":"response.failed","response":{"error":{"code":"invalid_prompt"}}}"#,
            FailureCode::InvalidArguments,
        ),
        (
            r#"{"type":"response.failed","response":{"error":{"code":"insufficient_quota"}}}"#,
            FailureCode::QuotaExhausted,
        ),
    ] {
        let failure = call(true, Answer::stream(&[event])).await.unwrap_err();
        assert_eq!(failure.code, code, "{event}");
    }
    let failed = json!({"status": "failed", "output": [], "error": {"code": "server_error", "message": "m"}});
    for stream in [true, false] {
        assert_eq!(call(stream, Answer::json(&failed)).await.unwrap_err().code, FailureCode::Unavailable);
        let other_api = json!({"choices": [{"message": {"content": "hi"}}]});
        assert_eq!(call(stream, Answer::json(&other_api)).await.unwrap_err().code, FailureCode::Unavailable);
        let cut = call(stream, Answer::json(response("incomplete"))).await.unwrap();
        assert_eq!(cut.finish, Finish::Length);
    }
}
