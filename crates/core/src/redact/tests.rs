use dauntless_contract::{EffectState, FailureCode};
use serde_json::json;

use super::*;

fn built_in() -> Redactor {
    Redactor::new([], &[]).unwrap()
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let redactor = built_in();
    let once = redactor.text(text).into_owned();
    assert_eq!(once, expected);
    assert_eq!(redactor.text(&once), expected, "a second time changes nothing");
}

#[test]
fn keys_of_known_shapes_are_masked() {
    check("key sk-proj-abcDEF123456 used", "key [redacted] used");
    check("sk-abcdefghijklmnopqrst", "[redacted]");
    check("AKIAABCDEFGHIJKLMNOP", "[redacted]");
    check("ghp_0123456789abcdefABCDEF0123456789abcd!", "[redacted]!");
    check("github_pat_11ABCDEFG0123456789_abc", "[redacted]");
    check("AIzaSyFAKE0123456789", "[redacted]");
    check("xoxb-123456789012-abcdef", "[redacted]");
    check("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-DEF_1", "[redacted]");
    check(
        "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA PRIVATE KEY-----\nb",
        "a\n[redacted]\nb",
    );
    check("-----BEGIN PRIVATE KEY-----\nMIIE", "[redacted]");
}

#[test]
fn the_kind_and_the_host_of_an_error_remain() {
    check(
        "503 for https://api.example/v1?key=AIzaSyFAKE0123456789&q=x\nTraceback",
        "503 for https://api.example/v1?key=[redacted]&q=x\nTraceback",
    );
    check("https://api.example/s?key=FAKE-KEY-1", "https://api.example/s?key=[redacted]");
    check(
        "https://h/?a=1&X-Amz-Signature=abc&next_page_token=t1",
        "https://h/?a=1&X-Amz-Signature=[redacted]&next_page_token=t1",
    );
    check(
        "connect postgres://admin:FAKEPW@db.internal/x refused",
        "connect postgres://admin:[redacted]@db.internal/x refused",
    );
    check("redis://:FAKEPW@cache:6379", "redis://:[redacted]@cache:6379");
}

#[test]
fn headers_are_masked_whatever_their_scheme() {
    check("Authorization: Bearer sk-FAKE", "Authorization: Bearer [redacted]");
    check("authorization: Basic dXNlcjpwYXNz", "authorization: Basic [redacted]");
    check(r#"{"Authorization":"Token abc"}"#, r#"{"Authorization":"Token [redacted]"}"#);
    check("sent Bearer abc.def-1 to it", "sent Bearer [redacted] to it");
    check("X-Api-Key: abc123", "X-Api-Key: [redacted]");
}

#[test]
fn values_of_secret_keys_are_masked_in_every_notation() {
    check(r#"{"password":"FAKE \"123\"","n":1}"#, r#"{"password":"[redacted]","n":1}"#);
    check(r#"{"api_key": "abc", "token": "t"}"#, r#"{"api_key": "[redacted]", "token": "[redacted]"}"#);
    check(
        r#"{"body":"{\"client_secret\":\"abc\",\"n\":1}"}"#,
        r#"{"body":"{\"client_secret\":\"[redacted]\",\"n\":1}"}"#,
    );
    check("DB_PASSWORD=hunter GITHUB_TOKEN=abc x=1", "DB_PASSWORD=[redacted] GITHUB_TOKEN=[redacted] x=1");
    check("password: hunter2\nuser: me", "password: [redacted]\nuser: me");
    check("accessToken='abc'", "accessToken='[redacted]'");
}

#[test]
fn honest_text_stays() {
    for text in [
        "The password: at least 8 characters. Basic instructions for bearer bonds.",
        r#"{"nextPageToken":"CAUQAA","total_tokens":12,"max_tokens":4096}"#,
        "sorted(items, key=len) monkey=banana primary_key=42",
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8 at 12:30:45, ORD-2026-00042",
        "https://example.com:8080/path?q=a@b https://user@example.com/",
        "sk-learn risk-assessment task-12",
        "\"secret\": 5, a secret, token counts",
        "",
    ] {
        let redactor = built_in();
        assert!(
            matches!(redactor.text(text), Cow::Borrowed(same) if same == text),
            "{}",
            redactor.text(text)
        );
    }
}

#[test]
fn secrets_of_the_configuration_are_masked_wherever_they_are() {
    let secrets = ["hunter/2+x \"q\"", "hunter/2+x", "short", "      "].map(str::to_owned);
    let redactor = Redactor::new(secrets, &[]).unwrap();
    assert_eq!(redactor.text(r#"a hunter/2+x "q" b"#), "a [redacted] b");
    assert_eq!(redactor.text(r#"{"e":"hunter/2+x \"q\""}"#), r#"{"e":"[redacted]"}"#);
    assert_eq!(redactor.text("?p=hunter%2F2%2Bx%20%22q%22&"), "?p=[redacted]&");
    assert_eq!(redactor.text("xhunter/2+xx"), "x[redacted]x");
    assert_eq!(redactor.text("short stays"), "short stays");
}

#[test]
fn a_letter_beyond_ascii_hides_no_secret_and_costs_no_time() {
    check("ключsk-proj-abcDEF123456", "ключ[redacted]");
    check("é token=abc", "é token=[redacted]");
    let slow = super::built_in().find(|pattern| pattern.replace(r"(?-u:\b)", "").contains(r"\b"));
    assert_eq!(slow, None, "a boundary by Unicode makes a text with one umlaut a thousand times slower");
}

#[test]
fn what_stood_against_a_masked_secret_is_masked_too() {
    let redactor = Redactor::new(["plain-enough".to_owned()], &[]).unwrap();
    let redacted = redactor.text("plain-enoughAKIAABCDEFGHIJKLMNOP").into_owned();
    assert_eq!(redacted, "[redacted][redacted]");
    assert_eq!(redactor.text(&redacted), redacted, "a second time changes nothing");
}

#[test]
fn patterns_of_the_operator_are_masked_and_may_keep_a_part() {
    let patterns = [r"(?<keep>CUST-)\d+".to_owned(), r"\binternal\.\w+\b".to_owned()];
    let redactor = Redactor::new([], &patterns).unwrap();
    assert_eq!(redactor.text("CUST-123 at internal.db"), "CUST-[redacted] at [redacted]");
}

#[test]
fn a_pattern_that_cannot_be_used_is_named() {
    let error = |pattern: &str| Redactor::new([], &[pattern.to_owned()]).unwrap_err().to_string();
    assert!(error("(").starts_with("the redaction pattern `(` cannot be used: "), "{}", error("("));
    assert_eq!(
        error("a*"),
        "the redaction pattern `a*` cannot be used: it matches the empty text, so it would match everywhere"
    );
}

#[test]
fn every_text_of_a_failure_is_masked() {
    let secret = "password=FAKE-123";
    let failure = Failure::tool_error(secret)
        .hint(secret)
        .detail(secret, secret, secret)
        .candidates([secret])
        .schema(json!({ "default": secret }).into())
        .source(secret)
        .effect(EffectState::None);
    let redacted = built_in().failure(failure);
    assert!(!format!("{redacted:?}").contains("FAKE"), "{redacted:?}");
    assert_eq!(redacted.code, FailureCode::ToolError);
    assert_eq!(redacted.effect, EffectState::None);
    assert_eq!(redacted.source.as_deref(), Some("password=[redacted]"));
    assert_eq!(redacted.schema.unwrap().as_str(), r#"{"default":"password=[redacted]"}"#);
}

#[test]
fn an_output_is_masked_and_a_clean_one_is_not_copied() {
    let redactor = built_in();
    assert_eq!(&*redactor.output(ToolOutput::text("token=abc")).text, "token=[redacted]");
    let clean = ToolOutput::text("nothing here");
    assert!(Arc::ptr_eq(&redactor.output(clean.clone()).text, &clean.text));
}

#[test]
fn a_redactor_shows_none_of_its_secrets() {
    let redactor = Redactor::new(["hunter22".to_owned()], &[]).unwrap();
    assert!(!format!("{redactor:?}").contains("hunter"));
}

#[test]
fn the_name_of_a_secret_is_known_in_every_spelling() {
    for name in
        ["password", "DB_PASSWORD", "apiKey", "api-key", "access_token", "clientSecret", "Authorization"]
    {
        assert!(is_secret_name(name), "{name}");
    }
    for name in ["city", "max_tokens", "author", "keyboard", ""] {
        assert!(!is_secret_name(name), "{name}");
    }
}

#[test]
fn no_pattern_leaves_the_fast_way_for_letters_beyond_ascii() {
    for pattern in super::built_in() {
        assert!(!pattern.replace(r"(?-u:\b)", "").contains(r"\b"), "{pattern}");
    }
}
