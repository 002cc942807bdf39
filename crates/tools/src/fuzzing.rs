//! The way in for tests that make up what a server sends, without a server.
//!
//! It exists only with the feature `fuzzing`, holds to no version and decides nothing.

use std::time::{Duration, SystemTime};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

/// Reads the wait that these headers ask for; one that HTTP does not allow is left out.
pub fn retry_after(headers: &[(&str, &[u8])], now: SystemTime) -> Option<Duration> {
    let legal = headers.iter().filter_map(|(name, value)| {
        Some((HeaderName::try_from(*name).ok()?, HeaderValue::from_bytes(value).ok()?))
    });
    crate::http::retry_after::parse(&legal.collect::<HeaderMap>(), now)
}
