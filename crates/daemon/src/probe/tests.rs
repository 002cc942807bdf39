use std::path::Path;
use std::time::Duration;

use dauntless_testkit::{Answer, Call, ChatRequest, Reply, Script, StrictProvider};
use expect_test::{Expect, expect};
use serde_json::json;

use super::*;
use crate::config;

/// A configuration with two models at the provider; the agent with tools asks the second.
fn configured(provider: &str, more: &str) -> Config {
    let text = format!(
        r#"
[model]
provider = "openai"
name = "big"
base_url = "{provider}"
[models.small]
provider = "openai"
name = "tiny"
base_url = "{provider}"
timeout = "1s"
deadline = "2s"
{more}
[agents.clerk]
instructions = "Work."
model = "small"
tools = ["echo"]
[tools.echo]
description = "Echo."
command.argv = ["echo"]
"#
    );
    config::parse(&text, "test.toml", Path::new("")).unwrap_or_else(|report| panic!("{report}"))
}

async fn probed(model: &str, config: &Config) -> Probed {
    let key = |name: &str| (name == "OPENAI_API_KEY").then(|| "sk-test".to_owned());
    let (name, model) = config.models.get_key_value(model).unwrap();
    Probed { took: Duration::ZERO, ..probe(name, model, config, &key).await }
}

/// Probes the second model. Answers how many requests that took.
async fn found(more: &str, script: Script, works: bool, expected: Expect) -> usize {
    let provider = StrictProvider::start(script).unwrap();
    let probed = probed("small", &configured(&provider.url(), more)).await;
    expected.assert_eq(&probed.to_string());
    assert_eq!(probed.works(), works);
    provider.assert_clean();
    assert!(provider.recorded().iter().all(|request| request.json()["max_tokens"] == json!(512)));
    provider.requests()
}

fn call() -> Reply {
    Reply::calls([Call::new("ping", &json!({"number": 7}))])
}

/// Says this where an answer with a schema is asked for, and takes no notice of tools.
fn structured(reply: Reply) -> Script {
    Script::from_fn(move |request: &ChatRequest| match request.json().get("response_format") {
        Some(_) => reply.clone(),
        None => Reply::text("I would call it."),
    })
}

const DECISION: &str = r#"{"name":"ping","parameters":{"number":7}}"#;
const JSON_SCHEMA: &str = "tool_calling = \"json_schema\"";

#[tokio::test]
async fn a_model_that_calls_the_tool_is_asked_once() {
    let decides = structured(Reply::text(DECISION));
    for (more, script) in
        [("", Script::always(call())), ("stream = false", Script::always(call())), (JSON_SCHEMA, decides)]
    {
        let fine = expect!["model small (tiny): calls tools (0.0 s)"];
        assert_eq!(found(more, script, true, fine).await, 1, "{more}");
    }
}

#[tokio::test]
async fn a_model_that_ignores_tools_and_keeps_to_a_schema_is_told_apart() {
    let asked = found(
        "",
        structured(Reply::text(DECISION)),
        false,
        expect![[
            r#"model small (tiny): does not call the tool that it is offered. It calls tools in answers with a schema: set tool_calling = "json_schema" in [models.small] (0.0 s)"#
        ]],
    );
    assert_eq!(asked.await, 2);
    let refused = Script::from_fn(|request| match request.tools() {
        [] => Reply::text(DECISION),
        _ => Reply::error(400, "invalid_request_error", "tiny does not support tools"),
    });
    let asked = found(
        "",
        refused,
        false,
        expect![[
            r#"model small (tiny): takes no request with tools (The provider refused the request as invalid for model `tiny` (HTTP 400). The provider says: "tiny does not support tools"). It calls tools in answers with a schema: set tool_calling = "json_schema" in [models.small] (0.0 s)"#
        ]],
    );
    assert_eq!(asked.await, 2);
}

#[tokio::test]
async fn a_model_that_can_be_made_to_call_nothing_is_told_apart() {
    found(
        "",
        structured(Reply::text(r#"{"answer":"7"}"#)),
        false,
        expect![[r#"model small (tiny): does not call the tool that it is offered. It keeps to the schema of an answer but chose to call nothing: with tool_calling = "json_schema" in [models.small] it may call tools now and then; a larger model does it reliably (0.0 s)"#]],
    )
    .await;
    found(
        "",
        Script::always(Reply::text("I would call it.")),
        false,
        expect!["model small (tiny): does not call the tool that it is offered, and does not keep to the schema of an answer: agents with tools need another model (0.0 s)"],
    )
    .await;
    found(
        "",
        structured(Reply::error(400, "invalid_request_error", "no response_format here")),
        false,
        expect![[r#"model small (tiny): does not call the tool that it is offered, and answers with a schema are refused: agents with tools need another model. invalid_arguments: The provider refused the request as invalid for model `tiny` (HTTP 400). The provider says: "no response_format here" (0.0 s)"#]],
    )
    .await;
    found(
        "",
        structured(Reply::text(r#"{"answer":"I think"#).finish("length")),
        false,
        expect!["model small (tiny): does not call the tool that it is offered, and the output limit cut its answer with a schema: raise max_output_tokens in [models.small] and try again (0.0 s)"],
    )
    .await;
    found(
        "",
        structured(Reply::error(500, "oops", "Try again.")),
        false,
        expect!["model small (tiny): does not call the tool that it is offered; whether it keeps to the schema of an answer is not known. unavailable: The provider cannot serve requests now for model `tiny` (HTTP 500). (0.0 s)"],
    )
    .await;
}

#[tokio::test]
async fn a_model_that_is_to_keep_to_a_schema_and_does_not_is_told_apart() {
    found(
        JSON_SCHEMA,
        Script::always(Reply::text("I would call it.")),
        false,
        expect![[r#"model small (tiny): does not keep to the schema of its answer: tool_calling = "json_schema" in [models.small] is of no use with this service (0.0 s)"#]],
    )
    .await;
    found(
        JSON_SCHEMA,
        structured(Reply::text(r#"{"answer":"7"}"#)),
        false,
        expect!["model small (tiny): keeps to the schema of its answer but did not call the tool that it was told to call: a larger model does (0.0 s)"],
    )
    .await;
    found(
        JSON_SCHEMA,
        structured(Reply::text(r#"{"name":"ping","#).finish("length")),
        false,
        expect!["model small (tiny): was cut by the output limit: raise max_output_tokens in [models.small] (0.0 s)"],
    )
    .await;
}

#[tokio::test]
async fn a_request_that_fails_says_why_and_is_not_repeated() {
    let refused = Script::always(Reply::error(401, "invalid_api_key", "bad key"));
    let asked = found(
        "",
        refused,
        false,
        expect![
            "model small (tiny): unauthenticated: The provider does not accept the API key for model `tiny` (HTTP 401). Check the API key and that it is for this provider. (0.0 s)"
        ],
    );
    assert_eq!(asked.await, 1);
    let asked = found(
        "",
        Script::always(Reply::error(400, "invalid_request_error", "no such parameter: stream_options")),
        false,
        expect![[
            r#"model small (tiny): invalid_arguments: The provider refused the request as invalid for model `tiny` (HTTP 400). The provider says: "no such parameter: stream_options" (0.0 s)"#
        ]],
    );
    assert_eq!(asked.await, 2, "the tool might have been what was refused");
    let silent = expect![
        "model small (tiny): timeout: The provider of model `tiny` did not answer within 1s. (0.0 s)"
    ];
    assert_eq!(found("", Script::always(Reply::stall()), false, silent).await, 1);
}

#[tokio::test]
async fn a_stream_without_an_end_is_left_at_the_deadline() {
    let piece = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";
    let pieces = std::iter::repeat_n(piece, 100);
    let dribble =
        Answer::chunks(pieces).header("content-type", "text/event-stream").gap(Duration::from_millis(300));
    let late =
        expect!["model small (tiny): timeout: Model `tiny` did not finish its reply within 2s. (0.0 s)"];
    found("", Script::always(Reply::wire(dribble)), false, late).await;
}

#[tokio::test]
async fn a_model_of_agents_without_tools_need_not_call_any() {
    let provider = StrictProvider::start(Script::always(Reply::text("Hello."))).unwrap();
    let config = configured(&provider.url(), "");
    let big = probed("default", &config).await;
    assert!(big.works() && matches!(big.finding, Finding::CallsNothing { .. }), "{big}");
    let config = configured(&provider.url(), "fallback = \"default\"");
    assert!(!probed("default", &config).await.works(), "it stands in for one that must");
}

#[tokio::test]
async fn a_model_without_a_key_and_one_without_a_provider_are_not_asked() {
    let config = configured("http://127.0.0.1:1/v1", "api_key_env = \"NO_SUCH_KEY\"");
    let keyless = probed("small", &config).await;
    assert!(!keyless.works());
    assert_eq!(
        keyless.to_string(),
        "model small (tiny): cannot be asked: model `small` needs the environment variable NO_SUCH_KEY: set it \
         to the provider's key"
    );
    let mut config = configured("http://127.0.0.1:1/v1", "");
    let script = std::path::PathBuf::from("script.toml");
    config.models.get_mut("small").unwrap().client = ClientConfig::Scripted { script };
    let scripted = probed("small", &config).await;
    assert!(scripted.works());
    assert_eq!(scripted.to_string(), "model small (tiny): follows a script, so it was not asked");
}
