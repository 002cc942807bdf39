//! The rate gate: once the other side says "too often", nobody asks again before it may help.
//!
//! Shared by all callers of a dependency, so that one refusal is enough. It delays; whether a
//! caller can afford the delay is the caller's decision.

use std::time::Duration;

use dauntless_contract::Timestamp;

use super::Rng;
use super::backoff::spread;

/// However long the other side asks for, the gate opens again after this.
const SHUT_MAX: Duration = Duration::from_secs(3600);

/// The rate gate of one dependency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    until: Timestamp,
    spread: Duration,
    rng: Rng,
}

impl Gate {
    /// An open gate.
    pub const fn new(seed: u64) -> Self {
        Self { until: Timestamp::ZERO, spread: Duration::ZERO, rng: Rng::new(seed) }
    }

    /// Shuts it for `length`, at most one hour. Never shortens an earlier shutting.
    pub fn shut(&mut self, now: Timestamp, length: Duration) {
        let length = length.min(SHUT_MAX);
        if now + length > self.until {
            self.until = now + length;
            self.spread = spread(length);
        }
    }

    /// When it opens; `None` if it is open.
    pub fn shut_until(&self, now: Timestamp) -> Option<Timestamp> {
        (now < self.until).then_some(self.until)
    }

    /// Draws when one waiting caller may pass: soon after the gate opens, each at its own moment.
    pub fn release_at(&mut self) -> Timestamp {
        self.until + self.rng.up_to(self.spread)
    }
}

#[cfg(test)]
mod tests;
