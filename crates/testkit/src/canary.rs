//! A fake key to put where a secret would be, and to look for wherever text leaves.
//!
//! Give it to the agent as a credential, an argument or an upstream's error, then hand every exit
//! (requests, history, log, events, spans, report) to [`Canary::search`]. It finds the key as it
//! is, cut, and in the encodings that carry secrets past a plain search. It is no secret itself.

use std::fmt;

#[cfg(test)]
mod tests;

/// A fake key with a shape that nothing else has.
///
/// # Examples
/// ```
/// use dauntless_testkit::Canary;
///
/// let canary = Canary::default();
/// let log = format!("GET /v1?key={} failed", canary.key());
/// let leaks = canary.search(&[("log", log.as_str()), ("report", "The upstream refused the key.")]);
/// assert_eq!(leaks.len(), 1);
/// assert_eq!(leaks[0].exit, "log");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canary {
    key: String,
}

/// How the key was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// As it is.
    Plain,
    /// Only a part of it: half or more.
    Part,
    /// With `%41` for characters.
    UrlEncoded,
    /// With `\u0041` or `\"` for characters.
    JsonEscaped,
    /// Inside base64, of either alphabet.
    Base64,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Part => "in part",
            Self::UrlEncoded => "URL-encoded",
            Self::JsonEscaped => "JSON-escaped",
            Self::Base64 => "in base64",
        })
    }
}

/// An exit the key left by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leak {
    /// The exit, as the caller named it.
    pub exit: String,
    /// How the key looks there.
    pub form: Form,
}

impl Default for Canary {
    fn default() -> Self {
        Self { key: "sk-canary-Zq7Xw2Lk9Tn4Vb6Rm1Hs8Jd3Gf5Py0C".to_owned() }
    }
}

impl Canary {
    /// A canary of another shape: a password with odd characters, a token of another vendor.
    ///
    /// # Panics
    /// When it has fewer than 16 bytes: a short text is found where it never was.
    #[track_caller]
    pub fn with_key(key: impl Into<String>) -> Self {
        let key = key.into();
        assert!(key.len() >= 16, "a canary needs 16 bytes or more, `{key}` has {}", key.len());
        Self { key }
    }

    /// The fake key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// How the text shows the key, if it does; the plainest form.
    pub fn in_text(&self, text: &str) -> Option<Form> {
        if text.contains(&self.key) {
            Some(Form::Plain)
        } else if decoded(text, url_character).contains(&self.key) {
            Some(Form::UrlEncoded)
        } else if decoded(text, json_character).contains(&self.key) {
            Some(Form::JsonEscaped)
        } else if base64_cores(self.key.as_bytes()).iter().any(|core| text.contains(core)) {
            Some(Form::Base64)
        } else if self.halves().iter().any(|half| text.contains(half)) {
            Some(Form::Part)
        } else {
            None
        }
    }

    /// Looks through every exit, each with its name, and gives those the key left by.
    pub fn search<N: AsRef<str>, T: AsRef<str>>(&self, exits: &[(N, T)]) -> Vec<Leak> {
        let leak = |(name, text): &(N, T)| {
            let form = self.in_text(text.as_ref())?;
            Some(Leak { exit: name.as_ref().to_owned(), form })
        };
        exits.iter().filter_map(leak).collect()
    }

    /// Holds that the key left by none of the exits.
    ///
    /// # Panics
    /// When it did, naming each exit.
    #[track_caller]
    pub fn assert_kept<N: AsRef<str>, T: AsRef<str>>(&self, exits: &[(N, T)]) {
        let leaks = self.search(exits);
        let lines: Vec<String> =
            leaks.iter().map(|leak| format!("  {} ({})", leak.exit, leak.form)).collect();
        assert!(leaks.is_empty(), "the canary key leaked by:\n{}", lines.join("\n"));
    }

    fn halves(&self) -> [&str; 2] {
        let at = (self.key.len() / 2..).find(|at| self.key.is_char_boundary(*at)).unwrap_or_default();
        let (head, tail) = self.key.split_at(at);
        [head, tail]
    }
}

/// The text with every escape replaced by its character, as far as `escape` knows it.
///
/// `escape` is given the text from a possible escape on, and gives the bytes with their old length.
fn decoded(text: &str, escape: fn(&str) -> Option<(u8, usize)>) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (byte, length) = match escape(rest) {
            Some((byte, length)) => (Some(byte), length),
            None => (None, first.len_utf8()),
        };
        let (taken, after) = rest.split_at(length);
        match byte {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(taken.as_bytes()),
        }
        rest = after;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn url_character(text: &str) -> Option<(u8, usize)> {
    let digits = text.strip_prefix('%')?.get(..2)?;
    Some((u8::from_str_radix(digits, 16).ok()?, 3))
}

/// Characters beyond ASCII are left as they are: keys have none.
fn json_character(text: &str) -> Option<(u8, usize)> {
    let after = text.strip_prefix('\\')?;
    match after.bytes().next()? {
        byte @ (b'"' | b'\\' | b'/') => Some((byte, 2)),
        b'u' => {
            let code = u8::from_str_radix(after.get(1..5)?, 16).ok()?;
            code.is_ascii().then_some((code, 6))
        }
        _ => None,
    }
}

/// What base64 makes of the key wherever it begins in the encoded text, without the characters at
/// the ends that also depend on its neighbours; in both alphabets.
fn base64_cores(key: &[u8]) -> Vec<String> {
    let mut cores = Vec::with_capacity(6);
    for before in 0..3_usize {
        let padded: Vec<u8> = std::iter::repeat_n(0, before).chain(key.iter().copied()).collect();
        let whole = padded.len() - padded.len() % 3;
        let skipped = if before == 0 { 0 } else { 4 };
        for last in ["+/", "-_"] {
            let text = base64(padded.get(..whole).unwrap_or_default(), last);
            cores.push(text.get(skipped..).unwrap_or_default().to_owned());
        }
    }
    cores
}

/// Base64 of whole groups of three bytes.
fn base64(bytes: &[u8], last_two: &str) -> String {
    let alphabet: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(last_two.chars()).collect();
    let mut text = String::with_capacity(bytes.len() / 3 * 4);
    for group in bytes.chunks_exact(3) {
        let bits = group.iter().fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
        text.extend([18, 12, 6, 0].iter().filter_map(|shift| alphabet.get(bits >> shift & 63)));
    }
    text
}
