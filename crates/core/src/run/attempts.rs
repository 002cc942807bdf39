//! The attempts of a call that are known before its end, so that a crash forgets neither how many
//! there were nor how they failed.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{CallKey, CallRecord, CallVerdict, Failure, StoppedBy};

use super::slots::Running;
use super::{Phase, RunMachine};

/// What the tool that works on a call has tried so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tried {
    /// Attempts before its process came to its end, the lost ones too.
    made: u32,
    /// Attempts since then that failed and were followed by another.
    failed: u32,
    /// The waits after those.
    waited: Duration,
    /// How the latest of all of them failed.
    last: Option<Failure>,
}

impl Tried {
    /// Attempts of the tool before the one to be made next.
    pub(super) const fn made(&self) -> u32 {
        self.made
    }

    /// Attempts since the call was last sent to the tool, one under way too, and their waits.
    pub(super) const fn under_way(&self) -> (u32, Duration) {
        (self.failed + 1, self.waited)
    }

    /// Takes a failed attempt. One that is known already changes nothing.
    fn failed(&mut self, attempt: u32, failure: Failure, wait: Duration) {
        if attempt == self.made + self.failed + 1 {
            self.failed += 1;
            self.waited += wait;
            self.last = Some(failure);
        }
    }

    /// The process came to its end: all attempts since the last time are made, one of them is lost.
    pub(super) fn lose(&mut self) -> (u32, Duration) {
        let (attempts, waited) = self.under_way();
        self.made += attempts;
        (self.failed, self.waited) = (0, Duration::ZERO);
        (attempts, waited)
    }
}

impl RunMachine {
    /// Takes a failed attempt of a running call that is followed by another.
    pub(super) fn attempt_failed(
        mut phase: Phase,
        (call, by): (CallKey, Option<&Arc<str>>),
        attempt: u32,
        failure: Failure,
        wait: Duration,
    ) -> Phase {
        if let Phase::Calling(slots) | Phase::Settling { slots, .. } = &mut phase
            && slots.running_call(call, by).is_some()
            && let Some(running) = slots.running_mut(call)
        {
            running.tried.failed(attempt, failure, wait);
        }
        phase
    }
}

/// The end of a call for which no attempt is left after its process came to its end: its last failure,
/// if it had one. A call that only ever was lost gets another attempt, since that says nothing about it.
pub(super) fn exhausted(running: &Running) -> Option<CallRecord> {
    let last = running.tried.last.as_ref()?;
    let is_exhausted = running.tried.made >= running.by.resilience.retry.max_attempts;
    is_exhausted.then(|| CallRecord {
        verdict: CallVerdict::Failed(last.clone()),
        attempts: 0,
        waited: Duration::ZERO,
        stopped_by: Some(StoppedBy::MaxAttempts),
        out_for: None,
        by: Some(Arc::clone(&running.by.name)),
    })
}
