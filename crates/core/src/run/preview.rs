//! A call as a watcher is shown it.

use std::sync::Arc;

use dauntless_contract::RawCall;

use crate::excerpt::head;
use crate::redact::Redactor;

pub(super) const SHOWN_BYTES_MAX: usize = 200;
/// The most of a call's arguments that is cleaned of secrets to be shown.
const CLEANED_BYTES_MAX: usize = 4096;
const PREVIEW_CHARS: usize = 160;

/// The arguments as a watcher sees them: bounded, on one line.
///
/// They are cleaned before they are cut, since half a secret has no shape.
pub(super) fn preview(raw: &RawCall, redactor: &Redactor) -> Arc<str> {
    let start = head(&raw.arguments, CLEANED_BYTES_MAX);
    let clean = redactor.text(start);
    let mut text: String = clean.chars().take(PREVIEW_CHARS).collect();
    if text.len() < clean.len() || start.len() < raw.arguments.len() {
        text.push('…');
    }
    text.into()
}
