//! The calls of one turn: each gets exactly one observation, in order, whatever happens to it.

use std::sync::Arc;

use dauntless_contract::{
    CallKey, CallRecord, CallVerdict, Effect, Failure, FailureCode, Finish, ModelReply, OnExhausted,
    PanicPolicy, Progress, RawCall, RunTimer, StopReason, StoppedBy, Timestamp, ToolCall, ToolSpec,
};

use super::held::{Repetition, left_a_mark};
use super::nudge::Dud;
use super::preview::{SHOWN_BYTES_MAX, preview};
use super::slots::{Cut, Running, SlotState, Slots, Terminal};
use super::withdrawn::{is_exhausted, is_outage};
use super::{CancelReach, Phase, RunEffect, RunMachine, SETTLE_MAX};
use crate::excerpt::{counted, shortened};
use crate::loop_guard::{self, GuardVerdict, TurnVerdict, UnknownTools};
use crate::observation;
use crate::toolbox::{Admission, Fingerprint, OutputLimit};

impl RunMachine {
    /// Answers what must not run and dispatches the rest.
    pub(super) fn take_calls(
        &mut self,
        now: Timestamp,
        mut slots: Slots,
        reply: ModelReply,
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        let last = reply.calls.len().saturating_sub(1);
        let mut stuck = None;
        for (index, raw) in reply.calls.iter().enumerate() {
            let cut = (reply.finish == Finish::Length && index == last)
                .then_some(OutputLimit { tokens: reply.output_limit });
            if let Some(reason) = self.take_call(now, raw, cut, &mut slots, effects) {
                stuck.get_or_insert(reason);
            }
        }
        if stuck.is_none() {
            self.start_children(now, &mut slots, effects);
        }
        match stuck {
            Some(reason) => self.stop_calls(now, slots, reason, None, effects),
            None if slots.all_answered() => self.finish_round(now, slots, effects),
            None => Phase::Calling(slots),
        }
    }

    /// One call: run it, or answer it at once. Answers the reason to stop when the model is stuck.
    fn take_call(
        &mut self,
        now: Timestamp,
        raw: &RawCall,
        cut: Option<OutputLimit>,
        slots: &mut Slots,
        effects: &mut Vec<RunEffect>,
    ) -> Option<StopReason> {
        let (call, fingerprint, repairs, verdict) =
            match self.context.gate(&raw.name, &self.spec.toolbox).admit(raw, cut) {
                Admission::Run { call, spec, fingerprint, repairs } => (call, fingerprint, repairs, Ok(spec)),
                Admission::Answered { call, failure, fingerprint } => {
                    (call, fingerprint, Vec::new(), Err(failure))
                }
            };
        self.totals.tool_calls = self.totals.tool_calls.saturating_add(1);
        let exists = !matches!(&verdict, Err(failure) if failure.code == FailureCode::UnknownTool);
        self.guard.named(&fingerprint, exists);
        let tool = Arc::clone(&call.name);
        let shown = preview(raw, &self.spec.redactor);
        let asked = Progress::CallAsked {
            call: slots.next_key(),
            call_id: Arc::clone(&call.id),
            tool: Arc::clone(&tool),
            arguments: shown,
        };
        effects.push(RunEffect::Report(asked));
        if !repairs.is_empty() {
            let repairs = repairs.iter().map(|repair| repair.to_string().into()).collect();
            effects.push(RunEffect::Report(Progress::CallRepaired { call: slots.next_key(), repairs }));
        }
        let (refusal, stuck) = match self.judge(&fingerprint, verdict) {
            Judged::Run { spec, repeats } => {
                match self.answer_itself(&call, &fingerprint, &spec, slots, effects) {
                    Some(Ok(())) => return None,
                    Some(Err(failure)) => (failure, None),
                    None => {
                        let running = Running::new(spec, repeats);
                        self.dispatch(now, call, fingerprint, running, slots, effects);
                        return None;
                    }
                }
            }
            Judged::Refused(failure) => (failure, None),
            Judged::Stuck { failure, times } => {
                let fingerprint = self.shown(&fingerprint);
                (failure, Some(StopReason::Stuck { tool, fingerprint, times }))
            }
        };
        self.guard.failed(&fingerprint, refusal.code);
        self.refuse(call, fingerprint, &refusal, slots, effects);
        stuck
    }

    /// Whether a call may run, as the calls before it and the limits have it.
    fn judge(&mut self, fingerprint: &Fingerprint, verdict: Result<Arc<ToolSpec>, Failure>) -> Judged {
        let spec = match (self.guard.check(fingerprint), verdict) {
            (GuardVerdict::Stuck { times }, _) => {
                let code = FailureCode::RepeatedFailure;
                let failure = loop_guard::repeated_failure(fingerprint, times, code);
                return Judged::Stuck { failure, times };
            }
            (GuardVerdict::Repeated { failures, code }, _) => {
                return Judged::Refused(loop_guard::repeated_failure(fingerprint, failures, code));
            }
            (GuardVerdict::Run, Err(failure)) => return Judged::Refused(failure),
            (GuardVerdict::Run, Ok(spec)) => spec,
        };
        if self.totals.tool_calls > self.limits.tool_calls {
            return Judged::Refused(over_call_limit(self.limits.tool_calls));
        }
        match self.held.check(self.turn, fingerprint) {
            Repetition::None => Judged::Run { spec, repeats: None },
            Repetition::Of(first) => Judged::Run { spec, repeats: Some(first) },
            Repetition::Held(failure) => Judged::Refused(failure),
            Repetition::Stuck { failure, times } => Judged::Stuck { failure, times },
        }
    }

    /// Answers a call that was never executed.
    fn refuse(
        &mut self,
        call: ToolCall,
        fingerprint: Fingerprint,
        failure: &Failure,
        slots: &mut Slots,
        effects: &mut Vec<RunEffect>,
    ) {
        self.totals.failed_calls += 1;
        let (call_id, tool) = (Arc::clone(&call.id), Arc::clone(&call.name));
        let cut = match failure.code {
            FailureCode::TruncatedCall => Cut::Truncated,
            _ => Cut::Whole,
        };
        let failure = self.spec.redactor.failure(failure.clone());
        let observation = observation::failure(&failure, 0, Effect::Once);
        let state = SlotState::Answered { observation, cut, terminal: None };
        let call = slots.push(call, fingerprint, state);
        effects.push(RunEffect::Report(Progress::CallEnded {
            call,
            call_id,
            tool,
            code: Some(failure.code),
            message: Some(failure.message),
            attempts: 0,
            waited: std::time::Duration::ZERO,
            stopped_by: Some(StoppedBy::Permanent),
        }));
    }

    pub(super) fn call_ended(
        &mut self,
        now: Timestamp,
        mut slots: Slots,
        call: CallKey,
        record: CallRecord,
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        self.end_call(now, &mut slots, call, record, effects);
        self.go_on(now, slots, effects)
    }

    /// A call has come to its end at its tool: another tool may take it, or it waits for this one.
    pub(super) fn end_call(
        &mut self,
        now: Timestamp,
        slots: &mut Slots,
        call: CallKey,
        record: CallRecord,
        effects: &mut Vec<RunEffect>,
    ) {
        let record = slots.with_what_was_lost(call, record);
        if !self.fall_back(slots, call, &record, effects) && !self.park(now, slots, call, &record, effects) {
            self.take_end(now, slots, call, record, effects);
        }
    }

    /// Some calls may have ended: goes on with what that leads to.
    pub(super) fn go_on(&mut self, now: Timestamp, mut slots: Slots, effects: &mut Vec<RunEffect>) -> Phase {
        if slots.first_terminal().is_none() {
            self.start_children(now, &mut slots, effects);
        }
        match slots.first_terminal().cloned() {
            Some(Terminal { reason, explanation }) => {
                self.stop_calls(now, slots, reason, Some(explanation), effects)
            }
            None if slots.all_answered() => self.finish_round(now, slots, effects),
            None => Phase::Calling(slots),
        }
    }

    pub(super) fn call_settled(
        &mut self,
        now: Timestamp,
        mut slots: Slots,
        reason: StopReason,
        explanation: Option<Arc<str>>,
        (call, record): (CallKey, CallRecord),
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        let record = slots.with_what_was_lost(call, record);
        self.take_end(now, &mut slots, call, record, effects);
        self.settled(now, slots, reason, explanation, effects)
    }

    /// Some calls of a run that winds down may have ended: it ends when all have.
    pub(super) fn settled(
        &mut self,
        now: Timestamp,
        slots: Slots,
        reason: StopReason,
        explanation: Option<Arc<str>>,
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        if !slots.all_answered() {
            return Phase::Settling { slots, reason, explanation };
        }
        // Several calls of one batch may be terminal; the first in call order gives the reason.
        let (reason, explanation) = match (reason, slots.first_terminal()) {
            (
                StopReason::ToolTerminal { .. }
                | StopReason::ToolExhausted { .. }
                | StopReason::ChildFailed { .. },
                Some(first),
            ) => (first.reason.clone(), Some(Arc::clone(&first.explanation))),
            (reason, _) => (reason, explanation),
        };
        self.close(now, slots, reason, explanation, effects)
    }

    /// Stops a batch for a reason of the run's own: what may be repeated is cancelled, what has
    /// an effect is awaited so that its outcome is known.
    fn stop_calls(
        &mut self,
        now: Timestamp,
        mut slots: Slots,
        reason: StopReason,
        explanation: Option<Arc<str>>,
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        self.drop_questions(now, &mut slots, effects);
        let mut patience = SETTLE_MAX;
        for (call, spec) in slots.running_with_spec() {
            let reach = match spec.effect {
                Effect::ReadOnly | Effect::Idempotent => CancelReach::Running,
                Effect::Keyed | Effect::Verifiable | Effect::Once => {
                    patience = patience.max(spec.resilience.attempt_timeout + SETTLE_MAX);
                    CancelReach::Waiting
                }
            };
            effects.push(RunEffect::CancelCall { call, reach });
        }
        self.settle(now, slots, reason, explanation, patience, effects)
    }

    /// Waits so long for the calls that were told to stop, then ends.
    pub(super) fn settle(
        &mut self,
        now: Timestamp,
        mut slots: Slots,
        reason: StopReason,
        explanation: Option<Arc<str>>,
        patience: std::time::Duration,
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        Self::end_parked(&mut slots, effects);
        let patience = patience.max(self.stop_children(&mut slots, effects));
        if slots.all_answered() {
            return self.close(now, slots, reason, explanation, effects);
        }
        effects.push(RunEffect::StartTimer { timer: RunTimer::Settle, at: now + patience });
        Phase::Settling { slots, reason, explanation }
    }

    /// Ends the run; a call that never answered enters the history as unknown.
    pub(super) fn close(
        &mut self,
        now: Timestamp,
        slots: Slots,
        reason: StopReason,
        explanation: Option<Arc<str>>,
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        let unsure = |spec: &ToolSpec| !matches!(spec.effect, Effect::ReadOnly | Effect::Idempotent);
        let lost = slots.running_with_spec().filter(|(_, spec)| unsure(spec)).count();
        self.totals.effects += u32::try_from(lost).unwrap_or(u32::MAX);
        self.forfeit_children(&slots);
        let history = Arc::make_mut(&mut self.history);
        history.round(slots.into_round());
        let text = history.last_assistant_text().cloned();
        self.end(now, reason, explanation, text, effects)
    }

    /// Every call is answered: the round enters the history and the model is asked again.
    fn finish_round(&mut self, now: Timestamp, slots: Slots, effects: &mut Vec<RunEffect>) -> Phase {
        let cut = slots.any_cut();
        let verdict = self.guard.turn_finished();
        Arc::make_mut(&mut self.history).round(slots.into_round());
        if cut {
            if let Some(reason) = self.unproductive.count(Dud::Cut) {
                let text = self.history.last_assistant_text().cloned();
                return self.end(now, reason, None, text, effects);
            }
        } else {
            self.unproductive.clear();
        }
        match verdict {
            TurnVerdict::GoOn => {}
            TurnVerdict::Nudge { fingerprint, times } => {
                self.nudge(loop_guard::repetition_nudge(&self.shown(&fingerprint), times), effects);
            }
            TurnVerdict::Stuck { fingerprint, times } => {
                let reason = StopReason::Stuck {
                    tool: Arc::clone(fingerprint.tool()),
                    fingerprint: self.shown(&fingerprint),
                    times,
                };
                let text = self.history.last_assistant_text().cloned();
                return self.end(now, reason, None, text, effects);
            }
            TurnVerdict::NudgeUnknown(unknown) => self.nudge(unknown.nudge(), effects),
            TurnVerdict::StuckUnknown(unknown) => {
                return self.end_without_tools(now, &unknown, effects);
            }
        }
        self.next_turn(now, effects)
    }

    /// Ends a run whose model calls nothing but tools that do not exist.
    fn end_without_tools(
        &mut self,
        now: Timestamp,
        unknown: &UnknownTools,
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        let (times, names) = (unknown.replies(), unknown.listed());
        let explanation = format!("The last {times} replies called only tools that do not exist: {names}.");
        let fingerprint = format!("{names} (no such tool)").into();
        let reason = StopReason::Stuck { tool: unknown.latest(), fingerprint, times };
        let text = self.history.last_assistant_text().cloned();
        self.end(now, reason, Some(explanation.into()), text, effects)
    }

    /// A call as a report names it: in at most 200 bytes, and without secrets.
    pub(super) fn shown(&self, call: &Fingerprint) -> Arc<str> {
        shortened(&self.spec.redactor.text(call.display()), SHOWN_BYTES_MAX).into()
    }

    /// Takes the end of a call, and gives the call its observation.
    pub(super) fn take_end(
        &mut self,
        now: Timestamp,
        slots: &mut Slots,
        key: CallKey,
        record: CallRecord,
        effects: &mut Vec<RunEffect>,
    ) {
        let CallRecord { verdict, attempts, waited, stopped_by, out_for, by } = record;
        let Some((slot, running)) = slots.running_call(key, by.as_ref()) else { return };
        self.totals.tool_attempts += attempts;
        let Running { asked, by, .. } = running;
        let (attempts, waited) = (running.attempts + attempts, running.waited + waited);
        if left_a_mark(by.effect, attempts, &verdict) {
            self.totals.effects += 1;
        }
        let (observation, failure, terminal) = match verdict {
            CallVerdict::Succeeded(output) => {
                self.guard.succeeded(&slot.fingerprint, &output, asked.polling);
                self.held.succeeded(&slot.fingerprint, running);
                (self.observe(key, &output, by), None, None)
            }
            CallVerdict::Failed(failure) => {
                self.guard.failed(&slot.fingerprint, failure.code);
                self.held.failed(key, &slot.fingerprint, running, &failure);
                self.totals.failed_calls += 1;
                let failure = match out_for {
                    Some(out_for) if is_withdrawn(asked, failure.code) => {
                        self.withdrawn.take_out(now, &asked.name, out_for, failure)
                    }
                    _ => failure,
                };
                let ending = Ending { call: &slot.call, asked, by, attempts, waited };
                let terminal = ending.terminal(&failure, self.spec.agent.on_panic);
                (observation::failure(&failure, attempts, by.effect), Some(failure), terminal)
            }
        };
        let (code, message) = failure.map(|failure| (failure.code, failure.message)).unzip();
        effects.push(RunEffect::Report(Progress::CallEnded {
            call: key,
            call_id: Arc::clone(&slot.call.id),
            tool: Arc::clone(&slot.call.name),
            code,
            message,
            attempts,
            waited,
            stopped_by,
        }));
        slots.answer(key, observation, terminal);
    }
}

/// What becomes of one call before it is executed.
enum Judged {
    Run { spec: Arc<ToolSpec>, repeats: Option<CallKey> },
    Refused(Failure),
    Stuck { failure: Failure, times: u32 },
}

/// Whether a tool that is out of service is taken off the model's list. One with a fallback stays:
/// calls to it can still be answered.
fn is_withdrawn(spec: &ToolSpec, code: FailureCode) -> bool {
    spec.on_exhausted == OnExhausted::Observe && spec.fallback.is_none() && is_outage(code)
}

/// A failed call, as its run looks at it.
struct Ending<'a> {
    call: &'a ToolCall,
    asked: &'a ToolSpec,
    by: &'a ToolSpec,
    attempts: u32,
    waited: std::time::Duration,
}

impl Ending<'_> {
    /// Whether this failure ends the run, and with which reason.
    fn terminal(&self, failure: &Failure, on_panic: PanicPolicy) -> Option<Terminal> {
        use dauntless_contract::Bucket;
        let reason = match (failure.code.bucket(), failure.code) {
            (Bucket::Terminal, _) => self.ended_by_tool(failure.code),
            (_, code) if is_exhausted(code) => match self.asked.on_exhausted {
                OnExhausted::EndRun | OnExhausted::Park => self.exhausted(failure.code),
                OnExhausted::Observe => return None,
            },
            (Bucket::Defect, _) => match on_panic {
                PanicPolicy::EndRun => self.ended_by_tool(failure.code),
                PanicPolicy::Observe => return None,
            },
            (
                Bucket::Recoverable
                | Bucket::Transient
                | Bucket::ModelMistake
                | Bucket::Unknown
                | Bucket::Harness
                | Bucket::LoopGuard,
                _,
            ) => return None,
        };
        Some(Terminal { reason, explanation: Arc::clone(&failure.message) })
    }

    fn ended_by_tool(&self, code: FailureCode) -> StopReason {
        StopReason::ToolTerminal {
            tool: Arc::clone(&self.by.name),
            call_id: Arc::clone(&self.call.id),
            code,
            attempts: self.attempts,
        }
    }

    fn exhausted(&self, code: FailureCode) -> StopReason {
        StopReason::ToolExhausted {
            tool: Arc::clone(&self.by.name),
            call_id: Arc::clone(&self.call.id),
            code,
            attempts: self.attempts,
            waited: self.waited,
        }
    }
}

fn over_call_limit(limit: u32) -> Failure {
    Failure::cancelled(format!(
        "This call was not executed: it would go beyond the run's limit of {}.",
        counted(limit, "tool call")
    ))
    .hint("Give the best answer you can from what you know.")
}
