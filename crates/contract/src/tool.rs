//! The tool port, and what a tool declares about itself.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{BoxFuture, CallKey, Failure, Json, NotJson, RunId, Timestamp};

/// One call, as the model asked for it and as it is shown back to the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The id the model gave; unique in its turn.
    pub id: Arc<str>,
    /// The tool's name.
    pub name: Arc<str>,
    /// The arguments: always valid JSON text, `{}` where the model's own text was not.
    pub arguments: Json,
}

/// What a repetition of a call would do to the world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Changes nothing.
    ReadOnly,
    /// Doing it twice equals doing it once.
    Idempotent,
    /// Takes [`ToolCtx::idempotency_key`] and drops repetitions itself.
    Keyed,
    /// Can be asked afterwards whether it happened.
    Verifiable,
    /// None of these: never repeated by the harness once it may have started.
    #[default]
    Once,
}

impl Effect {
    /// Whether the harness may repeat a call that may have happened.
    pub const fn repeatable(self) -> bool {
        match self {
            Self::ReadOnly | Self::Idempotent | Self::Keyed => true,
            Self::Verifiable | Self::Once => false,
        }
    }

    /// The name as the configuration writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read_only",
            Self::Idempotent => "idempotent",
            Self::Keyed => "keyed",
            Self::Verifiable => "verifiable",
            Self::Once => "once",
        }
    }
}

/// What a run does when a tool stays broken after all retries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnExhausted {
    /// The run ends with `tool_exhausted`: nothing is left to try.
    #[default]
    EndRun,
    /// The tool is optional: the model is told and goes on without it.
    Observe,
    /// The run waits, at no cost, until the tool may work again or [`ToolSpec::max_park`] is over.
    Park,
}

/// How often and when an attempt is repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// Attempts in all, the first included. 1 switches retries off. Default 3.
    pub max_attempts: u32,
    /// Upper bound of the wait before the second attempt; the wait is drawn from zero to it. Default 250 ms.
    pub base: Duration,
    /// What the bound is multiplied by for each further attempt. Default 2.
    pub factor: f64,
    /// The bound stops growing here. Default 20 s.
    pub cap: Duration,
    /// A server that asks for a longer wait than this is not waited for. Default 60 s.
    pub retry_after_cap: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            base: Duration::from_millis(250),
            factor: 2.0,
            cap: Duration::from_secs(20),
            retry_after_cap: Duration::from_secs(60),
        }
    }
}

/// When a dependency is left alone, and for how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BreakerPolicy {
    /// The window that failures are counted in. Default 60 s, kept in 10 buckets.
    pub window: Duration,
    /// Fewer calls than this in the window never trip by ratio. Default 5.
    pub min_calls: u32,
    /// Share of failed calls in the window that trips. Default 0.5.
    pub failure_ratio: f64,
    /// So many failures in a row trip, whatever the ratio. Default 5.
    pub consecutive_failures: u32,
    /// First wait after a trip; doubles with each further trip, ±20 %. Default 5 s.
    pub open_for: Duration,
    /// The wait stops growing here. Default 120 s.
    pub open_cap: Duration,
    /// So many successful probes close it. Default 2.
    pub close_after: u32,
    /// Closed for so long, the wait is back at [`open_for`](Self::open_for). Default 60 s.
    pub decay: Duration,
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        Self {
            window: Duration::from_secs(60),
            min_calls: 5,
            failure_ratio: 0.5,
            consecutive_failures: 5,
            open_for: Duration::from_secs(5),
            open_cap: Duration::from_secs(120),
            close_after: 2,
            decay: Duration::from_secs(60),
        }
    }
}

/// How many retries a dependency may be sent, over all runs. Amounts are thousandths of a retry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetPolicy {
    /// The most it can hold, and what it starts with. Default 10,000 (ten retries).
    pub capacity_milli: u64,
    /// What each success adds. Default 200.
    pub per_success_milli: u64,
    /// One whole retry is added in this time. Default 5 s.
    pub refill_every: Duration,
}

impl Default for BudgetPolicy {
    fn default() -> Self {
        Self { capacity_milli: 10_000, per_success_milli: 200, refill_every: Duration::from_secs(5) }
    }
}

impl BudgetPolicy {
    /// The defaults for all dependencies of a runtime together: 100 retries, +0.1 for each
    /// success, +1 every second.
    pub fn for_runtime() -> Self {
        Self { capacity_milli: 100_000, per_success_milli: 100, refill_every: Duration::from_secs(1) }
    }
}

/// Everything that bounds the calls to one dependency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResiliencePolicy {
    /// Longest time of one attempt. Default 30 s.
    pub attempt_timeout: Duration,
    /// Longest time of one call: queue, attempts and waits together. Default 60 s.
    pub deadline: Duration,
    /// Attempts in flight at once, over all runs. Default 8.
    pub concurrency: u32,
    /// Calls that may wait for a place. Default 32; the next is refused as `overloaded`.
    pub waiting: u32,
    /// Attempts that were stopped and whose code goes on all the same: with more than this, no
    /// further attempt is started until some of them end. Default 4.
    pub abandoned_max: u32,
    /// Retries.
    pub retry: RetryPolicy,
    /// The breaker.
    pub breaker: BreakerPolicy,
    /// The retry budget.
    pub budget: BudgetPolicy,
}

impl Default for ResiliencePolicy {
    fn default() -> Self {
        Self {
            attempt_timeout: Duration::from_secs(30),
            deadline: Duration::from_secs(60),
            concurrency: 8,
            waiting: 32,
            abandoned_max: 4,
            retry: RetryPolicy::default(),
            breaker: BreakerPolicy::default(),
            budget: BudgetPolicy::default(),
        }
    }
}

impl ResiliencePolicy {
    /// The defaults for a model: 120 s per attempt, 300 s per call, 1024 in flight, 8192 waiting.
    pub fn for_model() -> Self {
        Self {
            attempt_timeout: Duration::from_secs(120),
            deadline: Duration::from_secs(300),
            concurrency: 1024,
            waiting: 8192,
            ..Self::default()
        }
    }
}

/// What a tool declares about itself. Built once; shared by every run.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// 1 to 64 of `a-z A-Z 0-9 _ -`.
    pub name: Arc<str>,
    /// What it does, for the model. Never empty.
    pub description: Arc<str>,
    /// JSON Schema of the arguments; its root is an object.
    pub parameters: Arc<Value>,
    /// What a repetition would do.
    pub effect: Effect,
    /// What a run does when the tool stays broken.
    pub on_exhausted: OnExhausted,
    /// Under [`OnExhausted::Park`], how long a call may wait for the tool in all. Default 1 h.
    pub max_park: Duration,
    /// The tool that is asked in its place when it is exhausted or down, with the same arguments.
    pub fallback: Option<Arc<str>>,
    /// Asked again and again on purpose: identical successes are not a loop.
    pub polling: bool,
    /// Longest text of a success that the model is shown, in bytes. Default 32 KiB.
    pub output_bytes_max: usize,
    /// Timeouts, retries, breaker, budget, concurrency.
    pub resilience: ResiliencePolicy,
}

/// A tool's declaration that cannot be offered to a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolSpecError {
    /// The name is not 1 to 64 of the allowed characters.
    #[error("tool name `{0}` is not allowed: use 1 to 64 of a-z, A-Z, 0-9, `_` and `-`")]
    Name(String),
    /// The description is blank.
    #[error("tool `{0}` has no description: say in a sentence what it does, the model decides by it")]
    NoDescription(String),
    /// The schema's root is not an object.
    #[error(
        "tool `{name}` has a parameter schema of type `{found}`: its root must be `\"type\": \"object\"`"
    )]
    NotAnObject {
        /// The tool.
        name: String,
        /// What the root says instead.
        found: String,
    },
    /// A bound that lets nothing through.
    #[error("tool `{name}`: `{field}` is {value}, which lets no call through: use {expected}")]
    Bound {
        /// The tool.
        name: String,
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
}

impl ToolSpec {
    /// A declaration with the safest defaults: effect `once`, run ends when exhausted.
    pub fn new(name: impl Into<Arc<str>>, description: impl Into<Arc<str>>, parameters: Value) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            parameters: Arc::new(parameters),
            effect: Effect::Once,
            on_exhausted: OnExhausted::EndRun,
            max_park: Duration::from_secs(3600),
            fallback: None,
            polling: false,
            output_bytes_max: 32 * 1024,
            resilience: ResiliencePolicy::default(),
        }
    }

    /// Checks what every provider checks, before the first request does.
    ///
    /// # Errors
    /// The first thing that is wrong, naming the tool, the value and the way out.
    pub fn check(&self) -> Result<(), ToolSpecError> {
        let name = || self.name.to_string();
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if self.name.is_empty() || self.name.len() > 64 || !self.name.chars().all(legal) {
            return Err(ToolSpecError::Name(name()));
        }
        if self.description.trim().is_empty() {
            return Err(ToolSpecError::NoDescription(name()));
        }
        let root = self.parameters.get("type").and_then(Value::as_str);
        if root != Some("object") {
            let found = root.unwrap_or("none").to_owned();
            return Err(ToolSpecError::NotAnObject { name: name(), found });
        }
        let bound = |field, value: String, expected| {
            Err(ToolSpecError::Bound { name: name(), field, value, expected })
        };
        let policy = &self.resilience;
        if policy.concurrency == 0 {
            return bound("concurrency", "0".into(), "1 or more");
        }
        if policy.retry.max_attempts == 0 {
            return bound("max_attempts", "0".into(), "1 or more (1 switches retries off)");
        }
        if policy.attempt_timeout.is_zero() {
            return bound("timeout", "0s".into(), "a positive length, like \"30s\"");
        }
        if policy.deadline.is_zero() {
            return bound("deadline", "0s".into(), "a positive length, like \"60s\"");
        }
        Ok(())
    }
}

/// Tells a tool that its call is no longer wanted.
pub trait CancelSignal: Send + Sync {
    /// Whether it was cancelled.
    fn is_cancelled(&self) -> bool;
    /// Resolves when it is cancelled. Cancel safe.
    fn cancelled(&self) -> BoxFuture<'_, ()>;
}

/// A signal that never comes; for calls by hand and tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct NeverCancelled;

impl CancelSignal for NeverCancelled {
    fn is_cancelled(&self) -> bool {
        false
    }
    fn cancelled(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

/// What a tool knows about the attempt it is asked for.
#[derive(Clone)]
pub struct ToolCtx {
    /// The run.
    pub run: RunId,
    /// The call inside the run.
    pub call: CallKey,
    /// The attempt, counted from 1.
    pub attempt: u32,
    /// When the answer must be there. The runtime stops waiting then.
    pub deadline: Timestamp,
    /// The same for every attempt of one call, across restarts, and for an identical call after one of
    /// which nobody knows whether it happened; another for every other call.
    pub idempotency_key: Arc<str>,
    /// Fires when the call is cancelled or out of time. The attempt's task is aborted right after.
    pub cancel: Arc<dyn CancelSignal>,
}

impl fmt::Debug for ToolCtx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolCtx")
            .field("run", &self.run)
            .field("call", &self.call)
            .field("attempt", &self.attempt)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// What a tool gives back when it worked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolOutput {
    /// What the model reads. An empty text is fine: the model is told the call worked.
    pub text: Arc<str>,
}

impl ToolOutput {
    /// Plain text.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self { text: text.into() }
    }

    /// A value: a string as it is, anything else as JSON.
    ///
    /// # Errors
    /// [`NotJson`] when the type cannot be written as JSON.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self, NotJson> {
        let json = Json::from_serialize(value)?;
        if json.as_str().starts_with('"') {
            return Ok(Self::text(json.to::<String>()?));
        }
        Ok(Self::text(json.as_str()))
    }
}

/// What became of a call that was interrupted, as the tool itself can tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verified {
    /// It happened, with this result.
    Happened(ToolOutput),
    /// It did not, and will not any more: it may be made again.
    NotHappened,
    /// The tool cannot tell.
    CannotTell,
}

impl Verified {
    /// It happened, with this text as its result.
    pub fn happened(text: impl Into<Arc<str>>) -> Self {
        Self::Happened(ToolOutput::text(text))
    }
}

/// Does one thing for a model. Adapters and `#[tool]` implement it; the runtime supervises it.
///
/// `call` is one attempt. It is run in a task of its own: it may panic, block until its timeout
/// or be dropped at any await without harm to the run. It must not retry by itself: the runtime
/// does, knowing the effect, the budget and the breaker.
pub trait Tool: Send + Sync + Any {
    /// What the tool declares. The same at every call.
    fn spec(&self) -> &Arc<ToolSpec>;

    /// One attempt, with arguments that fit the schema.
    fn call(&self, ctx: ToolCtx, arguments: Json) -> BoxFuture<'_, Result<ToolOutput, Failure>>;

    /// Tells whether an interrupted call happened, for a tool with [`Effect::Verifiable`].
    ///
    /// Run, call, idempotency key and arguments are those of the call; attempt and deadline are of
    /// the question, which is bounded and repeated like a call that changes nothing. A failure is
    /// taken for [`Verified::CannotTell`]. The default cannot tell.
    fn verify(&self, ctx: ToolCtx, arguments: Json) -> BoxFuture<'_, Result<Verified, Failure>> {
        drop((ctx, arguments));
        Box::pin(std::future::ready(Ok(Verified::CannotTell)))
    }
}
