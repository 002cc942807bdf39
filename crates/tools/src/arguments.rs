//! The arguments of one call, with every digit of their numbers.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use dauntless_contract::{Failure, Json};
use serde_json::value::RawValue;

/// The arguments of one call, by name.
pub(crate) struct Arguments(BTreeMap<String, Box<RawValue>>);

impl Arguments {
    pub(crate) fn read(json: &Json) -> Result<Self, Failure> {
        json.to().map(Self).map_err(|_| {
            Failure::invalid_arguments("The arguments must be one JSON object.").detail("$", "an object", "")
        })
    }

    /// A value as JSON. `null` counts as absent.
    pub(crate) fn json(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|raw| raw.get()).filter(|raw| *raw != "null")
    }

    /// A value as text: a string as it is, anything else as JSON.
    pub(crate) fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        self.json(name).map(plain)
    }

    /// A JSON object of the arguments that are not `used`.
    pub(crate) fn without(&self, used: &BTreeSet<String>) -> String {
        let rest: BTreeMap<_, _> = self.0.iter().filter(|(name, _)| !used.contains(*name)).collect();
        serde_json::to_string(&rest).unwrap_or_default()
    }
}

/// JSON as text: a string as it is, anything else as it was written.
pub(crate) fn plain(json: &str) -> Cow<'_, str> {
    serde_json::from_str(json).map_or(Cow::Borrowed(json), |text: String| Cow::Owned(text))
}
