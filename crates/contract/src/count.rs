//! How a model counts tokens: one small trait, so that decisions can count without a vocabulary.

use std::fmt;
use std::sync::Arc;

/// Counts the tokens of texts with one vocabulary. Equal texts have equal counts.
pub trait CountTokens: fmt::Debug + Send + Sync {
    /// The vocabulary's name, like `o200k_base`.
    fn vocabulary(&self) -> &str;

    /// The tokens of a text, which is data: words that look like special tokens are plain words.
    fn count(&self, text: &str) -> u64;
}

/// A counter that is shared. Two are equal when they count with the same vocabulary.
#[derive(Clone)]
pub struct TokenCounter(Arc<dyn CountTokens>);

impl TokenCounter {
    /// Shares a counter.
    pub fn new(counter: impl CountTokens + 'static) -> Self {
        Self(Arc::new(counter))
    }

    /// The vocabulary's name.
    pub fn vocabulary(&self) -> &str {
        self.0.vocabulary()
    }

    /// The tokens of a text.
    pub fn count(&self, text: &str) -> u64 {
        self.0.count(text)
    }
}

impl PartialEq for TokenCounter {
    fn eq(&self, other: &Self) -> bool {
        self.vocabulary() == other.vocabulary()
    }
}

impl fmt::Debug for TokenCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TokenCounter").field(&self.vocabulary()).finish()
    }
}
