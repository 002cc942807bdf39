//! Promises that only show between real processes and sockets.

#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

mod context;
mod corpus;
#[expect(clippy::panic, reason = "a journal that cannot be folded is told whole by a panic")]
mod journals;
#[path = "../fuzz/properties/mod.rs"]
#[expect(unreachable_pub, reason = "public for the fuzz targets, which are a workspace of their own")]
#[expect(clippy::panic, reason = "a property that does not hold is told by a panic")]
mod properties;
mod sharing;

use std::sync::Arc;
use std::time::Duration;

use dauntless::prelude::*;
use dauntless::{ResiliencePolicy, Secret};
use dauntless_testkit::{Answer, Call, Reply, RequestCounter, Script, StrictProvider};
use serde_json::json;

fn quick(mut policy: ResiliencePolicy) -> ResiliencePolicy {
    policy.retry.base = Duration::from_millis(1);
    policy
}

async fn runtime(provider: &StrictProvider, stream: bool) -> Runtime {
    let model = OpenAi::builder("m")
        .base_url(provider.url())
        .api_key(Secret::new("none"))
        .stream(stream)
        .resilience(quick(ResiliencePolicy::for_model()))
        .build()
        .unwrap();
    Runtime::builder().model(model).build().await.unwrap()
}

#[tokio::test]
async fn rt_22_a_model_that_is_down_sees_exactly_the_attempts_of_its_policy() {
    for stream in [true, false] {
        let provider =
            StrictProvider::start(Script::always(Reply::error(503, "overloaded", "Down."))).unwrap();
        let outcome = runtime(&provider, stream).await.run(&Agent::new("a"), "go").await;
        assert_eq!(outcome.reason.to_string(), "model_failed: unavailable after 3 attempts");
        assert_eq!(provider.requests(), 3, "no client library retries below us");
    }
}

#[tokio::test]
async fn rt_01_a_service_that_is_down_sees_exactly_the_attempts_of_its_policy() {
    let provider = StrictProvider::start(Script::by_turn([
        Reply::calls([Call::new("fetch", &json!({}))]),
        Reply::text("It is down."),
    ]))
    .unwrap();
    let service = RequestCounter::start([Answer::status(503)]).unwrap();
    let spec = dauntless::ToolSpec {
        effect: Effect::ReadOnly,
        on_exhausted: dauntless::OnExhausted::Observe,
        resilience: quick(ResiliencePolicy::default()),
        ..dauntless::ToolSpec::new("fetch", "Fetch it.", json!({ "type": "object", "properties": {} }))
    };
    let host = service.url().trim_start_matches("http://").trim_end_matches('/').to_owned();
    let config =
        serde_json::from_value(json!({ "url": format!("http://{host}/it"), "hosts": [host] })).unwrap();
    let tool = dauntless_tools::HttpTool::build(Arc::new(spec), config, &|_| None).unwrap();
    let outcome = runtime(&provider, false).await.run(&Agent::new("a").tool(tool), "go").await;
    assert_eq!(outcome.answer(), Some("It is down."));
    service.assert_requests(3);
    provider.assert_clean();
}
