//! The circuit breaker: leaves a dependency that does not work alone, and tries it again by itself.
//!
//! ```text
//!            failures                   wait is over, next acquire
//! Closed ───────────────► Open ────────────────────────────────► HalfOpen
//!    ▲                     ▲          a probe fails or is lost      │
//!    │                     └────────────────────────────────────────┤
//!    └──────────────────────── enough probes succeed ───────────────┘
//! ```
//!
//! Every transition and every probe starts a generation. A result counts only in the generation
//! its permit was given in, so a straggler can neither close nor open anything. There is no timer:
//! all that time changes is computed when somebody asks. It refuses to know why a call failed;
//! that is the [`Weight`] of its class.

use std::time::Duration;

use dauntless_contract::{BreakerPolicy, Timestamp};

use super::window::Window;
use super::{Backoff, Rng, Weight};

/// The breaker of one dependency, shared by all its callers.
#[derive(Clone, Debug, PartialEq)]
pub struct Breaker {
    policy: BreakerPolicy,
    waits: Backoff,
    probe_ttl: Duration,
    seed: u64,
    generation: u64,
    /// Trips since it was last closed for long enough.
    trips: u32,
    stale_results: u64,
    /// Where it went, in order, since somebody last asked.
    changes: Vec<BreakerState>,
    phase: Phase,
}

#[derive(Clone, Debug, PartialEq)]
enum Phase {
    Closed { window: Window, failures_in_a_row: u32, since: Timestamp },
    Open { until: Timestamp, failures: u32 },
    HalfOpen { probe: Probe, successes: u32, failures: u32 },
    ForcedOpen,
    ForcedClosed,
}

#[derive(Clone, Debug, PartialEq)]
enum Probe {
    Free,
    /// One is out; at `lost_at` it counts as failed.
    Out {
        lost_at: Timestamp,
    },
}

/// The right to make one attempt. Bring it back with [`Breaker::record`].
///
/// One that is never brought back blocks nothing for longer than the probe's time to live.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "bring it back with `Breaker::record`"]
pub struct Permit {
    generation: u64,
}

/// Why an attempt was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// The dependency does not work.
    Open {
        /// When the next attempt is let through.
        retry_in: Duration,
        /// Failed calls that led to this.
        failures: u32,
    },
    /// One attempt is out to see whether the dependency works again.
    Probing {
        /// When the next attempt is let through at the latest.
        retry_in: Duration,
    },
    /// An operator switched it off.
    Forced,
}

/// What a result changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// The breaker stays as it is.
    Unchanged,
    /// It opened.
    Opened {
        /// When the next attempt is let through.
        retry_in: Duration,
    },
    /// It closed.
    Closed,
    /// The result is of an earlier generation and did not count.
    Stale,
}

/// Where a breaker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// Calls pass.
    Closed,
    /// Calls are refused.
    Open {
        /// Until then.
        until: Timestamp,
    },
    /// One call at a time may try whether the dependency works again.
    HalfOpen,
    /// Calls are refused until an operator says otherwise.
    ForcedOpen,
    /// Calls pass, whatever their results, until an operator says otherwise.
    ForcedClosed,
}

impl Breaker {
    /// A closed breaker. A probe that is out for longer than `probe_ttl` counts as failed.
    pub fn new(policy: &BreakerPolicy, probe_ttl: Duration, seed: u64) -> Self {
        Self {
            waits: Backoff::new(policy.open_for, 2.0, policy.open_cap),
            phase: Phase::closed(policy, Timestamp::ZERO),
            policy: policy.clone(),
            probe_ttl,
            seed,
            generation: 0,
            trips: 0,
            stale_results: 0,
            changes: Vec::new(),
        }
    }

    /// Asks for one attempt. A refusal changes nothing.
    ///
    /// # Errors
    /// [`Rejected`], with the time until the next attempt is let through.
    pub fn acquire(&mut self, now: Timestamp) -> Result<Permit, Rejected> {
        self.settle(now);
        let probe = Probe::Out { lost_at: now + self.probe_ttl };
        match self.phase {
            Phase::Closed { .. } | Phase::ForcedClosed => {}
            Phase::Open { until, failures } if now < until => {
                return Err(Rejected::Open { retry_in: until.since(now), failures });
            }
            Phase::Open { failures, .. } => {
                self.enter(Phase::HalfOpen { probe, successes: 0, failures }, BreakerState::HalfOpen);
            }
            Phase::HalfOpen { probe: Probe::Free, successes, failures } => {
                self.phase = Phase::HalfOpen { probe, successes, failures };
            }
            Phase::HalfOpen { probe: Probe::Out { lost_at }, .. } => {
                return Err(Rejected::Probing { retry_in: lost_at.since(now) });
            }
            Phase::ForcedOpen => return Err(Rejected::Forced),
        }
        Ok(Permit { generation: self.generation })
    }

    /// Takes the result of an attempt. Only a failure opens, only a success closes.
    pub fn record(&mut self, permit: Permit, weight: Weight, now: Timestamp) -> Recorded {
        if let Some(retry_in) = self.settle(now) {
            self.stale_results += 1;
            return Recorded::Opened { retry_in };
        }
        if permit.generation != self.generation {
            self.stale_results += 1;
            return Recorded::Stale;
        }
        match (&mut self.phase, weight) {
            (Phase::Closed { window, failures_in_a_row, .. }, Weight::Healthy) => {
                window.add_success(now);
                *failures_in_a_row = 0;
                Recorded::Unchanged
            }
            (Phase::Closed { window, failures_in_a_row, since }, Weight::Failure) => {
                window.add_failure(now);
                *failures_in_a_row = failures_in_a_row.saturating_add(1);
                let (calls, failures) = window.totals();
                let too_many = calls >= self.policy.min_calls
                    && f64::from(failures) >= self.policy.failure_ratio * f64::from(calls);
                if !too_many && *failures_in_a_row < self.policy.consecutive_failures {
                    return Recorded::Unchanged;
                }
                if now.since(*since) >= self.policy.decay {
                    self.trips = 0;
                }
                let failures = failures.max(*failures_in_a_row);
                Recorded::Opened { retry_in: self.open(now, failures).since(now) }
            }
            (Phase::HalfOpen { successes, failures, .. }, Weight::Healthy) => {
                let (successes, failures) = (*successes + 1, *failures);
                if successes < self.policy.close_after {
                    self.generation += 1;
                    self.phase = Phase::HalfOpen { probe: Probe::Free, successes, failures };
                    return Recorded::Unchanged;
                }
                self.enter(Phase::closed(&self.policy, now), BreakerState::Closed);
                Recorded::Closed
            }
            (Phase::HalfOpen { failures, .. }, Weight::Failure) => {
                let failures = failures.saturating_add(1);
                Recorded::Opened { retry_in: self.open(now, failures).since(now) }
            }
            (Phase::HalfOpen { probe, .. }, Weight::Neutral) => {
                *probe = Probe::Free;
                self.generation += 1;
                Recorded::Unchanged
            }
            (Phase::Closed { .. }, Weight::Neutral)
            | (Phase::Open { .. } | Phase::ForcedOpen | Phase::ForcedClosed, _) => Recorded::Unchanged,
        }
    }

    /// Does what time alone does: a probe that never came back counts as failed.
    ///
    /// Returns the time until the next attempt if that opened the breaker. [`acquire`](Self::acquire)
    /// and [`record`](Self::record) do the same; ask first to learn of it.
    pub fn settle(&mut self, now: Timestamp) -> Option<Duration> {
        match self.phase {
            Phase::HalfOpen { probe: Probe::Out { lost_at }, failures, .. } if lost_at <= now => {
                Some(self.open(lost_at, failures.saturating_add(1)).since(now))
            }
            Phase::Closed { .. }
            | Phase::Open { .. }
            | Phase::HalfOpen { .. }
            | Phase::ForcedOpen
            | Phase::ForcedClosed => None,
        }
    }

    /// Opens it until then, if it is closed: somebody else has found out that nothing works. One call
    /// tries again afterwards, as ever.
    pub fn stay_open(&mut self, until: Timestamp) {
        if let Phase::Closed { .. } = self.phase {
            self.enter(Phase::Open { until, failures: 0 }, BreakerState::Open { until });
        }
    }

    /// Where it stands at `now`, traffic or not.
    pub fn state(&self, now: Timestamp) -> BreakerState {
        let open_until =
            |until| if now < until { BreakerState::Open { until } } else { BreakerState::HalfOpen };
        match self.phase {
            Phase::Closed { .. } => BreakerState::Closed,
            Phase::Open { until, .. } => open_until(until),
            Phase::HalfOpen { probe: Probe::Out { lost_at }, .. } if lost_at <= now => {
                open_until(lost_at + self.next_wait())
            }
            Phase::HalfOpen { .. } => BreakerState::HalfOpen,
            Phase::ForcedOpen => BreakerState::ForcedOpen,
            Phase::ForcedClosed => BreakerState::ForcedClosed,
        }
    }

    /// Where it went since this was last asked, in order, each once. Whoever drives it asks after
    /// each step, so that the list stays short, and tells others when no lock is held any more.
    pub fn take_changes(&mut self) -> Vec<BreakerState> {
        std::mem::take(&mut self.changes)
    }

    /// Whether [`take_changes`](Self::take_changes) has anything to tell.
    pub const fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Calls and failed calls in the window at `now`; zero unless it is closed.
    pub fn window(&self, now: Timestamp) -> (u32, u32) {
        match &self.phase {
            Phase::Closed { window, .. } => window.totals_at(now),
            Phase::Open { .. } | Phase::HalfOpen { .. } | Phase::ForcedOpen | Phase::ForcedClosed => (0, 0),
        }
    }

    /// Results that came too late to count.
    pub const fn stale_results(&self) -> u64 {
        self.stale_results
    }

    /// Refuses every call from now on, whatever the results.
    pub fn force_open(&mut self) {
        self.enter(Phase::ForcedOpen, BreakerState::ForcedOpen);
    }

    /// Lets every call pass from now on, whatever the results.
    pub fn force_close(&mut self) {
        self.enter(Phase::ForcedClosed, BreakerState::ForcedClosed);
    }

    /// Closes it and forgets all results and trips; also ends a forced state.
    pub fn reset(&mut self, now: Timestamp) {
        self.trips = 0;
        self.enter(Phase::closed(&self.policy, now), BreakerState::Closed);
    }

    fn open(&mut self, at: Timestamp, failures: u32) -> Timestamp {
        let until = at + self.next_wait();
        self.trips = self.trips.saturating_add(1);
        self.enter(Phase::Open { until, failures }, BreakerState::Open { until });
        until
    }

    fn enter(&mut self, phase: Phase, state: BreakerState) {
        self.generation += 1;
        self.phase = phase;
        self.changes.push(state);
    }

    /// How long the next trip will last: the doubling bound ±20 %, never above the cap.
    fn next_wait(&self) -> Duration {
        let bound = self.waits.bound(self.trips.saturating_add(1));
        let fifth = bound / 5;
        let longest = bound.saturating_add(fifth).min(self.policy.open_cap);
        let shortest = bound.saturating_sub(fifth);
        // Drawn by generation, so that `state` can tell it in advance.
        let drawn = Rng::at(self.seed, self.generation).up_to(longest.saturating_sub(shortest));
        shortest.saturating_add(drawn)
    }
}

impl Phase {
    fn closed(policy: &BreakerPolicy, since: Timestamp) -> Self {
        Self::Closed { window: Window::new(policy.window), failures_in_a_row: 0, since }
    }
}

#[cfg(test)]
mod tests;
