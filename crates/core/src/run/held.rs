//! The calls that may have happened, so that no identical one does their work a second time.
//!
//! A call with an effect whose end is unknown is a question, and the model that asks for the same
//! call again has not answered it. Such a call is not executed. The exception is a tool that takes
//! an idempotency key: it is called with the key of the first call, so it recognises the repetition.
//! What such a call came to may be known later: then a repetition is told that, or may run.

use std::collections::BTreeMap;
use std::sync::Arc;

use dauntless_contract::{CallKey, CallVerdict, Effect, EffectState, Failure, FailureCode};
use serde::{Deserialize, Serialize};

use super::slots::Running;
use crate::toolbox::{Digest, Fingerprint};

/// Repetitions that are held before the model counts as stuck; as for a call that failed twice.
const REFUSALS_MAX: u32 = 2;

/// Calls remembered; beyond it the one that ended first is forgotten.
const REMEMBERED_MAX: usize = 1024;

/// What a run remembers of calls that may have happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Held {
    /// By what they did.
    unsure: BTreeMap<Digest, Unsure>,
    /// One by one, until what they came to is known.
    #[serde(with = "super::snapshot::as_pairs")]
    unresolved: BTreeMap<CallKey, Unresolved>,
}

/// A call that was answered as one that may have happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Unresolved {
    /// The call as the model made it.
    pub(super) call: Fingerprint,
    /// The same as a fallback had it.
    elsewhere: Option<Digest>,
    /// The tool that worked on it.
    pub(super) by: Arc<str>,
}

/// What a call came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Truth {
    /// It happened; this is an excerpt of its result.
    Happened(Arc<str>),
    NotHappened,
}

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
    /// An excerpt of its result, once it is known that it happened.
    result: Option<Arc<str>>,
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
        let Some(unsure) = self.unsure.get_mut(&call.digest()) else { return Repetition::None };
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
        self.unsure.contains_key(&call.digest())
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
            let known = self.unsure.entry(call.digest()).and_modify(|unsure| unsure.keyed &= keyed);
            known.or_insert_with(|| Unsure {
                first: key,
                code: failure.code,
                hint: failure.hint.clone(),
                keyed,
                refusals: 0,
                refused_in: None,
                result: None,
            });
        }
        while self.unsure.len() > REMEMBERED_MAX {
            let oldest = self.unsure.iter().min_by_key(|(_, unsure)| unsure.first).map(|(digest, _)| *digest);
            self.unsure.retain(|digest, _| Some(*digest) != oldest);
        }
        let (elsewhere, by) = (elsewhere.map(Fingerprint::digest), Arc::clone(&running.by.name));
        self.unresolved.insert(key, Unresolved { call: call.clone(), elsewhere, by });
        if self.unresolved.len() > REMEMBERED_MAX {
            self.unresolved.pop_first();
        }
    }

    /// Notes that a child which failed may have done something.
    pub(super) fn child_failed(&mut self, key: CallKey, call: &Fingerprint, failure: &Failure) {
        if failure.effect == EffectState::Unknown && self.unsure.len() < REMEMBERED_MAX {
            self.unsure.entry(call.digest()).or_insert_with(|| Unsure {
                first: key,
                code: failure.code,
                hint: None,
                keyed: false,
                refusals: 0,
                refused_in: None,
                result: None,
            });
        }
    }

    /// Notes that a call worked: with the key of an earlier one, what became of that is known too.
    pub(super) fn succeeded(&mut self, call: &Fingerprint, running: &Running) {
        if running.repeats.is_some() {
            let digest = call.digest();
            self.unsure.remove(&digest);
            self.unresolved.retain(|_, unresolved| unresolved.call.digest() != digest);
        }
    }

    /// A call that was answered as one that may have happened, while nothing more is known of it.
    pub(super) fn unresolved(&self, key: CallKey) -> Option<&Unresolved> {
        self.unresolved.get(&key)
    }

    /// Takes what such a call came to: repetitions of it are told so, or may run.
    pub(super) fn resolve(&mut self, key: CallKey, truth: &Truth) {
        let Some(resolved) = self.unresolved.remove(&key) else { return };
        for digest in [Some(resolved.call.digest()), resolved.elsewhere].into_iter().flatten() {
            match (truth, self.unsure.get_mut(&digest)) {
                (_, None) => {}
                // One with a key asks the tool, which knows it by its key.
                (Truth::Happened(_), Some(unsure)) if unsure.keyed => {}
                (Truth::Happened(result), Some(unsure)) => {
                    unsure.result = Some(Arc::clone(result));
                    unsure.refusals = 0;
                    unsure.refused_in = None;
                }
                (Truth::NotHappened, Some(_)) => {
                    // Another call of the same, with the same key, may have happened all the same.
                    if !self.unresolved.values().any(|other| other.is(digest)) {
                        self.unsure.remove(&digest);
                    }
                }
            }
        }
    }
}

impl Unresolved {
    fn is(&self, digest: Digest) -> bool {
        self.call.digest() == digest || self.elsewhere == Some(digest)
    }
}

impl Unsure {
    fn answer(&self, tool: &str) -> Failure {
        if let Some(result) = &self.result {
            return Failure::repeated_failure(format!(
                "This call of `{tool}` was not executed: it is the same as the one in turn {}, whose outcome was \
                 unknown for a while. It is known now that it happened. Its result: {result}",
                self.first.turn
            ))
            .hint("Go on with that result. Doing it again would do it twice.")
            .effect(EffectState::Happened);
        }
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

/// Whether a call did, or may have done, what a repetition would do again.
pub(super) fn left_a_mark(effect: Effect, attempts: u32, verdict: &CallVerdict) -> bool {
    let happened = match verdict {
        CallVerdict::Succeeded(_) => true,
        CallVerdict::Failed(failure) => failure.effect != EffectState::None,
    };
    happened && attempts > 0 && !matches!(effect, Effect::ReadOnly | Effect::Idempotent)
}
