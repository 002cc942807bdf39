//! Whether a text is what a plan waits for. Rules look at texts and never at meaning.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::excerpt::shortened;

/// What must hold for a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// It holds these words, whatever their case.
    Contains(String),
    /// It is these words, whatever their case and the white space around them.
    Equals(String),
    /// It is JSON, and what is at a JSON pointer is this.
    Field {
        /// The pointer, like `/verdict`; empty for the whole.
        at: String,
        /// The value.
        is: Value,
    },
    /// It is JSON, and the number at a JSON pointer is not below this.
    AtLeast {
        /// The pointer.
        at: String,
        /// The least number that is enough.
        least: f64,
    },
}

impl Rule {
    /// Whether it holds for a text.
    pub fn holds(&self, text: &str) -> bool {
        let at = |pointer: &str| {
            let value: Value = serde_json::from_str(text).ok()?;
            value.pointer(pointer).cloned()
        };
        match self {
            Self::Contains(words) => text.to_lowercase().contains(&words.to_lowercase()),
            Self::Equals(words) => text.trim().to_lowercase() == words.trim().to_lowercase(),
            Self::Field { at: pointer, is } => at(pointer).as_ref() == Some(is),
            Self::AtLeast { at: pointer, least } => {
                at(pointer).and_then(|value| value.as_f64()).is_some_and(|number| number >= *least)
            }
        }
    }

    /// Why it can hold for nothing or for everything, if so.
    pub(super) fn problem(&self) -> Option<String> {
        match self {
            Self::Contains(words) if words.trim().is_empty() => {
                Some("`contains` of nothing holds for every text: name the words".to_owned())
            }
            Self::Equals(words) if words.trim().is_empty() => {
                Some("`equals` of nothing holds for no answer: name the words".to_owned())
            }
            Self::Field { at, .. } | Self::AtLeast { at, .. } if !at.is_empty() && !at.starts_with('/') => {
                Some(format!(
                    "`{}` is no JSON pointer: begin it with `/`, like `/{}`",
                    shortened(at, 64),
                    shortened(at, 64)
                ))
            }
            Self::Contains(_) | Self::Equals(_) | Self::Field { .. } | Self::AtLeast { .. } => None,
        }
    }
}
