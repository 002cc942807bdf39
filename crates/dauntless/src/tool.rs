//! Tools from functions and closures.
//!
//! One type, [`FnTool`], stands behind everything that is written in Rust: a closure given to
//! [`tool_fn`], a function under `#[tool]`, a method of an `impl` block under `#[tool]`. It turns
//! a typed function into the [`Tool`] port and does nothing more: it does not retry, wait, count
//! or log, since the runtime does that for every tool alike.

mod answer;
mod arguments;
mod schema;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    BoxFuture, Effect, Failure, Json, OnExhausted, ResiliencePolicy, Tool, ToolCtx, ToolOutput, ToolSpec,
    Verified,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use self::schema::of as schema_of;

#[doc(hidden)]
pub use self::answer::{IntoAnswer, Returned};

/// What one attempt of a tool resolves to.
#[doc(hidden)]
pub type Answering<'a> = BoxFuture<'a, Result<ToolOutput, Failure>>;

/// What one question whether a call happened resolves to.
#[doc(hidden)]
pub type Verifying<'a> = BoxFuture<'a, Result<Verified, Failure>>;

/// A tool made from a function. Its builder methods say how the runtime treats it.
///
/// The defaults are the safest: a call is never repeated once it may have taken effect
/// ([`Effect::Once`]), and the run ends when the tool stays broken ([`OnExhausted::EndRun`]).
pub struct FnTool {
    spec: Arc<ToolSpec>,
    run: Box<dyn Fn(ToolCtx, Json) -> Answering<'static> + Send + Sync>,
    verify: Option<Box<dyn Fn(ToolCtx, Json) -> Verifying<'static> + Send + Sync>>,
}

/// Makes a tool from a closure of its arguments.
///
/// The arguments are one type, usually a struct: its fields are the parameters, their doc
/// comments the descriptions. `()` and enums do not make an object of parameters and are refused
/// by [`ToolSpec::check`]; a tool without parameters takes an empty struct.
///
/// What the closure gives is shown to the model: a string as it is, `()` as an empty text,
/// [`ToolOutput`] as it is, anything else as JSON. `?` turns any error into a `tool_error`.
///
/// ```
/// # use dauntless::{Effect, tool_fn};
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Sum {
///     /// The numbers to add.
///     numbers: Vec<i64>,
/// }
///
/// let sum = tool_fn("sum", "Add whole numbers.", |args: Sum| async move {
///     Ok(args.numbers.iter().sum::<i64>())
/// })
/// .effect(Effect::ReadOnly);
/// ```
pub fn tool_fn<A, T, F, Fut>(
    name: impl Into<Arc<str>>,
    description: impl Into<Arc<str>>,
    function: F,
) -> FnTool
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    T: Serialize + 'static,
    F: Fn(A) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, Failure>> + Send + 'static,
{
    tool_fn_with_ctx(name, description, move |_, args| function(args))
}

/// Makes a tool from a closure of its context and its arguments.
///
/// Like [`tool_fn`], for a tool that needs to know its deadline, its attempt, its idempotency key
/// or that it is cancelled.
pub fn tool_fn_with_ctx<A, T, F, Fut>(
    name: impl Into<Arc<str>>,
    description: impl Into<Arc<str>>,
    function: F,
) -> FnTool
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    T: Serialize + 'static,
    F: Fn(ToolCtx, A) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, Failure>> + Send + 'static,
{
    let spec = ToolSpec::new(name, description, schema::of::<A>());
    let name = Arc::clone(&spec.name);
    let function = Arc::new(function);
    let run = move |ctx, json: Json| -> Answering<'static> {
        let (name, function) = (Arc::clone(&name), Arc::clone(&function));
        // All in the future: a panic of the function's own beginning belongs to the attempt too.
        Box::pin(async move {
            let args = arguments::read::<A>(&name, &json)?;
            answer::output(function(ctx, args).await?)
        })
    };
    FnTool { spec: Arc::new(spec), run: Box::new(run), verify: None }
}

impl FnTool {
    /// Says what a repetition would do. Default [`Effect::Once`].
    #[must_use]
    pub fn effect(self, effect: Effect) -> Self {
        self.with(|spec| spec.effect = effect)
    }

    /// Gives it a way to tell whether an interrupted call happened, and makes it
    /// [`Effect::Verifiable`].
    ///
    /// The function gets the context and the arguments of that call. It changes nothing, since it may
    /// be asked several times. Where it fails, nobody can tell.
    ///
    /// ```
    /// # use dauntless::{Verified, ToolCtx, tool_fn_with_ctx};
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Ticket {
    ///     /// What it is about.
    ///     title: String,
    /// }
    /// # async fn find_by_key(_: &str) -> Result<Option<u64>, dauntless::Failure> { Ok(None) }
    ///
    /// let open = tool_fn_with_ctx("open_ticket", "Open a ticket.", |_: ToolCtx, ticket: Ticket| async move {
    ///     Ok(format!("opened {}", ticket.title))
    /// })
    /// .verify(|ctx: ToolCtx, _: Ticket| async move {
    ///     Ok(match find_by_key(&ctx.idempotency_key).await? {
    ///         Some(number) => Verified::happened(format!("opened {number}")),
    ///         None => Verified::NotHappened,
    ///     })
    /// });
    /// ```
    #[must_use]
    pub fn verify<A, F, Fut>(mut self, function: F) -> Self
    where
        A: DeserializeOwned + Send + 'static,
        F: Fn(ToolCtx, A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Verified, Failure>> + Send + 'static,
    {
        let name = Arc::clone(&self.spec.name);
        let function = Arc::new(function);
        self.verify = Some(Box::new(move |ctx, json| {
            let (name, function) = (Arc::clone(&name), Arc::clone(&function));
            Box::pin(async move { function(ctx, arguments::read::<A>(&name, &json)?).await })
        }));
        self.effect(Effect::Verifiable)
    }

    /// Says what a run does when the tool stays broken. Default [`OnExhausted::EndRun`].
    #[must_use]
    pub fn on_exhausted(self, end: OnExhausted) -> Self {
        self.with(|spec| spec.on_exhausted = end)
    }

    /// Bounds how long a call may wait for the tool under [`OnExhausted::Park`]. Default 1 h.
    #[must_use]
    pub fn max_park(self, longest: Duration) -> Self {
        self.with(|spec| spec.max_park = longest)
    }

    /// Names the tool of the agent that is asked in its place, with the same arguments, when it is
    /// exhausted or down. Never for a call that may have happened, unless that does no harm.
    #[must_use]
    pub fn fallback(self, tool: impl Into<Arc<str>>) -> Self {
        self.with(|spec| spec.fallback = Some(tool.into()))
    }

    /// Bounds one attempt. Default 30 s. A longer time than the deadline moves the deadline to it.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.resilience(|policy| {
            policy.attempt_timeout = timeout;
            policy.deadline = policy.deadline.max(timeout);
        })
    }

    /// Bounds one call, waiting and all attempts together. Default 60 s.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        self.resilience(|policy| policy.deadline = deadline)
    }

    /// Bounds the attempts in flight at once, over all runs. Default 8; at least 1.
    #[must_use]
    pub fn concurrency(self, attempts: u32) -> Self {
        self.resilience(|policy| policy.concurrency = attempts)
    }

    /// Bounds the calls that wait for a place. Default 32; the next is refused as `overloaded`.
    #[must_use]
    pub fn waiting(self, calls: u32) -> Self {
        self.resilience(|policy| policy.waiting = calls)
    }

    /// Bounds the attempts of one call, the first included. Default 3; 1 switches retries off.
    #[must_use]
    pub fn attempts(self, attempts: u32) -> Self {
        self.resilience(|policy| policy.retry.max_attempts = attempts)
    }

    /// Says that it is asked again and again on purpose: identical successes are then no loop.
    #[must_use]
    pub fn polling(self, polling: bool) -> Self {
        self.with(|spec| spec.polling = polling)
    }

    /// Bounds the text of a success that the model is shown, in bytes. Default 32 KiB.
    #[must_use]
    pub fn output_bytes_max(self, bytes: usize) -> Self {
        self.with(|spec| spec.output_bytes_max = bytes)
    }

    /// Changes anything else about timeouts, retries, breaker, budget and concurrency.
    #[must_use]
    pub fn resilience(self, change: impl FnOnce(&mut ResiliencePolicy)) -> Self {
        self.with(|spec| change(&mut spec.resilience))
    }

    fn with(mut self, change: impl FnOnce(&mut ToolSpec)) -> Self {
        change(Arc::make_mut(&mut self.spec));
        self
    }
}

impl Tool for FnTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, ctx: ToolCtx, arguments: Json) -> Answering<'_> {
        (self.run)(ctx, arguments)
    }

    fn verify(&self, ctx: ToolCtx, arguments: Json) -> Verifying<'_> {
        match &self.verify {
            Some(verify) => verify(ctx, arguments),
            None => Box::pin(std::future::ready(Ok(Verified::CannotTell))),
        }
    }
}

impl fmt::Debug for FnTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FnTool").field("spec", &self.spec).finish_non_exhaustive()
    }
}

/// Tools that share one state. Written by `#[tool]` on an `impl` block.
///
/// ```
/// # use std::sync::Arc;
/// # use dauntless::{Failure, ToolSet, tool};
/// struct Shop {
///     open: bool,
/// }
///
/// #[tool]
/// impl Shop {
///     /// Tell whether the shop is open.
///     #[tool(effect = "read_only")]
///     async fn is_open(&self) -> bool {
///         self.open
///     }
/// }
///
/// let shop = Arc::new(Shop { open: true });
/// assert_eq!(&*shop.tools()[0].spec().name, "is_open");
/// ```
pub trait ToolSet: Send + Sync + 'static {
    /// The tools of the block, in its order; each holds the state.
    fn tools(self: &Arc<Self>) -> Vec<Arc<dyn Tool>>;
}
