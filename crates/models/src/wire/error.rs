//! What providers say when they fail. It exists because hardly two of them say it in one shape.

use serde_json::value::RawValue;

use super::fields::{Fields, text};

/// An error as a provider words it; any part may be missing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct WireError {
    /// The code; a number where the provider repeats the HTTP status here.
    pub(crate) code: Option<String>,
    /// The type, or Google's `status`.
    pub(crate) kind: Option<String>,
    /// The part of the request that is at fault, like `tools[3].function.parameters`.
    pub(crate) param: Option<String>,
    /// The words.
    pub(crate) message: Option<String>,
    /// What the model wrote, where the provider could not read a tool call in it.
    pub(crate) failed_generation: Option<String>,
    /// The tokens that the model takes, where its window is said.
    pub(crate) window: Option<u64>,
}

impl WireError {
    /// Reads the body of a failed response; empty where the body is no error object.
    ///
    /// Known shapes: `{"error": {…}}`, `{"error": "…"}`, the same inside a list, and the bare
    /// object with `message`, `code`, `type` or `detail` at the top.
    pub(crate) fn of_body(body: &str) -> Self {
        let Ok(raw) = serde_json::from_str::<&RawValue>(body) else { return Self::default() };
        let first =
            serde_json::from_str::<Vec<&RawValue>>(raw.get()).ok().and_then(|list| list.first().copied());
        let Some(mut fields) = Fields::of(first.unwrap_or(raw)) else { return Self::default() };
        Self::nested(&mut fields).unwrap_or_else(|| Self::of_fields(fields))
    }

    /// Takes the `error` field out of a response; none where it is missing or says nothing.
    pub(super) fn nested(fields: &mut Fields<'_>) -> Option<Self> {
        let raw = fields.take("error")?;
        let error = match Fields::of(raw) {
            Some(inner) => Self::of_fields(inner),
            None => Self { message: text(raw).filter(|words| !words.is_empty()), ..Self::default() },
        };
        (error != Self::default()).then_some(error)
    }

    /// The error that an answer with nothing else in it is; none where it does not look like one.
    pub(super) fn bare(mut fields: Fields<'_>) -> Option<Self> {
        let is_error = fields.text("object").is_some_and(|object| object == "error");
        let bare = Self::of_fields(fields);
        (is_error || bare.message.is_some() || bare.code.is_some()).then_some(bare)
    }

    /// Reads an error whose parts lie in these fields.
    pub(super) fn of_fields(mut fields: Fields<'_>) -> Self {
        let status = fields.word("status");
        Self {
            code: fields.word("code"),
            kind: fields.word("type").or(status),
            param: fields.word("param"),
            message: fields.text("message").or_else(|| fields.text("detail")),
            failed_generation: fields.text("failed_generation"),
            window: fields.count("n_ctx"),
        }
    }

    /// An error of which no more is known than its kind.
    pub(super) fn of_kind(kind: &str) -> Self {
        Self { kind: Some(kind.to_owned()), ..Self::default() }
    }

    /// The HTTP status that stands in for the code, if one does.
    pub(crate) fn status(&self) -> Option<u16> {
        self.code.as_deref()?.parse().ok().filter(|status| (300..=599).contains(status))
    }

    /// The names that say what went wrong: code, then type; a number is none.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let is_name = |word: &&str| word.parse::<i64>().is_err();
        [&self.code, &self.kind].into_iter().flatten().map(String::as_str).filter(is_name)
    }
}
