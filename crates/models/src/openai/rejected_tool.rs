//! Which tool of a request the provider refused, if it says so for certain.
//!
//! The place in the request counts first. A name in the words counts only where the error says that
//! the request is invalid, speaks of tools, and quotes the name of exactly one tool of the request.

use dauntless_contract::{ModelRequest, ToolSpec};

use crate::wire::WireError;

/// The tool at fault; none where that takes a guess.
pub(super) fn of<'a>(error: &WireError, request: &'a ModelRequest) -> Option<&'a ToolSpec> {
    let tools = &request.tools;
    if let Some(param) = error.param.as_deref() {
        if let Some(index) = index(param) {
            return tools.get(index).map(|spec| &**spec);
        }
        if !matches!(param, "tools" | "functions") {
            return None;
        }
    }
    let words = error.message.as_deref()?;
    let lower = words.to_ascii_lowercase();
    if !["tool", "function", "schema"].iter().any(|word| lower.contains(word)) {
        return None;
    }
    let mut named = tools.iter().filter(|spec| is_quoted(words, &spec.name));
    let first = named.next()?;
    named.next().is_none().then_some(&**first)
}

/// The index in `tools[3].function` or `tools.3.function`.
fn index(param: &str) -> Option<usize> {
    let rest = param.strip_prefix("tools").or_else(|| param.strip_prefix("functions"))?;
    let rest = rest.strip_prefix(['[', '.'])?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Whether the words hold the name in quotes.
fn is_quoted(words: &str, name: &str) -> bool {
    [('\'', '\''), ('"', '"'), ('`', '`'), ('“', '”')]
        .iter()
        .any(|(open, close)| words.contains(&format!("{open}{name}{close}")))
}

#[cfg(test)]
mod tests;
