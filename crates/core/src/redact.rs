//! Takes secrets out of everything that leaves: what a model reads, a journal keeps, a log shows.
//!
//! Two kinds are known: the values that the configuration itself holds, and text of a shape that
//! only secrets have. Nothing is guessed by entropy, so ids, hashes and page tokens stay. Redact a
//! text before it is cut: half a secret has no shape.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::sync::{Arc, LazyLock};

use dauntless_contract::{Failure, FieldProblem, HistoryRepair, Json, ToolOutput};
use regex::{Captures, Regex, RegexSet};

const MASK: &str = "[redacted]";

/// Shorter secrets are ignored: `on` or `1234` would black out half of an honest text.
const SECRET_CHARS_MIN: usize = 6;

/// Two are the rule; this bounds what a pattern that matches its own mask can do.
const PASSES_MAX: usize = 8;

/// Secrets that show by themselves. The groups `keep` and `after` stay around the mask.
///
/// Word boundaries are those of ASCII, as `(?-u:\b)`: for the others a regex has to leave its fast
/// way at the first letter beyond ASCII, and a long Chinese text would take seconds.
const SHAPES: [&str; 9] = [
    // Keys of model providers, Amazon, GitHub, Google, Slack.
    r"(?-u:\b)sk-(?:[A-Za-z_-]*[0-9][A-Za-z0-9_-]{5,}|[A-Za-z_-]{16,})",
    r"(?-u:\b)(?:AKIA|ASIA)[A-Z0-9]{16}(?-u:\b)",
    r"(?-u:\b)(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,})",
    r"(?-u:\b)AIza[A-Za-z0-9_-]{12,}",
    r"(?-u:\b)xox[a-z]-[A-Za-z0-9-]{8,}",
    // A JSON web token.
    r"(?-u:\b)eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    // A private key; one that is cut off goes on to the end of the text.
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
    // The token of a bearer; a digit or a dash tells it from prose.
    r"(?<keep>(?-u:\b)(?i:bearer)\s+)[A-Za-z0-9.~+/=]*[0-9_-][A-Za-z0-9._~+/=-]*",
    // The password in `scheme://user:password@host`.
    r#"(?<keep>(?-u:\b)[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@"'<>]*:)[^\s/@"'<>]+(?<after>@)"#,
];

/// Keys whose values are secrets. A bare `token` counts, a page token does not.
const NAMES: &str = "(?:password|passwd|passphrase|pwd|secret\
    |(?:api|access|private|secret|account)[_-]?key\
    |(?:access|auth|refresh|id|session|api|bot)[_-]?token\
    |(?-i:[A-Z0-9]_TOKEN)|(?-u:\\b)token)";

/// What may follow such a key: in a query, quoted, quoted inside quotes, bare. A bare value after a
/// colon needs a digit, to tell it from prose.
const VALUES: [&str; 6] = [
    r#"(?i)(?<keep>[?&;](?:[a-z0-9_.-]*(?:NAMES|signature)|key|sig|auth)=)[^\s&#"'<>\\]+"#,
    r#"(?i)(?<keep>NAMES["']?\s*[:=]\s*")(?:[^"\\]|\\.)+"#,
    r#"(?i)(?<keep>NAMES\\"\s*:\s*\\")[^"\\]+"#,
    r#"(?i)(?<keep>NAMES["']?\s*[:=]\s*')[^']+"#,
    r#"(?i)(?<keep>NAMES=)[^\s"'&;,<>()\[\]{}\\]+"#,
    r#"(?i)(?<keep>NAMES:[ \t]*)[^\s"',;<>()\[\]{}\\]*[0-9][^\s"',;<>()\[\]{}\\]*"#,
];

/// A header with credentials of any scheme.
const HEADER: &str = r#"(?i)(?<keep>(?-u:\b)(?:proxy-)?authorization["']?\s*[:=]\s*["']?(?:(?:bearer|basic|token|digest|negotiate|apikey)\s+)?)[^\s"',;]+"#;

/// Replaces secrets by `[redacted]`. Cheap to clone.
#[derive(Clone)]
pub struct Redactor {
    /// Shared, since a clone of a set forgets what it has learned of its patterns.
    any: Arc<RegexSet>,
    each: Arc<[Regex]>,
    /// The patterns of the operator. Apart, because one slow pattern makes a whole set slow.
    own: Arc<[Regex]>,
}

/// A configured pattern cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the redaction pattern `{pattern}` cannot be used: {problem}")]
pub struct RedactError {
    /// The pattern.
    pub pattern: String,
    /// What is wrong with it.
    pub problem: String,
}

/// What every redactor without secrets and patterns of its own is: compiled once, as it takes long.
static BUILT_IN: LazyLock<Result<Redactor, RedactError>> =
    LazyLock::new(|| Redactor::compiled(built_in().collect(), &[]));

fn built_in() -> impl Iterator<Item = String> {
    let values = VALUES.iter().map(|value| value.replace("NAMES", NAMES));
    let all = SHAPES.into_iter().chain([HEADER]).map(str::to_owned).chain(values);
    // A boundary by Unicode takes the engine's fast way from every text with one umlaut in it.
    all.map(|pattern| pattern.replace(r"\b", r"(?-u:\b)"))
}

impl Redactor {
    /// Takes the secrets of the configuration and patterns of the operator beside what is built in.
    ///
    /// A secret is found as it is, escaped in JSON and encoded in a URL. Secrets of fewer than 6
    /// characters are ignored: they would black out half of an honest text. A pattern is a regular
    /// expression; a group `(?<keep>…)` or `(?<after>…)` in it stays around the mask.
    ///
    /// # Errors
    /// [`RedactError`] for the first pattern that is not a regular expression, matches nothing at
    /// all, or is too large.
    pub fn new(secrets: impl IntoIterator<Item = String>, patterns: &[String]) -> Result<Self, RedactError> {
        let spellings: BTreeSet<String> = secrets
            .into_iter()
            .filter(|secret| secret.trim().chars().count() >= SECRET_CHARS_MIN)
            .flat_map(|secret| spellings(secret.trim()))
            .collect();
        // Longest first: of two secrets, one may be the start of the other.
        let mut literals: Vec<String> = spellings.iter().map(|secret| regex::escape(secret)).collect();
        literals.sort_by_key(|literal| std::cmp::Reverse(literal.len()));
        if literals.is_empty() && patterns.is_empty() {
            return BUILT_IN.clone();
        }
        let literal = (!literals.is_empty()).then(|| literals.join("|"));
        Self::compiled(literal.into_iter().chain(built_in()).collect(), patterns)
    }

    fn compiled(all: Vec<String>, own: &[String]) -> Result<Self, RedactError> {
        let each = all.iter().map(|pattern| compile(pattern)).collect::<Result<_, _>>()?;
        let own = own.iter().map(|pattern| compile(pattern)).collect::<Result<_, _>>()?;
        let any = RegexSet::new(&all).map_err(|error| RedactError {
            pattern: "all together".to_owned(),
            problem: error.to_string(),
        })?;
        Ok(Self { any: Arc::new(any), each, own })
    }

    /// The text without its secrets; borrowed when there are none.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut redacted = Cow::Borrowed(text);
        // What stands against a secret may show its shape only once that one is masked.
        for _ in 0..PASSES_MAX {
            let Some(masked) = self.once(&redacted) else { break };
            redacted = Cow::Owned(masked);
        }
        redacted
    }

    /// The text with everything masked that shows in it; none where that changes nothing.
    fn once(&self, text: &str) -> Option<String> {
        let mut redacted = Cow::Borrowed(text);
        let shown = self.any.matches(text).into_iter().filter_map(|index| self.each.get(index));
        for regex in shown.chain(self.own.iter()) {
            if let Cow::Owned(masked) = regex.replace_all(&redacted, masked) {
                redacted = Cow::Owned(masked);
            }
        }
        (redacted != text).then(|| redacted.into_owned())
    }

    /// A failure without secrets in any of its texts, the operator's cause included.
    pub fn failure(&self, failure: Failure) -> Failure {
        let Failure { code, message, hint, details, candidates, retry_after, effect, schema, window, source } =
            failure;
        let problem = |FieldProblem { path, expected, got }: FieldProblem| FieldProblem {
            path: self.shared(path),
            expected: self.shared(expected),
            got: self.shared(got),
        };
        Failure {
            code,
            message: self.shared(message),
            hint: hint.map(|hint| self.shared(hint)),
            details: details.into_iter().map(problem).collect(),
            candidates: candidates.into_iter().map(|candidate| self.shared(candidate)).collect(),
            retry_after,
            effect,
            schema: schema.and_then(|schema| self.json(schema)),
            window,
            source: source.map(|source| self.shared(source)),
        }
    }

    /// A tool's value without secrets.
    pub fn output(&self, output: ToolOutput) -> ToolOutput {
        ToolOutput { text: self.shared(output.text) }
    }

    /// A repair without secrets in what it replaced.
    pub fn repair(&self, repair: HistoryRepair) -> HistoryRepair {
        HistoryRepair { original: repair.original.map(|original| self.shared(original)), ..repair }
    }

    fn shared(&self, text: Arc<str>) -> Arc<str> {
        match self.text(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(redacted) => redacted.into(),
        }
    }

    /// None where the JSON does not survive the mask: better no schema than a secret in it.
    fn json(&self, json: Json) -> Option<Json> {
        match self.text(json.as_str()) {
            Cow::Borrowed(_) => Some(json),
            Cow::Owned(redacted) => Json::parse(&redacted).ok(),
        }
    }
}

/// Shows no pattern: some of them are secrets.
impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} patterns)", self.each.len() + self.own.len())
    }
}

fn compile(pattern: &str) -> Result<Regex, RedactError> {
    let refuse = |problem: String| RedactError { pattern: pattern.to_owned(), problem };
    let regex = Regex::new(pattern).map_err(|error| refuse(error.to_string()))?;
    if regex.is_match("") {
        return Err(refuse("it matches the empty text, so it would match everywhere".to_owned()));
    }
    Ok(regex)
}

fn masked(captures: &Captures<'_>) -> String {
    let group = |name| captures.name(name).map_or("", |found| found.as_str());
    format!("{}{MASK}{}", group("keep"), group("after"))
}

/// A secret as it is, as part of a JSON string, and as part of a URL.
fn spellings(secret: &str) -> [String; 3] {
    let quoted = serde_json::to_string(secret).unwrap_or_default();
    let in_json = quoted.trim_start_matches('"').strip_suffix('"').unwrap_or(secret).to_owned();
    let mut in_url = String::with_capacity(secret.len());
    for byte in secret.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            in_url.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(in_url, "%{byte:02X}");
        }
    }
    [secret.to_owned(), in_json, in_url]
}

/// Whether the value under a key is not to be shown.
pub(crate) fn is_secret_name(key: &str) -> bool {
    let plain: String = key.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    let inside = ["password", "passwd", "passphrase", "secret", "credential"];
    let at_the_end = ["pwd", "token", "apikey", "accesskey", "privatekey", "authorization"];
    inside.into_iter().any(|word| plain.contains(word))
        || at_the_end.into_iter().any(|word| plain.ends_with(word))
}

#[cfg(test)]
mod tests;
