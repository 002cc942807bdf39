//! What a failure means to retry, breaker and budget: one table, the only one.
//!
//! The class depends on the failure alone, never on which attempt it is, how the answer came or
//! what state the breaker is in. What the model or the run does with a failure is not decided
//! here; that is the code's [`Bucket`](dauntless_contract::Bucket).

use dauntless_contract::{Effect, EffectState, Failure, FailureCode};

/// What a failure means to the layers around a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The call itself is wrong.
    InvalidInput,
    /// The thing asked for is not there.
    NotFound,
    /// The caller may not, or the service is gone for good.
    Denied,
    /// A quota is used up; waiting does not help.
    QuotaExceeded,
    /// The state of the world forbids it.
    Conflict,
    /// Any other orderly answer of a dependency that works.
    Answered,
    /// Certain: nothing reached the dependency.
    NotSent,
    /// The dependency answers, but cannot work now.
    Unavailable,
    /// The answer was lost: it may have happened.
    Ambiguous,
    /// Asked too often.
    Throttled,
    /// The caller no longer wants it.
    Cancelled,
    /// We refused it ourselves; the dependency was not touched.
    LocalReject,
    /// The tool's own code broke.
    Bug,
}

/// What a result tells the breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// The dependency works.
    Healthy,
    /// The dependency does not work.
    Failure,
    /// It tells nothing about the dependency.
    Neutral,
}

/// Puts a failure into its class.
pub const fn classify(failure: &Failure) -> Class {
    use FailureCode as Code;
    match failure.code {
        Code::RateLimited => Class::Throttled,
        Code::Unavailable => match failure.retry_after {
            Some(_) => Class::Throttled,
            None => Class::Unavailable,
        },
        Code::Timeout | Code::ConnectionFailed => match failure.effect {
            EffectState::None => Class::NotSent,
            EffectState::Happened | EffectState::Unknown => Class::Ambiguous,
        },
        Code::Unauthenticated | Code::PermissionDenied | Code::Gone => Class::Denied,
        Code::QuotaExhausted => Class::QuotaExceeded,
        Code::NotFound => Class::NotFound,
        Code::Conflict => Class::Conflict,
        // A tool that says it does not know what happened has answered, and is not asked twice.
        Code::NoResults | Code::Ambiguous | Code::ToolError | Code::Partial | Code::OutcomeUnknown => {
            Class::Answered
        }
        Code::InvalidArguments
        | Code::MalformedArguments
        | Code::TruncatedCall
        | Code::UnknownTool
        | Code::TooLarge => Class::InvalidInput,
        Code::Crashed => Class::Bug,
        Code::Cancelled => Class::Cancelled,
        Code::DeniedByOperator | Code::ToolDown | Code::Overloaded | Code::RepeatedFailure => {
            Class::LocalReject
        }
    }
}

/// Whether another attempt may help and does no harm to a call with this effect.
pub const fn retryable(class: Class, effect: Effect) -> bool {
    match class {
        Class::NotSent | Class::Throttled => true,
        Class::Unavailable | Class::Ambiguous | Class::Bug => effect.repeatable(),
        Class::InvalidInput
        | Class::NotFound
        | Class::Denied
        | Class::QuotaExceeded
        | Class::Conflict
        | Class::Answered
        | Class::Cancelled
        | Class::LocalReject => false,
    }
}

impl Class {
    /// What it tells the breaker.
    pub const fn weight(self) -> Weight {
        match self {
            Self::InvalidInput
            | Self::NotFound
            | Self::Denied
            | Self::QuotaExceeded
            | Self::Conflict
            | Self::Answered => Weight::Healthy,
            Self::NotSent | Self::Unavailable | Self::Ambiguous | Self::Bug => Weight::Failure,
            Self::Throttled | Self::Cancelled | Self::LocalReject => Weight::Neutral,
        }
    }

    /// What a retry after it costs, in thousandths of a retry; zero for a class never retried.
    pub const fn cost_milli(self) -> u64 {
        match self {
            Self::NotSent | Self::Unavailable => 1000,
            Self::Ambiguous | Self::Bug => 2000,
            Self::Throttled => 500,
            Self::InvalidInput
            | Self::NotFound
            | Self::Denied
            | Self::QuotaExceeded
            | Self::Conflict
            | Self::Answered
            | Self::Cancelled
            | Self::LocalReject => 0,
        }
    }
}

#[cfg(test)]
mod tests;
