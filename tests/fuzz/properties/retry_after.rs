//! The wait that a server asks for.
//!
//! Each line of the input is one header, `name: value`. Models and tools read the same headers with
//! code of their own, so each is held against the other, and both against what can be said of the
//! simple forms.

use std::time::{Duration, SystemTime};

/// Reads the headers in both ways.
pub fn holds<'b>(bytes: &'b [u8]) {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600);
    let mut headers: Vec<(&str, &[u8])> = Vec::new();
    for name in ["retry-after-ms", "retry-after", "date"] {
        let value = |line: &'b [u8]| line.strip_prefix(name.as_bytes())?.strip_prefix(b": ");
        headers.extend(bytes.split(|byte| *byte == b'\n').find_map(value).map(|value| (name, value)));
    }
    // What a client sees: a value beyond printable ASCII is none.
    let text = |name| {
        let (_, value) = headers.iter().find(|(known, _)| *known == name)?;
        let printable = value.iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
        std::str::from_utf8(value).ok().filter(|_| printable)
    };
    let (ms, after) = (text("retry-after-ms"), text("retry-after"));
    let wait = dauntless_models::retry_after(ms, after, text("date"), now);
    assert_eq!(wait, dauntless_tools::fuzzing::retry_after(&headers, now), "both read {headers:?} alike");
    if let Some(ms) = ms.and_then(digits) {
        assert_eq!(wait, Some(ms));
    } else if ms.is_none_or(|ms| !ms.starts_with(|c: char| c.is_ascii_digit())) {
        match after {
            None => assert_eq!(wait, None),
            Some(after) if after.bytes().all(|byte| byte.is_ascii_digit()) && !after.is_empty() => {
                let seconds = after.parse().map_or(Duration::MAX, Duration::from_secs);
                assert_eq!(wait, Some(seconds));
            }
            Some(after) => assert!(wait.is_none() || after.contains(':'), "only a date is left: {after}"),
        }
    }
}

/// Whole milliseconds.
fn digits(text: &str) -> Option<Duration> {
    let legal = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| legal).map(Duration::from_millis)
}
