use std::sync::{Arc, Mutex};
use std::time::Duration;

use dauntless_contract::{
    EffectState, Failure, FailureCode, Finish, History, Json, Model, ModelCtx, ModelReply, ModelRequest,
    Observation, ResiliencePolicy, Round, RunId, TextSink, Timestamp, ToolCall, ToolSpec,
};
use expect_test::expect;
use serde_json::{Map, json};

use super::failure::classify;
use super::{OpenAi, OpenAiBuilder};
use crate::secret::Secret;
use crate::wire::WireError;
use server::{Answer, Server};

mod deviations;
mod responses;
mod server;

const KEY: &str = "sk-canary-0123456789";
const DONE: &str = "[DONE]";

fn builder(server: &Server) -> OpenAiBuilder {
    OpenAi::builder("m-1")
        .base_url(server.base_url.clone())
        .api_key(Secret::new(KEY))
        .idle_timeout(Duration::from_millis(200))
}

fn ctx() -> ModelCtx {
    ModelCtx { run: RunId::from_u128(1), turn: 1, attempt: 1, deadline: Timestamp::MAX, on_text: None }
}

fn request() -> ModelRequest {
    let tool = ToolSpec::new("order", "Looks up an order.", json!({"type": "object"}));
    let history = History::open(&"".into(), &"Where is it?".into());
    ModelRequest::new(Arc::new(history), Arc::new([Arc::new(tool)]))
}

/// The outcome of one call that is answered like this.
async fn call(stream: bool, answer: Answer) -> Result<ModelReply, Failure> {
    let server = Server::start(vec![answer]).await;
    let model = builder(&server).stream(stream).build().unwrap();
    let outcome = model.call(ctx(), request()).await;
    assert_eq!(server.requests().len(), 1, "one call is one request");
    outcome
}

/// The failure of one call, which must be the same whether a stream was asked for or not.
async fn failure(status: &str, headers: &[(&str, &str)], body: &str) -> Failure {
    let plain = call(false, Answer::new(status, headers, body)).await.unwrap_err();
    let streamed = call(true, Answer::new(status, headers, body)).await.unwrap_err();
    assert_eq!(plain, streamed);
    let seen = serde_json::to_string(&plain).unwrap() + plain.source.as_deref().unwrap_or_default();
    assert!(!seen.contains(KEY), "{seen}");
    plain
}

fn completion(message: serde_json::Value) -> serde_json::Value {
    json!({"model": "m-1-2026", "choices": [{"message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": 5, "completion_tokens": 2}})
}

#[tokio::test]
async fn a_plain_answer_is_a_reply_and_the_request_is_what_was_set_up() {
    let server = Server::start(vec![Answer::json(completion(json!({"content": "hi"})))]).await;
    let extra = json!({"seed": 7}).as_object().unwrap().clone();
    let model = builder(&server)
        .stream(false)
        .temperature(0.0)
        .max_output_tokens(64)
        .header("OpenAI-Organization", "org-1")
        .body(extra)
        .build()
        .unwrap();
    let reply = model.call(ctx(), request()).await.unwrap();
    assert_eq!(reply.text.as_deref(), Some("hi"));
    assert_eq!(reply.output_limit, Some(64));
    assert_eq!(reply.model.as_deref(), Some("m-1-2026"));
    let sent = server.requests().remove(0);
    let (head, body) = sent.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1"), "{head}");
    assert!(head.contains(&format!("authorization: Bearer {KEY}")), "{head}");
    assert!(head.contains("openai-organization: org-1"), "{head}");
    expect![[r#"{"model":"m-1","messages":[{"role":"user","content":"Where is it?"}],"tools":[{"type":"function","function":{"name":"order","description":"Looks up an order.","parameters":{"type":"object"}}}],"stream":false,"max_tokens":64,"seed":7,"temperature":0.0}"#]]
        .assert_eq(body);
}

#[tokio::test]
async fn without_a_key_no_authorization_is_sent() {
    let server = Server::start(vec![Answer::json(completion(json!({"content": "hi"})))]).await;
    let model = OpenAi::builder("m").base_url(server.base_url.clone()).stream(false).build().unwrap();
    model.call(ctx(), request()).await.unwrap();
    assert!(!server.requests()[0].contains("authorization"));
}

#[tokio::test]
async fn a_stream_is_told_piece_by_piece_and_put_together() {
    let server = Server::start(vec![Answer::stream(&[
        r#"{"choices":[],"prompt_filter_results":[]}"#,
        r#"{"choices":[{"delta":{"role":"assistant","content":null}}]}"#,
        r#"{"choices":[{"delta":{"content":"Let me "}}]}"#,
        r#"{"choices":[{"delta":{"content":"look."}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"order","arguments":"{\"id\":"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"7}"}}]}}]}"#,
        r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4}}"#,
        DONE,
    ])])
    .await;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&heard);
    let on_text: TextSink = Arc::new(move |text| sink.lock().unwrap().push(text.to_owned()));
    let model = builder(&server).build().unwrap();
    let reply = model.call(ModelCtx { on_text: Some(on_text), ..ctx() }, request()).await.unwrap();
    assert_eq!(*heard.lock().unwrap(), ["Let me ", "look."]);
    assert_eq!(reply.text.as_deref(), Some("Let me look."));
    assert_eq!((&*reply.calls[0].id, &*reply.calls[0].arguments), ("a", "{\"id\":7}"));
    assert_eq!(reply.finish, Finish::ToolCalls);
    assert_eq!(reply.usage.unwrap().completion.0, 4);
    assert!(server.requests()[0].contains(r#""stream":true,"stream_options":{"include_usage":true}"#));
}

#[tokio::test]
async fn an_id_of_the_conversation_is_not_used_again() {
    let mut history = History::open(&"".into(), &"go".into());
    let past = ToolCall { id: "order:0".into(), name: "order".into(), arguments: Json::empty_object() };
    history.round(Round { text: None, extra: None, calls: vec![(past, Observation { text: "ok".into() })] });
    let again = json!({"tool_calls": [{"id": "order:0", "function": {"name": "order", "arguments": "{}"}}]});
    let server = Server::start(vec![Answer::json(completion(again))]).await;
    let model = builder(&server).stream(false).build().unwrap();
    let request = ModelRequest::new(Arc::new(history), Arc::new([]));
    assert_eq!(&*model.call(ctx(), request).await.unwrap().calls[0].id, "call_2");
}

#[tokio::test]
async fn a_whole_answer_to_a_request_for_a_stream_is_taken() {
    let reply = call(true, Answer::json(completion(json!({"content": "hi"})))).await.unwrap();
    assert_eq!(reply.text.as_deref(), Some("hi"));
}

#[tokio::test]
async fn a_stream_without_an_end_is_no_reply() {
    let piece = r#"{"choices":[{"delta":{"content":"Let me ch"},"finish_reason":""}]}"#;
    for answer in [
        Answer::stream(&[piece]),
        Answer::stream(&[piece, DONE]),
        Answer::stream(&[]),
        Answer::stream(&[piece]).cut_off(),
    ] {
        let failure = call(true, answer).await.unwrap_err();
        assert_eq!(
            (failure.code, failure.effect),
            (FailureCode::ConnectionFailed, EffectState::Unknown),
            "{failure}"
        );
    }
}

#[tokio::test]
async fn what_breaks_after_the_end_breaks_nothing() {
    let events = [r#"{"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}"#];
    for answer in
        [Answer::stream(&events), Answer::stream(&events).then_stall(), Answer::stream(&events).cut_off()]
    {
        assert_eq!(call(true, answer).await.unwrap().text.as_deref(), Some("hi"));
    }
}

#[tokio::test]
async fn a_piece_that_is_no_json_spoils_the_stream() {
    let events = [
        r#"{"choices":[{"delta":{"content":"a"}}]}"#,
        r#"{"choices":[{"delta":{"con"#,
        r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
    ];
    let failure = call(true, Answer::stream(&events)).await.unwrap_err();
    expect![
        "unavailable: A piece of the answer of model `m-1` is not JSON, so the answer cannot be trusted."
    ]
    .assert_eq(&failure.to_string());
}

#[tokio::test]
async fn silence_in_the_middle_of_a_stream_is_a_timeout() {
    let piece = r#"{"choices":[{"delta":{"content":"a"}}]}"#;
    let failure = call(true, Answer::stream(&[piece]).then_stall()).await.unwrap_err();
    expect!["timeout: The answer of model `m-1` stalled: nothing came for 200ms."]
        .assert_eq(&failure.to_string());
    assert_eq!(failure.effect, EffectState::Unknown);
}

#[tokio::test]
async fn silence_before_an_answer_is_a_timeout() {
    let server = Server::start(vec![Answer::silence()]).await;
    let hurried =
        ResiliencePolicy { attempt_timeout: Duration::from_millis(100), ..ResiliencePolicy::for_model() };
    let model = builder(&server).resilience(hurried.clone()).build().unwrap();
    let failure = model.call(ctx(), request()).await.unwrap_err();
    expect!["timeout: The provider of model `m-1` did not answer within 100ms."]
        .assert_eq(&failure.to_string());

    let server = Server::start(vec![Answer::stream(&[]).then_stall()]).await;
    let failure =
        builder(&server).resilience(hurried).build().unwrap().call(ctx(), request()).await.unwrap_err();
    assert_eq!(failure.code, FailureCode::Timeout, "{failure}");
}

#[tokio::test]
async fn nobody_at_the_address_means_that_nothing_was_sent() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let failure =
        OpenAi::builder("m-1").base_url(url).build().unwrap().call(ctx(), request()).await.unwrap_err();
    expect!["connection_failed: No connection to the provider of model `m-1`."]
        .assert_eq(&failure.to_string());
    assert_eq!(failure.effect, EffectState::None);
    assert!(!failure.message.contains("127.0.0.1"));
}

#[tokio::test]
async fn a_body_that_ends_early_is_a_broken_connection() {
    let half = Answer::new("200 OK", &[("content-type", "application/json")], "{\"choices\":");
    let failure = call(false, half).await.unwrap_err();
    assert_eq!(failure.code, FailureCode::Unavailable, "{failure}");
    let cut = Answer::stream(&["x"]).cut_off();
    let failure = call(false, cut).await.unwrap_err();
    assert_eq!(
        (failure.code, failure.effect),
        (FailureCode::ConnectionFailed, EffectState::Unknown),
        "{failure}"
    );
}

#[tokio::test]
async fn a_rate_limit_carries_the_wait_that_the_server_asks_for() {
    let body = r#"{"error":{"message":"Rate limit, try again in 2s","type":"rate_limit_error","code":null}}"#;
    let seconds = failure("429 Too Many Requests", &[("retry-after", "90")], body).await;
    expect!["rate_limited: The provider limits the rate of requests for model `m-1` (HTTP 429)."]
        .assert_eq(&seconds.to_string());
    assert_eq!(seconds.retry_after, Some(Duration::from_secs(90)));
    let both = failure("429 x", &[("retry-after-ms", "1500"), ("retry-after", "2")], body).await;
    assert_eq!(both.retry_after, Some(Duration::from_millis(1500)));
    let date = [("date", "Wed, 21 Oct 2026 07:28:00 GMT"), ("retry-after", "Wed, 21 Oct 2026 07:29:00 GMT")];
    assert_eq!(failure("429 x", &date, body).await.retry_after, Some(Duration::from_secs(60)));
    assert_eq!(failure("429 x", &[("retry-after", "-5")], body).await.retry_after, None);
    let busy = failure("503 x", &[("retry-after", "7")], "<html>busy</html>").await;
    assert_eq!((busy.code, busy.retry_after), (FailureCode::RateLimited, Some(Duration::from_secs(7))));
}

#[tokio::test]
async fn a_used_up_quota_is_no_rate_limit() {
    let by_code =
        r#"{"error":{"message":"You exceeded your quota.","type":"x","code":"insufficient_quota"}}"#;
    let by_type = r#"{"error":{"message":"m","type":"insufficient_quota","code":"429"}}"#;
    let by_words =
        r#"{"error":{"message":"You have reached your monthly usage limit for this billing cycle"}}"#;
    for body in [by_code, by_type, by_words] {
        assert_eq!(
            failure("429 x", &[("retry-after", "1")], body).await.code,
            FailureCode::QuotaExhausted,
            "{body}"
        );
    }
    let text = failure("429 x", &[], by_words).await.to_string();
    expect![[r#"quota_exhausted: The quota is used up for model `m-1` (HTTP 429). The provider says: "You have reached your monthly usage limit for this billing cycle""#]]
        .assert_eq(&text);
}

#[tokio::test]
async fn a_limit_of_a_day_is_a_quota_unless_the_time_to_come_back_is_told() {
    let by_day = r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"Quota: RequestsPerDay"}}"#;
    let by_month = r#"{"error":{"message":"monthly usage limit","code":"rate_limit_exceeded"}}"#;
    for body in [by_day, by_month] {
        assert_eq!(failure("429 x", &[], body).await.code, FailureCode::QuotaExhausted, "{body}");
        let told = failure("429 x", &[("retry-after", "20")], body).await;
        assert_eq!(told.code, FailureCode::RateLimited, "{body}");
    }
    let by_minute = by_day.replace("PerDay", "PerMinute");
    assert_eq!(failure("429 x", &[], &by_minute).await.code, FailureCode::RateLimited);
}

#[tokio::test]
async fn a_page_in_place_of_an_answer_is_kept_for_the_operator_alone() {
    let html = "<html><body>upstream db-7.internal is down</body></html>";
    let failure =
        failure("503 Service Unavailable", &[("content-type", "text/html"), ("x-request-id", "r-1")], html)
            .await;
    expect!["unavailable: The provider cannot serve requests now for model `m-1` (HTTP 503)."]
        .assert_eq(&failure.to_string());
    assert_eq!(failure.source.as_deref(), Some(&*format!("HTTP 503, request id r-1: {html}")));
    let good_status =
        call(false, Answer::new("200 OK", &[("content-type", "text/html")], html)).await.unwrap_err();
    assert_eq!(good_status.code, FailureCode::Unavailable);
    assert!(!good_status.message.contains("internal"));
}

/// Counts what is logged.
struct Counter(Arc<Mutex<usize>>);

impl tracing::Subscriber for Counter {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        *self.0.lock().unwrap() += usize::from(*event.metadata().level() == tracing::Level::ERROR);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn a_page_with_a_good_status_is_no_answer_streamed_or_not() {
    let page =
        failure("200 OK", &[("content-type", "text/html; charset=utf-8")], "<html>Welcome</html>").await;
    expect!["unavailable: The answer of the provider of model `m-1` is not JSON."]
        .assert_eq(&page.to_string());
    assert!(page.hint.unwrap().contains("base URL"));
}

#[tokio::test]
async fn a_body_that_is_no_json_is_not_logged() {
    let errors = Arc::new(Mutex::new(0));
    let _guard = tracing::subscriber::set_default(Counter(Arc::clone(&errors)));
    tracing::error!("the counter counts");
    call(false, Answer::new("200 OK", &[], "<html>a person's words</html>")).await.unwrap_err();
    assert_eq!(*errors.lock().unwrap(), 1);
}

#[tokio::test]
async fn llama_cpp_says_too_large_in_its_own_way() {
    let body = r#"{"error":{"code":400,"message":"request (5010 tokens) exceeds the available context size","type":"exceed_context_size_error","n_prompt_tokens":5010,"n_ctx":2048}}"#;
    let failure = failure("400 Bad Request", &[], body).await;
    expect![[r#"too_large: The conversation is too long for model `m-1` (HTTP 400). The provider says: "request (5010 tokens) exceeds the available context size""#]]
        .assert_eq(&failure.to_string());
    assert_eq!(failure.window.map(std::num::NonZeroU32::get), Some(2048));
}

#[tokio::test]
async fn an_overflow_that_is_named_no_more_than_a_bad_request_is_known_by_its_words() {
    for (body, code) in [
        (
            r#"{"error":{"message":"litellm.ContextWindowExceededError: too long","type":null,"param":null,"code":"400"}}"#,
            FailureCode::TooLarge,
        ),
        (
            r#"{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","code":400}"#,
            FailureCode::TooLarge,
        ),
        (
            r#"{"error":{"message":"prompt is too long: 9 tokens > 8","type":"invalid_request_error"}}"#,
            FailureCode::TooLarge,
        ),
        (
            r#"{"error":{"message":"The value `maximum context length` is no colour.","type":"invalid_request_error","code":"bad_colour"}}"#,
            FailureCode::InvalidArguments,
        ),
    ] {
        let failure = failure("400 Bad Request", &[], body).await;
        assert_eq!((failure.code, failure.window), (code, None), "{body}");
    }
}

#[tokio::test]
async fn a_key_that_a_provider_repeats_is_shown_to_nobody() {
    let body = format!(r#"{{"error":{{"message":"Key {KEY} is wrong","code":"invalid_api_key"}}}}"#);
    let refused = failure("401 x", &[], &body).await;
    assert_eq!(refused.code, FailureCode::Unauthenticated);
    assert!(refused.source.unwrap().contains("Key *** is wrong"));
    let long = format!("{}{KEY}{}", "x".repeat(2040), "y".repeat(5000));
    let cut = failure("400 x", &[], &long).await.source.unwrap();
    assert!(cut.len() < 2100 && !cut.contains("sk-"), "{cut}");
    let server = Server::start(vec![Answer::new("500 x", &[], "x-gateway-key: canary-in-a-header")]).await;
    let model = builder(&server).header("x-gateway-key", "canary-in-a-header").build().unwrap();
    let failure = model.call(ctx(), request()).await.unwrap_err();
    assert_eq!(failure.source.as_deref(), Some("HTTP 500, request id none: x-gateway-key: ***"));
}

#[tokio::test]
async fn the_providers_word_on_another_try_counts() {
    let no = failure("503 x", &[("x-should-retry", "false")], "").await;
    assert_eq!(no.code, FailureCode::ToolError);
    let yes = failure("400 x", &[("x-should-retry", "true")], "").await;
    assert_eq!(yes.code, FailureCode::Unavailable);
    let limited = failure("429 x", &[("x-should-retry", "true"), ("retry-after", "3")], "").await;
    assert_eq!((limited.code, limited.retry_after), (FailureCode::RateLimited, Some(Duration::from_secs(3))));
}

#[tokio::test]
async fn an_error_inside_a_good_answer_is_classified_by_its_code() {
    for (body, code) in [
        (r#"{"choices":null,"error":{"code":429,"message":"rate limited"}}"#, FailureCode::RateLimited),
        (r#"{"error":{"code":401,"message":"no"}}"#, FailureCode::Unauthenticated),
        (r#"{"error":{"code":"context_length_exceeded","message":"m"}}"#, FailureCode::TooLarge),
        (r#"{"error":{"type":"invalid_request_error","message":"m"}}"#, FailureCode::InvalidArguments),
        (r#"{"error":"something"}"#, FailureCode::Unavailable),
        (r#"{"code":"rate_limit_daily","message":"429 x"}"#, FailureCode::QuotaExhausted),
        (r#"{"choices":[]}"#, FailureCode::Unavailable),
        (r#"{"choices":[],"usage":{"prompt_tokens":1}}"#, FailureCode::Unavailable),
        (r#"[]"#, FailureCode::Unavailable),
    ] {
        assert_eq!(
            failure("200 OK", &[("content-type", "application/json")], body).await.code,
            code,
            "{body}"
        );
    }
    let piece = r#"{"choices":[{"delta":{"content":"a"}}]}"#;
    let error = r#"{"error":{"code":400,"message":"m","type":"context_length_exceeded"}}"#;
    let in_stream = call(true, Answer::stream(&[piece, error, DONE])).await.unwrap_err();
    assert_eq!(in_stream.code, FailureCode::TooLarge);
    let by_finish = r#"{"choices":[{"delta":{},"finish_reason":"error"}]}"#;
    let by_finish = call(true, Answer::stream(&[piece, by_finish, DONE])).await.unwrap_err();
    assert_eq!(by_finish.code, FailureCode::Unavailable);
}

#[tokio::test]
async fn a_call_that_the_provider_could_not_read_is_the_models_to_mend() {
    let body = |text: &str| {
        json!({"error": {"message": "Failed to call a function.", "type": "invalid_request_error", "code": "tool_use_failed", "failed_generation": text}}).to_string()
    };
    for text in [
        r#"<function=order{"id": 7}</function>"#,
        r#"{"name": "order", "arguments": {"id": }"#,
        r#"[{"name": "order"}]"#,
    ] {
        let outcome = call(true, Answer::new("400 Bad Request", &[], &body(text))).await;
        if text.starts_with('{') {
            assert_eq!(outcome.unwrap_err().code, FailureCode::Unavailable, "{text}");
            continue;
        }
        let reply = outcome.unwrap();
        assert_eq!((&*reply.calls[0].name, &*reply.calls[0].arguments), ("order", text));
        assert_eq!(reply.calls[0].garbled.as_deref(), Some("the provider could not read it as a tool call"));
        assert_eq!(call(true, Answer::stream(&[&body(text)])).await, Ok(reply));
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let failure =
        failure("308 Permanent Redirect", &[("location", "http://127.0.0.1:9/elsewhere")], "").await;
    assert_eq!(failure.code, FailureCode::NotFound);
}

#[tokio::test]
async fn a_refused_tool_is_named_and_any_other_refusal_names_none() {
    let refused = r#"{"error":{"message":"Invalid schema for function 'order'.","type":"invalid_request_error","param":"tools[0].function.parameters","code":"invalid_function_parameters"}}"#;
    let named = failure("400 Bad Request", &[], refused).await;
    assert_eq!((named.code, named.rejected_tool()), (FailureCode::InvalidArguments, Some("order")));
    assert_eq!(failure("500 Internal Server Error", &[], refused).await.rejected_tool(), None);
    let other = r#"{"error":{"message":"INVALID_ARGUMENT","type":"invalid_request_error"}}"#;
    assert_eq!(failure("400 Bad Request", &[], other).await.rejected_tool(), None);
}

#[test]
fn every_status_has_its_kind() {
    let kind = |status| classify(status, &WireError::default(), false);
    let table: String = [
        302, 400, 401, 402, 403, 404, 405, 408, 409, 410, 413, 418, 422, 429, 451, 500, 502, 503, 504, 529,
        599,
    ]
    .map(|status| format!("{status} {}\n", kind(status)))
    .concat();
    expect![[r#"
        302 not_found
        400 invalid_arguments
        401 unauthenticated
        402 quota_exhausted
        403 permission_denied
        404 not_found
        405 invalid_arguments
        408 timeout
        409 unavailable
        410 gone
        413 too_large
        418 invalid_arguments
        422 invalid_arguments
        429 rate_limited
        451 invalid_arguments
        500 unavailable
        502 unavailable
        503 unavailable
        504 unavailable
        529 unavailable
        599 unavailable
    "#]]
    .assert_eq(&table);
    assert_eq!(classify(529, &WireError::default(), true), FailureCode::RateLimited);
    assert_eq!(classify(500, &WireError::default(), true), FailureCode::Unavailable);
}

#[tokio::test]
async fn a_timeout_of_the_server_had_no_effect() {
    let failure = failure("408 Request Timeout", &[], "").await;
    assert_eq!((failure.code, failure.effect), (FailureCode::Timeout, EffectState::None));
}

fn mistake(builder: OpenAiBuilder) -> String {
    builder.build().unwrap_err().to_string()
}

#[test]
fn a_client_that_could_not_work_is_not_built() {
    let model = || OpenAi::builder("m");
    let url = |url: &str| mistake(model().base_url(url.to_owned()));
    expect!["the model has no name: give the name that the provider knows it by, like `gpt-4o-mini`"]
        .assert_eq(&mistake(OpenAi::builder(" ")));
    expect!["base URL `localhost:8080` cannot be used: it is no http or https address; give something like `https://api.openai.com/v1`"]
        .assert_eq(&url("localhost:8080"));
    expect!["base URL `/v1` cannot be used: relative URL without a base; give something like `https://api.openai.com/v1`"]
        .assert_eq(&url("/v1"));
    expect!["base URL `example.com` cannot be used: it holds a user name or password, set the API key instead; give something like `https://api.openai.com/v1`"]
        .assert_eq(&url("https://me:pass@example.com/v1"));
    assert!(!url("https://example.com/v1?key=hidden").contains("hidden"));
    expect![
        "the API key holds a line break or another character that no HTTP header may hold: copy it again"
    ]
    .assert_eq(&mistake(model().api_key(Secret::new("a\nb"))));
    expect!["header `a b` cannot be sent: its name or value holds a character that HTTP does not allow"]
        .assert_eq(&mistake(model().header("a b", "x")));
    let reserved: Map<_, _> = json!({"messages": []}).as_object().unwrap().clone();
    expect!["body field `messages` has a setting of its own on the builder: use that"]
        .assert_eq(&mistake(model().body(reserved)));
    expect!["`temperature` is NaN: use 0 to 2"].assert_eq(&mistake(model().temperature(f64::NAN)));
    expect!["`max_output_tokens` is 0: use 1 or more"].assert_eq(&mistake(model().max_output_tokens(0)));
    expect!["`idle_timeout` is 0s: use a positive length, like 30 s"]
        .assert_eq(&mistake(model().idle_timeout(Duration::ZERO)));
}

#[test]
fn openai_itself_is_told_the_limit_under_its_newer_name() {
    let limit = |url: Option<&str>| {
        let model =
            OpenAi::builder("m").base_url(url.map(str::to_owned)).max_output_tokens(9).build().unwrap();
        model.settings.keys().next().unwrap().clone()
    };
    assert_eq!(limit(None), "max_completion_tokens");
    assert_eq!(limit(Some("https://x.openai.azure.com/openai/v1/")), "max_completion_tokens");
    assert_eq!(limit(Some("https://api.groq.com/openai/v1")), "max_tokens");
}

#[test]
fn nothing_shows_the_key() {
    let builder = OpenAi::builder("m").api_key(Secret::new(KEY)).header("x-key", KEY);
    let shown = format!("{builder:?}{:?}{:?}", builder.clone().build().unwrap(), Secret::new(KEY));
    assert!(!shown.contains(KEY), "{shown}");
}
