//! Failures: what went wrong in the world, as data.
//!
//! A failure is stored, shown and decided upon. It is not a Rust error: misuse of this API has
//! error types of its own, and a [`Failure`] deliberately does not implement [`std::error::Error`],
//! so that `?` in a tool can turn any error into one.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Json;

/// What kind of failure it is. Stable and machine-readable; the name is what the model reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCode {
    /// Asked too often; often with a time to come back.
    RateLimited,
    /// The service answers, but cannot work now.
    Unavailable,
    /// No answer in time.
    Timeout,
    /// No connection, or it broke.
    ConnectionFailed,
    /// The credentials are missing or wrong.
    Unauthenticated,
    /// The credentials are good but do not allow this.
    PermissionDenied,
    /// A paid or granted amount is used up; waiting does not help.
    QuotaExhausted,
    /// The service or the tool no longer exists.
    Gone,
    /// What was asked for does not exist.
    NotFound,
    /// The question was good and nothing matches it.
    NoResults,
    /// More than one thing matches; see the candidates.
    Ambiguous,
    /// The state of the world forbids it (a version, a duplicate, a lock).
    Conflict,
    /// The tool says it failed, without more structure.
    ToolError,
    /// Done in part; the details say which.
    Partial,
    /// The arguments do not fit the schema.
    InvalidArguments,
    /// The arguments are not JSON.
    MalformedArguments,
    /// The output limit cut the call.
    TruncatedCall,
    /// There is no tool of that name.
    UnknownTool,
    /// More than the tool or the model takes.
    TooLarge,
    /// The tool's own code broke.
    Crashed,
    /// A write whose answer was lost: it may have happened.
    OutcomeUnknown,
    /// A person said no.
    DeniedByOperator,
    /// The call was cancelled.
    Cancelled,
    /// The tool is out of service: its breaker is open or its supervisor gave up.
    ToolDown,
    /// No room for another call.
    Overloaded,
    /// The same call failed the same way before; it was not executed again.
    RepeatedFailure,
}

/// Who can do something about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bucket {
    /// The harness: try again later.
    Transient,
    /// Nobody in this run: it ends.
    Terminal,
    /// The model: think again.
    Recoverable,
    /// The model: it made a mistake. The tool was never called.
    ModelMistake,
    /// The author of the tool.
    Defect,
    /// A write whose answer was lost. Never repeated by the harness.
    Unknown,
    /// The harness itself refused or stopped the call.
    Harness,
    /// The loop guard stopped a repetition.
    LoopGuard,
}

impl FailureCode {
    /// Every code, in the order of the documentation.
    pub const ALL: [Self; 26] = [
        Self::RateLimited,
        Self::Unavailable,
        Self::Timeout,
        Self::ConnectionFailed,
        Self::Unauthenticated,
        Self::PermissionDenied,
        Self::QuotaExhausted,
        Self::Gone,
        Self::NotFound,
        Self::NoResults,
        Self::Ambiguous,
        Self::Conflict,
        Self::ToolError,
        Self::Partial,
        Self::InvalidArguments,
        Self::MalformedArguments,
        Self::TruncatedCall,
        Self::UnknownTool,
        Self::TooLarge,
        Self::Crashed,
        Self::OutcomeUnknown,
        Self::DeniedByOperator,
        Self::Cancelled,
        Self::ToolDown,
        Self::Overloaded,
        Self::RepeatedFailure,
    ];

    /// The name as the model and the configuration write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RateLimited => "rate_limited",
            Self::Unavailable => "unavailable",
            Self::Timeout => "timeout",
            Self::ConnectionFailed => "connection_failed",
            Self::Unauthenticated => "unauthenticated",
            Self::PermissionDenied => "permission_denied",
            Self::QuotaExhausted => "quota_exhausted",
            Self::Gone => "gone",
            Self::NotFound => "not_found",
            Self::NoResults => "no_results",
            Self::Ambiguous => "ambiguous",
            Self::Conflict => "conflict",
            Self::ToolError => "tool_error",
            Self::Partial => "partial",
            Self::InvalidArguments => "invalid_arguments",
            Self::MalformedArguments => "malformed_arguments",
            Self::TruncatedCall => "truncated_call",
            Self::UnknownTool => "unknown_tool",
            Self::TooLarge => "too_large",
            Self::Crashed => "crashed",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::DeniedByOperator => "denied_by_operator",
            Self::Cancelled => "cancelled",
            Self::ToolDown => "tool_down",
            Self::Overloaded => "overloaded",
            Self::RepeatedFailure => "repeated_failure",
        }
    }

    /// Who can do something about it.
    pub const fn bucket(self) -> Bucket {
        match self {
            Self::RateLimited | Self::Unavailable | Self::Timeout | Self::ConnectionFailed => {
                Bucket::Transient
            }
            Self::Unauthenticated | Self::PermissionDenied | Self::QuotaExhausted | Self::Gone => {
                Bucket::Terminal
            }
            Self::NotFound
            | Self::NoResults
            | Self::Ambiguous
            | Self::Conflict
            | Self::ToolError
            | Self::Partial => Bucket::Recoverable,
            Self::InvalidArguments
            | Self::MalformedArguments
            | Self::TruncatedCall
            | Self::UnknownTool
            | Self::TooLarge => Bucket::ModelMistake,
            Self::Crashed => Bucket::Defect,
            Self::OutcomeUnknown => Bucket::Unknown,
            Self::DeniedByOperator | Self::Cancelled | Self::ToolDown | Self::Overloaded => Bucket::Harness,
            Self::RepeatedFailure => Bucket::LoopGuard,
        }
    }
}

impl fmt::Display for FailureCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for FailureCode {
    type Err = UnknownCode;

    fn from_str(text: &str) -> Result<Self, UnknownCode> {
        Self::ALL.into_iter().find(|code| code.as_str() == text).ok_or_else(|| UnknownCode(text.to_owned()))
    }
}

/// The text names no failure code.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a failure code; see docs/failures.md for the list")]
pub struct UnknownCode(String);

/// Whether the effect of the call took place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectState {
    /// It certainly did not: nothing was sent, or the answer says so.
    None,
    /// It did.
    Happened,
    /// Nobody knows.
    Unknown,
}

/// One thing wrong with one argument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldProblem {
    /// Where, as a JSON path like `$.items[2].sku`.
    pub path: Arc<str>,
    /// What was expected there, in words.
    pub expected: Arc<str>,
    /// What came instead, in words and bounded; empty when there is nothing to show.
    #[serde(default, skip_serializing_if = "str_is_empty")]
    pub got: Arc<str>,
}

fn str_is_empty(text: &Arc<str>) -> bool {
    text.is_empty()
}

/// What went wrong with a tool or model call.
///
/// `message`, `hint`, `details` and `candidates` are for the model, so they must not hold raw
/// upstream bodies, stack traces, host names or secrets; that is what `source` is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind.
    pub code: FailureCode,
    /// What happened, in a sentence the model can use.
    pub message: Arc<str>,
    /// What a call that works would look like, or what to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<Arc<str>>,
    /// Problems by field.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub details: Box<[FieldProblem]>,
    /// What else could have been meant.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub candidates: Box<[Arc<str>]>,
    /// How long the other side asked us to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
    /// Whether the effect took place. [`EffectState::Unknown`] until somebody knows better.
    pub effect: EffectState,
    /// A part of the schema or an example that helps to write a call that works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Json>,
    /// The tokens that a model's context window holds, where the provider refused more and said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<NonZeroU32>,
    /// The raw cause, for the operator's log only. Never serialised, never shown to the model.
    #[serde(skip)]
    pub source: Option<Arc<str>>,
}

macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident => $code:ident, $effect:ident;)*) => {
        impl Failure {
            $(
                $(#[$doc])*
                pub fn $name(message: impl Into<Arc<str>>) -> Self {
                    Self::with_effect(FailureCode::$code, EffectState::$effect, message)
                }
            )*
        }
    };
}

constructors! {
    /// Asked too often. Add [`Failure::retry_after`] when the other side said when to come back.
    rate_limited => RateLimited, None;
    /// The service cannot work now. The effect is unknown unless you say otherwise.
    unavailable => Unavailable, Unknown;
    /// No answer in time. The effect is unknown unless you say otherwise.
    timeout => Timeout, Unknown;
    /// No connection; nothing was sent. For a connection that broke after sending, add
    /// `.effect(EffectState::Unknown)`.
    connection_failed => ConnectionFailed, None;
    /// Missing or wrong credentials.
    unauthenticated => Unauthenticated, None;
    /// Not allowed with these credentials.
    permission_denied => PermissionDenied, None;
    /// A quota or a budget at the other side is used up.
    quota_exhausted => QuotaExhausted, None;
    /// The service no longer exists.
    gone => Gone, None;
    /// What was asked for does not exist.
    not_found => NotFound, None;
    /// Nothing matches.
    no_results => NoResults, None;
    /// Several things match; add [`Failure::candidates`].
    ambiguous => Ambiguous, None;
    /// The state of the world forbids it.
    conflict => Conflict, None;
    /// The tool failed, without more structure.
    tool_error => ToolError, Unknown;
    /// Done in part; add [`Failure::detail`] for the rest.
    partial => Partial, Happened;
    /// The arguments do not fit.
    invalid_arguments => InvalidArguments, None;
    /// The arguments are not JSON.
    malformed_arguments => MalformedArguments, None;
    /// The output limit cut the call.
    truncated_call => TruncatedCall, None;
    /// There is no such tool.
    unknown_tool => UnknownTool, None;
    /// Too much of something.
    too_large => TooLarge, None;
    /// The tool's own code broke.
    crashed => Crashed, Unknown;
    /// A write whose answer was lost.
    outcome_unknown => OutcomeUnknown, Unknown;
    /// A person said no.
    denied_by_operator => DeniedByOperator, None;
    /// Cancelled before it started. After the start, add `.effect(EffectState::Unknown)`.
    cancelled => Cancelled, None;
    /// The tool is out of service.
    tool_down => ToolDown, None;
    /// No room for another call.
    overloaded => Overloaded, None;
    /// The loop guard stopped a repetition.
    repeated_failure => RepeatedFailure, None;
}

impl Failure {
    /// A failure of any code whose effect is given.
    pub fn with_effect(code: FailureCode, effect: EffectState, message: impl Into<Arc<str>>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: None,
            details: Box::default(),
            candidates: Box::default(),
            retry_after: None,
            effect,
            schema: None,
            window: None,
            source: None,
        }
    }

    /// A failure of any code, with the effect that its own constructor would assume.
    pub fn new(code: FailureCode, message: impl Into<Arc<str>>) -> Self {
        let effect = match code {
            FailureCode::Unavailable
            | FailureCode::Timeout
            | FailureCode::ToolError
            | FailureCode::Crashed
            | FailureCode::OutcomeUnknown => EffectState::Unknown,
            FailureCode::Partial => EffectState::Happened,
            _ => EffectState::None,
        };
        Self::with_effect(code, effect, message)
    }

    /// Says what a call that works would look like, or what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Arc<str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a problem with one field.
    #[must_use]
    pub fn detail(
        mut self,
        path: impl Into<Arc<str>>,
        expected: impl Into<Arc<str>>,
        got: impl Into<Arc<str>>,
    ) -> Self {
        let problem = FieldProblem { path: path.into(), expected: expected.into(), got: got.into() };
        self.details = self.details.into_iter().chain([problem]).collect();
        self
    }

    /// Names what else could have been meant.
    #[must_use]
    pub fn candidates<T: Into<Arc<str>>>(mut self, candidates: impl IntoIterator<Item = T>) -> Self {
        self.candidates = self.candidates.into_iter().chain(candidates.into_iter().map(Into::into)).collect();
        self
    }

    /// Says how long the other side asked us to wait.
    #[must_use]
    pub const fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Says whether the effect took place.
    #[must_use]
    pub const fn effect(mut self, effect: EffectState) -> Self {
        self.effect = effect;
        self
    }

    /// Shows the model the part of the schema that matters.
    #[must_use]
    pub fn schema(mut self, schema: Json) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Names the tool of a model request whose declaration the provider refused, as a detail.
    #[must_use]
    pub fn rejects_tool(self, name: &str) -> Self {
        self.detail(format!("{TOOL_PATH}{name}"), "a declaration that the provider takes", "")
    }

    /// The tool whose declaration the provider refused, where this is such a failure.
    pub fn rejected_tool(&self) -> Option<&str> {
        self.details.iter().find_map(|problem| problem.path.strip_prefix(TOOL_PATH))
    }

    /// Says how many tokens the model's context window holds.
    #[must_use]
    pub const fn window(mut self, tokens: NonZeroU32) -> Self {
        self.window = Some(tokens);
        self
    }

    /// Keeps the raw cause for the operator's log.
    #[must_use]
    pub fn source(mut self, cause: impl fmt::Display) -> Self {
        self.source = Some(cause.to_string().into());
        self
    }
}

/// Where a tool's declaration stands in a model request.
const TOOL_PATH: &str = "$.tools.";

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

/// `?` in a tool: any error becomes a `tool_error` whose text the model does not see.
///
/// An error's text may hold a path, a host or a key, so only the operator's log gets it. A tool
/// that wants the model to act on an error says so with one of the constructors.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut cause = error.to_string();
        let mut next = error.source();
        while let Some(inner) = next {
            cause.push_str(": ");
            cause.push_str(&inner.to_string());
            next = inner.source();
        }
        Self::tool_error("The tool failed. The cause is in the operator's log.").source(cause)
    }
}
