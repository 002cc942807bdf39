//! One JSON object, read field by field. It exists so that leniency is in one place.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// The fields of one object that nobody has taken yet.
#[derive(Default)]
pub(super) struct Fields<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Fields<'a> {
    /// The fields of `raw`; none when it is no object. Of a field given twice the last one counts.
    pub(super) fn of(raw: &'a RawValue) -> Option<Self> {
        serde_json::from_str(raw.get()).ok().map(Self)
    }

    /// Whether a field is left that is not `null`.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|raw| raw.get() != "null")
    }

    /// The value of a field; `null` counts as absent.
    pub(super) fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        self.0.remove(name).filter(|raw| raw.get() != "null")
    }

    /// A field that holds text.
    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        text(self.take(name)?)
    }

    /// A field that holds a name or a code: text, or a number in place of one; blank is absent.
    pub(super) fn word(&mut self, name: &str) -> Option<String> {
        let raw = self.take(name)?;
        let is_number = raw.get().starts_with(|c: char| c.is_ascii_digit() || c == '-');
        let word = if is_number { raw.get().to_owned() } else { text(raw)? };
        Some(word).filter(|word| !word.trim().is_empty())
    }

    /// A field that holds a count; fractions are cut off.
    pub(super) fn count(&mut self, name: &str) -> Option<u64> {
        let raw = self.take(name)?.get();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "`as` saturates, which is meant"
        )]
        let rounded = || raw.parse().ok().map(|count: f64| count as u64);
        raw.parse().ok().or_else(rounded)
    }

    /// A field that holds an object.
    pub(super) fn object(&mut self, name: &str) -> Option<Self> {
        Self::of(self.take(name)?)
    }

    /// A field that holds a list; a lone object counts as a list of one.
    pub(super) fn list(&mut self, name: &str) -> Vec<&'a RawValue> {
        let Some(raw) = self.take(name) else { return Vec::new() };
        if raw.get().starts_with('{') {
            return vec![raw];
        }
        serde_json::from_str(raw.get()).unwrap_or_default()
    }

    /// The named fields out of those that are left, as they came.
    pub(super) fn keep(&mut self, names: &[String]) -> serde_json::Map<String, serde_json::Value> {
        let kept = |name: &String| {
            let value = serde_json::from_str(self.take(name)?.get()).ok()?;
            Some((name.clone(), value))
        };
        names.iter().filter_map(kept).collect()
    }
}

/// The text in a JSON string; none for any other value.
///
/// Half a surrogate pair, which is legal JSON but no text, becomes the replacement character.
pub(super) fn text(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok().or_else(|| lossy_text(raw))
}

/// The text in a JSON string, if every character of it is one.
pub(super) fn exact_text(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

fn lossy_text(raw: &RawValue) -> Option<String> {
    struct Bytes;
    impl serde::de::Visitor<'_> for Bytes {
        type Value = String;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a string")
        }
        fn visit_bytes<E>(self, bytes: &[u8]) -> Result<String, E> {
            Ok(String::from_utf8_lossy(bytes).into_owned())
        }
    }
    let mut json = serde_json::Deserializer::from_str(raw.get());
    serde::Deserializer::deserialize_bytes(&mut json, Bytes).ok()
}
