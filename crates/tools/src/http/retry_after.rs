//! How long a server asks us to wait.
//!
//! A header that is not exactly what the standard allows is no header: a wait of zero or of a year
//! would be worse than the usual backoff.

use std::time::{Duration, SystemTime};

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// The wait from `retry-after-ms`, else from `Retry-After`; a date is relative to the answer's own.
///
/// A date in the past is a wait of zero; more seconds than fit is the longest wait there is.
pub(crate) fn parse(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    text("retry-after-ms".parse().ok()?).and_then(milliseconds).or_else(|| {
        let value = text(RETRY_AFTER)?;
        seconds(value).or_else(|| {
            let until = httpdate::parse_http_date(value).ok()?;
            let now = text(DATE).and_then(|date| httpdate::parse_http_date(date).ok()).unwrap_or(now);
            Some(until.duration_since(now).unwrap_or(Duration::ZERO))
        })
    })
}

/// Whole milliseconds and decimals, to the nanosecond; a float would round.
fn milliseconds(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let whole = whole.parse().map_or(Duration::MAX, Duration::from_millis);
    let nanoseconds = format!("{fraction:0<6.6}").parse().map_or(Duration::ZERO, Duration::from_nanos);
    Some(whole.saturating_add(nanoseconds))
}

fn seconds(text: &str) -> Option<Duration> {
    // `parse` alone would take "+5".
    is_digits(text).then(|| text.parse().map_or(Duration::MAX, Duration::from_secs))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
