//! Counts of the last minute or so, in buckets, so that old results stop counting.

use std::time::Duration;

use dauntless_contract::Timestamp;

use super::micros;

const BUCKETS: usize = 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bucket {
    calls: u32,
    failures: u32,
}

/// Calls and failures of a sliding window, forgotten a tenth of the window at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Window {
    bucket_us: u64,
    /// The newest bucket first.
    buckets: [Bucket; BUCKETS],
    /// The number of the newest bucket since the epoch.
    newest: u64,
}

impl Window {
    pub(super) fn new(length: Duration) -> Self {
        let bucket_us = (micros(length) / BUCKETS as u64).max(1);
        Self { bucket_us, buckets: [Bucket::default(); BUCKETS], newest: 0 }
    }

    pub(super) fn add_success(&mut self, now: Timestamp) {
        let bucket = self.bucket(now);
        bucket.calls = bucket.calls.saturating_add(1);
    }

    pub(super) fn add_failure(&mut self, now: Timestamp) {
        let bucket = self.bucket(now);
        bucket.calls = bucket.calls.saturating_add(1);
        bucket.failures = bucket.failures.saturating_add(1);
    }

    /// Calls and failures, as of the last addition.
    pub(super) fn totals(&self) -> (u32, u32) {
        self.buckets.iter().fold((0, 0), |(calls, failures), bucket| {
            (u32::saturating_add(calls, bucket.calls), u32::saturating_add(failures, bucket.failures))
        })
    }

    /// Calls and failures as of `now`.
    pub(super) fn totals_at(&self, now: Timestamp) -> (u32, u32) {
        let mut then = self.clone();
        then.bucket(now);
        then.totals()
    }

    fn bucket(&mut self, now: Timestamp) -> &mut Bucket {
        let number = now.as_micros() / self.bucket_us;
        let passed = usize::try_from(number.saturating_sub(self.newest)).unwrap_or(BUCKETS).min(BUCKETS);
        self.buckets.rotate_right(passed % BUCKETS);
        self.buckets.iter_mut().take(passed).for_each(|bucket| *bucket = Bucket::default());
        self.newest = self.newest.max(number);
        let [first, ..] = &mut self.buckets;
        first
    }
}

#[cfg(test)]
mod tests;
