//! The client for every provider that speaks one of OpenAI's APIs: chat completions or Responses.
//!
//! One call is one HTTP request: `async-openai`'s own retries are replaced by a service that keeps
//! status, headers and body of every failure, and the client classifies each once. It speaks its
//! own lenient types ([`wire`](crate::wire)), because the typed ones refuse what most providers
//! send. It never executes, repairs or completes what a model wrote.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_openai::Client;
use async_openai::error::OpenAIError;
use dauntless_contract::{
    BoxFuture, Failure, FailureCode, History, Message, Model, ModelCtx, ModelReply, ModelRequest, ModelSpec,
};
use futures_util::StreamExt;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tracing::Dispatch;
use tracing::instrument::WithSubscriber;

use crate::assembler::Assembler;
use crate::profile::Profile;
use crate::secret::Secret;
use crate::wire::{Calling, WireError};
use endpoint::Endpoint;
use failure::Reporter;
use transport::{PlainAnswer, ProviderError};

mod api;
mod builder;
mod endpoint;
pub(crate) mod failed_generation;
mod failure;
mod rejected_tool;
mod transport;

#[cfg(test)]
mod tests;

pub use api::Api;
pub use builder::{OpenAiBuildError, OpenAiBuilder};

/// A model behind an OpenAI-compatible endpoint.
///
/// Clones of the handle and all runs share one connection pool.
///
/// # Deviations
/// - A stream that ends without a finish reason is a failure, never a short reply.
/// - `tool_use_failed` (Groq: the provider could not read the call that the model wrote) becomes a
///   reply with one garbled call where the model's text names a tool, so that the model is told;
///   else it is `unavailable`, so that the request is made again.
/// - `async-openai` logs a chunk that is not JSON at level `ERROR`, target `async_openai`. Filter
///   that target where the words of a model must not reach a log.
#[derive(Clone)]
pub struct OpenAi {
    spec: Arc<ModelSpec>,
    client: Client<Endpoint>,
    stream: bool,
    idle_timeout: Duration,
    settings: Arc<Map<String, Value>>,
    api: Api,
    profile: Arc<Profile>,
    calling: Calling,
    answer_schemas: bool,
    /// The key and the values of headers: what no failure may show.
    secrets: Arc<[Secret]>,
}

impl OpenAi {
    /// Starts a client for the model of this name, at OpenAI unless a base URL says otherwise.
    pub fn builder(model: impl Into<Arc<str>>) -> OpenAiBuilder {
        OpenAiBuilder::new(model.into())
    }

    async fn plain(&self, ctx: &ModelCtx, request: &ModelRequest) -> Result<ModelReply, Failure> {
        let body = self.api.body(self, request);
        // `async-openai` logs bodies that it cannot read; nobody listens in here. A subscriber made
        // for the call would have every callsite asked again, at each of a thousand calls.
        let group = self.api.of(&self.client).map_err(|error| self.reporter().of_exchange(error))?;
        let exchange = group.create_byot(&body).with_subscriber(Dispatch::none());
        match self.in_time(exchange).await? {
            Ok(body) => self.whole(ctx, request, body),
            Err(error) => self.failed(ctx, request, error),
        }
    }

    async fn streamed(&self, ctx: &ModelCtx, request: &ModelRequest) -> Result<ModelReply, Failure> {
        let body = self.api.body(self, request);
        let group = self.api.of(&self.client).map_err(|error| self.reporter().of_exchange(error))?;
        let mut chunks = match self.in_time(group.create_stream_byot::<_, Box<RawValue>>(&body)).await? {
            Ok(chunks) => chunks,
            Err(error) => return self.failed(ctx, request, error),
        };
        let mut assembler = Assembler::default();
        let mut reader = self.api.reader(&self.profile.send_back);
        while !reader.is_over() {
            // Until the first chunk a model may think; only then is silence a stall.
            let patience =
                if assembler.has_choice() { self.idle_timeout } else { self.spec.resilience.attempt_timeout };
            let chunk = match tokio::time::timeout(patience, chunks.next()).await {
                Ok(Some(Ok(chunk))) => chunk,
                // What breaks after the end breaks nothing.
                Ok(None | Some(Err(_))) | Err(_) if assembler.has_end() => break,
                Ok(Some(Err(error))) => return Err(self.reporter().of_stream(&error)),
                Ok(None) => return Err(self.reporter().cut_off()),
                Err(_) => return Err(self.reporter().stalled(patience)),
            };
            let packet = reader.chunk(&chunk);
            if let Some(error) = &packet.error {
                return self.in_band(error, chunk.get(), request);
            }
            if let (Some(sink), Some(choice)) = (&ctx.on_text, &packet.choice)
                && !choice.part.text.is_empty()
            {
                sink(&choice.part.text);
            }
            assembler.push(packet);
        }
        self.finish(assembler, request)
    }

    /// Waits no longer than an attempt may take, for those who call without a runtime.
    async fn in_time<T>(&self, work: impl Future<Output = T>) -> Result<T, Failure> {
        let patience = self.spec.resilience.attempt_timeout;
        tokio::time::timeout(patience, work).await.map_err(|_| self.reporter().late(patience))
    }

    /// Reads a body that came in one piece.
    fn whole(
        &self,
        ctx: &ModelCtx,
        request: &ModelRequest,
        body: Box<RawValue>,
    ) -> Result<ModelReply, Failure> {
        let packet = self.api.reader(&self.profile.send_back).whole(&body);
        if let Some(error) = &packet.error {
            return self.in_band(error, body.get(), request);
        }
        let assembler = Assembler::whole(packet);
        if !assembler.has_choice() {
            return Err(self.reporter().no_choice(body.get()));
        }
        let reply = self.finish(assembler, request)?;
        if let (Some(sink), Some(text)) = (&ctx.on_text, &reply.text) {
            sink(text);
        }
        Ok(reply)
    }

    fn finish(&self, assembler: Assembler, request: &ModelRequest) -> Result<ModelReply, Failure> {
        if assembler.ended_in_error() {
            return Err(self.reporter().ended_in_error());
        }
        Ok(assembler.finish(self.spec.output_tokens_max, call_ids(&request.history)))
    }

    fn failed(
        &self,
        ctx: &ModelCtx,
        request: &ModelRequest,
        error: OpenAIError,
    ) -> Result<ModelReply, Failure> {
        let error = match error {
            OpenAIError::Boxed(boxed) => match boxed.downcast::<PlainAnswer>() {
                Ok(answer) => return self.whole(ctx, request, answer.0),
                Err(boxed) => OpenAIError::Boxed(boxed),
            },
            error => error,
        };
        if let OpenAIError::Boxed(boxed) = &error
            && let Some(error) = boxed.downcast_ref::<ProviderError>()
        {
            if let Some(reply) = self.unreadable(&error.error, request) {
                return Ok(reply);
            }
            return Err(rejecting(self.reporter().of_answer(error), &error.error, request));
        }
        Err(self.reporter().of_exchange(error))
    }

    /// The provider said that all is well, and then that it is not.
    fn in_band(&self, error: &WireError, body: &str, request: &ModelRequest) -> Result<ModelReply, Failure> {
        let refused = || rejecting(self.reporter().in_band(error, body), error, request);
        self.unreadable(error, request).ok_or_else(refused)
    }

    /// The reply with a call that the provider could not read, if that is what the error says.
    fn unreadable(&self, error: &WireError, request: &ModelRequest) -> Option<ModelReply> {
        let call = Assembler::whole(failed_generation::call(error)?);
        let call = call.garbled("the provider could not read it as a tool call");
        Some(call.finish(self.spec.output_tokens_max, call_ids(&request.history)))
    }

    fn reporter(&self) -> Reporter<'_> {
        Reporter { model: &self.spec.name, secrets: &self.secrets }
    }
}

/// Names the tool that a refused request was refused for.
fn rejecting(failure: Failure, error: &WireError, request: &ModelRequest) -> Failure {
    match rejected_tool::of(error, request) {
        Some(tool) if failure.code == FailureCode::InvalidArguments => failure.rejects_tool(&tool.name),
        Some(_) | None => failure,
    }
}

fn call_ids(history: &History) -> HashSet<&str> {
    let calls = history.messages().iter().filter_map(|message| match message {
        Message::Assistant { calls, .. } => Some(calls),
        Message::System { .. } | Message::User { .. } | Message::Tool { .. } => None,
    });
    calls.flatten().map(|call| &*call.id).collect()
}

impl Model for OpenAi {
    fn spec(&self) -> &Arc<ModelSpec> {
        &self.spec
    }

    fn call(&self, ctx: ModelCtx, request: ModelRequest) -> BoxFuture<'_, Result<ModelReply, Failure>> {
        Box::pin(async move {
            if self.stream { self.streamed(&ctx, &request).await } else { self.plain(&ctx, &request).await }
        })
    }
}

impl fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAi")
            .field("spec", &self.spec)
            .field("api", &self.api)
            .field("stream", &self.stream)
            .field("idle_timeout", &self.idle_timeout)
            .finish_non_exhaustive()
    }
}
