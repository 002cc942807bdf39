//! What a status means. The one place where an HTTP answer becomes a failure code.

use std::collections::BTreeMap;

use dauntless_contract::{EffectState, FailureCode};
use reqwest::StatusCode;

use crate::config::{Reader, failure_code};

/// The operator's own reading of some statuses.
#[derive(Debug, Default)]
pub(super) struct StatusMap {
    single: BTreeMap<u16, FailureCode>,
    class: BTreeMap<u16, FailureCode>,
}

impl StatusMap {
    pub(super) fn read(table: &BTreeMap<String, String>, reader: &mut Reader<'_>) -> Self {
        let mut map = Self::default();
        for (key, code) in table {
            let field = format!("status.{key}");
            let code = reader.take(&field, failure_code(code));
            match (status_key(key), code) {
                (Some(StatusKey::Single(status)), Some(code)) => drop(map.single.insert(status, code)),
                (Some(StatusKey::Class(digit)), Some(code)) => drop(map.class.insert(digit, code)),
                (None, _) => reader.mistake(
                    field,
                    format!(
                        "`{key}` is no status: write one from 200 to 599, like `404`, or a class, like `5xx`"
                    ),
                ),
                (Some(_), None) => {}
            }
        }
        map
    }

    /// What the operator says the status means.
    pub(super) fn get(&self, status: StatusCode) -> Option<FailureCode> {
        let status = status.as_u16();
        self.single.get(&status).or_else(|| self.class.get(&(status / 100))).copied()
    }
}

enum StatusKey {
    Single(u16),
    Class(u16),
}

fn status_key(key: &str) -> Option<StatusKey> {
    match key.as_bytes() {
        [digit @ b'2'..=b'5', b'x', b'x'] => Some(StatusKey::Class(u16::from(digit - b'0'))),
        [b'2'..=b'5', b'0'..=b'9', b'0'..=b'9'] => key.parse().ok().map(StatusKey::Single),
        _ => None,
    }
}

/// What a status means, or `None` for a success.
pub(super) fn code_of(status: StatusCode, asks_to_wait: bool) -> Option<FailureCode> {
    Some(match status.as_u16() {
        200..=299 => return None,
        400 | 422 => FailureCode::InvalidArguments,
        401 => FailureCode::Unauthenticated,
        402 => FailureCode::QuotaExhausted,
        403 => FailureCode::PermissionDenied,
        404 => FailureCode::NotFound,
        408 => FailureCode::Timeout,
        409 | 412 | 423 => FailureCode::Conflict,
        410 => FailureCode::Gone,
        413 | 414 => FailureCode::TooLarge,
        425 | 429 => FailureCode::RateLimited,
        503 if asks_to_wait => FailureCode::RateLimited,
        500..=599 => FailureCode::Unavailable,
        _ => FailureCode::ToolError,
    })
}

/// Whether the effect took place, for a request that may change something.
pub(super) fn effect_of(status: StatusCode, code: FailureCode) -> EffectState {
    match (code, status.as_u16()) {
        (FailureCode::OutcomeUnknown, _) => EffectState::Unknown,
        (FailureCode::Partial, _) | (_, 200..=299) => EffectState::Happened,
        (FailureCode::RateLimited, _) | (_, 400..=499) => EffectState::None,
        // A redirect may be the answer to a request that was carried out.
        _ => EffectState::Unknown,
    }
}

/// Whether the answer sends us to another address.
pub(super) fn points_elsewhere(status: StatusCode) -> bool {
    matches!(status.as_u16(), 300..=303 | 307 | 308)
}

/// The failure in a sentence for the model.
pub(super) fn sentence(status: StatusCode, code: FailureCode) -> String {
    let what = match code {
        FailureCode::InvalidArguments => "The service did not accept the arguments",
        FailureCode::Unauthenticated => "The service did not accept this tool's credentials",
        FailureCode::QuotaExhausted => "The quota at the service is used up",
        FailureCode::PermissionDenied => "This tool's credentials do not allow this",
        FailureCode::NotFound => "The service has nothing under these arguments",
        FailureCode::NoResults => "Nothing matches these arguments",
        FailureCode::Conflict => "The present state of things does not allow this",
        FailureCode::Gone => "What this tool asks for no longer exists",
        FailureCode::TooLarge => "The service finds the request too large",
        FailureCode::Timeout => "The service stopped waiting for the request",
        FailureCode::RateLimited => "The service is being asked too often",
        FailureCode::Unavailable => "The service cannot work now",
        FailureCode::Partial => "The service did only a part of this",
        FailureCode::OutcomeUnknown => "It is unknown whether the service did this",
        _ if points_elsewhere(status) => {
            "The service points to another address, which this tool does not follow"
        }
        _ => "The service did not do this",
    };
    format!("{what} (status {}).", status.as_u16())
}
