//! Short pieces of long texts, cut between characters.
//!
//! Everything that is shown to a model or a person is bounded, and a bound in bytes may fall inside
//! a character. These functions are the only place that cuts, so no other code has to get it right.

use std::borrow::Cow;

/// The longest start of `text` that fits `bytes_max`.
pub(crate) fn head(text: &str, bytes_max: usize) -> &str {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// The longest end of `text` that fits `bytes_max`.
pub(crate) fn tail(text: &str, bytes_max: usize) -> &str {
    let mut start = text.len().saturating_sub(bytes_max);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text.get(start..).unwrap_or_default()
}

/// The text itself when it fits, else its start and an ellipsis; never longer than `bytes_max`.
pub(crate) fn shortened(text: &str, bytes_max: usize) -> Cow<'_, str> {
    if text.len() <= bytes_max {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}…", head(text, bytes_max.saturating_sub("…".len()))))
}

/// A piece of at most `bytes_max` around the byte `at`, with ellipses where something is left out.
pub(crate) fn around(text: &str, at: usize, bytes_max: usize) -> Cow<'_, str> {
    if text.len() <= bytes_max {
        return Cow::Borrowed(text);
    }
    let room = bytes_max.saturating_sub(2 * "…".len());
    let last_start = text.len() - room;
    let start = at.saturating_sub(room / 2).min(last_start);
    let piece = head(tail(text, text.len() - start), room);
    let before = if start == 0 { "" } else { "…" };
    let after = if start == last_start { "" } else { "…" };
    Cow::Owned(format!("{before}{piece}{after}"))
}

/// Names in backticks, joined by commas, at most `count_max` of them.
pub(crate) fn listed<'a>(names: impl IntoIterator<Item = &'a str>, count_max: usize) -> String {
    let mut text = String::new();
    for (index, name) in names.into_iter().enumerate() {
        if index == count_max {
            text.push_str(", …");
            break;
        }
        if index > 0 {
            text.push_str(", ");
        }
        text.push('`');
        text.push_str(&shortened(name, 64));
        text.push('`');
    }
    text
}

/// `1 item`, `2 items`.
pub(crate) fn counted(count: impl TryInto<u64>, what: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests;
