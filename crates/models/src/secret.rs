//! A text that must not be seen. It exists so that no `Debug`, log or failure can show a key.

use std::fmt;
use std::sync::Arc;

/// An API key. `Debug` shows that there is one, never what it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Takes the key.
    pub fn new(key: impl Into<Arc<str>>) -> Self {
        Self(key.into())
    }

    /// The key itself, for the header it belongs in.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The text with every occurrence of the key blotted out.
    ///
    /// A key too short to be one is left alone, or common words would go with it.
    pub(crate) fn mask(&self, text: String) -> String {
        let is_key = self.0.len() >= 8;
        if is_key && text.contains(&*self.0) { text.replace(&*self.0, "***") } else { text }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl From<String> for Secret {
    fn from(key: String) -> Self {
        Self::new(key)
    }
}

impl From<&str> for Secret {
    fn from(key: &str) -> Self {
        Self::new(key)
    }
}
