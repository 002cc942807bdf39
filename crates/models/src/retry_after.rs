//! How long a server asks to be left alone, read from the headers that say so.
//!
//! Whatever does not follow the grammar counts as absent, so that the caller's own backoff applies:
//! a header that was guessed at could mean no wait at all, or a year.

use std::time::{Duration, SystemTime};

use httpdate::parse_http_date;

#[cfg(test)]
mod tests;

/// Reads the wait that a response asks for; none when no header says so in a valid form.
///
/// Takes the values of `retry-after-ms` (milliseconds, decimals allowed; looked at first),
/// `retry-after` (seconds, or any of the three forms of an HTTP date) and `date`. A date is
/// measured from the response's own `date`, so that a wrong clock on either side does no harm, and
/// from `now` where the response has none. A date in the past is a wait of zero. A number too big
/// to count is a wait of [`Duration::MAX`].
pub fn retry_after(
    retry_after_ms: Option<&str>,
    retry_after: Option<&str>,
    date: Option<&str>,
    now: SystemTime,
) -> Option<Duration> {
    if let Some(wait) = retry_after_ms.and_then(milliseconds) {
        return Some(wait);
    }
    let value = retry_after?;
    if is_digits(value) {
        return Some(value.parse().map_or(Duration::MAX, Duration::from_secs));
    }
    let until = parse_http_date(value).ok()?;
    let from = date.and_then(|date| parse_http_date(date).ok()).unwrap_or(now);
    Some(until.duration_since(from).unwrap_or(Duration::ZERO))
}

/// `1*DIGIT ["." 1*DIGIT]`, to the nanosecond: a float would take `inf` and `1e9`, and round.
fn milliseconds(value: &str) -> Option<Duration> {
    let (whole, part) = value.split_once('.').unwrap_or((value, "0"));
    if !is_digits(whole) || !is_digits(part) {
        return None;
    }
    let whole = whole.parse().map_or(Duration::MAX, Duration::from_millis);
    let nanoseconds = format!("{part:0<6.6}").parse().map_or(Duration::ZERO, Duration::from_nanos);
    Some(whole.saturating_add(nanoseconds))
}

fn is_digits(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit())
}
