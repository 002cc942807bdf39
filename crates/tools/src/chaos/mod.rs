//! Faults on purpose: a tool that fails now and then, so that its users see what comes of it.
//!
//! It stands innermost, between the runtime's guards and the tool, so that timeouts, retries,
//! breaker and budget take an injected fault for a real one. The model must take it for one too, so
//! only the source of a failure, which is for the operator's log, says that it was injected. It
//! refuses faults that no tool could bring about, and it never denies an effect that took place.

mod draw;
mod kind;
mod plan;

use std::collections::BTreeMap;
use std::fmt;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dauntless_contract::{BoxFuture, CallKey, Failure, Json, Tool, ToolCtx, ToolOutput, ToolSpec, Verified};

use draw::{Draw, Moment};
pub use kind::{FaultKind, UnknownFault};
pub use plan::ChaosPlan;

/// What the source of an injected failure, and the text of an injected panic, begins with.
const MARK: &str = "injected by chaos";

/// A tool whose attempts fail on purpose, as often and in such ways as its plan says.
///
/// Which fault strikes is a function of the seed, the tool's name, the call's place in its run, the
/// attempt, and how often this place was seen before. So a session that is repeated meets the same
/// faults, whatever order parallel calls arrive in; only runs side by side share theirs by chance.
pub struct Chaos {
    tool: Arc<dyn Tool>,
    plan: ChaosPlan,
    seed: u64,
    seen: Mutex<BTreeMap<(CallKey, u32), u64>>,
    injected: Mutex<BTreeMap<FaultKind, u32>>,
}

impl Chaos {
    /// Puts the plan before a tool. What the tool declares stays as it is.
    pub fn wrap(tool: Arc<dyn Tool>, plan: ChaosPlan, seed: u64) -> Self {
        let (seen, injected) = (Mutex::default(), Mutex::default());
        Self { tool, plan, seed, seen, injected }
    }

    /// The plan.
    pub const fn plan(&self) -> &ChaosPlan {
        &self.plan
    }

    /// How often each fault has struck so far, over all runs.
    pub fn injected(&self) -> BTreeMap<FaultKind, u32> {
        lock(&self.injected).clone()
    }

    fn draw(&self, ctx: &ToolCtx) -> Draw {
        let mut seen = lock(&self.seen);
        let times = seen.entry((ctx.call, ctx.attempt)).or_default();
        *times += 1;
        let place = [u64::from(ctx.call.turn), u64::from(ctx.call.index), u64::from(ctx.attempt), *times];
        Draw::of(&self.plan, self.seed, &self.tool.spec().name, place)
    }

    /// Lets the fault strike; what comes back is the failure, if the attempt still answers.
    async fn strike(&self, kind: FaultKind, moment: Moment, ctx: &ToolCtx) -> Failure {
        *lock(&self.injected).entry(kind).or_default() += 1;
        let ToolSpec { name, .. } = &**self.tool.spec();
        tracing::info!(tool = &**name, call = %ctx.call, attempt = ctx.attempt, "{MARK}: {kind}, {moment}");
        match kind {
            FaultKind::Failure(code) => kind::failure(code, name, moment),
            // Unwinds like any panic, but the hook is for defects, and this is none.
            FaultKind::Panic => resume_unwind(Box::new(format!("{MARK}: a panic, {moment}"))),
            FaultKind::Hang => std::future::pending().await,
        }
    }
}

impl Tool for Chaos {
    fn spec(&self) -> &Arc<ToolSpec> {
        self.tool.spec()
    }

    fn call(&self, ctx: ToolCtx, arguments: Json) -> BoxFuture<'_, Result<ToolOutput, Failure>> {
        Box::pin(async move {
            let Draw { latency, fault } = self.draw(&ctx);
            if !latency.is_zero() {
                tokio::time::sleep(latency).await;
            }
            match fault {
                None => self.tool.call(ctx, arguments).await,
                Some((kind, Moment::Before)) => Err(self.strike(kind, Moment::Before, &ctx).await),
                Some((kind, Moment::After)) => {
                    // Whatever it answers is what gets lost.
                    let _ = self.tool.call(ctx.clone(), arguments).await;
                    Err(self.strike(kind, Moment::After, &ctx).await)
                }
            }
        })
    }

    // What is asked after a fault is answered without one.
    fn verify(&self, ctx: ToolCtx, arguments: Json) -> BoxFuture<'_, Result<Verified, Failure>> {
        self.tool.verify(ctx, arguments)
    }
}

impl fmt::Debug for Chaos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chaos")
            .field("tool", &self.tool.spec().name)
            .field("plan", &self.plan)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
