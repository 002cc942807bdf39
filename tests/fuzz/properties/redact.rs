//! Secrets in any text.
//!
//! The first line of the input says which secrets are planted: a letter each. The rest is the text,
//! and each `§` in it a place where the next of them goes. No secret may be read in what is left,
//! and nothing may be left for a second reading.

use std::sync::LazyLock;

use dauntless_core::redact::Redactor;

/// A secret of the configuration, found wherever it is.
const CONFIGURED: [&str; 4] = ["hunter/2+x \"q\"", "hunter/2", "Δοκιμή-μυστικό", "plain-enough"];

/// Secrets that show by themselves, with no letter or digit around them.
const SHAPED: [&str; 7] = [
    "sk-proj-abcDEF123456",
    "AKIAABCDEFGHIJKLMNOP",
    "ghp_0123456789abcdefABCDEF",
    "github_pat_11ABCDEFG0123456789",
    "AIzaSyFAKE0123456789",
    "xoxb-123456789012-abcdef",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-DEF_1",
];

static REDACTORS: LazyLock<[Redactor; 2]> = LazyLock::new(|| {
    let patterns = [r"(?<keep>CUST-)\d{4,}".to_owned(), r"\binternal\.\w+\b".to_owned()];
    let new = |patterns| Redactor::new(CONFIGURED.map(str::to_owned), patterns);
    [new(&[]), new(&patterns)].map(|redactor| redactor.unwrap_or_else(|error| panic!("{error}")))
});

/// Plants secrets in a text and redacts it.
pub fn holds(bytes: &[u8]) {
    let input = String::from_utf8_lossy(bytes);
    let (letters, text) = input.split_once('\n').unwrap_or_default();
    let mut planted = Vec::new();
    let mut secrets = letters.bytes().map(|letter| Planted::of(usize::from(letter)));
    let mut whole = String::new();
    for (index, piece) in text.split('§').enumerate() {
        if index > 0 {
            let Some(secret) = secrets.next() else { break };
            whole.push_str(&secret.with_space);
            // A text that has a shaped one as well may have it with letters around it.
            if !secret.shaped || !text.contains(&secret.bare) {
                planted.push(secret.bare);
            }
        }
        whole.push_str(piece);
    }
    for redactor in REDACTORS.iter() {
        let redacted = redactor.text(&whole);
        for secret in planted.iter().map(String::as_str).chain(CONFIGURED) {
            assert!(!redacted.contains(secret), "`{secret}` is left of {whole:?}: {redacted:?}");
        }
        assert_eq!(redactor.text(&redacted), redacted, "a second reading finds nothing in {whole:?}");
    }
}

/// One secret in one spelling.
struct Planted {
    bare: String,
    with_space: String,
    shaped: bool,
}

impl Planted {
    fn of(choice: usize) -> Self {
        match SHAPED.get(choice % 19) {
            Some(shaped) => {
                Self { bare: (*shaped).to_owned(), with_space: format!(" {shaped} "), shaped: true }
            }
            None => {
                let secret = CONFIGURED.into_iter().cycle().nth(choice % 4).unwrap_or_default();
                let bare = match choice % 3 {
                    0 => secret.to_owned(),
                    1 => in_json(secret),
                    _ => in_url(secret),
                };
                Self { with_space: bare.clone(), bare, shaped: false }
            }
        }
    }
}

fn in_json(secret: &str) -> String {
    secret.replace('"', "\\\"")
}

fn in_url(secret: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    let spell = |byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    secret.bytes().map(spell).collect()
}
