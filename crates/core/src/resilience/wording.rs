//! The sentences of this layer's own failures, in one place so that they read as one voice.
//!
//! A model or a person reads them: each names the dependency, what happened and what to do.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{Effect, EffectState, Failure, FailureCode, ResiliencePolicy};

use super::{Class, Rejected, micros};

pub(super) fn timed_out(name: &str, after: Duration) -> Failure {
    Failure::timeout(format!("`{name}` did not answer within {}.", plain(after)))
}

pub(super) fn crashed(name: &str, cause: &Arc<str>) -> Failure {
    Failure::crashed(format!("`{name}` broke while it worked on this call. This is a defect in `{name}`."))
        .source(cause)
}

/// The answer to a call for which there is no room; also given before a call reaches the machine.
pub fn overloaded(name: &str, policy: &ResiliencePolicy) -> Failure {
    Failure::overloaded(format!(
        "`{name}` is busy: {} at work and {} waiting, and it takes no more.",
        calls(policy.concurrency),
        policy.waiting,
    ))
    .hint("Try again later, or ask for fewer calls at once.")
}

pub(super) fn out_of_time(name: &str, waited: Duration) -> Failure {
    let message = if waited.is_zero() {
        format!("The time for this call to `{name}` was over before it could be sent.")
    } else {
        format!("The call waited {} for a free place at `{name}` and was not sent.", plain(waited))
    };
    Failure::timeout(message).effect(EffectState::None)
}

pub(super) fn rate_limited(name: &str, retry_in: Duration) -> Failure {
    Failure::rate_limited(format!(
        "`{name}` asked for a pause and takes no calls for the next {}. This call was not sent.",
        plain(retry_in)
    ))
    .retry_after(retry_in)
}

pub(super) fn tool_down(name: &str, rejected: &Rejected) -> Failure {
    match rejected {
        Rejected::Open { retry_in, failures } => Failure::tool_down(format!(
            "`{name}` is out of service after {}. This call was not sent. The next try is allowed in {}.",
            counted(*failures, "failed call"),
            plain(*retry_in)
        ))
        .retry_after(*retry_in),
        Rejected::Probing { retry_in } => Failure::tool_down(format!(
            "`{name}` was out of service, and another call is just trying whether it works again. This call \
             was not sent. The next try is allowed in {} at the latest.",
            plain(*retry_in)
        ))
        .retry_after(*retry_in),
        Rejected::Forced => Failure::tool_down(format!(
            "`{name}` was taken out of service by an operator. This call was not sent."
        )),
    }
}

pub(super) fn does_not_stop(name: &str, abandoned: u32) -> Failure {
    Failure::tool_down(format!(
        "`{name}` is out of service: {} of it {} told to stop and {} not. This call was not sent.",
        counted(abandoned, "attempt"),
        if abandoned == 1 { "was" } else { "were" },
        if abandoned == 1 { "did" } else { "do" },
    ))
}

pub(super) fn cancelled(name: &str, running: bool) -> Failure {
    Failure::cancelled(if running {
        format!("The call to `{name}` was cancelled while it was running.")
    } else {
        format!("The call to `{name}` was cancelled while it waited for its turn.")
    })
}

/// The failure of a call that may have happened and must not be repeated blindly.
pub(super) fn not_repeated(name: &str, failure: Failure, class: Class, effect: Effect) -> Failure {
    let code = match class {
        Class::Ambiguous => FailureCode::OutcomeUnknown,
        _ => failure.code,
    };
    let message = format!(
        "{} The call may have been carried out all the same, so it was not repeated.",
        sentence(&failure.message)
    );
    let hint = match effect {
        Effect::Verifiable => format!("Ask `{name}` whether it happened before you repeat the call."),
        Effect::Once | Effect::Keyed | Effect::Idempotent | Effect::ReadOnly => {
            "Find out with another tool, or ask the user, whether it happened before you repeat the call."
                .into()
        }
    };
    Failure { code, message: message.into(), hint: Some(hint.into()), ..failure }
}

fn sentence(message: &str) -> String {
    let message = message.trim_end();
    let end = if message.is_empty() || message.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{message}{end}")
}

fn calls(n: u32) -> String {
    counted(n, "call")
}

fn counted(n: u32, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// A length in words, rounded up: who waits so long does not come too early.
pub(crate) fn plain(length: Duration) -> String {
    let ms = micros(length).div_ceil(1000);
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..=9_900 if !ms.is_multiple_of(1000) => {
            let tenths = ms.div_ceil(100);
            format!("{}.{} s", tenths / 10, tenths % 10)
        }
        1_000..120_000 => format!("{} s", ms.div_ceil(1000)),
        _ => format!("{} min", ms.div_ceil(60_000)),
    }
}

#[cfg(test)]
mod tests;
