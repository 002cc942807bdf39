//! What a model wrote, read by the letter: numbers by their digits, objects with every key.
//!
//! It states what a reading may change, so that a reading that changes more is found.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// JSON as it was written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Written {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Self>),
    /// The members; no key twice.
    Object(BTreeMap<String, Self>),
}

impl Written {
    /// What a text may mean as the arguments of a call: itself, nothing at all, what is inside of a
    /// code fence or of one JSON string.
    pub(super) fn by_a_model(text: &str) -> impl Iterator<Item = Self> {
        let text = text.trim();
        let nothing = matches!(text, "" | "null").then(|| Self::Object(BTreeMap::new()));
        let fenced = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
        let fenced = fenced.map(|inner| inner.trim_start_matches(|c: char| c.is_ascii_alphanumeric()));
        let plain = [Some(text), fenced].into_iter().flatten().filter_map(Self::read);
        let inside = |written: Self| match &written {
            Self::Text(inner) => [Self::read(inner), None],
            _ => [Some(written), None],
        };
        let meant = nothing.into_iter().chain(plain.flat_map(inside).flatten());
        meant.filter(|written| matches!(written, Self::Object(_)))
    }

    /// One JSON value; none where it is not JSON or has a key twice in one object.
    fn read(text: &str) -> Option<Self> {
        let raw: &RawValue = serde_json::from_str(text).ok()?;
        let text = raw.get();
        Some(match text.as_bytes().first()? {
            b'n' => Self::Null,
            b't' | b'f' => Self::Bool(text == "true"),
            b'"' => Self::Text(serde_json::from_str(text).ok()?),
            b'[' => {
                let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
                Self::List(items.into_iter().map(|raw| Self::read(raw.get())).collect::<Option<_>>()?)
            }
            b'{' => {
                let Members(members) = serde_json::from_str(text).ok()?;
                let count = members.len();
                let read = |(key, raw): (String, &RawValue)| Some((key, Self::read(raw.get())?));
                let members: BTreeMap<_, _> = members.into_iter().map(read).collect::<Option<_>>()?;
                (members.len() == count).then_some(Self::Object(members))?
            }
            _ => Self::Number(text.to_owned()),
        })
    }

    /// Whether these arguments hold nothing but what was written, and all of it but nulls.
    pub(super) fn is_read_as(&self, arguments: &str) -> bool {
        Self::read(arguments).is_some_and(|read| self.may_become(&read))
    }

    fn may_become(&self, read: &Self) -> bool {
        match (self, read) {
            (Self::Number(written), Self::Number(read)) => {
                written == read
                    || written.strip_prefix(read.as_str()).is_some_and(|rest| {
                        rest.strip_prefix('.').is_some_and(|zeros| zeros.bytes().all(|byte| byte == b'0'))
                    })
            }
            (Self::Text(written), Self::Text(read)) => written == read,
            (Self::Text(written), Self::Number(digits)) => written == digits,
            (Self::Text(written), Self::Bool(value)) => *written == value.to_string(),
            (Self::Text(written), Self::List(_) | Self::Object(_)) => {
                Self::read(written).is_some_and(|inner| inner.may_become(read))
            }
            (Self::List(written), Self::List(read)) => {
                written.len() == read.len() && written.iter().zip(read).all(|(a, b)| a.may_become(b))
            }
            (Self::Object(written), Self::Object(read)) => {
                let keys: BTreeSet<&String> = written.keys().chain(read.keys()).collect();
                keys.into_iter().all(|key| match (written.get(key), read.get(key)) {
                    (Some(written), Some(read)) => written.may_become(read),
                    (Some(dropped), None) => *dropped == Self::Null,
                    (None, _) => false,
                })
            }
            (written, read) => written == read,
        }
    }
}

/// The members of one object, equal keys included.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let members = std::iter::from_fn(|| map.next_entry().transpose());
                Ok(Members(members.collect::<Result<_, _>>()?))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}
