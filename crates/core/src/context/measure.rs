//! How many tokens a message is. Counted where the model's vocabulary is known, else estimated.
//!
//! An estimate errs on the large side: what is thought too large costs a trim, what is thought too
//! small costs a refused request. What the provider reports afterwards corrects both.

use dauntless_contract::{Message, TokenCounter};

/// What a message costs besides its texts: its role, and the marks around it.
const MESSAGE_TOKENS: u64 = 4;
/// What a call costs besides its name and arguments: its id, and the marks around it.
const CALL_TOKENS: u64 = 12;

/// Sevenths of a token for a character by its length in UTF-8. Plain text is some 4 bytes a token,
/// JSON and code less, so 3.5 are reckoned; other alphabets take about half a token a letter,
/// Chinese and its neighbours up to one and more, rare signs several.
const SEVENTHS: [u64; 4] = [2, 4, 9, 16];

pub(super) fn message(message: &Message, counter: Option<&TokenCounter>) -> u64 {
    let count = |text: &str| tokens(text, counter);
    MESSAGE_TOKENS
        + match message {
            Message::System { text } | Message::User { text } => count(text),
            Message::Assistant { text, calls, extra } => {
                let extra = extra.as_ref().map_or(0, |extra| count(extra.as_str()));
                let calls = calls.iter();
                let calls =
                    calls.map(|call| CALL_TOKENS + count(&call.name) + count(call.arguments.as_str()));
                text.as_ref().map_or(0, |text| count(text)) + extra + calls.sum::<u64>()
            }
            Message::Tool { text, .. } => count(text),
        }
}

fn tokens(text: &str, counter: Option<&TokenCounter>) -> u64 {
    counter.map_or_else(|| estimate(text), |counter| counter.count(text))
}

/// The tokens of a text for a model whose vocabulary is not known.
pub(crate) fn estimate(text: &str) -> u64 {
    let sevenths: u64 = text.chars().filter_map(|c| SEVENTHS.get(c.len_utf8() - 1)).sum();
    sevenths.div_ceil(7)
}
