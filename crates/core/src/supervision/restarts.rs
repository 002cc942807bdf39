//! How often a crashed actor may be started again, and when it is given up.
//!
//! Failures count when they happen, whatever the waits between restarts, so a slow restart cannot
//! hide a crash loop. Which actor it is, and how it is started, is the shell's part.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::Timestamp;

use crate::resilience::{Backoff, Rng};

/// Health counts as lasting after this, or after the period if that is longer.
const HEALTHY_MIN: Duration = Duration::from_secs(60);

/// A bound that doubles does not grow any more after so many waits.
const GROWING_MAX: u32 = 64;

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
    window: Window<Arc<str>>,
    pace: Pace,
    schedule: Schedule,
}

impl Restarts {
    /// An actor that has not failed. `seed` is for jitter.
    ///
    /// # Errors
    /// [`UnreachableLimit`] when the waits alone can last as long as the period.
    pub fn new(policy: RestartPolicy, seed: u64) -> Result<Self, UnreachableLimit> {
        let schedule = Schedule::new(&policy, seed)?;
        Ok(Self { window: Window::new(&policy), pace: Pace::default(), schedule })
    }

    /// Counts a failure, of the actor or of an attempt to start it.
    #[must_use = "the actor is down until the verdict is carried out"]
    pub fn on_failure(&mut self, now: Timestamp, cause: impl Into<Arc<str>>) -> Verdict {
        match self.window.count(now, cause.into()) {
            Ok(()) => Verdict::Restart { after: self.pace.next_wait(now, &mut self.schedule) },
            Err(Excess { count, latest }) => {
                self.pace.healthy_since = None;
                let history = latest.into_iter().map(|(at, cause)| Incident { at, cause }).collect();
                Verdict::GiveUp { count, history }
            }
        }
    }

    /// Notes a sign of health: the actor completed a call, or was idle and answered a ping.
    ///
    /// Not having crashed yet is no such sign.
    pub fn on_healthy(&mut self, now: Timestamp) {
        self.pace.on_healthy(now);
    }
}

/// How long to wait before the restarts of one actor; shared by the actors of one policy.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Schedule {
    backoff: Backoff,
    rng: Rng,
    /// So long it has to be healthy for the next restart to be the first again.
    lasting: Duration,
}

impl Schedule {
    pub(super) fn new(policy: &RestartPolicy, seed: u64) -> Result<Self, UnreachableLimit> {
        let RestartPolicy { intensity, period, backoff_base, backoff_cap } = *policy;
        let backoff = Backoff::new(backoff_base, 2.0, backoff_cap);
        let (waited, mut waits) = (intensity.saturating_sub(1), Duration::ZERO);
        for n in 1..=waited.min(GROWING_MAX) {
            waits = waits.saturating_add(backoff.bound(n));
            if waits >= period {
                break;
            }
        }
        if waits < period {
            let level = backoff.bound(u32::MAX).saturating_mul(waited.saturating_sub(GROWING_MAX));
            waits = waits.saturating_add(level);
        }
        if waits >= period {
            return Err(UnreachableLimit { intensity, waits, period });
        }
        Ok(Self { backoff, rng: Rng::new(seed), lasting: period.max(HEALTHY_MIN) })
    }
}

/// Where one actor stands in the schedule.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pace {
    /// Restarts since it was last healthy for long enough.
    in_a_row: u32,
    healthy_since: Option<Timestamp>,
}

impl Pace {
    /// The wait before the restart that is due now; zero for the first after a healthy time.
    pub(super) fn next_wait(&mut self, now: Timestamp, schedule: &mut Schedule) -> Duration {
        if self.healthy_since.take().is_some_and(|since| now.since(since) >= schedule.lasting) {
            self.in_a_row = 0;
        }
        let wait = match self.in_a_row {
            0 => Duration::ZERO,
            n => schedule.backoff.wait(n, &mut schedule.rng),
        };
        self.in_a_row = self.in_a_row.saturating_add(1);
        wait
    }

    pub(super) fn on_healthy(&mut self, now: Timestamp) {
        self.healthy_since.get_or_insert(now);
    }
}

/// The failures that still count, oldest first; at most one more than the intensity.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Window<T> {
    intensity: u32,
    period: Duration,
    recent: VecDeque<(Timestamp, T)>,
}

/// One failure too many.
pub(super) struct Excess<T> {
    pub(super) count: u32,
    /// At most 20, oldest first.
    pub(super) latest: Vec<(Timestamp, T)>,
}

impl<T> Window<T> {
    pub(super) fn new(policy: &RestartPolicy) -> Self {
        Self { intensity: policy.intensity, period: policy.period, recent: VecDeque::new() }
    }

    pub(super) fn count(&mut self, now: Timestamp, failure: T) -> Result<(), Excess<T>> {
        self.recent.retain(|(at, _)| now.since(*at) <= self.period);
        self.recent.push_back((now, failure));
        let count = u32::try_from(self.recent.len()).unwrap_or(u32::MAX);
        if count <= self.intensity {
            return Ok(());
        }
        let surplus = self.recent.len().saturating_sub(HISTORY_MAX);
        Err(Excess { count, latest: self.recent.drain(..).skip(surplus).collect() })
    }
}

#[cfg(test)]
mod tests;
