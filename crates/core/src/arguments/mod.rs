//! From the text a model wrote to arguments that fit a schema.
//!
//! Text that is not certain is never executed: it is neither completed nor replaced by `{}`. What
//! is repaired here loses nothing and is recorded; everything else is explained to the model.

use std::fmt;

use dauntless_contract::Json;
use serde_json::Value;

use crate::excerpt::around;

mod coerce;
mod explain;
mod outline;
mod path;
mod schema;
mod tree;

pub(crate) use coerce::fit;
pub(crate) use explain::{Explained, explain};
pub(crate) use outline::outline;
pub(crate) use schema::Guide;
pub(crate) use tree::{DEPTH_MAX, Tree};

use tree::TreeError;

const EXCERPT_BYTES_MAX: usize = 600;

/// A change to the model's own text that loses nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    /// The name was the tool's but for a namespace or a control token.
    Renamed {
        /// As it was written, in legal letters.
        written: String,
    },
    /// A code fence around the whole text was taken off.
    CodeFence,
    /// The whole text was a JSON string with the arguments in it.
    DoubleEncoding,
    /// A JSON string held the array or object that the schema wants at this path.
    Decoded {
        /// Where.
        path: String,
    },
    /// A value was written as another type, exactly.
    Coerced {
        /// Where.
        path: String,
        /// The type it has now.
        to: &'static str,
    },
    /// A null was left out: the field is optional and may not be null.
    NullDropped {
        /// Where.
        path: String,
    },
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Renamed { written } => write!(f, "took the name {written} for this tool's"),
            Self::CodeFence => f.write_str("took off a code fence"),
            Self::DoubleEncoding => f.write_str("decoded arguments that were one JSON string"),
            Self::Decoded { path } => write!(f, "decoded the JSON string at {path}"),
            Self::Coerced { path, to } => write!(f, "read {path} as {to}"),
            Self::NullDropped { path } => write!(f, "left out the null at {path}"),
        }
    }
}

/// JSON that a model wrote: what it wrote, and what that means.
#[derive(Debug)]
pub(crate) struct Arguments {
    /// The model's own text as long as nothing was coerced.
    pub(crate) text: Json,
    pub(crate) tree: Tree,
    pub(crate) value: Value,
    pub(crate) repairs: Vec<Repair>,
}

/// Why a text is not one JSON object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// It stops in the middle.
    Unterminated { length: usize },
    /// It is not JSON.
    Malformed { problem: String, excerpt: String, length: usize, hint: Option<&'static str> },
    /// It is JSON nested deeper than [`DEPTH_MAX`].
    TooDeep,
    /// An object has the same key twice, so nobody knows which value is meant.
    RepeatedKey { path: String, key: String },
    /// It is JSON of another kind.
    NotAnObject { kind: &'static str, excerpt: String },
}

/// Reads the text of one call, which must be one JSON object.
///
/// Nothing at all, white space and `null` count as `{}`. Repairs are tried only after the strict
/// reading failed, each at most once.
pub(crate) fn read(written: &str) -> Result<Arguments, Unreadable> {
    let Arguments { text, tree, value, mut repairs } = match bare(written) {
        "" | "null" => read_value("{}")?,
        _ => read_value(written)?,
    };
    match tree {
        Tree::Object(_) => Ok(Arguments { text, tree, value, repairs }),
        Tree::Text(inner) => match Tree::parse(&inner) {
            Ok((tree @ Tree::Object(_), value)) => {
                repairs.push(Repair::DoubleEncoding);
                Ok(Arguments { text: json(inner.trim(), &tree), tree, value, repairs })
            }
            Ok(_) | Err(_) => Err(not_an_object("a string", text.as_str())),
        },
        Tree::Null | Tree::Bool(_) | Tree::Number(_) | Tree::List(_) => {
            Err(not_an_object(tree.kind(), text.as_str()))
        }
    }
}

/// Reads any one JSON value strictly; a code fence around the whole text is taken off.
pub(crate) fn read_value(written: &str) -> Result<Arguments, Unreadable> {
    let mut text = bare(written);
    let mut repairs = Vec::new();
    let mut parsed = Tree::parse(text);
    if let (Err(TreeError::Syntax(_)), Some(fence)) = (&parsed, Fence::around(text)) {
        text = fence.inner;
        parsed = match (Tree::parse(text), fence.closed) {
            (Ok(_), false) => return Err(Unreadable::Unterminated { length: count(written) }),
            (parsed, _) => parsed,
        };
        repairs.push(Repair::CodeFence);
    }
    let (tree, value) = parsed.map_err(|error| unreadable(error, text))?;
    Ok(Arguments { text: json(text, &tree), tree, value, repairs })
}

/// The text without what nobody sees around it: white space, and the mark that some files begin with.
fn bare(written: &str) -> &str {
    written.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}')
}

/// The text as it is; it was parsed before, so the tree is only there to make this total.
fn json(text: &str, tree: &Tree) -> Json {
    Json::parse(text).unwrap_or_else(|_| tree.to_value().into())
}

fn not_an_object(kind: &'static str, text: &str) -> Unreadable {
    Unreadable::NotAnObject { kind, excerpt: around(text, 0, EXCERPT_BYTES_MAX).into_owned() }
}

fn unreadable(error: TreeError, text: &str) -> Unreadable {
    match error {
        TreeError::TooDeep => Unreadable::TooDeep,
        TreeError::RepeatedKey { path, key } => Unreadable::RepeatedKey { path, key },
        TreeError::Syntax(error) if error.is_eof() => Unreadable::Unterminated { length: count(text) },
        TreeError::Syntax(error) => {
            let at = offset(text, error.line(), error.column());
            Unreadable::Malformed {
                problem: error.to_string(),
                excerpt: around(text, at, EXCERPT_BYTES_MAX).into_owned(),
                length: count(text),
                hint: hint(text.as_bytes(), at),
            }
        }
    }
}

fn count(text: &str) -> usize {
    text.chars().count()
}

/// The byte that a line and a column point at. Both count from 1; column 0 is the line break before.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    (before + column).saturating_sub(1).min(text.len())
}

fn hint(text: &[u8], at: usize) -> Option<&'static str> {
    let byte = |back: usize| at.checked_sub(back).and_then(|at| text.get(at)).copied();
    match (byte(0), byte(1)) {
        (Some(b'\\'), _) | (_, Some(b'\\')) => {
            Some("Inside a JSON string a backslash is written twice: \\\\d for \\d, C:\\\\dir for C:\\dir.")
        }
        (Some(..0x20), _) => Some(
            "Inside a JSON string a line break is written \\n and a tab \\t; \
             other control characters as \\u00XX.",
        ),
        (Some(b'}' | b']'), Some(b',')) => Some("In JSON no comma follows the last item."),
        (Some(b'\''), _) => Some("JSON strings and keys stand in double quotes."),
        _ => None,
    }
}

/// A Markdown code fence around a whole text.
struct Fence<'a> {
    inner: &'a str,
    closed: bool,
}

impl<'a> Fence<'a> {
    fn around(text: &'a str) -> Option<Self> {
        let opened = text.strip_prefix("```")?.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
        let (inner, closed) = match opened.strip_suffix("```") {
            Some(inner) => (inner, true),
            None => (opened, false),
        };
        let inner = inner.trim();
        // Without this, ```42``` would lose its digits to the language of the fence.
        inner.starts_with(['{', '[', '"']).then_some(Self { inner, closed })
    }
}

#[cfg(test)]
mod tests;
