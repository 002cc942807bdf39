//! The models of the examples, so that they need no key: each plays the part of a real model. With
//! `--real MODEL` and a key in `OPENAI_API_KEY`, a real one takes its place. It holds nothing that an
//! application needs.

use std::env;
use std::error::Error;
use std::sync::Arc;

use dauntless::prelude::*;
use dauntless::{
    BoxFuture, Message, Model, ModelCtx, ModelReply, ModelRequest, ModelSpec, RawCall, ResiliencePolicy,
};
use serde_json::Value;

/// The snippets of the documents, which the doc tests compile and run.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../docs/agents.md")]
    struct Agents;
    #[doc = include_str!("../docs/durability.md")]
    struct Durability;
    #[doc = include_str!("../docs/testing.md")]
    struct Testing;
    #[doc = include_str!("../docs/writing-tools.md")]
    struct WritingTools;
}

/// A model that follows a script.
///
/// # Errors
/// The real one was asked for and cannot be had.
pub fn scripted(turns: impl IntoIterator<Item = Turn>) -> Result<Arc<dyn Model>, Box<dyn Error>> {
    real_or(|| Arc::new(Scripted::new(turns)))
}

/// A model that asks for several calls of one tool at once, and answers with what it reads then,
/// one line a call.
///
/// # Errors
/// The real one was asked for and cannot be had.
pub fn all_at_once(
    tool: &str,
    arguments: impl IntoIterator<Item = Value>,
) -> Result<Arc<dyn Model>, Box<dyn Error>> {
    let call = |(place, arguments): (usize, Value)| RawCall {
        id: format!("call_{place}").into(),
        name: tool.into(),
        arguments: arguments.to_string().into(),
        garbled: None,
    };
    let spec = ModelSpec {
        name: "all-at-once".into(),
        provider: "stand-in".into(),
        price: Default::default(),
        output_tokens_max: None,
        context_window: None,
        counter: None,
        resilience: ResiliencePolicy::for_model(),
    };
    let calls = arguments.into_iter().enumerate().map(call).collect();
    real_or(|| Arc::new(AllAtOnce { spec: spec.into(), calls }))
}

fn real_or(stand_in: impl FnOnce() -> Arc<dyn Model>) -> Result<Arc<dyn Model>, Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match &arguments[..] {
        [] => Ok(stand_in()),
        [real, name] if real == "--real" => {
            let model = OpenAi::from_env(name).map_err(|error| error.to_string())?;
            Ok(Arc::new(model))
        }
        _ => Err("run it without arguments, or with `--real MODEL` and a key in OPENAI_API_KEY".into()),
    }
}

struct AllAtOnce {
    spec: Arc<ModelSpec>,
    calls: Vec<RawCall>,
}

impl Model for AllAtOnce {
    fn spec(&self) -> &Arc<ModelSpec> {
        &self.spec
    }

    fn call(&self, _: ModelCtx, request: ModelRequest) -> BoxFuture<'_, Result<ModelReply, Failure>> {
        let read = request.history.messages().iter().filter_map(|message| match message {
            Message::Tool { text, .. } => Some(&**text),
            Message::System { .. } | Message::User { .. } | Message::Assistant { .. } => None,
        });
        let read: Vec<&str> = read.collect();
        let reply = match read.as_slice() {
            [] => ModelReply::calls(self.calls.clone()),
            lines => ModelReply::text(lines.join("\n")),
        };
        Box::pin(async { Ok(reply) })
    }
}
