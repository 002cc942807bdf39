//! Values with a unit, as the file writes them: `"5s"`, `"32KiB"`, a URL, the name of a variable.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The units of a length of time, longest first, in milliseconds.
const LENGTHS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
/// The units of a size, longest first, in bytes.
const SIZES: [(&str, usize); 2] = [("MiB", 1 << 20), ("KiB", 1 << 10)];

/// A length of time above zero.
///
/// Zero is refused everywhere: a wait, a timeout or a window of no length never means what its
/// author hoped for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Length(pub(super) Duration);

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let length = length(text).filter(|length| !length.is_zero()).map(Self);
        length.ok_or_else(|| format!("{text:?} is not a length of time like \"5s\""))
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0.as_millis();
        let fits = |(_, scale): &&(&str, u64)| ms.is_multiple_of(u128::from(*scale));
        match LENGTHS.iter().find(fits) {
            Some((unit, scale)) => write!(f, "{}{unit}", ms / u128::from(*scale)),
            None => write!(f, "{ms}ms"),
        }
    }
}

impl From<Duration> for Length {
    fn from(length: Duration) -> Self {
        Self(length)
    }
}

impl Serialize for Length {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Length {
    fn schema_name() -> Cow<'static, str> {
        "Length".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "title": "a length of time like \"5s\"",
            "patternErrorMessage": "write a whole number above zero, at most 7 digits, and ms, s, m, h or d",
            "type": "string",
            "pattern": "^0*[1-9][0-9]{0,6}(ms|s|m|h|d)$",
        })
    }
}

/// A length of time that may be none at all, where only its end matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wait(pub(super) Duration);

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.is_zero() {
            true => f.write_str("0ms"),
            false => Length(self.0).fmt(f),
        }
    }
}

impl Serialize for Wait {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Wait {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        let wait = length(&text).map(Self);
        wait.ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not a length of time like \"0ms\"")))
    }
}

impl JsonSchema for Wait {
    fn schema_name() -> Cow<'static, str> {
        "Wait".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "title": "a length of time like \"500ms\", or \"0ms\"",
            "patternErrorMessage": "write a whole number, at most 7 digits, and ms, s, m, h or d",
            "type": "string",
            "pattern": "^0*[0-9]{1,7}(ms|s|m|h|d)$",
        })
    }
}

/// The length that a whole number and its unit stand for.
fn length(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.get(digits.len()..)?;
    let (_, scale) = LENGTHS.iter().find(|(name, _)| *name == unit)?;
    digits.parse::<u64>().ok()?.checked_mul(*scale).map(Duration::from_millis)
}

/// A size in bytes, above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size(pub(super) usize);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match SIZES.iter().find(|(_, scale)| self.0.is_multiple_of(*scale)) {
            Some((unit, scale)) => write!(f, "{}{unit}", self.0 / scale),
            None => write!(f, "{}", self.0),
        }
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Bytes(usize),
            Text(String),
        }
        let text = match Written::deserialize(deserializer)? {
            Written::Bytes(bytes) => return Ok(Self(bytes)),
            Written::Text(text) => text,
        };
        let size = SIZES.iter().find_map(|(unit, scale)| {
            let count: usize = text.strip_suffix(unit)?.parse().ok()?;
            count.checked_mul(*scale)
        });
        size.map(Self)
            .ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not a size like \"32KiB\"")))
    }
}

impl JsonSchema for Size {
    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "title": "a size like \"32KiB\" or a number of bytes",
            "patternErrorMessage": "write a whole number above zero, alone or with KiB or MiB, at most 1 GiB",
            "type": ["string", "integer"],
            "pattern": "^0*[1-9][0-9]{0,2}(MiB|KiB)$|^0*[1-9][0-9]{3,5}KiB$",
            "minimum": 1,
            "maximum": 1 << 30,
        })
    }
}

/// The address of a service.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct HttpUrl(pub(super) String);

impl JsonSchema for HttpUrl {
    fn schema_name() -> Cow<'static, str> {
        "HttpUrl".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "title": "an address like \"http://127.0.0.1:4318\"",
            "patternErrorMessage": "it begins with http:// or https:// and names a host",
            "type": "string",
            "pattern": "^https?://[A-Za-z0-9\\[][A-Za-z0-9_.\\[\\]:-]*(/[^\\s?#]*)?$",
        })
    }
}

/// The name of an environment variable. In capitals, so that a key is not taken for a name.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(transparent)]
pub(super) struct VariableName(pub(super) String);

impl JsonSchema for VariableName {
    fn schema_name() -> Cow<'static, str> {
        "VariableName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "title": "the name of an environment variable like \"OPENAI_API_KEY\"",
            "patternErrorMessage": "capitals, digits and `_`; the key itself belongs in that variable, not in this file",
            "type": "string",
            "pattern": "^[A-Z_][A-Z0-9_]*$",
        })
    }
}
