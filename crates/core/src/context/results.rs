//! Texts of results that the model was not shown whole, kept so that it can read them.
//!
//! Bounded in number and bytes; the one kept first goes first. Nothing here outlives the run.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use dauntless_contract::{CallKey, Failure};
use serde::{Deserialize, Serialize};

use crate::excerpt::{head, listed, tail};

/// Most results that a run keeps.
pub(super) const KEPT_MAX: usize = 256;
/// Most bytes of them together.
pub(super) const KEPT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Most bytes that one reading gives.
pub(super) const READ_BYTES_MAX: usize = 16 * 1024;
/// Ids that a failure names.
const NAMED_MAX: usize = 12;

/// The name of a kept result: `r`, the turn, and the place of the call in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResultId(CallKey);

impl ResultId {
    /// The name of what this call gave.
    pub(crate) const fn of(call: CallKey) -> Self {
        Self(call)
    }
}

impl fmt::Display for ResultId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}-{}", self.0.turn, self.0.index)
    }
}

/// What is kept, in the order in which it was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Results {
    kept: VecDeque<(CallKey, Arc<str>)>,
    bytes: usize,
    dropped: u64,
}

impl Results {
    /// Keeps a text whole. False, and nothing changes, where it is larger than all room there is.
    pub(super) fn keep(&mut self, call: CallKey, text: &Arc<str>) -> bool {
        if text.len() > KEPT_BYTES_MAX {
            return false;
        }
        if self.get(call).is_some() {
            return true;
        }
        self.bytes += text.len();
        self.kept.push_back((call, Arc::clone(text)));
        while self.kept.len() > KEPT_MAX || self.bytes > KEPT_BYTES_MAX {
            let Some((_, oldest)) = self.kept.pop_front() else { break };
            self.bytes -= oldest.len();
            self.dropped += 1;
        }
        true
    }

    pub(super) fn get(&self, call: CallKey) -> Option<&Arc<str>> {
        // The newest are asked for most.
        self.kept.iter().rev().find(|(key, _)| *key == call).map(|(_, text)| text)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The bytes from `from` up to `to`, at most [`READ_BYTES_MAX`]; each end moves back to the
    /// start of the character that it falls into.
    ///
    /// # Errors
    /// `not_found` with the ids that exist; `invalid_arguments` for a range with nothing in it.
    pub(super) fn read(&self, id: &str, from: usize, to: Option<usize>) -> Result<Arc<str>, Failure> {
        let named = self.kept.iter().rev().find(|(key, _)| ResultId::of(*key).to_string() == id);
        let Some((_, text)) = named else { return Err(self.unknown(id)) };
        let (whole, to) = (text.len(), to.unwrap_or(usize::MAX).min(text.len()));
        if from >= to {
            return Err(Failure::invalid_arguments(format!(
                "There is nothing in the bytes {from} to {to} of `{id}`, which has {whole} bytes."
            ))
            .hint(format!("Give a `from` below {whole}, and a `to` above `from` or none.")));
        }
        let start = head(text, from).len();
        // One character at least, though more than was asked for, so that reading gets on.
        let first = tail(text, whole - start).chars().next().map_or(0, char::len_utf8);
        let end = head(text, to.min(start + READ_BYTES_MAX)).len().max(start + first);
        let shown = text.get(start..end).unwrap_or_default();
        let more = match whole - end {
            0 => "This is the end of it.".to_owned(),
            _ => format!("To go on, read from {end}."),
        };
        Ok(format!("[Bytes {start} to {end} of {whole} of `{id}`. {more}]\n{shown}").into())
    }

    fn unknown(&self, id: &str) -> Failure {
        let shown = head(id, 64);
        let failure = Failure::not_found(format!("No result `{shown}` is kept."));
        let ids: Vec<String> =
            self.kept.iter().rev().map(|(key, _)| ResultId::of(*key).to_string()).collect();
        let gone = match self.dropped {
            0 => String::new(),
            n => format!(" Older ones that were dropped to make room: {n}."),
        };
        failure.hint(format!(
            "Kept, the newest first: {}.{gone}",
            listed(ids.iter().map(String::as_str), NAMED_MAX)
        ))
    }
}
