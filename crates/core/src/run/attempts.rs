//! The attempts of a call that are known before its end, so that a crash forgets neither how many
//! there were nor how they failed.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{CallKey, CallRecord, CallVerdict, Failure, StoppedBy};
use serde::{Deserialize, Serialize};

use super::slots::{Running, Slots, Stage};
use super::{Phase, RunMachine};

/// What the tool that works on a call has tried so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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

    /// Attempts since the call was last sent to the tool, one under way too.
    pub(super) const fn under_way(&self) -> u32 {
        self.failed + 1
    }

    /// Takes a failed attempt. One that is known already changes nothing.
    fn failed(&mut self, attempt: u32, failure: Failure, wait: Duration) {
        if attempt == self.made + self.failed + 1 {
            self.failed += 1;
            self.waited += wait;
            self.last = Some(failure);
        }
    }

    /// The process came to its end: the attempts since the call was last sent, with so many that are
    /// lost, are of the past. Answers how many they are and their waits.
    fn put_down(&mut self, lost: u32) -> (u32, Duration) {
        let attempts = std::mem::take(&mut self.failed) + lost;
        self.made += attempts;
        (attempts, std::mem::take(&mut self.waited))
    }
}

impl Running {
    /// Whether the tool has made no attempt since the call was last sent to it, as far as is known.
    pub(super) fn is_untouched(&self) -> bool {
        self.stage == Stage::Working && self.tried.failed == 0
    }

    fn put_down(&mut self, lost: u32) -> u32 {
        let (attempts, waited) = self.tried.put_down(lost);
        self.attempts += attempts;
        self.waited += waited;
        attempts
    }
}

impl Slots {
    /// Notes that the process of a running call came to its end with an attempt of it, or a question
    /// about it, under way. Answers the attempts to count: those that the end of the call would have
    /// counted, and the one that was lost.
    pub(super) fn interrupt(&mut self, key: CallKey) -> u32 {
        let Some(running) = self.running_mut(key) else { return 0 };
        running.interruptions += 1;
        match std::mem::replace(&mut running.stage, Stage::Working) {
            Stage::Working => running.put_down(1),
            Stage::Verifying => 0,
        }
    }

    /// The same where nothing of it was under way.
    pub(super) fn put_down(&mut self, key: CallKey) -> u32 {
        self.running_mut(key).map_or(0, |running| running.put_down(0))
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
