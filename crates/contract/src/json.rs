//! JSON as text that is known to be valid.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// Valid JSON text, cheap to clone.
///
/// Kept as text so that every digit of a number survives from the wire to the tool and back.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Arc<str>);

/// The text was not JSON.
#[derive(Debug, thiserror::Error)]
#[error("not valid JSON: {0}")]
pub struct NotJson(#[from] serde_json::Error);

impl Json {
    /// Checks that `text` is one JSON value and keeps it as it is.
    ///
    /// # Errors
    /// [`NotJson`] with the position, when it is not.
    pub fn parse(text: &str) -> Result<Self, NotJson> {
        let raw: &RawValue = serde_json::from_str(text)?;
        Ok(Self(raw.get().into()))
    }

    /// Writes `value` as JSON.
    ///
    /// # Errors
    /// [`NotJson`] when the type cannot be written (a map with keys that are not strings).
    pub fn from_serialize<T: Serialize + ?Sized>(value: &T) -> Result<Self, NotJson> {
        Ok(Self(serde_json::to_string(value)?.into()))
    }

    /// `{}`.
    pub fn empty_object() -> Self {
        Self("{}".into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads the text into a type.
    ///
    /// # Errors
    /// [`NotJson`] with the position, when the value does not fit the type.
    pub fn to<T: DeserializeOwned>(&self) -> Result<T, NotJson> {
        Ok(serde_json::from_str(&self.0)?)
    }

    /// The value as a tree. Integers beyond 64 bits lose digits here; the text keeps them.
    pub fn to_value(&self) -> serde_json::Value {
        serde_json::from_str(&self.0).unwrap_or(serde_json::Value::Null)
    }
}

impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        Self(value.to_string().into())
    }
}

impl From<&serde_json::Value> for Json {
    fn from(value: &serde_json::Value) -> Self {
        Self(value.to_string().into())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(raw.get().into()))
    }
}
