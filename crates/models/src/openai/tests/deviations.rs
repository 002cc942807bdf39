//! What providers are known to do otherwise than OpenAI, as they do it: through the whole client,
//! byte by byte.

use dauntless_contract::{Finish, Model, ModelReply};
use proptest::prelude::*;

use super::server::{Answer, Server};
use super::{Failure, FailureCode, builder, call, ctx, request};
use crate::openai::Api;

/// The reply to a stream of exactly these lines.
async fn lines(body: &str) -> Result<ModelReply, Failure> {
    call(true, Answer::lines(body, Vec::new())).await
}

#[tokio::test]
async fn comments_that_keep_a_stream_alive_say_nothing() {
    let body = ": OPENROUTER PROCESSING\n\n:\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n: ping\n\nevent: keepalive\ndata: {}\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    assert_eq!(lines(body).await.unwrap().text.as_deref(), Some("hi"));
}

#[tokio::test]
async fn chunks_of_filters_and_counts_are_no_part_of_the_text() {
    let reply = call(
        true,
        Answer::stream(&[
            r#"{"choices":[],"prompt_filter_results":[{"prompt_index":0}],"id":"","model":""}"#,
            r#"{"choices":[{"index":0,"delta":{"role":"robot","content":"hi"}}]}"#,
            r#"{"choices":[{"index":0,"finish_reason":null,"content_filter_offsets":{},"content_filter_results":{}}]}"#,
            r#"{"choices":[{"index":0,"delta":null,"finish_reason":""}]}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#,
        ]),
    )
    .await
    .unwrap();
    assert_eq!((reply.text.as_deref(), reply.finish), (Some("hi"), Finish::Stop));
}

#[tokio::test]
async fn every_word_for_the_end_is_one() {
    for (word, finish) in [
        ("eos", Finish::Stop),
        ("end_turn", Finish::Stop),
        ("length", Finish::Length),
        ("content_filter", Finish::ContentFilter),
        ("unheard_of", Finish::Other("unheard_of".into())),
    ] {
        let chunk = format!(r#"{{"choices":[{{"delta":{{"content":"x"}},"finish_reason":"{word}"}}]}}"#);
        assert_eq!(call(true, Answer::stream(&[&chunk])).await.unwrap().finish, finish, "{word}");
    }
    let cut = r#"{"choices":[{"delta":{"content":"x"},"finish_reason":"error","native_finish_reason":"x"}]}"#;
    assert_eq!(call(true, Answer::stream(&[cut])).await.unwrap_err().code, FailureCode::Unavailable);
}

#[tokio::test]
async fn an_error_in_a_stream_is_known_by_its_code_in_any_form() {
    for (code, kind) in [
        ("429", FailureCode::RateLimited),
        ("\"429\"", FailureCode::RateLimited),
        ("\"rate_limit_exceeded\"", FailureCode::RateLimited),
        ("502", FailureCode::Unavailable),
        ("400", FailureCode::InvalidArguments),
    ] {
        let chunk = format!(
            r#"{{"id":"gen","error":{{"code":{code},"message":"m"}},"choices":[{{"delta":{{"content":""}},"finish_reason":"error"}}]}}"#
        );
        assert_eq!(call(true, Answer::stream(&[&chunk])).await.unwrap_err().code, kind, "{code}");
    }
}

#[tokio::test]
async fn of_a_field_given_twice_the_last_one_counts() {
    let twice = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","id":"b","function":{"name":"f","name":"g","arguments":"{}"}}]},"finish_reason":"stop"}]}"#;
    let reply = call(true, Answer::stream(&[twice])).await.unwrap();
    assert_eq!((&*reply.calls[0].id, &*reply.calls[0].name), ("b", "g"));
}

/// Streams of both APIs with what is hard to cut: characters of several bytes, line ends of two,
/// events of several lines, comments.
const STREAMS: [(Api, &str); 2] = [
    (
        Api::Chat,
        ": hi\r\n\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"Grüße 🌍\"}}]}\r\n\r\ndata: {\"choices\":[{\"delta\":\ndata: {\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"k\\\":\\\"é\"}}]}}]}\n\ndata: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"\\\"}\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\ndata:{\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n",
    ),
    (
        Api::Responses { keep_reasoning: false },
        "event: response.output_text.delta\r\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"Grüße 🌍\"}\r\n\r\n: ping\n\nevent: response.output_item.done\ndata: {\"type\":\"response.output_item.done\",\ndata: \"item\":{\"type\":\"function_call\",\"call_id\":\"a\",\"name\":\"f\",\"arguments\":\"{\\\"k\\\":\\\"é\\\"}\"}}\n\nevent: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"usage\":{\"input_tokens\":3,\"output_tokens\":2}}}\n\n",
    ),
];

fn reply_in_pieces(api: Api, body: &str, cuts: Vec<usize>) -> Result<ModelReply, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = Server::start(vec![Answer::lines(body, cuts)]).await;
        let model = builder(&server).api(api).build().unwrap();
        model.call(ctx(), request()).await
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn wherever_the_network_cuts_a_stream_it_is_the_same_reply(
        which in 0..STREAMS.len(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 1..6),
    ) {
        let (api, body) = STREAMS[which];
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len())).collect();
        cuts.sort_unstable();
        let whole = reply_in_pieces(api, body, Vec::new()).unwrap();
        prop_assert_eq!(whole.text.as_deref(), Some("Grüße 🌍"));
        prop_assert_eq!(&*whole.calls[0].arguments, "{\"k\":\"é\"}");
        prop_assert_eq!(reply_in_pieces(api, body, cuts), Ok(whole));
    }
}
