//! What is wrong with a configuration: every mistake at once, each with its place.

use std::fmt;

use super::secret;

/// Longest piece of a source line that is shown.
const EXCERPT_CHARS_MAX: usize = 100;

/// Every mistake of one configuration, in the order of the file.
///
/// Displayed in the form that editors and terminals make clickable, with the line and a caret.
/// What looks like a secret is shown as stars.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    origin: String,
    mistakes: Vec<Mistake>,
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where; `None` when the file could not even be read.
    pub place: Option<Place>,
    /// The key, like `tools.order.retry.base`; empty for the file as a whole.
    pub path: String,
    /// What is wrong.
    pub problem: Problem,
    /// What to do about it, where that is not obvious.
    pub hint: Option<String>,
}

/// A place in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// The line's text with secrets masked.
    text: String,
    /// How many characters the caret underlines.
    width: usize,
}

/// What is wrong at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The file cannot be read; the reason.
    Unreadable(String),
    /// The text is not TOML; the parser's reason.
    Syntax(String),
    /// No such key here; the nearest one that there is.
    UnknownKey {
        /// A key of similar spelling, or the same key one table below.
        nearest: Option<String>,
    },
    /// A key that must be there is not.
    Missing {
        /// What it holds.
        expected: String,
    },
    /// A rule that has its own words.
    Rule(String),
    /// The value is of the wrong kind, out of range, or contradicts another.
    Value {
        /// What would be right.
        expected: String,
        /// What is there.
        found: String,
    },
}

impl Report {
    pub(super) fn new(origin: &str, mut mistakes: Vec<Mistake>) -> Self {
        mistakes.sort_by_key(|mistake| mistake.place.as_ref().map(|place| (place.line, place.column)));
        Self { origin: origin.to_owned(), mistakes }
    }

    pub(super) fn unreadable(origin: &str, error: &std::io::Error) -> Self {
        let problem = Problem::Unreadable(error.to_string());
        Self::new(origin, vec![Mistake { place: None, path: String::new(), problem, hint: None }])
    }

    /// The file, as it was named.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The mistakes, in the order of the file; never empty.
    pub fn mistakes(&self) -> &[Mistake] {
        &self.mistakes
    }
}

impl std::error::Error for Report {}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.mistakes.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            f.write_str(&self.origin)?;
            if let Some(place) = &mistake.place {
                write!(f, ":{}:{}", place.line, place.column)?;
            }
            write!(f, ": {mistake}")?;
            if let Some(place) = &mistake.place {
                place.excerpt(f)?;
            }
        }
        match self.mistakes.len() {
            0 | 1 => Ok(()),
            count => write!(f, "\n{}: {count} mistakes", self.origin),
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        match &self.problem {
            Problem::Unreadable(reason) => write!(f, "cannot be read: {reason}"),
            Problem::Syntax(reason) => write!(f, "not TOML: {reason}"),
            Problem::Rule(words) => f.write_str(words),
            Problem::UnknownKey { nearest: Some(nearest) } => {
                write!(f, "unknown key; did you mean `{nearest}`?")
            }
            Problem::UnknownKey { nearest: None } => f.write_str("unknown key"),
            Problem::Missing { expected } => write!(f, "missing; expected {expected}"),
            Problem::Value { expected, found } => write!(f, "expected {expected}, found {found}"),
        }?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl Place {
    /// The place of a range of bytes; a range outside the text means its end.
    pub(super) fn of(text: &str, start: usize, end: usize) -> Self {
        let before = text.get(..start).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = text.get(line_start..).unwrap_or_default().lines().next().unwrap_or_default();
        let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
        let covered = text.get(start..end).unwrap_or_default().lines().next().unwrap_or_default();
        Self {
            line: before.matches('\n').count() + 1,
            column,
            text: secret::mask(line),
            width: covered.chars().count().max(1),
        }
    }

    fn excerpt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.column - 1;
        let cut = at.saturating_sub(EXCERPT_CHARS_MAX / 2);
        let shown: String = self
            .text
            .chars()
            .skip(cut)
            .take(EXCERPT_CHARS_MAX)
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let width = self.width.min(shown.chars().count().saturating_sub(at - cut)).max(1);
        let number = self.line.to_string();
        let (gutter, indent, caret) = (" ".repeat(number.len()), " ".repeat(at - cut), "^".repeat(width));
        write!(f, "\n  {number} | {shown}\n  {gutter} | {indent}{caret}")
    }
}
