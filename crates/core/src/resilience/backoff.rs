//! How long to wait before the next try: an exponential bound, and a wait drawn below it.
//!
//! The only file that names the `backoff` crate. The crate computes the bounds once, at build
//! time, without its own jitter or clock; what is read later is a table. So a wait depends on
//! nothing but the policy, the number of the retry and our own seeded [`Rng`].

use std::time::Duration;

use ::backoff::ExponentialBackoff;
use ::backoff::backoff::Backoff as _;

use super::Rng;

/// Bounds kept; a doubling bound reaches any cap long before.
const BOUNDS_MAX: usize = 64;

/// The extra wait that spreads callers who were all told the same time to come back.
const SPREAD_MAX: Duration = Duration::from_secs(1);

/// An exponential schedule of waits with full jitter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backoff {
    bounds: Vec<Duration>,
    last: Duration,
}

impl Backoff {
    /// Computes the bounds: `base`, then `factor` times the one before, never above `cap`.
    ///
    /// A factor below 1 counts as 1. A bound still growing after 64 retries stays where it is.
    pub fn new(base: Duration, factor: f64, cap: Duration) -> Self {
        let first = base.min(cap);
        let mut schedule = ExponentialBackoff {
            current_interval: first,
            initial_interval: first,
            randomization_factor: 0.0,
            multiplier: factor.max(1.0),
            max_interval: cap,
            max_elapsed_time: None,
            ..ExponentialBackoff::default()
        };
        let mut bounds = Vec::new();
        let mut last = first;
        while bounds.len() < BOUNDS_MAX {
            // Not the value `next_backoff` returns: that one is rounded at random by a nanosecond.
            last = schedule.current_interval;
            if bounds.last() == Some(&last) {
                break;
            }
            bounds.push(last);
            schedule.next_backoff();
        }
        Self { bounds, last }
    }

    /// The longest wait before the `n`-th retry, counted from 1.
    pub fn bound(&self, n: u32) -> Duration {
        let index = usize::try_from(n.saturating_sub(1)).unwrap_or(usize::MAX);
        self.bounds.get(index).copied().unwrap_or(self.last)
    }

    /// Draws the wait before the `n`-th retry: anything from zero to the bound.
    pub fn wait(&self, n: u32, rng: &mut Rng) -> Duration {
        rng.up_to(self.bound(n))
    }

    /// Draws the wait before the `n`-th retry of a call that the other side told when to come back.
    ///
    /// Never shorter than `asked`, and a little longer, so that a crowd that was told the same
    /// does not return in the same moment.
    pub fn wait_at_least(&self, asked: Duration, n: u32, rng: &mut Rng) -> Duration {
        self.wait(n, rng).max(asked).saturating_add(rng.up_to(spread(asked)))
    }
}

/// How far apart callers are spread who were told to stay away for `length`.
pub(super) fn spread(length: Duration) -> Duration {
    (length / 10).min(SPREAD_MAX)
}

#[cfg(test)]
mod tests;
