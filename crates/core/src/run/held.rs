//! The calls that may have happened, so that no identical one does their work a second time.
//!
//! A call with an effect whose end is unknown is a question, and the model that asks for the same
//! call again has not answered it. Such a call is not executed. The exception is a tool that takes
//! an idempotency key: it is called with the key of the first call, so it recognises the repetition.

use std::collections::BTreeMap;
use std::sync::Arc;

use dauntless_contract::{CallKey, Effect, EffectState, Failure, FailureCode};
use serde::{Deserialize, Serialize};

use super::slots::Running;
use crate::toolbox::{Digest, Fingerprint};

/// Repetitions that are held before the model counts as stuck; as for a call that failed twice.
const REFUSALS_MAX: u32 = 2;

/// Calls remembered; beyond it the one that ended first is forgotten.
const REMEMBERED_MAX: usize = 1024;

/// What a run remembers of calls that may have happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Held(BTreeMap<Digest, Unsure>);

/// A call that may have happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Unsure {
    first: CallKey,
    code: FailureCode,
    /// How to find out, in the words of the tool.
    hint: Option<Arc<str>>,
    /// Whether the tool itself tells a repetition from a further call.
    keyed: bool,
    refusals: u32,
    refused_in: Option<u32>,
}

/// What becomes of a call, seen from the calls before it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Repetition {
    /// It repeats nothing that is unknown.
    None,
    /// It runs with the idempotency key of this call, which it repeats.
    Of(CallKey),
    /// It is not executed; this is its answer.
    Held(Failure),
    /// It was held before, and the model goes on regardless.
    Stuck {
        /// Its answer.
        failure: Failure,
        /// How often the model asked for it.
        times: u32,
    },
}

impl Held {
    /// Looks at a call that could run. A turn counts once, however often the call is in it.
    pub(super) fn check(&mut self, turn: u32, call: &Fingerprint) -> Repetition {
        let Some(unsure) = self.0.get_mut(&call.digest()) else { return Repetition::None };
        if unsure.keyed {
            return Repetition::Of(unsure.first);
        }
        if unsure.refused_in != Some(turn) {
            unsure.refused_in = Some(turn);
            unsure.refusals += 1;
        }
        let failure = unsure.answer(call.tool());
        match unsure.refusals {
            refusals if refusals > REFUSALS_MAX => Repetition::Stuck { failure, times: refusals + 1 },
            _ => Repetition::Held(failure),
        }
    }

    /// Whether this call repeats one that may have happened.
    pub(super) fn knows(&self, call: &Fingerprint) -> bool {
        self.0.contains_key(&call.digest())
    }

    /// Notes how a call failed, for the tool that was asked for and for the one that worked on it.
    pub(super) fn failed(&mut self, key: CallKey, call: &Fingerprint, running: &Running, failure: &Failure) {
        let harmless = matches!(running.by.effect, Effect::ReadOnly | Effect::Idempotent);
        if harmless || failure.effect != EffectState::Unknown {
            return;
        }
        // A fallback's key says nothing to the tool it stands in for, nor to itself when asked directly.
        let keyed = running.by.effect == Effect::Keyed && running.elsewhere.is_none();
        let elsewhere = running.elsewhere.as_ref().map(|elsewhere| &elsewhere.fingerprint);
        for call in [call].into_iter().chain(elsewhere) {
            let known = self.0.entry(call.digest()).and_modify(|unsure| unsure.keyed &= keyed);
            known.or_insert_with(|| Unsure {
                first: key,
                code: failure.code,
                hint: failure.hint.clone(),
                keyed,
                refusals: 0,
                refused_in: None,
            });
        }
        while self.0.len() > REMEMBERED_MAX {
            let oldest = self.0.iter().min_by_key(|(_, unsure)| unsure.first).map(|(digest, _)| *digest);
            self.0.retain(|digest, _| Some(*digest) != oldest);
        }
    }

    /// Notes that a call worked: with the key of an earlier one, what became of that is known too.
    pub(super) fn succeeded(&mut self, call: &Fingerprint, running: &Running) {
        if running.repeats.is_some() {
            self.0.remove(&call.digest());
        }
    }
}

impl Unsure {
    fn answer(&self, tool: &str) -> Failure {
        let hint = self.hint.as_deref().unwrap_or("Find out with another tool whether it happened.");
        Failure::repeated_failure(format!(
            "This call of `{tool}` was not executed: the same call ended with {} in turn {}, and it may have \
             happened. Doing it again could do it twice.",
            self.code, self.first.turn
        ))
        .hint(format!("{hint} If you cannot find out, say in your answer that its outcome is unknown."))
        .effect(EffectState::Unknown)
    }
}
