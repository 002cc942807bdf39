//! Whether a worker may still begin something new, by its own clock alone. The store says who owns a
//! run; a worker that cannot reach the store must stop by itself before another may take over.

use std::time::Duration;

use dauntless_contract::Timestamp;

/// The part of a lease that is left for what is already under way.
const MARGIN_DIVISOR: u32 = 5;

/// The lease of a worker, counted from the sending of the last renewal that succeeded.
///
/// The answer may have been long under way, so its arrival proves nothing about the present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseClock {
    ttl: Duration,
    renewed: Timestamp,
}

impl LeaseClock {
    /// A lease that was asked for at `sent` and granted.
    pub const fn new(ttl: Duration, sent: Timestamp) -> Self {
        Self { ttl, renewed: sent }
    }

    /// A renewal that was sent at `sent` has succeeded. Answers may come out of order.
    pub fn renewed(&mut self, sent: Timestamp) {
        self.renewed = self.renewed.max(sent);
    }

    /// When to send the next renewal: three of them fit in a lease.
    pub fn renew_at(&self) -> Timestamp {
        self.renewed + self.ttl / 3
    }

    /// The first moment at which nothing new may begin.
    pub fn stops_at(&self) -> Timestamp {
        self.renewed + (self.ttl - self.ttl / MARGIN_DIVISOR)
    }

    /// Whether a new effect may begin.
    pub fn may_begin(&self, now: Timestamp) -> bool {
        now < self.stops_at()
    }
}

#[cfg(test)]
mod tests;
