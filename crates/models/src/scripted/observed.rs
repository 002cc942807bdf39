//! What the tools answered so far, as a script can react to it and quote it.

use std::sync::Arc;

use dauntless_contract::{History, Message};
use serde_json::Value;

/// The observations of a conversation.
pub(super) struct Observed<'a> {
    /// How often the model has spoken.
    pub(super) replies: usize,
    /// The latest words of the user.
    pub(super) goal: &'a str,
    /// The observations, as tool and text, oldest first.
    all: Vec<(&'a str, &'a Arc<str>)>,
    /// Where those begin that answer the model's last reply.
    last_round: usize,
}

/// A placeholder that names nothing there is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Missing(pub(super) String);

impl<'a> Observed<'a> {
    pub(super) fn of(history: &'a History) -> Self {
        let mut observed = Self { replies: 0, goal: "", all: Vec::new(), last_round: 0 };
        for message in history.messages() {
            match message {
                Message::Assistant { .. } => {
                    observed.replies += 1;
                    observed.last_round = observed.all.len();
                }
                Message::Tool { name, text, .. } => observed.all.push((&**name, text)),
                Message::User { text } => observed.goal = text,
                Message::System { .. } => {}
            }
        }
        observed
    }

    /// The observations that answer the model's last reply, as tool and text.
    pub(super) fn last_round(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.all.iter().skip(self.last_round).map(|(tool, text)| (*tool, &***text))
    }

    /// The text with its placeholders filled.
    ///
    /// `{{last}}` is the newest observation and `{{obs.TOOL}}` the newest of one tool; a JSON
    /// pointer after a colon picks a part of it, as in `{{obs.order:/items/0/sku}}`. Any other
    /// text in braces is left as it is.
    pub(super) fn fill_text(&self, text: &Arc<str>) -> Result<Arc<str>, Missing> {
        let mut filled = String::new();
        let mut rest: &str = text;
        while let Some((before, inner, after)) = next_placeholder(rest) {
            filled.push_str(before);
            match self.look_up(inner)? {
                Value::String(text) => filled.push_str(&text),
                value => filled.push_str(&value.to_string()),
            }
            rest = after;
        }
        if filled.is_empty() && rest.len() == text.len() {
            return Ok(Arc::clone(text));
        }
        filled.push_str(rest);
        Ok(filled.into())
    }

    /// The value with the placeholders in its texts filled; a text that is nothing but one
    /// placeholder becomes the value it names.
    pub(super) fn fill_value(&self, value: &Value) -> Result<Value, Missing> {
        Ok(match value {
            Value::String(text) => match next_placeholder(text) {
                Some(("", inner, "")) => self.look_up(inner)?,
                _ => Value::String(self.fill_text(&text.as_str().into())?.to_string()),
            },
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.fill_value(item)).collect::<Result<_, _>>()?)
            }
            Value::Object(fields) => {
                let filled = fields.iter().map(|(name, field)| Ok((name.clone(), self.fill_value(field)?)));
                Value::Object(filled.collect::<Result<_, _>>()?)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        })
    }

    fn look_up(&self, inner: &str) -> Result<Value, Missing> {
        let missing = || Missing(format!("`{{{{{inner}}}}}`"));
        let (source, pointer) =
            inner.split_once(':').map_or((inner, None), |(name, rest)| (name, Some(rest)));
        let newest = match source.strip_prefix("obs.") {
            Some(tool) => self.all.iter().rev().find(|(name, _)| *name == tool),
            None => self.all.last(),
        };
        let (_, text) = newest.ok_or_else(missing)?;
        let Some(pointer) = pointer else { return Ok(Value::String(text.to_string())) };
        let value: Value = serde_json::from_str(text).map_err(|_| missing())?;
        value.pointer(pointer).cloned().ok_or_else(missing)
    }
}

/// Whether the text holds a placeholder.
pub(super) fn has_placeholder(text: &str) -> bool {
    next_placeholder(text).is_some()
}

/// What stands before, inside and after the first placeholder.
fn next_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    loop {
        let start = from + text.get(from..)?.find("{{")?;
        let (inner, after) = text.get(start + 2..)?.split_once("}}")?;
        let is_ours = inner == "last" || inner.starts_with("last:") || inner.starts_with("obs.");
        if is_ours && !inner.contains('{') {
            return Some((text.get(..start)?, inner, after));
        }
        from = start + 1;
    }
}
