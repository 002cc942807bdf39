//! The clock of a running system.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dauntless_contract::{Clock, Timestamp};
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// Anchored to the wall clock once, then monotonic: a step of the wall clock changes nothing.
///
/// Follows tokio's clock, so a test that pauses and advances tokio moves this one too.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    anchor: Instant,
    epoch: Timestamp,
}

impl SystemClock {
    /// Anchors a clock to the present.
    pub fn new() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self { anchor: Instant::now(), epoch: Timestamp::ZERO + wall }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        self.epoch + self.anchor.elapsed()
    }
}

/// Sleeps until `at` by `clock`; returns at once when that is past.
pub(crate) async fn sleep_until(clock: &dyn Clock, at: Timestamp) {
    tokio::time::sleep(at.since(clock.now())).await;
}

/// A sleeping task that is stopped when it is no longer wanted.
pub(crate) struct Timer(pub(crate) AbortHandle);

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}
