//! Who is asked instead: another tool for one that is exhausted or down, another model for one that failed.

use std::sync::Arc;

use dauntless_contract::{
    Bucket, CallKey, CallRecord, CallVerdict, Effect, EffectState, Failure, FailureCode, ModelSpec, RawCall,
};

use super::slots::{Elsewhere, Running, Slots};
use super::withdrawn::is_exhausted;
use super::{RunEffect, RunMachine};
use crate::toolbox::Admission;

/// A model that is asked when the one before it failed.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelFallback {
    /// The model.
    pub model: Arc<ModelSpec>,
    /// The kinds of failure of the one before it for which it is asked.
    pub on: Vec<Bucket>,
}

impl ModelFallback {
    /// Whether this failure of the model before it is one it can do something about.
    pub(super) fn helps(&self, failure: &Failure) -> bool {
        let unwanted = matches!(failure.code, FailureCode::Cancelled | FailureCode::DeniedByOperator);
        !unwanted && self.on.contains(&failure.code.bucket())
    }
}

impl RunMachine {
    /// Gives a call whose tool is exhausted or down to that tool's fallback, if it names one, the
    /// arguments fit it, and nothing can be done twice by it. Answers whether it did.
    pub(super) fn fall_back(
        &mut self,
        slots: &mut Slots,
        key: CallKey,
        record: &CallRecord,
        effects: &mut Vec<RunEffect>,
    ) -> bool {
        let CallVerdict::Failed(failure) = &record.verdict else { return false };
        let Some((slot, running)) = slots.running_call(key, record.by.as_ref()) else { return false };
        let Some(name) = &running.by.fallback else { return false };
        if !is_exhausted(failure.code) || !may_go_elsewhere(failure, running) {
            return false;
        }
        let raw = RawCall {
            id: Arc::clone(&slot.call.id),
            name: Arc::clone(name),
            arguments: slot.call.arguments.as_str().into(),
            garbled: None,
        };
        let Admission::Run { call, spec, fingerprint, repairs: _ } = self.spec.toolbox.admit(&raw, None)
        else {
            return false;
        };
        if self.held.knows(&fingerprint) {
            return false;
        }
        self.totals.tool_attempts += record.attempts;
        slots.hand_over(key, (spec, Elsewhere { fingerprint, arguments: call.arguments }), record);
        effects.extend(self.dispatched(slots, key));
        true
    }
}

/// Whether another tool may do what this one may have done already, now or in the call that this one
/// repeats. A key does not help: the other tool does not know it.
pub(super) fn may_go_elsewhere(failure: &Failure, running: &Running) -> bool {
    let untouched = failure.effect == EffectState::None && running.repeats.is_none();
    untouched || matches!(running.by.effect, Effect::ReadOnly | Effect::Idempotent)
}
