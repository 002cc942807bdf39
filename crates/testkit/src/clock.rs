//! A clock that stands still until a test moves it.
//!
//! It gives the time and nothing else: timers belong to tokio, whose own clock a test can pause.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dauntless_contract::{Clock, Timestamp};

#[cfg(test)]
mod tests;

/// A clock moved by hand. Clones show the same time.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use dauntless_contract::{Clock, Timestamp};
/// use dauntless_testkit::ManualClock;
///
/// let clock = ManualClock::default();
/// clock.advance(Duration::from_secs(7));
/// assert_eq!(clock.now(), Timestamp::ZERO + Duration::from_secs(7));
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    now_us: Arc<AtomicU64>,
}

impl ManualClock {
    /// A clock that shows `now`; the default shows [`Timestamp::ZERO`].
    pub fn at(now: Timestamp) -> Self {
        Self { now_us: Arc::new(AtomicU64::new(now.as_micros())) }
    }

    /// Moves it forward. Stops at [`Timestamp::MAX`].
    pub fn advance(&self, length: Duration) {
        let later = |now| Some((Timestamp::from_micros(now) + length).as_micros());
        // The closure always gives a value, so the update cannot fail.
        let _ = self.now_us.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later);
    }

    /// Moves it to `now`. An earlier point changes nothing: a clock never steps back.
    pub fn set(&self, now: Timestamp) {
        self.now_us.fetch_max(now.as_micros(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now_us.load(Ordering::SeqCst))
    }
}
