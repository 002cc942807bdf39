//! Names that models write, held against names that exist.
//!
//! A near name is suggested and never acted upon: to run `delete_file` because somebody wrote
//! `delete_files` would be a guess with consequences.

use std::collections::BTreeSet;

use crate::excerpt::head;

/// The longest name that every provider takes.
pub(crate) const NAME_BYTES_MAX: usize = 64;
const JARO_WINKLER_MIN: f64 = 0.85;
const DAMERAU_LEVENSHTEIN_MIN: f64 = 0.6;

/// The name in the form that every provider accepts in a history: `[a-zA-Z0-9_-]{1,64}`.
///
/// A legal name comes back as it is. A control token that leaked into the name (`read<|channel|>…`)
/// is cut off with all that follows.
pub(crate) fn legal(name: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    let legal: String = clean(name).chars().map(keep).take(NAME_BYTES_MAX).collect();
    if legal.is_empty() { "unnamed".to_owned() } else { legal }
}

/// The name without a control token that leaked into it, and what follows that.
pub(crate) fn clean(name: &str) -> &str {
    name.split("<|").next().unwrap_or_default().trim()
}

/// The existing names that `wanted` may have meant, the likeliest first, at most `count_max`.
///
/// Case, separators and namespaces (`functions.read`, `fs/read`, `mcp__read`) do not count.
pub(crate) fn nearest<'a>(
    wanted: &str,
    names: impl IntoIterator<Item = &'a str>,
    count_max: usize,
) -> Vec<&'a str> {
    let wanted = Spelling::of(wanted);
    let mut scored: Vec<(f64, &str)> =
        names.into_iter().filter_map(|name| Some((wanted.likeness(name)?, name))).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    scored.truncate(count_max);
    scored.into_iter().map(|(_, name)| name).collect()
}

/// A name and its parts after each namespace separator, in lower case without `_`, `-` and spaces.
struct Spelling {
    whole: String,
    parts: BTreeSet<String>,
}

impl Spelling {
    fn of(name: &str) -> Self {
        let name = head(name.split("<|").next().unwrap_or_default(), 2 * NAME_BYTES_MAX);
        let parts = name
            .match_indices(['.', '/', ':'])
            .map(|(at, separator)| at + separator.len())
            .chain(name.match_indices("__").map(|(at, separator)| at + separator.len()))
            .filter_map(|start| name.get(start..));
        Self { whole: plain(name), parts: parts.map(plain).filter(|part| !part.is_empty()).collect() }
    }

    /// From 0 to 1; none where the names have too little in common.
    fn likeness(&self, name: &str) -> Option<f64> {
        let other = Self::of(name);
        if self.whole.is_empty() || other.whole.is_empty() {
            return None;
        }
        if self.whole == other.whole {
            return Some(1.0);
        }
        if self.parts.contains(&other.whole) || other.parts.contains(&self.whole) {
            return Some(0.99);
        }
        let longer_by_a_prefix = |long: &str, short: &str| short.len() >= 4 && long.ends_with(short);
        if longer_by_a_prefix(&other.whole, &self.whole) || longer_by_a_prefix(&self.whole, &other.whole) {
            return Some(0.98);
        }
        self.parts
            .iter()
            .chain(std::iter::once(&self.whole))
            .filter_map(|mine| spelled_alike(mine, &other.whole))
            .max_by(f64::total_cmp)
    }
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

fn spelled_alike(a: &str, b: &str) -> Option<f64> {
    let winkler = strsim::jaro_winkler(a, b);
    let levenshtein = strsim::normalized_damerau_levenshtein(a, b);
    (winkler >= JARO_WINKLER_MIN || levenshtein >= DAMERAU_LEVENSHTEIN_MIN)
        .then_some(winkler.max(levenshtein).min(0.97))
}

#[cfg(test)]
mod tests;
