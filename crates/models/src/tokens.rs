//! What is known of models by their names: how they count tokens, and how many they take.
//!
//! The tables and vocabularies are those of one public library, compiled in, so nothing is fetched.
//! A name that is not in them is answered with none: an estimate is for those who decide by it.

use dauntless_contract::{TokenCounter, Tokens};

/// How a model of this name counts tokens, if that is known.
///
/// The vocabulary is loaded at the first count and then kept; that takes a few tenths of a second.
/// Without the feature `tokens` no model is known.
pub fn known_counter(model: &str) -> Option<TokenCounter> {
    #[cfg(feature = "tokens")]
    return vocabulary::of_model(model).map(TokenCounter::new);
    #[cfg(not(feature = "tokens"))]
    return {
        let _ = model;
        None
    };
}

/// The context window of a model of this name, if that is known. A server may grant less.
pub fn known_window(model: &str) -> Option<Tokens> {
    #[cfg(feature = "tokens")]
    return vocabulary::window(model);
    #[cfg(not(feature = "tokens"))]
    return {
        let _ = model;
        None
    };
}

#[cfg(feature = "tokens")]
mod vocabulary;

#[cfg(all(test, feature = "tokens"))]
mod tests;
