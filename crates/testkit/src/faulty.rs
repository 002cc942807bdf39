//! A tool that breaks on demand, in every way a tool can.
//!
//! What it does at each attempt is written down beforehand, so a test can say which fault strikes
//! when. It injects faults and counts; it never judges what the runtime made of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dauntless_contract::{
    BoxFuture, CallKey, Effect, Failure, Json, OnExhausted, ResiliencePolicy, RunId, Tool, ToolCtx,
    ToolOutput, ToolSpec, Verified,
};
use serde_json::{Value, json};

use crate::EffectLedger;

#[cfg(test)]
mod tests;

/// What one attempt does.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use dauntless_contract::Failure;
/// use dauntless_testkit::Behaviour;
///
/// // The worst of all: the effect happens, then the answer is lost.
/// let lost = Behaviour::Hang.after_effect();
/// let slow = Behaviour::ok("found").after(Duration::from_secs(3));
/// let busy = Behaviour::Fail(Failure::rate_limited("Too many at once."));
/// # let _ = (lost, slow, busy);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Behaviour {
    /// Works, with this text.
    Ok(String),
    /// Fails.
    Fail(Failure),
    /// Panics with this text.
    Panic(String),
    /// Never answers; gone when dropped.
    Hang,
    /// Waits on tokio's clock, then does the rest.
    Sleep(Duration, Box<Behaviour>),
    /// Writes the call's idempotency key to the ledger, then does the rest.
    Effect(Box<Behaviour>),
}

impl Behaviour {
    /// Works, with this text.
    pub fn ok(text: impl Into<String>) -> Self {
        Self::Ok(text.into())
    }

    /// The same, after a wait.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self::Sleep(wait, Box::new(self))
    }

    /// The same, after the effect took place.
    #[must_use]
    pub fn after_effect(self) -> Self {
        Self::Effect(Box::new(self))
    }
}

/// A tool whose faults are scripted. Clones share what they count, so keep one and hand out another.
///
/// # Examples
/// ```
/// # use std::sync::Arc;
/// # use dauntless_contract::{CallKey, Json, NeverCancelled, RunId, Timestamp, ToolCtx};
/// use dauntless_contract::{Effect, Failure, Tool};
/// use dauntless_testkit::{Behaviour, FaultyTool};
///
/// let tool = FaultyTool::builder("lookup")
///     .effect(Effect::ReadOnly)
///     .resilience(|policy| policy.retry.max_attempts = 2)
///     .attempts([Behaviour::Fail(Failure::unavailable("Down.")), Behaviour::ok("found")]);
/// // … give tool.clone() to an agent and run it …
/// # let ctx = |attempt| ToolCtx {
/// #     run: RunId::from_u128(1), call: CallKey { turn: 1, index: 0 }, attempt,
/// #     deadline: Timestamp::MAX, idempotency_key: "k".into(), cancel: Arc::new(NeverCancelled),
/// # };
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// #     assert!(tool.call(ctx(1), Json::empty_object()).await.is_err());
/// #     assert!(tool.call(ctx(2), Json::empty_object()).await.is_ok());
/// # });
/// assert_eq!(tool.invocations(), 2);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct FaultyTool {
    spec: Arc<ToolSpec>,
    plan: Arc<Plan>,
    ledger: EffectLedger,
    counts: Arc<Mutex<Counts>>,
}

enum Plan {
    Attempts(Vec<Behaviour>),
    Closure(Decide),
}

type Decide = Box<dyn Fn(&ToolCtx, &Json) -> Behaviour + Send + Sync>;

#[derive(Default)]
struct Counts {
    running: usize,
    running_max: usize,
    attempts: BTreeMap<(RunId, CallKey), Vec<u32>>,
    arguments: Vec<Json>,
}

/// Declares a [`FaultyTool`]; ends with [`attempts`](Self::attempts) or [`behave`](Self::behave).
#[derive(Clone, Debug)]
pub struct FaultyToolBuilder {
    spec: ToolSpec,
    ledger: EffectLedger,
}

impl FaultyToolBuilder {
    /// Says what a repetition would do. Default [`Effect::Once`].
    #[must_use]
    pub const fn effect(mut self, effect: Effect) -> Self {
        self.spec.effect = effect;
        self
    }

    /// Says what a run does when the tool stays broken. Default [`OnExhausted::EndRun`].
    #[must_use]
    pub const fn on_exhausted(mut self, on_exhausted: OnExhausted) -> Self {
        self.spec.on_exhausted = on_exhausted;
        self
    }

    /// Bounds how long a call may wait for it under [`OnExhausted::Park`]. Default 1 h.
    #[must_use]
    pub const fn max_park(mut self, longest: Duration) -> Self {
        self.spec.max_park = longest;
        self
    }

    /// Names the tool that is asked in its place when it is exhausted or down.
    #[must_use]
    pub fn fallback(mut self, tool: impl Into<Arc<str>>) -> Self {
        self.spec.fallback = Some(tool.into());
        self
    }

    /// Declares that identical calls are meant.
    #[must_use]
    pub const fn polling(mut self) -> Self {
        self.spec.polling = true;
        self
    }

    /// Replaces the schema of the arguments. By default any object fits.
    #[must_use]
    pub fn parameters(mut self, schema: Value) -> Self {
        self.spec.parameters = Arc::new(schema);
        self
    }

    /// Changes the policy, starting from the defaults.
    #[must_use]
    pub fn resilience(mut self, change: impl FnOnce(&mut ResiliencePolicy)) -> Self {
        change(&mut self.spec.resilience);
        self
    }

    /// Where effects are recorded. By default in a ledger of the tool's own.
    #[must_use]
    pub fn ledger(mut self, ledger: EffectLedger) -> Self {
        self.ledger = ledger;
        self
    }

    /// Attempt n of every call does the n-th of these; the last repeats. With none, all work.
    pub fn attempts(self, behaviours: impl IntoIterator<Item = Behaviour>) -> FaultyTool {
        self.build(Plan::Attempts(behaviours.into_iter().collect()))
    }

    /// The closure says what each attempt does.
    pub fn behave(self, decide: impl Fn(&ToolCtx, &Json) -> Behaviour + Send + Sync + 'static) -> FaultyTool {
        self.build(Plan::Closure(Box::new(decide)))
    }

    fn build(self, plan: Plan) -> FaultyTool {
        let Self { spec, ledger } = self;
        FaultyTool { spec: Arc::new(spec), plan: Arc::new(plan), ledger, counts: Arc::default() }
    }
}

impl FaultyTool {
    /// Starts to declare a tool of that name.
    pub fn builder(name: &str) -> FaultyToolBuilder {
        let description = format!("Does what the test `{name}` is about.");
        let any_object = json!({"type": "object"});
        FaultyToolBuilder {
            spec: ToolSpec::new(name, description, any_object),
            ledger: EffectLedger::in_memory(),
        }
    }

    /// The ledger its effects go to.
    pub const fn ledger(&self) -> &EffectLedger {
        &self.ledger
    }

    /// Attempts that reached it, over all calls and runs.
    pub fn invocations(&self) -> usize {
        self.counts().arguments.len()
    }

    /// Attempts that are under way: neither answered nor dropped.
    pub fn running(&self) -> usize {
        self.counts().running
    }

    /// The most attempts that were under way at once.
    pub fn max_running(&self) -> usize {
        self.counts().running_max
    }

    /// The attempt numbers that reached it, by call, in order of arrival.
    pub fn attempts(&self) -> BTreeMap<(RunId, CallKey), Vec<u32>> {
        self.counts().attempts.clone()
    }

    /// The arguments of each attempt, in order of arrival.
    pub fn arguments(&self) -> Vec<Json> {
        self.counts().arguments.clone()
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, ctx: &ToolCtx, arguments: &Json) -> Running<'_> {
        let mut counts = self.counts();
        counts.running += 1;
        counts.running_max = counts.running_max.max(counts.running);
        counts.attempts.entry((ctx.run, ctx.call)).or_default().push(ctx.attempt);
        counts.arguments.push(arguments.clone());
        Running(self)
    }
}

impl Plan {
    fn behaviour(&self, ctx: &ToolCtx, arguments: &Json) -> Behaviour {
        match self {
            Self::Closure(decide) => decide(ctx, arguments),
            Self::Attempts(list) => {
                let index = usize::try_from(ctx.attempt.saturating_sub(1)).unwrap_or(usize::MAX);
                list.get(index).or(list.last()).cloned().unwrap_or_else(|| Behaviour::ok("done"))
            }
        }
    }
}

/// One attempt under way; ends when dropped, however the attempt ends.
struct Running<'a>(&'a FaultyTool);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.counts().running -= 1;
    }
}

impl Tool for FaultyTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    #[expect(clippy::panic, reason = "a panic is one of the faults it injects")]
    fn call(&self, ctx: ToolCtx, arguments: Json) -> BoxFuture<'_, Result<ToolOutput, Failure>> {
        Box::pin(async move {
            let _running = self.begin(&ctx, &arguments);
            let mut behaviour = self.plan.behaviour(&ctx, &arguments);
            loop {
                behaviour = match behaviour {
                    Behaviour::Ok(text) => return Ok(ToolOutput::text(text)),
                    Behaviour::Fail(failure) => return Err(failure),
                    Behaviour::Panic(text) => panic!("{text}"),
                    Behaviour::Hang => std::future::pending().await,
                    Behaviour::Sleep(wait, then) => {
                        tokio::time::sleep(wait).await;
                        *then
                    }
                    Behaviour::Effect(then) => {
                        self.ledger.record(&ctx.idempotency_key);
                        *then
                    }
                };
            }
        })
    }

    /// Looks into the ledger.
    fn verify(&self, ctx: ToolCtx, _: Json) -> BoxFuture<'_, Result<Verified, Failure>> {
        let verified = match self.ledger.count(&ctx.idempotency_key) {
            0 => Verified::NotHappened,
            _ => Verified::happened("done"),
        };
        Box::pin(std::future::ready(Ok(verified)))
    }
}

impl fmt::Debug for FaultyTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultyTool({}, {} invocations)", self.spec.name, self.invocations())
    }
}
