//! What is injected into a tool, and how often.

use std::ops::RangeInclusive;
use std::time::Duration;

use dauntless_contract::FailureCode;

use super::FaultKind;

/// What is injected into the attempts of one tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ChaosPlan {
    /// The share of attempts that fail, from 0 to 1. Default 0.2.
    pub rate: f64,
    /// The faults, each as likely as the others; none means that nothing fails.
    ///
    /// Default `unavailable`, `timeout`, `connection_failed`, `rate_limited` and `panic`. A `hang`
    /// costs the whole timeout of its attempt, so it has to be asked for.
    pub kinds: Vec<FaultKind>,
    /// Every attempt waits for a length out of this range first. Default zero.
    pub latency: RangeInclusive<Duration>,
    /// The share of faults that strike when the tool has already done its work, so that the answer
    /// is lost, from 0 to 1. Only of faults that leave the effect open. Default 0.5.
    pub after_effect_ratio: f64,
}

impl Default for ChaosPlan {
    fn default() -> Self {
        let codes = [
            FailureCode::Unavailable,
            FailureCode::Timeout,
            FailureCode::ConnectionFailed,
            FailureCode::RateLimited,
        ];
        Self {
            rate: 0.2,
            kinds: codes.into_iter().map(FaultKind::Failure).chain([FaultKind::Panic]).collect(),
            latency: Duration::ZERO..=Duration::ZERO,
            after_effect_ratio: 0.5,
        }
    }
}

impl ChaosPlan {
    /// Whether attempts fail by it.
    pub fn breaks(&self) -> bool {
        self.rate > 0.0 && !self.kinds.is_empty()
    }

    /// Whether attempts are slower by it.
    pub fn slows(&self) -> bool {
        !self.latency.end().is_zero()
    }
}
