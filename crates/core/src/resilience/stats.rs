//! What is counted and remembered about a dependency, for people to look at. Nothing is decided by it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{Bucket, Counters, ErrorSpike, Failure, FailureCode, PastFailure, Timestamp};

use super::spike::SpikeWatch;

/// Failures that are remembered.
const FAILURES_MAX: usize = 20;

/// The counters, the latest failures and the present load of one dependency.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    counters: Counters,
    failures: VecDeque<PastFailure>,
    spike: SpikeWatch,
    running: usize,
    waiting: usize,
}

impl Stats {
    /// What was counted.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The latest failed attempts, oldest first.
    pub fn failures(&self) -> impl Iterator<Item = &PastFailure> {
        self.failures.iter()
    }

    /// That recoverable failures are more than they used to be.
    pub fn error_spike(&self) -> Option<ErrorSpike> {
        self.spike.current()
    }

    /// Attempts under way, and calls that wait.
    pub const fn load(&self) -> (usize, usize) {
        (self.running, self.waiting)
    }

    /// Notes the load; zero and zero when the actor that carried it is gone.
    pub const fn set_load(&mut self, running: usize, waiting: usize) {
        (self.running, self.waiting) = (running, waiting);
    }

    /// Counts a call that was asked for.
    pub const fn called(&mut self) {
        self.counters.calls += 1;
    }

    /// Counts a failure that a model was shown.
    pub fn observed(&mut self, code: FailureCode) {
        *self.counters.observed.entry(code).or_default() += 1;
    }

    pub(super) const fn started(&mut self, attempt: u32) {
        self.counters.attempts += 1;
        if attempt > 1 {
            self.counters.retries += 1;
        }
    }

    pub(super) fn succeeded(&mut self, took: Duration) {
        self.counters.succeeded += 1;
        self.counters.success_time = self.counters.success_time.saturating_add(took);
        self.spike.answered(false);
    }

    /// Counts a failed attempt. Gives the rise of recoverable failures, once, if this makes one.
    pub(super) fn failed(&mut self, at: Timestamp, failure: &Failure) -> Option<ErrorSpike> {
        *self.counters.failed_attempts.entry(failure.code).or_default() += 1;
        if self.failures.len() == FAILURES_MAX {
            self.failures.pop_front();
        }
        let message = Arc::clone(&failure.message);
        self.failures.push_back(PastFailure { at, code: failure.code, message });
        match failure.code.bucket() {
            Bucket::Recoverable => self.spike.answered(true),
            Bucket::Transient
            | Bucket::Terminal
            | Bucket::ModelMistake
            | Bucket::Defect
            | Bucket::Unknown
            | Bucket::Harness
            | Bucket::LoopGuard => None,
        }
    }

    pub(super) const fn stale(&mut self) {
        self.counters.stale += 1;
    }
}
