//! A provider that says how much it takes only when it gets more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dauntless::prelude::*;
use dauntless_testkit::{Answer, Call, Reply, Script, StrictProvider};
use serde_json::json;

/// Asks for a call on every turn, up to a last one; refuses what is larger than its window, at 4
/// bytes a token, as llama.cpp does or as OpenAI does.
fn provider(window: usize, turns: usize, with_numbers: bool) -> (StrictProvider, Arc<AtomicUsize>) {
    let (asked, refused) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&refused);
    let script = Script::from_fn(move |request| {
        let prompt = request.body_bytes() / 4;
        if prompt > window {
            counted.fetch_add(1, Ordering::Relaxed);
            let message = "The conversation has too many tokens.";
            if !with_numbers {
                return Reply::error(400, "context_length_exceeded", message);
            }
            let error = json!({ "code": 400, "message": message, "type": "exceed_context_size_error",
                "n_prompt_tokens": prompt, "n_ctx": window });
            return Reply::wire(Answer::json(400, &json!({ "error": error })));
        }
        if request.tools().is_empty() {
            return Reply::text("Many things were found.");
        }
        match asked.fetch_add(1, Ordering::Relaxed) {
            n if n < turns => Reply::calls([Call::new("find", &json!({ "n": n }))]),
            _ => Reply::text("done"),
        }
    });
    (StrictProvider::start(script).unwrap(), refused)
}

fn agent() -> Agent {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Find {
        /// A number.
        n: u64,
    }
    let find = tool_fn("find", "Finds things about a number.", async |Find { n }: Find| {
        let times = if n == 20 { 500_000 } else { 100 + n % 4 * 100 };
        Ok::<_, Failure>(format!("{n}: {}", "some words ".repeat(usize::try_from(times).unwrap_or_default())))
    });
    Agent::new("a").instructions("Find everything.").tool(find)
}

fn limits() -> RunLimits {
    RunLimits { turns: 400, tokens: dauntless::Tokens(u64::MAX), ..RunLimits::default() }
}

#[tokio::test]
async fn a_window_that_is_learned_by_a_refusal_is_overstepped_once() {
    let (provider, refused) = provider(8192, 60, true);
    let runtime = super::runtime(&provider, true).await;
    let outcome = runtime.run(&agent().limits(limits()), "go").await;
    assert_eq!(outcome.reason, StopReason::Completed, "{outcome:?}");
    assert_eq!(refused.load(Ordering::Relaxed), 1);
    provider.assert_clean();
}

#[tokio::test]
async fn a_window_that_nobody_names_is_felt_out() {
    let (provider, refused) = provider(8192, 60, false);
    let runtime = super::runtime(&provider, false).await;
    let outcome = runtime.run(&agent().limits(limits()), "go").await;
    assert_eq!(outcome.reason, StopReason::Completed, "{outcome:?}");
    let refused = refused.load(Ordering::Relaxed);
    assert!((1..=3).contains(&refused), "{refused} refusals");
    let bodies: Vec<String> = provider.recorded().iter().map(|request| request.body().into_owned()).collect();
    for (at, body) in bodies.iter().enumerate() {
        assert!(!bodies[..at].contains(body), "no request is sent twice");
    }
    provider.assert_clean();
}

#[tokio::test]
async fn a_conversation_that_no_model_takes_ends_the_run_with_the_providers_reason() {
    let (provider, refused) = provider(10, 60, true);
    let runtime = super::runtime(&provider, false).await;
    let outcome = runtime.run(&agent(), "go").await;
    assert_eq!(outcome.reason.to_string(), "model_failed: too_large after 1 attempt");
    assert_eq!(refused.load(Ordering::Relaxed), 1, "what cannot be made smaller is not sent again");
    assert!(outcome.explanation.unwrap().ends_with("Nothing more can be left out of it."));
}
