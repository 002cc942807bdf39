//! The names that a model is shown, and which tool a name means that was written.
//!
//! Tools come from sources that nobody here named, and providers take `[a-zA-Z0-9_-]{1,64}` and no
//! name twice. Every tool gets such a name, the same each time. The other way a name is followed only
//! where it is a tool's own name but for a namespace; what is merely spelled alike is suggested.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::fingerprint::Digest;
use crate::names::{NAME_BYTES_MAX, clean, legal};

/// A tool as its source names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceName<'a> {
    /// Where it comes from; none for the tools of the program itself.
    pub source: Option<&'a str>,
    /// Its name there.
    pub name: &'a str,
}

/// The names to show a model for these tools, in their order: legal and stable.
///
/// A legal name that no other tool has stays as it is. Tools of different sources that would have
/// one name are shown as `source__name`. Where a name had to be cut, or two would be written alike,
/// a digest of the whole name tells them apart. Two tools share a name only if they have one source
/// and one name there.
pub fn shown_names(tools: &[SourceName<'_>]) -> Vec<Arc<str>> {
    let short: Vec<String> = tools.iter().map(|tool| fitted(tool.name)).collect();
    let rivals = claims(tools, &short);
    let is_contested = |name: &String| rivals.get(name).is_some_and(|claimed_by| claimed_by.len() > 1);
    let long = tools.iter().zip(&short).map(|(tool, short)| match tool.source {
        Some(source) if is_contested(short) => fitted(&format!("{source}__{}", tool.name)),
        Some(_) | None => short.clone(),
    });
    let long: Vec<String> = long.collect();
    let rivals = claims(tools, &long);
    let shown = tools.iter().zip(&long).map(|(tool, name)| {
        let is_own = tool.source.is_none() && name == tool.name;
        let is_alone = rivals.get(name).is_none_or(|claimed_by| claimed_by.len() == 1);
        if is_own || is_alone { name.as_str().into() } else { told_apart(name, &identity(tool)).into() }
    });
    shown.collect()
}

/// Which tools each name would stand for.
fn claims<'t>(tools: &[SourceName<'t>], names: &[String]) -> BTreeMap<String, BTreeSet<SourceName<'t>>> {
    let mut claims: BTreeMap<String, BTreeSet<SourceName<'t>>> = BTreeMap::new();
    for (tool, name) in tools.iter().zip(names) {
        claims.entry(name.clone()).or_default().insert(*tool);
    }
    claims
}

fn identity(tool: &SourceName<'_>) -> String {
    format!("{}\u{0}{}", tool.source.unwrap_or_default(), tool.name)
}

/// The name in legal letters; one that is too long ends in a digest of the whole.
fn fitted(name: &str) -> String {
    if name.len() > NAME_BYTES_MAX || name.trim().is_empty() {
        return told_apart(&legal(name), name);
    }
    legal(name)
}

fn told_apart(name: &str, whole: &str) -> String {
    let digest = Digest::of(&[whole]).short();
    let start = name.get(..NAME_BYTES_MAX - 9).unwrap_or(name);
    format!("{start}_{digest:08x}")
}

/// A longer name is no name with a namespace.
const WRITTEN_BYTES_MAX: usize = 256;

/// The one tool whose name is the written one, but for a control token that leaked into it, for the
/// signs between its parts, or for a namespace in front of either. None if two could be meant: a
/// namespace that is a source's is part of the name, and only what is nobody's is taken off.
pub(super) fn meant<'a>(written: &str, names: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let written = clean(written);
    let is_a_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':');
    if written.is_empty() || written.len() > WRITTEN_BYTES_MAX || !written.chars().all(is_a_name) {
        return None;
    }
    let exact = names.clone().find(|name| *name == written);
    // The less is taken off, the nearer. What fits there decides, be it one tool or several.
    let behind = without_namespaces(written).map(|rest| {
        let rest = joined(rest);
        one_of(names.clone().filter(move |name| joined(name) == rest))
    });
    let respelled = legal(written);
    let tail = std::iter::once_with(|| one_of(names.clone().filter(|name| is_tail(name, &respelled))));
    exact.or_else(|| behind.chain(tail).flatten().next().flatten())
}

/// The one there is; `Some(None)` where there are several, and none where there is nothing.
fn one_of<'a>(mut fitting: impl Iterator<Item = &'a str>) -> Option<Option<&'a str>> {
    let first = fitting.next()?;
    Some(Some(first).filter(|_| fitting.next().is_none()))
}

/// The name as it is, then without its first namespace, without its first two, and so on.
fn without_namespaces(written: &str) -> impl Iterator<Item = &str> {
    let is_end = |at: &usize| {
        let (before, after) = written.split_at(*at);
        (before.ends_with(['.', '/', ':']) || before.ends_with("__")) && !after.is_empty()
    };
    // All signs of a name that is looked at have one byte.
    std::iter::once(written).chain((1..written.len()).filter(is_end).filter_map(|at| written.get(at..)))
}

/// The name with one sign between its parts, whichever and however many there were.
fn joined(name: &str) -> String {
    let mut joined = String::with_capacity(name.len());
    for c in name.chars() {
        let c = if matches!(c, '.' | '/' | ':') { '_' } else { c };
        if c != '_' || !joined.ends_with('_') {
            joined.push(c);
        }
    }
    joined
}

/// The shortest tail that may stand for a name: with less, too many names end alike.
const TAIL_BYTES_MIN: usize = 4;

/// Whether `name` is `written` with whole words in front.
fn is_tail(name: &str, written: &str) -> bool {
    written.len() >= TAIL_BYTES_MIN
        && name.strip_suffix(written).is_some_and(|front| front.ends_with(['_', '-']))
}
