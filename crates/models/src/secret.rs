//! A text that must not be seen. It exists so that no `Debug`, log or failure can show a key.

use std::borrow::Cow;
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
    pub(crate) fn mask<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if !self.0.is_empty() && text.contains(&*self.0) {
            return Cow::Owned(text.replace(&*self.0, "***"));
        }
        Cow::Borrowed(text)
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
