//! The model port.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    BoxFuture, Failure, History, Json, MicroUsd, ResiliencePolicy, RunId, Timestamp, TokenCounter, Tokens,
    ToolSpec,
};

/// What a million tokens cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    /// For a million prompt tokens.
    pub input_per_million: MicroUsd,
    /// For a million completion tokens.
    pub output_per_million: MicroUsd,
    /// For a million prompt tokens that the provider had in its cache; none where they cost the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input_per_million: Option<MicroUsd>,
}

impl Price {
    /// The cost of a use, rounded up.
    pub fn of(&self, usage: Usage) -> MicroUsd {
        let part = |tokens: Tokens, price: MicroUsd| {
            let total = u128::from(tokens.0) * u128::from(price.0);
            u64::try_from(total.div_ceil(1_000_000)).unwrap_or(u64::MAX)
        };
        let cached = usage.cached.min(usage.prompt);
        let fresh = Tokens(usage.prompt.0 - cached.0);
        let cached_price = self.cached_input_per_million.unwrap_or(self.input_per_million);
        MicroUsd(part(fresh, self.input_per_million))
            + MicroUsd(part(cached, cached_price))
            + MicroUsd(part(usage.completion, self.output_per_million))
    }

    /// Whether nothing costs anything, or nobody said what it costs.
    pub fn is_free(&self) -> bool {
        let cached = self.cached_input_per_million.unwrap_or_default();
        [self.input_per_million, self.output_per_million, cached] == [MicroUsd::ZERO; 3]
    }
}

/// Tokens used by one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Read by the model.
    pub prompt: Tokens,
    /// Written by the model.
    pub completion: Tokens,
    /// Those of the prompt that the provider had in its cache, where it says so.
    #[serde(default, skip_serializing_if = "is_none")]
    pub cached: Tokens,
}

impl Usage {
    /// Prompt and completion, nothing of it cached.
    pub const fn new(prompt: Tokens, completion: Tokens) -> Self {
        Self { prompt, completion, cached: Tokens::ZERO }
    }

    /// Prompt plus completion, which is what a limit of tokens counts.
    pub fn total(&self) -> Tokens {
        self.prompt + self.completion
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.prompt += other.prompt;
        self.completion += other.completion;
        self.cached += other.cached;
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_none(tokens: &Tokens) -> bool {
    tokens.0 == 0
}

/// What a model client declares about itself.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSpec {
    /// The model's name, as the provider knows it.
    pub name: Arc<str>,
    /// Who serves it, in the words of the GenAI conventions (`openai`, `scripted`, …).
    pub provider: Arc<str>,
    /// What it costs; zero where unknown.
    pub price: Price,
    /// The most tokens one reply may have, if we set a limit.
    pub output_tokens_max: Option<u32>,
    /// The most tokens that a request and its reply may have together, where that is known.
    pub context_window: Option<Tokens>,
    /// How the model counts tokens, where that is known.
    pub counter: Option<TokenCounter>,
    /// Timeouts, retries, breaker, budget, concurrency.
    pub resilience: ResiliencePolicy,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestPurpose {
    /// A turn of the run.
    #[default]
    Turn,
    /// A summary of turns that no longer fit the context window. It has no tools.
    Summary,
}

/// One request: the whole conversation and the tools on offer.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// What it is for. A provider is not told.
    pub purpose: RequestPurpose,
    /// The conversation so far, shared and never copied.
    pub history: Arc<History>,
    /// The tools on offer; empty for a turn without tools.
    pub tools: Arc<[Arc<ToolSpec>]>,
    /// The shape that an answer without calls must have; none where any text will do.
    pub answer: Option<Arc<AnswerSchema>>,
}

impl ModelRequest {
    /// A request for an answer in any words.
    pub const fn new(history: Arc<History>, tools: Arc<[Arc<ToolSpec>]>) -> Self {
        Self { purpose: RequestPurpose::Turn, history, tools, answer: None }
    }

    /// A request for a summary.
    pub fn summary(history: Arc<History>) -> Self {
        Self { purpose: RequestPurpose::Summary, ..Self::new(history, Arc::new([])) }
    }
}

/// The shape that the answer of a run must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerSchema {
    /// A name for it, as providers want one: 1 to 64 of `a-z A-Z 0-9 _ -`.
    pub name: Arc<str>,
    /// A JSON schema.
    pub schema: Arc<Value>,
}

/// Takes pieces of text as they arrive. Must return at once.
pub type TextSink = Arc<dyn Fn(&str) + Send + Sync>;

/// What a model client knows about the attempt it is asked for.
#[derive(Clone)]
pub struct ModelCtx {
    /// The run.
    pub run: RunId,
    /// The turn, counted from 1.
    pub turn: u32,
    /// The attempt, counted from 1.
    pub attempt: u32,
    /// When the answer must be there.
    pub deadline: Timestamp,
    /// Where pieces of text go, if somebody watches.
    pub on_text: Option<TextSink>,
}

impl fmt::Debug for ModelCtx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelCtx")
            .field("run", &self.run)
            .field("turn", &self.turn)
            .field("attempt", &self.attempt)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// Why the model stopped writing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It was done.
    Stop,
    /// It wants tools called.
    ToolCalls,
    /// The output limit cut it.
    Length,
    /// A filter of the provider held the text back.
    ContentFilter,
    /// Something else, in the provider's word.
    Other(Arc<str>),
}

/// A call as the model wrote it, before anything is believed about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawCall {
    /// The model's id; the client makes one where it is missing or not unique in the reply.
    pub id: Arc<str>,
    /// The name, as written.
    pub name: Arc<str>,
    /// The arguments as text, as written: may be empty, not JSON, or cut.
    pub arguments: Arc<str>,
    /// Why the pieces of this call could not be put together for certain, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub garbled: Option<Arc<str>>,
}

/// One reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelReply {
    /// The text, if any.
    pub text: Option<Arc<str>>,
    /// The calls it asks for.
    pub calls: Vec<RawCall>,
    /// Why it stopped.
    pub finish: Finish,
    /// Words of refusal, where the provider marks them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Arc<str>>,
    /// What it used, where the provider says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The output limit in force, where known; named to the model when it was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_limit: Option<u32>,
    /// The model that answered, as the provider names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Arc<str>>,
    /// Fields of the message that we do not know and must send back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Json>,
}

impl ModelReply {
    /// A reply with text alone.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self {
            text: Some(text.into()),
            calls: Vec::new(),
            finish: Finish::Stop,
            refusal: None,
            usage: None,
            output_limit: None,
            model: None,
            extra: None,
        }
    }

    /// A reply that asks for calls.
    pub fn calls(calls: Vec<RawCall>) -> Self {
        Self { text: None, calls, finish: Finish::ToolCalls, ..Self::text("") }
    }
}

/// Talks to a model. One `call` is one attempt; the runtime retries.
///
/// # Errors
/// A [`Failure`] classified at this boundary: `unauthenticated`, `quota_exhausted` and so on end
/// the run; transient codes are retried. A stream that ends without a finish is
/// `connection_failed` with an unknown effect, never a short reply.
pub trait Model: Send + Sync + 'static {
    /// What the client declares. The same at every call.
    fn spec(&self) -> &Arc<ModelSpec>;

    /// One attempt. May be dropped at any await; must not retry by itself.
    fn call(&self, ctx: ModelCtx, request: ModelRequest) -> BoxFuture<'_, Result<ModelReply, Failure>>;
}
