//! The faults there are, and the failures they look like.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use dauntless_contract::{EffectState, Failure, FailureCode};

use super::MARK;
use super::draw::Moment;
use crate::config::is_of_a_tool;

/// How long an injected `rate_limited` asks to wait.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// One way to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// The attempt answers with this code.
    Failure(FailureCode),
    /// The tool's code breaks.
    Panic,
    /// The attempt never answers.
    Hang,
}

/// The text names no fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no fault: use `panic`, `hang`, or a failure code that a tool can give")]
pub struct UnknownFault(String);

impl FaultKind {
    /// Every fault that can be injected: the codes that a tool can give, `panic` and `hang`.
    pub fn all() -> impl Iterator<Item = Self> {
        let codes = FailureCode::ALL.into_iter().filter(|code| is_of_a_tool(*code));
        codes.map(Self::Failure).chain([Self::Panic, Self::Hang])
    }

    /// The name as the configuration writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failure(code) => code.as_str(),
            Self::Panic => "panic",
            Self::Hang => "hang",
        }
    }

    /// Whether it leaves open that the tool did its work, so that it can strike after it.
    pub(super) fn can_hide_an_effect(self) -> bool {
        match self {
            Self::Panic | Self::Hang | Self::Failure(FailureCode::ConnectionFailed) => true,
            Self::Failure(code) => Failure::new(code, "").effect != EffectState::None,
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for FaultKind {
    type Err = UnknownFault;

    fn from_str(text: &str) -> Result<Self, UnknownFault> {
        Self::all().find(|kind| kind.as_str() == text).ok_or_else(|| UnknownFault(text.to_owned()))
    }
}

/// The failure as the model would read it of a tool that fails by itself.
pub(super) fn failure(code: FailureCode, tool: &str, moment: Moment) -> Failure {
    let failure = Failure::new(code, sentence(code, tool)).source(format_args!("{MARK}: {code}, {moment}"));
    match (code, moment) {
        (FailureCode::RateLimited, _) => failure.retry_after(RETRY_AFTER),
        // Whoever lost the connection cannot know whether the other side had read everything.
        (FailureCode::ConnectionFailed, Moment::After) => failure.effect(EffectState::Unknown),
        // The tool was not called, and a part that was not done must not be claimed.
        (FailureCode::Partial, Moment::Before) => failure.effect(EffectState::None),
        _ => failure,
    }
}

fn sentence(code: FailureCode, tool: &str) -> String {
    let what = match code {
        FailureCode::RateLimited => "is being asked too often",
        FailureCode::Unavailable => "cannot work now",
        FailureCode::Timeout => "did not answer in time",
        FailureCode::ConnectionFailed => "could not be reached",
        FailureCode::Unauthenticated => "did not accept the credentials",
        FailureCode::PermissionDenied => "may not be used for this with these credentials",
        FailureCode::QuotaExhausted => "has no quota left",
        FailureCode::Gone => "no longer exists at its service",
        FailureCode::NotFound => "has nothing under these arguments",
        FailureCode::NoResults => "found nothing that matches these arguments",
        FailureCode::Ambiguous => "found several things that these arguments could mean",
        FailureCode::Conflict => "was refused by the present state of things",
        FailureCode::Partial => "did only a part of this",
        FailureCode::InvalidArguments => "did not accept the arguments",
        FailureCode::TooLarge => "finds the request too large",
        FailureCode::OutcomeUnknown => "does not know whether this was done",
        _ => "failed",
    };
    format!("`{tool}` {what}.")
}
