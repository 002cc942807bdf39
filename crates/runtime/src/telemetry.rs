//! Every span and attribute name in one place.
//!
//! Names follow the OpenTelemetry GenAI semantic conventions 0.1 (all of them still marked as in
//! development there); what has no convention yet is under `dauntless.`. A span is opened per
//! run, turn, model call, tool call and attempt. Arguments, results and prompts are never
//! recorded: they may hold what nobody wants in a trace store.

use dauntless_contract::{CallKey, Effect, FailureCode, Finish, ModelReply, ModelSpec, Outcome, RunId};
use tracing::{Span, field, info_span};

/// The run of one agent: `invoke_agent NAME`.
pub(crate) fn run_span(parent: &Span, run: RunId, agent: &str) -> Span {
    info_span!(
        parent: parent,
        "invoke_agent",
        otel.name = format_args!("invoke_agent {agent}"),
        otel.kind = "internal",
        gen_ai.operation.name = "invoke_agent",
        gen_ai.agent.name = agent,
        gen_ai.conversation.id = %run,
        gen_ai.usage.input_tokens = field::Empty,
        gen_ai.usage.output_tokens = field::Empty,
        dauntless.turns = field::Empty,
        dauntless.stop_reason = field::Empty,
        error.type = field::Empty,
    )
}

/// One turn: a model request and the calls it asks for.
pub(crate) fn turn_span(parent: &Span, turn: u32) -> Span {
    info_span!(parent: parent, "turn", otel.name = format_args!("turn {turn}"), dauntless.turn = turn)
}

/// One model call, all its attempts: `chat MODEL`.
pub(crate) fn chat_span(parent: &Span, model: &ModelSpec) -> Span {
    info_span!(
        parent: parent,
        "chat",
        otel.name = format_args!("chat {}", model.name),
        otel.kind = "client",
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = &*model.provider,
        gen_ai.request.model = &*model.name,
        gen_ai.response.model = field::Empty,
        gen_ai.response.finish_reasons = field::Empty,
        gen_ai.usage.input_tokens = field::Empty,
        gen_ai.usage.output_tokens = field::Empty,
        dauntless.attempts = field::Empty,
        error.type = field::Empty,
    )
}

/// One tool call, all its attempts: `execute_tool NAME`.
pub(crate) fn tool_span(parent: &Span, call: CallKey, tool: &str, effect: Effect) -> Span {
    info_span!(
        parent: parent,
        "execute_tool",
        otel.name = format_args!("execute_tool {tool}"),
        otel.kind = "internal",
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = tool,
        gen_ai.tool.r#type = "function",
        gen_ai.tool.call.id = %call,
        dauntless.effect = effect.as_str(),
        dauntless.attempts = field::Empty,
        dauntless.waited_ms = field::Empty,
        error.type = field::Empty,
    )
}

/// One attempt of a tool or model call.
pub(crate) fn attempt_span(parent: &Span, attempt: u32) -> Span {
    info_span!(
        parent: parent,
        "attempt",
        otel.name = format_args!("attempt {attempt}"),
        dauntless.attempt = attempt,
        error.type = field::Empty,
    )
}

/// Marks a span as failed, with the failure code as the low-cardinality type.
pub(crate) fn record_failure(span: &Span, code: FailureCode) {
    span.record("error.type", code.as_str());
}

/// Writes what a model answered on the span of its call, without its words.
pub(crate) fn record_reply(span: &Span, reply: &ModelReply) {
    if let Some(model) = &reply.model {
        span.record("gen_ai.response.model", &**model);
    }
    let finish = match &reply.finish {
        Finish::Stop => "stop",
        Finish::ToolCalls => "tool_calls",
        Finish::Length => "length",
        Finish::ContentFilter => "content_filter",
        Finish::Other(word) => word,
    };
    span.record("gen_ai.response.finish_reasons", finish);
    if let Some(usage) = reply.usage {
        span.record("gen_ai.usage.input_tokens", usage.prompt.0);
        span.record("gen_ai.usage.output_tokens", usage.completion.0);
    }
}

/// Writes how a run ended on its span.
pub(crate) fn record_outcome(span: &Span, outcome: &Outcome) {
    span.record("gen_ai.usage.input_tokens", outcome.totals.usage.prompt.0);
    span.record("gen_ai.usage.output_tokens", outcome.totals.usage.completion.0);
    span.record("dauntless.turns", outcome.totals.turns);
    span.record("dauntless.stop_reason", outcome.reason.name());
    if !outcome.is_completed() {
        span.record("error.type", outcome.reason.name());
    }
}
