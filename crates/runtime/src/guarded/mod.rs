//! A dependency behind its guards: one actor that owns the calls to one tool or one model.
//!
//! The actor is a shell over [`dauntless_core::resilience::Dependency`]: messages become events,
//! effects become tasks and timers. It holds no policy of its own and never awaits the dependency:
//! each attempt runs in a task of its own, so a panic, a hang or a slow answer costs that attempt.

mod actor;
mod attempt;
mod budget;
mod handle;
mod keeper;
mod reply;
mod supervisor;

use std::fmt;
use std::sync::Arc;

use dauntless_contract::{DependencyKind, Effect, Failure, Progress, ResiliencePolicy, RunId, Timestamp};
use dauntless_core::resilience::CallEnd;
use tokio_util::sync::CancellationToken;
use tracing::Span;

use crate::watch::Watch;

pub(crate) use actor::panic_text;
pub(crate) use budget::RuntimeBudget;
pub(crate) use handle::{GuardedHandle, JobTicket, Surroundings};
pub(crate) use keeper::{Keeper, KeeperArgs};
pub(crate) use reply::{Caller, ReplySlot};

/// What differs between a tool and a model.
pub(crate) trait Port: Send + Sync + 'static {
    /// What one call carries; kept until the call is answered, because an attempt may be repeated.
    type Request: Send + Sync + 'static;
    /// What a call that worked gives.
    type Reply: Clone + PartialEq + fmt::Debug + Send + Sync + 'static;

    /// What it is.
    const KIND: DependencyKind;

    /// The name, for messages.
    fn name(&self) -> &Arc<str>;
    /// The bounds.
    fn policy(&self) -> &ResiliencePolicy;
    /// What a repetition of this call would do.
    fn effect(&self, request: &Self::Request) -> Effect;
    /// Text for operators with its secrets masked.
    fn redact(&self, text: &str) -> Arc<str>;
    /// Whose call it is: where calls wait for places, runs take turns.
    fn run(request: &Self::Request) -> RunId;
    /// One attempt. The answer is already redacted.
    fn attempt(
        self: Arc<Self>,
        input: AttemptInput<Self::Request>,
        ctx: AttemptCtx,
    ) -> impl Future<Output = Result<Self::Reply, Failure>> + Send;
    /// Writes what a call gave on its span; never its content.
    fn record(&self, span: &Span, reply: &Self::Reply);
    /// The start of an attempt, as a watcher sees it; models report none.
    fn started(&self, request: &Self::Request, attempt: u32) -> Option<Progress>;
    /// A failed attempt that will be followed by another, as a watcher sees it.
    fn will_retry(
        &self,
        request: &Self::Request,
        attempt: u32,
        failure: &Failure,
        wait: std::time::Duration,
    ) -> Option<Progress>;
}

/// What an attempt is told.
pub(crate) struct AttemptCtx {
    pub(crate) attempt: u32,
    pub(crate) deadline: Timestamp,
    pub(crate) cancel: CancellationToken,
}

/// What an attempt works on.
pub(crate) struct AttemptInput<R> {
    pub(crate) request: Arc<R>,
    pub(crate) watch: Watch,
}

/// One call on its way through a dependency.
pub(crate) struct Job<P: Port> {
    pub(crate) request: Arc<P::Request>,
    /// When the caller is out of time, whatever the dependency allows.
    pub(crate) deadline: Timestamp,
    /// Attempts of this call before this process began.
    pub(crate) attempts_made: u32,
    pub(crate) watch: Watch,
    pub(crate) span: Span,
    pub(crate) reply: ReplySlot<CallEnd<P::Reply>>,
}
