use std::process::{Command, Stdio};

use super::*;
use crate::tests::panic_of;

const ODD: &str = "p\"ss/w+rd \\ 50% & more";

fn percent(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

fn unicode(text: &str) -> String {
    text.chars().map(|c| format!("\\u{:04X}", c as u32)).collect()
}

#[test]
fn a_text_without_the_key_is_clean() {
    let canary = Canary::default();
    for text in ["", "sk-canary-", "100% \\u00e9 \\", "sk-proj-Zq7Xw2Lk9"] {
        assert_eq!(canary.in_text(text), None, "{text}");
    }
}

#[test]
fn every_form_of_every_key_is_found() {
    for canary in [Canary::default(), Canary::with_key(ODD)] {
        let key = canary.key().to_owned();
        let half = &key[..key.len() / 2 + 1];
        let cases = [
            (key.clone(), Form::Plain),
            (percent(&key), Form::UrlEncoded),
            (unicode(&key), Form::JsonEscaped),
            (half.to_owned(), Form::Part),
        ];
        for (text, form) in cases {
            assert_eq!(canary.in_text(&format!("äöü \"{text}\" % \\")), Some(form), "{text}");
        }
    }
    let quoted = serde_json::to_string(ODD).unwrap();
    assert_eq!(Canary::with_key(ODD).in_text(&quoted), Some(Form::JsonEscaped));
}

#[test]
fn base64_is_found_at_every_offset() {
    for canary in [Canary::default(), Canary::with_key(ODD)] {
        for before in ["", "u", "us", "user:"] {
            let encoded = coreutils_base64(&format!("{before}{}\n!", canary.key()));
            assert_eq!(canary.in_text(&format!("Basic {encoded}")), Some(Form::Base64), "{before}");
            let url_safe = encoded.replace('+', "-").replace('/', "_");
            assert_eq!(canary.in_text(&url_safe), Some(Form::Base64), "{before}");
        }
    }
}

/// Encodes by another program, so that the search is not tested by itself.
fn coreutils_base64(text: &str) -> String {
    use std::io::Write;
    let mut child =
        Command::new("base64").arg("-w0").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

#[test]
fn each_leaking_exit_is_named() {
    let canary = Canary::default();
    let span = percent(canary.key());
    let exits = [("log", canary.key()), ("report", "nothing"), ("span", &span)];
    let message = panic_of(|| canary.assert_kept(&exits));
    assert_eq!(message, "the canary key leaked by:\n  log (plain)\n  span (URL-encoded)");
    canary.assert_kept(&exits[1..2]);
}

#[test]
fn a_short_canary_is_refused() {
    assert!(panic_of(|| drop(Canary::with_key("secret"))).contains("16 bytes"));
}
