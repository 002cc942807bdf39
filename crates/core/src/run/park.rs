//! Calls that wait for their tool to be back, when the run cannot do without it but can wait.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    CallKey, CallRecord, CallVerdict, Effect, EffectState, Failure, FailureCode, OnExhausted, Progress,
    StoppedBy, Timestamp,
};

use super::fallback::may_go_elsewhere;
use super::slots::{Running, Slots, Wait};
use super::withdrawn::is_exhausted;
use super::{Phase, RunEffect, RunMachine};
use crate::observation;

/// The wait where nobody knows when the tool is back.
const UNKNOWN_WAIT: Duration = Duration::from_secs(30);

/// A tool that says it is back at once may as well be asked a little later.
const WAIT_MIN: Duration = Duration::from_secs(1);

/// Over how long the calls that wait for one tool are spread when it is back.
const SPREAD_MAX: Duration = Duration::from_secs(10);

impl RunMachine {
    /// Parks a call whose tool is exhausted or down, if the tool is declared so, a repetition does
    /// no harm, and the call has not waited for too long. Answers whether it did.
    pub(super) fn park(
        &mut self,
        now: Timestamp,
        slots: &mut Slots,
        call: CallKey,
        record: &CallRecord,
        effects: &mut Vec<RunEffect>,
    ) -> bool {
        let CallVerdict::Failed(failure) = &record.verdict else { return false };
        let Some((_, running)) = slots.running_call(call, record.by.as_ref()) else { return false };
        if running.asked.on_exhausted != OnExhausted::Park
            || !is_exhausted(failure.code)
            || !may_be_repeated(failure, running)
        {
            return false;
        }
        let until = running.patience.unwrap_or(now + running.asked.max_park);
        if now >= until {
            return false;
        }
        let tool = Arc::clone(&running.asked.name);
        let wait = record.out_for.or(failure.retry_after).unwrap_or(UNKNOWN_WAIT).max(WAIT_MIN);
        let (at, spread) = ((now + wait).min(until), (wait / 4).min(SPREAD_MAX));
        self.totals.tool_attempts += record.attempts;
        slots.park(call, Wait { since: now, at, spread }, until, record);
        effects.push(RunEffect::Report(Progress::CallParked {
            call,
            tool: Arc::clone(&tool),
            code: failure.code,
            message: Arc::clone(&failure.message),
            wait: at.since(now) + spread,
        }));
        effects.push(RunEffect::Park { call, tool, at, spread });
        true
    }

    /// Asks the tool of a parked call again.
    pub(super) fn unpark(
        &self,
        now: Timestamp,
        mut slots: Slots,
        call: CallKey,
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        if let Some((tool, parked)) = slots.unpark(now, call) {
            effects.push(RunEffect::Report(Progress::CallUnparked { call, tool, parked }));
            effects.extend(self.dispatched(&slots, call));
        }
        Phase::Calling(slots)
    }

    /// Answers the calls that are parked: the run winds down and waits for no tool.
    pub(super) fn end_parked(slots: &mut Slots, effects: &mut Vec<RunEffect>) {
        while let Some((call, asked, running)) = slots.first_parked() {
            let (tool, attempts) = (Arc::clone(&asked.name), running.attempts);
            let failure = Failure::cancelled(format!(
                "`{tool}` was out of service, and the run ended while this call waited for it."
            ));
            effects.push(RunEffect::Report(Progress::CallEnded {
                call,
                call_id: Arc::clone(&asked.id),
                tool,
                code: Some(FailureCode::Cancelled),
                message: Some(Arc::clone(&failure.message)),
                attempts,
                waited: running.waited,
                stopped_by: Some(StoppedBy::Cancelled),
            }));
            slots.answer(call, observation::failure(&failure, attempts, Effect::ReadOnly), None);
        }
    }
}

/// Whether the tool may be asked once more. The key of the call is the same then, so it protects a
/// repetition by the tool itself, but not one after another tool has tried.
fn may_be_repeated(failure: &Failure, running: &Running) -> bool {
    may_go_elsewhere(failure, running)
        || failure.effect != EffectState::Happened
            && running.by.name == running.asked.name
            && running.by.effect == Effect::Keyed
}
