//! Tool calls for models that make none of their own.
//!
//! Many small models, and many servers in front of large ones, take no notice of the tools that a
//! request offers, but keep to a JSON schema. So the decision itself becomes an answer with a schema:
//! one call of one offered tool, or the answer of the run. Whoever asks sees the typed calls that
//! any other model makes. It asks once, like the client inside; it repairs nothing, and never takes
//! words that are no decision for the answer.

use std::collections::HashSet;
use std::sync::Arc;

use dauntless_contract::{
    AnswerSchema, BoxFuture, Failure, Model, ModelCtx, ModelReply, ModelRequest, ModelSpec, ToolSpec,
};

mod decision;
mod schema;
mod transcript;

#[cfg(test)]
mod tests;

/// A model that is asked for each decision as an answer with a schema, in place of tool calls.
///
/// The client inside must make [`ModelRequest::answer`] known to its provider. It is never offered
/// a tool, and its history holds no calls: earlier ones, and what came of them, are plain text.
///
/// A reply that is one of the decisions becomes a call or the answer. One call a reply: a weak
/// model that may write a list repeats itself until the list is full.
///
/// # Deviations
/// - A whole decision counts as such although the output limit was reached: its last bracket
///   proves that nothing is missing.
/// - A cut call stays a cut call, and of a cut answer there is as much as was written.
/// - Anything else becomes a garbled call, so that the model is told what to write. A model that
///   goes on regardless is stuck.
/// - Watchers are shown no piece of a decision, and an answer only when it is whole.
/// - A request without tools is passed on as it is, unless the conversation holds calls: then the
///   model is asked for an answer in the form that it has seen.
#[derive(Clone)]
pub struct StructuredCalls {
    inner: Arc<dyn Model>,
}

impl StructuredCalls {
    /// Asks this model for its decisions.
    pub fn new(inner: impl Model) -> Self {
        Self::shared(Arc::new(inner))
    }

    /// Asks a model that others may use as well.
    pub fn shared(inner: Arc<dyn Model>) -> Self {
        Self { inner }
    }

    async fn decide(&self, mut ctx: ModelCtx, request: ModelRequest) -> Result<ModelReply, Failure> {
        let watcher = ctx.on_text.take();
        let ids: HashSet<&str> = transcript::call_ids(&request.history).collect();
        let asked = asked(&request.tools, request.answer.as_deref());
        let how = instructions(&request.tools, request.answer.as_deref());
        let history = Arc::new(transcript::plain(&request.history, &how));
        let asked = ModelRequest {
            history,
            tools: Arc::default(),
            answer: Some(Arc::new(asked)),
            purpose: request.purpose,
        };
        let reply = self.inner.call(ctx, asked).await?;
        let reply = decision::read(reply, &ids, request.answer.is_some());
        if let (Some(show), Some(text), true) = (&watcher, &reply.text, reply.calls.is_empty()) {
            show(text);
        }
        Ok(reply)
    }
}

impl Model for StructuredCalls {
    fn spec(&self) -> &Arc<ModelSpec> {
        self.inner.spec()
    }

    fn call(&self, ctx: ModelCtx, request: ModelRequest) -> BoxFuture<'_, Result<ModelReply, Failure>> {
        let has_calls = transcript::call_ids(&request.history).next().is_some();
        match request.tools.is_empty() && !has_calls {
            true => self.inner.call(ctx, request),
            false => Box::pin(self.decide(ctx, request)),
        }
    }
}

impl std::fmt::Debug for StructuredCalls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StructuredCalls").field("spec", self.inner.spec()).finish()
    }
}

fn asked(tools: &[Arc<ToolSpec>], answer: Option<&AnswerSchema>) -> AnswerSchema {
    let schema = schema::of_decisions(tools, answer.map(|answer| &*answer.schema));
    AnswerSchema { name: "decision".into(), schema: Arc::new(schema) }
}

/// What the model is told. Many servers keep the schema from the model, so it is in here as well.
fn instructions(tools: &[Arc<ToolSpec>], answer: Option<&AnswerSchema>) -> String {
    let mut text = "Reply with one JSON object and nothing else. ".to_owned();
    if !tools.is_empty() {
        text.push_str(
            "To call a tool: {\"name\": its name, \"parameters\": an object that fits its schema}. \
             Its result comes with the next message. When nothing is left to do: ",
        );
    }
    match answer {
        None => text.push_str("{\"answer\": your answer as text}."),
        Some(answer) => text.push_str(&format!("{{\"answer\": a value of this schema: {}}}.", answer.schema)),
    }
    if !tools.is_empty() {
        text.push_str("\nTools:");
    }
    for tool in tools {
        text.push_str(&format!("\n- {}: {} Parameters: {}", tool.name, tool.description, tool.parameters));
    }
    text
}
