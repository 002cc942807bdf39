use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::prelude::*;

use super::retry_after;

/// Wed, 21 Oct 2026 07:28:00 GMT.
fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_792_567_680)
}

fn header(value: &str) -> Option<Duration> {
    retry_after(None, Some(value), None, now())
}

#[test]
fn rt_06_plain_seconds_are_taken_as_they_are() {
    assert_eq!(header("120"), Some(Duration::from_secs(120)));
    assert_eq!(header("0"), Some(Duration::ZERO));
    assert_eq!(header("007"), Some(Duration::from_secs(7)));
}

#[test]
fn rt_06_anything_but_digits_counts_as_absent() {
    for value in ["", "+5", "-3", "1.5", " 7", "7 ", "７", "abc", "1e3", "5s", "NaN", "inf"] {
        assert_eq!(header(value), None, "{value:?}");
    }
    assert_eq!(retry_after(None, None, None, now()), None);
}

#[test]
fn rt_06_a_number_too_big_to_count_is_a_very_long_wait() {
    assert_eq!(header("99999999999999999999999"), Some(Duration::MAX));
    assert_eq!(retry_after(Some(&"9".repeat(400)), None, None, now()), Some(Duration::MAX));
}

#[test]
fn rt_07_every_form_of_an_http_date_is_read() {
    for date in
        ["Wed, 21 Oct 2026 07:29:00 GMT", "Wednesday, 21-Oct-26 07:29:00 GMT", "Wed Oct 21 07:29:00 2026"]
    {
        assert_eq!(header(date), Some(Duration::from_secs(60)), "{date}");
    }
}

#[test]
fn rt_07_a_date_is_measured_from_the_clock_of_the_server() {
    let skewed = "Wed, 21 Oct 2026 09:00:00 GMT";
    let wait = retry_after(None, Some("Wed, 21 Oct 2026 09:00:30 GMT"), Some(skewed), now());
    assert_eq!(wait, Some(Duration::from_secs(30)));
}

#[test]
fn rt_07_a_date_that_is_not_one_falls_back_to_our_clock() {
    let wait = retry_after(None, Some("Wed, 21 Oct 2026 07:28:30 GMT"), Some("yesterday"), now());
    assert_eq!(wait, Some(Duration::from_secs(30)));
}

#[test]
fn rt_07_a_date_in_the_past_is_a_wait_of_zero() {
    assert_eq!(header("Wed, 21 Oct 2020 07:28:00 GMT"), Some(Duration::ZERO));
}

#[test]
fn rt_07_milliseconds_come_first() {
    let wait = retry_after(Some("1500.5"), Some("9"), None, now());
    assert_eq!(wait, Some(Duration::from_micros(1_500_500)));
}

#[test]
fn milliseconds_are_exact_however_many_they_are() {
    let wait = |ms: &str| retry_after(Some(ms), None, None, now());
    assert_eq!(wait("555555555555"), Some(Duration::from_millis(555_555_555_555)));
    assert_eq!(wait("0.0000019"), Some(Duration::from_nanos(1)));
    assert_eq!(wait("99999999999999999999.9"), Some(Duration::MAX));
}

#[test]
fn milliseconds_that_are_none_leave_the_word_to_the_seconds() {
    for value in ["", "-1", "+1", "nan", "inf", "1.", ".5", "1e3"] {
        let wait = retry_after(Some(value), Some("9"), None, now());
        assert_eq!(wait, Some(Duration::from_secs(9)), "{value:?}");
    }
}

proptest! {
    #[test]
    fn no_header_brings_the_reader_down(ms in ".{0,40}", after in ".{0,40}", date in ".{0,40}") {
        let _ = retry_after(Some(&ms), Some(&after), Some(&date), now());
    }

    #[test]
    fn no_date_like_header_brings_the_reader_down(after in "[A-Z][a-z]{2,8},? [0-9]{1,2}[- ][A-Z][a-z]{2}[- ][0-9]{2,5} [0-9:]{7,8} GMT") {
        let _ = retry_after(None, Some(&after), None, now());
    }
}
