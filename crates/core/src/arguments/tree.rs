//! A JSON tree that keeps the digits of numbers and the order of keys.
//!
//! `serde_json::Value` turns an integer beyond 64 bits into a float and silently drops all but the
//! last of two equal keys. Arguments are rewritten and compared on this tree, so neither happens.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::path::Path;

/// How deep arrays and objects may be nested in arguments.
///
/// Below the 128 of `serde_json`, so that text accepted here is accepted by every later reader.
pub(crate) const DEPTH_MAX: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tree {
    Null,
    Bool(bool),
    /// The number's own text.
    Number(String),
    Text(String),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
}

/// Why a text is not a tree.
#[derive(Debug)]
pub(crate) enum TreeError {
    Syntax(serde_json::Error),
    TooDeep,
    RepeatedKey { path: String, key: String },
}

impl From<serde_json::Error> for TreeError {
    fn from(error: serde_json::Error) -> Self {
        Self::Syntax(error)
    }
}

impl Tree {
    /// Reads one JSON value strictly, and gives it in both forms.
    pub(crate) fn parse(text: &str) -> Result<(Self, Value), TreeError> {
        if nesting(text) > DEPTH_MAX {
            return Err(TreeError::TooDeep);
        }
        // The whole text first: its errors carry positions in the text, those of its parts do not.
        let value: Value = serde_json::from_str(text)?;
        let tree = Self::grow(text.trim(), &Path::ROOT)?;
        Ok((tree, value))
    }

    fn grow(text: &str, path: &Path<'_>) -> Result<Self, TreeError> {
        Ok(match text.as_bytes().first() {
            Some(b'{') => {
                let Members(members) = serde_json::from_str(text)?;
                let mut grown: Vec<(String, Self)> = Vec::with_capacity(members.len());
                let mut seen = std::collections::BTreeSet::new();
                for (key, raw) in members {
                    if !seen.insert(key.clone()) {
                        return Err(TreeError::RepeatedKey { path: path.written(), key });
                    }
                    let value = Self::grow(raw.get(), &path.key(&key))?;
                    grown.push((key, value));
                }
                Self::Object(grown)
            }
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(text)?;
                let grown = items.iter().enumerate();
                Self::List(
                    grown
                        .map(|(index, raw)| Self::grow(raw.get(), &path.index(index)))
                        .collect::<Result<_, _>>()?,
                )
            }
            Some(b'"') => Self::Text(serde_json::from_str(text)?),
            Some(b't' | b'f') => Self::Bool(serde_json::from_str(text)?),
            Some(b'n') => Self::Null,
            Some(_) | None => Self::Number(text.to_owned()),
        })
    }

    /// The tree for a validator. Integers beyond 64 bits lose digits here, and only here.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Number(text) => serde_json::from_str(text).unwrap_or(Value::Null),
            Self::Text(text) => Value::String(text.clone()),
            Self::List(items) => items.iter().map(Self::to_value).collect(),
            Self::Object(members) => {
                members.iter().map(|(key, value)| (key.clone(), value.to_value())).collect()
            }
        }
    }

    /// The tree with the keys of every object sorted, so that equal arguments are written equal.
    pub(crate) fn sorted(mut self) -> Self {
        match &mut self {
            Self::List(items) => {
                for item in items {
                    *item = std::mem::replace(item, Self::Null).sorted();
                }
            }
            Self::Object(members) => {
                for (_, value) in members.iter_mut() {
                    *value = std::mem::replace(value, Self::Null).sorted();
                }
                members.sort_by(|a, b| a.0.cmp(&b.0));
            }
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) => {}
        }
        self
    }

    /// What it is, with its article.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "an array",
            Self::Object(_) => "an object",
        }
    }
}

/// Writes compact JSON: keys in their order, numbers digit by digit.
impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Number(text) => f.write_str(text),
            Self::Text(text) => write_text(f, text),
            Self::List(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    f.write_str(if index == 0 { "" } else { "," })?;
                    item.fmt(f)?;
                }
                f.write_str("]")
            }
            Self::Object(members) => {
                f.write_str("{")?;
                for (index, (key, value)) in members.iter().enumerate() {
                    f.write_str(if index == 0 { "" } else { "," })?;
                    write_text(f, key)?;
                    f.write_str(":")?;
                    value.fmt(f)?;
                }
                f.write_str("}")
            }
        }
    }
}

fn write_text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str(&serde_json::to_string(text).map_err(|_| fmt::Error)?)
}

/// How deep the brackets of a text are nested, whether it is valid JSON or not.
///
/// Needs no stack, so it is asked before any parser that has one.
pub(crate) fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0_usize);
    let (mut in_string, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// The members of one object in their order, equal keys included, values as text.
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
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}
