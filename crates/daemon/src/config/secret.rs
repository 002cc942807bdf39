//! Keeps keys and passwords out of reports, and tells when one was written into the file.
//!
//! A report ends up in terminals, CI logs and bug reports, so nothing that may be a secret is ever
//! quoted. This refuses to judge by entropy: it knows the shapes of common keys and the names that
//! people give them.

use std::sync::LazyLock;

use regex::Regex;

static SHAPE: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"\b(?:sk-|sk_|rk_|pk_live_|gh[a-z]_|github_pat_|glpat-|xox[a-z]-|AKIA|AIza|hf_)[A-Za-z0-9_-]{16,}",
        r"|(?i:\bbearer)\s+[A-Za-z0-9._~+/=-]{16,}",
        r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
        r"|-----BEGIN [A-Z ]*PRIVATE KEY-----",
        r"|://[^/\s:@$]+:[^/\s@$]+@",
    ))
});

static NAME: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)^(?:.*[_-])?(?:api_?key|key|token|secret|password|passwd|authorization|credentials?)(?:[_-].*)?$",
    )
});

static ASSIGNMENT: LazyLock<Regex> = LazyLock::new(|| regex(r#"([A-Za-z0-9_-]+)["']?\s*="#));

#[expect(clippy::expect_used, reason = "the patterns are constants, compiled by a test")]
fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern compiles")
}

/// Whether the text holds what looks like a key, a token or a password.
pub(super) fn is_in(text: &str) -> bool {
    SHAPE.is_match(text)
}

/// Whether a key of this name usually holds a secret.
pub(super) fn is_named_by(key: &str) -> bool {
    NAME.is_match(key)
}

/// Puts a star for each character of what may be a secret, so that columns stay where they are.
pub(super) fn mask(line: &str) -> String {
    let named = ASSIGNMENT
        .captures_iter(line)
        .filter(|found| found.get(1).is_some_and(|key| is_named_by(key.as_str())))
        .find_map(|found| found.get(0).map(|whole| whole.end()));
    let (shown, hidden) = line.split_at(named.unwrap_or(line.len()));
    let shown = SHAPE.replace_all(shown, |found: &regex::Captures<'_>| {
        found.get(0).map_or_else(String::new, |secret| stars(secret.as_str()))
    });
    format!("{shown}{}", stars(hidden))
}

fn stars(text: &str) -> String {
    text.chars().map(|c| if c.is_whitespace() { c } else { '*' }).collect()
}
