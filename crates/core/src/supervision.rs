//! How often a crashed actor may be started again, and when it is given up.
//!
//! OTP's restart intensity: so many restarts in a period are granted, the next failure in it is one
//! too many. Failures count when they happen, whatever the waits between restarts, so a slow
//! restart cannot hide a crash loop. Which actor it is, and how it is started, is the shell's part.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::Timestamp;

use crate::resilience::{Backoff, Rng};

/// Health counts as lasting after this, or after the period if that is longer.
const HEALTHY_MIN: Duration = Duration::from_secs(60);

/// Failures a report lists at most.
const HISTORY_MAX: usize = 20;

/// How many restarts are granted, and how fast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestartPolicy {
    /// Restarts granted within a period. Default 5.
    pub intensity: u32,
    /// How long a failure counts, its end included. Default 60 s.
    pub period: Duration,
    /// Upper bound of the wait before the second restart in a row; doubles. Default 100 ms.
    pub backoff_base: Duration,
    /// The bound stops growing here. Default 30 s.
    pub backoff_cap: Duration,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            intensity: 5,
            period: Duration::from_secs(60),
            backoff_base: Duration::from_millis(100),
            backoff_cap: Duration::from_secs(30),
        }
    }
}

/// A restart policy under which a crash loop would never be given up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{intensity} restarts can wait {waits:?} or more in all, which is not less than the period of {period:?}, \
     so a crash loop would never be noticed: use a longer period, fewer restarts or a lower backoff cap"
)]
pub struct UnreachableLimit {
    /// The restarts granted.
    pub intensity: u32,
    /// What the waits before them can add up to; counted no further than the period.
    pub waits: Duration,
    /// The period they would have to fit in.
    pub period: Duration,
}

/// One failure of the supervised actor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// When.
    pub at: Timestamp,
    /// Why, for the operator.
    pub cause: Arc<str>,
}

/// What to do about a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Start it again.
    Restart {
        /// After this time; zero for the first restart after a healthy time.
        after: Duration,
    },
    /// Stop, and tell the level above.
    GiveUp {
        /// Failures within the period, the last included.
        count: u32,
        /// The latest of them, at most 20, oldest first.
        history: Vec<Incident>,
    },
}

/// The failures of one supervised actor.
#[derive(Clone, Debug, PartialEq)]
pub struct Restarts {
    policy: RestartPolicy,
    backoff: Backoff,
    rng: Rng,
    /// The failures that still count, oldest first; at most one more than the intensity.
    incidents: VecDeque<Incident>,
    /// Restarts since it was last healthy for long enough.
    in_a_row: u32,
    healthy_since: Option<Timestamp>,
}

impl Restarts {
    /// An actor that has not failed. `seed` is for jitter.
    ///
    /// # Errors
    /// [`UnreachableLimit`] when the waits alone can last as long as the period.
    pub fn new(policy: RestartPolicy, seed: u64) -> Result<Self, UnreachableLimit> {
        let backoff = Backoff::new(policy.backoff_base, 2.0, policy.backoff_cap);
        let mut waits = Duration::ZERO;
        for n in 1..policy.intensity {
            waits = waits.saturating_add(backoff.bound(n));
            if waits >= policy.period {
                break;
            }
        }
        if waits >= policy.period {
            let RestartPolicy { intensity, period, .. } = policy;
            return Err(UnreachableLimit { intensity, waits, period });
        }
        Ok(Self {
            policy,
            backoff,
            rng: Rng::new(seed),
            incidents: VecDeque::new(),
            in_a_row: 0,
            healthy_since: None,
        })
    }

    /// Counts a failure, of the actor or of an attempt to start it.
    #[must_use = "the actor is down until the verdict is carried out"]
    pub fn on_failure(&mut self, now: Timestamp, cause: impl Into<Arc<str>>) -> Verdict {
        self.incidents.retain(|incident| now.since(incident.at) <= self.policy.period);
        self.incidents.push_back(Incident { at: now, cause: cause.into() });
        let count = u32::try_from(self.incidents.len()).unwrap_or(u32::MAX);
        let healthy_since = self.healthy_since.take();
        if count > self.policy.intensity {
            let surplus = self.incidents.len().saturating_sub(HISTORY_MAX);
            let history = self.incidents.drain(..).skip(surplus).collect();
            return Verdict::GiveUp { count, history };
        }
        let lasting = self.policy.period.max(HEALTHY_MIN);
        if healthy_since.is_some_and(|since| now.since(since) >= lasting) {
            self.in_a_row = 0;
        }
        let after = match self.in_a_row {
            0 => Duration::ZERO,
            n => self.backoff.wait(n, &mut self.rng),
        };
        self.in_a_row = self.in_a_row.saturating_add(1);
        Verdict::Restart { after }
    }

    /// Notes a sign of health: the actor completed a call, or was idle and answered a ping.
    ///
    /// Not having crashed yet is no such sign.
    pub fn on_healthy(&mut self, now: Timestamp) {
        self.healthy_since.get_or_insert(now);
    }
}

#[cfg(test)]
mod tests;
