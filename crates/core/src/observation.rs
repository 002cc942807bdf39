//! What a model reads about one call: a value within its bound, or a failure as one JSON object.
//!
//! Whatever a tool gives back, the observation is never empty, never longer than its bound and
//! always whole characters. It does not redact: that comes before, since a cut secret has no shape.

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    Effect, EffectState, Failure, FailureCode, FieldProblem, Json, Observation, ToolOutput, ToolSpec,
};
use serde::Serialize;

use crate::context::ResultId;
use crate::excerpt::{head, shortened, tail};

/// Longest text of a failure, in bytes.
pub const FAILURE_BYTES_MAX: usize = 2048;

/// Room for the note in the middle of a cut text.
const NOTE_BYTES_MAX: usize = 160;

/// What is left of an observation that was shortened as far as it goes, in bytes.
pub(crate) const GLIMPSE_BYTES_MAX: usize = 320;

const DETAILS_MAX: usize = 20;
const CANDIDATES_MAX: usize = 20;
/// What came instead, per problem, once a failure has to be made shorter.
const GOT_BYTES_MAX: usize = 160;
/// Problems that are worth more than the schema.
const DETAILS_KEPT: usize = 3;
/// Message and hint are not cut below this.
const WORDS_BYTES_MIN: usize = 150;

const NOTHING_TO_SHOW: &str = "The call worked. It has nothing to show.";
const CHECK_FIRST: &str = "It may have happened. Check whether it did before you repeat the call.";

/// A success: the tool's text within [`ToolSpec::output_bytes_max`], head and tail kept.
///
/// A text of nothing, `null` or an empty list says that the call worked, so that it does not read
/// like a failure.
pub fn success(output: &ToolOutput, spec: &ToolSpec) -> Observation {
    success_kept(output, spec, None)
}

/// The same, with the name by which the model can read what is left out, if it was kept.
pub(crate) fn success_kept(output: &ToolOutput, spec: &ToolSpec, kept: Option<ResultId>) -> Observation {
    let text = match output.text.trim() {
        "" | "null" => NOTHING_TO_SHOW.into(),
        "[]" => "The call worked. The result is an empty list: []".into(),
        _ => within(&output.text, spec.output_bytes_max, kept),
    };
    Observation { text }
}

/// The text, or its head and tail around a note of how much is left out.
fn within(text: &Arc<str>, bytes_max: usize, kept: Option<ResultId>) -> Arc<str> {
    if text.len() <= bytes_max {
        return Arc::clone(text);
    }
    if bytes_max <= NOTE_BYTES_MAX {
        return shortened(text, bytes_max).into();
    }
    let room = bytes_max - NOTE_BYTES_MAX;
    let end = tail(text, room / 4);
    let start = head(text, room - room / 4);
    let left_out = text.len() - start.len() - end.len();
    let whole = text.len();
    let how = match kept {
        Some(id) => format!("call read_result with the id `{id}` and a range of bytes."),
        None => "call again for less at a time: a narrower query, a page or a range.".to_owned(),
    };
    format!("{start}\n[… {left_out} of {whole} bytes left out. To read them, {how} …]\n{end}").into()
}

/// A success of an earlier turn that has to be shorter now: its beginning, its end if there is room
/// for more than a glimpse, and where the rest is.
///
/// It invites nobody to call the tool again, which may have had an effect.
pub(crate) fn shortened_later(text: &Arc<str>, bytes_max: usize, kept: Option<ResultId>) -> Arc<str> {
    let room = bytes_max.saturating_sub(NOTE_BYTES_MAX);
    let end = if bytes_max > 2 * GLIMPSE_BYTES_MAX { tail(text, room / 4) } else { "" };
    let start = head(text, room - end.len());
    let (left_out, whole) = (text.len() - start.len() - end.len(), text.len());
    let how = match kept {
        Some(id) => format!(" To read them, call read_result with the id `{id}` and a range of bytes."),
        None => String::new(),
    };
    let gap = if end.is_empty() { "" } else { "\n" };
    format!("{start}\n[… {left_out} of {whole} bytes left out to save room.{how} …]{gap}{end}").into()
}

/// A failure as JSON: `error`, `message`, `hint`, `details`, `candidates`, `schema`,
/// `retry_after_s`, `attempts`, `effect`, in this order; what is absent is left out.
///
/// `attempts` are those that reached the tool; `effect` is what the tool declares: a read-only tool
/// has no effect, however its call ended. At most [`FAILURE_BYTES_MAX`] bytes: details are dropped
/// first, then the schema, then candidates; hint and message are cut last.
pub fn failure(failure: &Failure, attempts: u32, effect: Effect) -> Observation {
    let mut shown = Shown::of(failure, attempts, effect);
    let mut text = shown.written();
    while text.len() > FAILURE_BYTES_MAX && shown.shrink() {
        text = shown.written();
    }
    Observation { text: text.into() }
}

/// A failure of another agent with what it had so far, as the last key `so_far`: data like the rest,
/// its head and at most so much that the whole fits `bytes_max`.
pub fn failure_so_far(failure: &Failure, attempts: u32, so_far: &str, bytes_max: usize) -> Observation {
    let failed = self::failure(failure, attempts, Effect::Once).text;
    let (open, mut room) =
        (failed.strip_suffix('}').unwrap_or(&failed), bytes_max.saturating_sub(failed.len()));
    loop {
        let written = serde_json::Value::from(shortened(so_far, room)).to_string();
        let text = format!("{open},\"so_far\":{written}}}");
        if text.len() <= bytes_max || room == 0 {
            return Observation { text: text.into() };
        }
        // What has to be escaped takes more room than it has bytes.
        room /= 2;
    }
}

/// A failure as the model sees it; the fields are in the order of the text.
#[derive(Serialize)]
struct Shown {
    error: FailureCode,
    message: Arc<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<FieldProblem>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    candidates: Vec<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_s: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<NonZeroU32>,
    effect: EffectState,
}

impl Shown {
    fn of(failure: &Failure, attempts: u32, effect: Effect) -> Self {
        let state = match effect {
            Effect::ReadOnly => EffectState::None,
            Effect::Idempotent | Effect::Keyed | Effect::Verifiable | Effect::Once => failure.effect,
        };
        let problem = |problem: &FieldProblem| FieldProblem {
            path: bounded(&problem.path),
            expected: bounded(&problem.expected),
            got: bounded(&problem.got),
        };
        let unsure = state == EffectState::Unknown && !effect.repeatable();
        Self {
            error: failure.code,
            message: bounded(&failure.message),
            hint: failure.hint.as_ref().map(bounded).or_else(|| unsure.then(|| CHECK_FIRST.into())),
            details: failure.details.iter().take(DETAILS_MAX).map(problem).collect(),
            candidates: failure.candidates.iter().take(CANDIDATES_MAX).map(bounded).collect(),
            schema: failure.schema.clone().filter(|schema| schema.as_str().len() < FAILURE_BYTES_MAX),
            retry_after_s: failure.retry_after.map(whole_seconds),
            attempts: NonZeroU32::new(attempts),
            effect: state,
        }
    }

    /// Gives up a little of what can be spared most; false when nothing is left to give.
    fn shrink(&mut self) -> bool {
        let details = self.details.len();
        if let Some(long) = self.details.iter_mut().find(|problem| problem.got.len() > GOT_BYTES_MAX) {
            long.got = shortened(&long.got, GOT_BYTES_MAX).into();
        } else if details > DETAILS_KEPT || (details > 0 && self.schema.is_none()) {
            self.details.pop();
        } else if self.schema.take().is_some() || self.candidates.pop().is_some() {
        } else if let Some(hint) = self.hint.take_if(|hint| hint.len() > WORDS_BYTES_MIN) {
            self.hint = Some(shortened(&hint, hint.len() / 2).into());
        } else if self.message.len() > WORDS_BYTES_MIN {
            self.message = shortened(&self.message, self.message.len() / 2).into();
        } else {
            return false;
        }
        true
    }

    fn written(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A text that could fit at all; what is longer would only be cut in more steps.
fn bounded(text: &Arc<str>) -> Arc<str> {
    match shortened(text, FAILURE_BYTES_MAX) {
        Cow::Borrowed(_) => Arc::clone(text),
        Cow::Owned(short) => short.into(),
    }
}

fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests;
