//! The clock of a running system.

use std::sync::Arc;
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

/// The clock of one run: the process's, moved so that a run whose events come from another machine,
/// or that waited for a worker, goes on from the time it has.
#[derive(Clone)]
pub(crate) struct RunClock {
    process: Arc<dyn Clock>,
    /// One moment, by the run and by the process.
    inside: Timestamp,
    outside: Timestamp,
}

impl RunClock {
    /// The process's own time.
    pub(crate) fn same(process: Arc<dyn Clock>) -> Self {
        Self { process, inside: Timestamp::ZERO, outside: Timestamp::ZERO }
    }

    /// A run for which it is `inside` now.
    pub(crate) fn from(process: Arc<dyn Clock>, inside: Timestamp) -> Self {
        let outside = process.now();
        Self { process, inside, outside }
    }

    /// A time of the run, as the process says it.
    pub(crate) fn outside(&self, at: Timestamp) -> Timestamp {
        self.outside + at.since(self.inside)
    }
}

impl Clock for RunClock {
    fn now(&self) -> Timestamp {
        self.inside + self.process.now().since(self.outside)
    }
}
