//! Tools and models, as guarded dependencies.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    BoxFuture, CallKey, CancelSignal, DependencyKind, Effect, Failure, Json, Model, ModelCtx, ModelReply,
    ModelRequest, Progress, RequestPurpose, ResiliencePolicy, RunId, TextSink, Tool, ToolCtx, ToolOutput,
    Verified,
};
use dauntless_core::redact::Redactor;
use tokio_util::sync::CancellationToken;
use tracing::Span;

use crate::guarded::{AttemptCtx, AttemptInput, Port};
use crate::lease::Lease;
use crate::telemetry;

/// A tool behind its guards.
pub(crate) struct ToolPort {
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) lease: Option<Lease>,
    pub(crate) redactor: Redactor,
}

/// What a tool is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The call itself.
    Call,
    /// Whether the call, which was interrupted, happened.
    Verdict,
}

/// What a tool answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ToolReply {
    Output(ToolOutput),
    Verdict(Verified),
}

/// One tool call, as it travels.
pub(crate) struct ToolRequest {
    pub(crate) wanted: Wanted,
    pub(crate) run: RunId,
    pub(crate) call: CallKey,
    pub(crate) arguments: Json,
    pub(crate) idempotency_key: Arc<str>,
}

impl Port for ToolPort {
    const KIND: DependencyKind = DependencyKind::Tool;

    type Request = ToolRequest;
    type Reply = ToolReply;

    fn name(&self) -> &Arc<str> {
        &self.tool.spec().name
    }

    fn policy(&self) -> &ResiliencePolicy {
        &self.tool.spec().resilience
    }

    fn effect(&self, request: &ToolRequest) -> Effect {
        match request.wanted {
            Wanted::Call => self.tool.spec().effect,
            Wanted::Verdict => Effect::ReadOnly,
        }
    }

    fn redact(&self, text: &str) -> Arc<str> {
        self.redactor.text(text).into()
    }

    fn run(request: &ToolRequest) -> RunId {
        request.run
    }

    async fn attempt(
        self: Arc<Self>,
        input: AttemptInput<ToolRequest>,
        ctx: AttemptCtx,
    ) -> Result<ToolReply, Failure> {
        self.lease.as_ref().map_or(Ok(()), Lease::check)?;
        let ToolRequest { wanted, run, call, arguments, idempotency_key } = &*input.request;
        let ctx = ToolCtx {
            run: *run,
            call: *call,
            attempt: ctx.attempt,
            deadline: ctx.deadline,
            idempotency_key: Arc::clone(idempotency_key),
            cancel: Arc::new(Cancel(ctx.cancel)),
        };
        let answer = match wanted {
            Wanted::Call => self.tool.call(ctx, arguments.clone()).await.map(ToolReply::Output),
            Wanted::Verdict => self.tool.verify(ctx, arguments.clone()).await.map(ToolReply::Verdict),
        };
        match answer {
            Ok(ToolReply::Output(output)) => Ok(ToolReply::Output(self.redactor.output(output))),
            Ok(ToolReply::Verdict(Verified::Happened(output))) => {
                Ok(ToolReply::Verdict(Verified::Happened(self.redactor.output(output))))
            }
            Ok(verdict @ ToolReply::Verdict(Verified::NotHappened | Verified::CannotTell)) => Ok(verdict),
            Err(failure) => {
                let failure = self.redactor.failure(failure);
                log_cause(self.name(), &failure);
                Err(failure)
            }
        }
    }

    fn record(&self, _: &Span, _: &ToolReply) {}

    fn started(&self, request: &ToolRequest, attempt: u32) -> Option<Progress> {
        let tool = Arc::clone(self.name());
        let started = || Progress::AttemptStarted { call: request.call, tool, attempt };
        (request.wanted == Wanted::Call).then(started)
    }

    fn will_retry(
        &self,
        request: &ToolRequest,
        attempt: u32,
        failure: &Failure,
        wait: Duration,
    ) -> Option<Progress> {
        let failed = || Progress::AttemptFailed {
            call: request.call,
            tool: Arc::clone(self.name()),
            attempt,
            code: failure.code,
            message: Arc::clone(&failure.message),
            wait,
        };
        (request.wanted == Wanted::Call).then(failed)
    }
}

/// A model behind its guards.
pub(crate) struct ModelPort {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) redactor: Redactor,
}

/// One model call, as it travels.
pub(crate) struct ModelJob {
    pub(crate) run: RunId,
    pub(crate) turn: u32,
    pub(crate) request: ModelRequest,
}

impl Port for ModelPort {
    const KIND: DependencyKind = DependencyKind::Model;

    type Request = ModelJob;
    type Reply = ModelReply;

    fn name(&self) -> &Arc<str> {
        &self.model.spec().name
    }

    fn policy(&self) -> &ResiliencePolicy {
        &self.model.spec().resilience
    }

    /// Asking again costs tokens and changes nothing else.
    fn effect(&self, _: &ModelJob) -> Effect {
        Effect::ReadOnly
    }

    fn redact(&self, text: &str) -> Arc<str> {
        self.redactor.text(text).into()
    }

    fn run(request: &ModelJob) -> RunId {
        request.run
    }

    async fn attempt(
        self: Arc<Self>,
        input: AttemptInput<ModelJob>,
        ctx: AttemptCtx,
    ) -> Result<ModelReply, Failure> {
        let AttemptInput { request: job, watch } = input;
        let (turn, attempt) = (job.turn, ctx.attempt);
        // Nobody watches a run to read the notes it makes for itself.
        let shows = watch.is_watched() && job.request.purpose == RequestPurpose::Turn;
        let on_text: Option<TextSink> = shows.then(|| {
            let sink: TextSink = Arc::new(move |text: &str| {
                watch.tell(|| Progress::TextArrived { turn, attempt, text: text.into() });
            });
            sink
        });
        let ctx = ModelCtx { run: job.run, turn, attempt, deadline: ctx.deadline, on_text };
        match self.model.call(ctx, job.request.clone()).await {
            Ok(reply) => Ok(reply),
            Err(failure) => {
                let failure = self.redactor.failure(failure);
                log_cause(self.name(), &failure);
                Err(failure)
            }
        }
    }

    fn record(&self, span: &Span, reply: &ModelReply) {
        telemetry::record_reply(span, reply);
    }

    fn started(&self, _: &ModelJob, _: u32) -> Option<Progress> {
        None
    }

    fn will_retry(
        &self,
        request: &ModelJob,
        attempt: u32,
        failure: &Failure,
        wait: Duration,
    ) -> Option<Progress> {
        Some(Progress::ModelRetried { turn: request.turn, attempt, code: failure.code, wait })
    }
}

/// The operator's log gets the cause, redacted; nobody else does.
fn log_cause(name: &str, failure: &Failure) {
    tracing::debug!(
        dependency = name,
        code = failure.code.as_str(),
        message = &*failure.message,
        cause = failure.source.as_deref().unwrap_or("not given"),
        "attempt failed"
    );
}

struct Cancel(CancellationToken);

impl CancelSignal for Cancel {
    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    fn cancelled(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.cancelled())
    }
}
