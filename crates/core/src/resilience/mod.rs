//! What stands between a caller and a dependency that fails: retry, deadline, bulkhead, rate gate,
//! breaker and budget, for tools and models alike.
//!
//! [`Dependency`] holds the calls of one tool or model and decides; [`Policies`] holds what all its
//! callers share and what outlives its actor. Everything is a function of state, `now` and event:
//! this module refuses to read a clock, to sleep, or to draw from a random source of its own.

mod backoff;
mod breaker;
mod budget;
mod call;
mod class;
mod dependency;
mod event;
mod gate;
mod policies;
mod queue;
mod rng;
mod spike;
mod stats;
mod step;
mod window;
mod wording;

use std::time::Duration;

pub use self::backoff::Backoff;
pub use self::breaker::{Breaker, BreakerState, Permit, Recorded, Rejected};
pub use self::budget::{CommonBudget, RetryBudget, Withdrawal};
pub use self::class::{Class, Weight, classify, retryable};
pub use self::dependency::Dependency;
pub use self::event::{CallEffect, CallEnd, CallEvent, Report, Ticket};
pub use self::gate::Gate;
pub use self::policies::Policies;
pub use self::rng::Rng;
pub use self::stats::Stats;
pub use self::wording::overloaded;
pub(crate) use self::wording::plain;

/// A length in whole microseconds, the grain of [`Timestamp`](dauntless_contract::Timestamp).
fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}
