//! An answer as the model gets it: a bounded body, or a failure with the service's own words.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use dauntless_contract::{Bucket, EffectState, Failure, FailureCode, ToolOutput};
use reqwest::{Response, StatusCode};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::retry_after;
use super::status::{StatusMap, code_of, effect_of, points_elsewhere, sentence};
use crate::arguments::plain;
use crate::excerpt::{beginning, quoted};

/// Longest body of a success, in bytes.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Longest part of a failure's body that is read, in bytes.
const ERROR_BODY_BYTES_MAX: usize = 16 * 1024;
/// Longest wait for a failure's body.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest part of a failure's body that the operator's log gets, in bytes.
const SOURCE_BYTES_MAX: usize = 2 * 1024;
/// Longest message of the service that the model gets, in bytes.
const MESSAGE_BYTES_MAX: usize = 300;

/// How the answers of one tool are read.
pub(super) struct AnswerReader {
    /// The statuses that the operator reads differently.
    pub(super) status: StatusMap,
    /// The part of the body that the model gets.
    pub(super) pointer: Option<String>,
    /// Whether a request can change anything.
    pub(super) changes_nothing: bool,
}

impl AnswerReader {
    pub(super) async fn read(&self, response: Response) -> Result<ToolOutput, Failure> {
        let status = response.status();
        let wait = retry_after::parse(response.headers(), SystemTime::now());
        match self.status.get(status).or_else(|| code_of(status, wait.is_some())) {
            None => self.success(response).await,
            Some(code) => {
                let mut failure = self.failure(status, code, &error_body(response).await);
                if code.bucket() == Bucket::Transient {
                    failure.retry_after = wait;
                }
                Err(failure)
            }
        }
    }

    fn failure(&self, status: StatusCode, code: FailureCode, body: &str) -> Failure {
        let words = if status.is_client_error() { own_words(body) } else { None };
        let words = words.map(|words| format!(" It says: {}", quoted(beginning(&words, MESSAGE_BYTES_MAX))));
        let message = sentence(status, code) + &words.unwrap_or_default();
        let failure = Failure::with_effect(code, self.effect(effect_of(status, code)), message)
            .source(format!("status {status}: {}", beginning(body, SOURCE_BYTES_MAX)));
        if points_elsewhere(status) {
            return failure.hint("The operator has to set this tool's URL to the new address.");
        }
        failure
    }

    async fn success(&self, response: Response) -> Result<ToolOutput, Failure> {
        let size = response.content_length();
        let body = read_body(response, BODY_BYTES_MAX).await.map_err(|failed| match failed.cause {
            Some(cause) => {
                Failure::connection_failed("The connection broke before the whole answer was read.")
                    .effect(self.effect(EffectState::Unknown))
                    .source(super::chain(&cause.without_url()))
            }
            None => {
                let size =
                    size.map_or_else(|| format!("more than {BODY_BYTES_MAX}"), |size| size.to_string());
                Failure::too_large(format!(
                    "The answer has {size} bytes, and at most {BODY_BYTES_MAX} can be read."
                ))
                .effect(self.effect(EffectState::Happened))
                .hint("Ask for less at once.")
            }
        })?;
        let text = String::from_utf8_lossy(&body);
        let Some(pointer) = &self.pointer else { return Ok(ToolOutput::text(&*text)) };
        let part = part_at(&text, pointer).ok_or_else(|| {
            Failure::tool_error(format!("The answer has no `{pointer}`, which is where this tool looks."))
                .effect(self.effect(EffectState::Happened))
                .source(beginning(&text, SOURCE_BYTES_MAX))
        })?;
        Ok(ToolOutput::text(&*plain(part)))
    }

    fn effect(&self, effect: EffectState) -> EffectState {
        if self.changes_nothing { EffectState::None } else { effect }
    }
}

/// A body that was not read to its end: too long, or broken off by `cause`.
struct Unfinished {
    read: Vec<u8>,
    cause: Option<reqwest::Error>,
}

/// What there is of a failure's body. The status has said what matters, so none of it is waited for
/// long, and a body that breaks off is as good as any.
async fn error_body(response: Response) -> String {
    let body = timeout(ERROR_BODY_TIMEOUT, read_body(response, ERROR_BODY_BYTES_MAX)).await;
    let body = body.map(|read| read.unwrap_or_else(|unfinished| unfinished.read)).unwrap_or_default();
    String::from_utf8_lossy(&body).into_owned()
}

async fn read_body(mut response: Response, bytes_max: usize) -> Result<Vec<u8>, Unfinished> {
    let mut read = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if read.len() + chunk.len() > bytes_max => {
                read.extend(chunk.iter().take(bytes_max - read.len()));
                return Err(Unfinished { read, cause: None });
            }
            Ok(Some(chunk)) => read.extend_from_slice(&chunk),
            Ok(None) => return Ok(read),
            Err(cause) => return Err(Unfinished { read, cause: Some(cause) }),
        }
    }
}

/// The message in a JSON error body, where services usually put it.
fn own_words(body: &str) -> Option<String> {
    let body: Value = serde_json::from_str(body).ok()?;
    let nested = body.get("error").and_then(|error| error.get("message"));
    let fields = ["message", "error", "detail"].into_iter().filter_map(|name| body.get(name));
    nested
        .into_iter()
        .chain(fields)
        .find_map(Value::as_str)
        .map(str::to_owned)
        .filter(|text| !text.is_empty())
}

/// The part of a JSON text that a pointer names, digit for digit.
fn part_at<'a>(text: &'a str, pointer: &str) -> Option<&'a str> {
    let mut part: &RawValue = serde_json::from_str(text).ok()?;
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        part = if part.get().starts_with('[') {
            serde_json::from_str::<Vec<&RawValue>>(part.get()).ok()?.get(token.parse::<usize>().ok()?)?
        } else {
            serde_json::from_str::<BTreeMap<String, &RawValue>>(part.get()).ok()?.get(&token).copied()?
        };
    }
    Some(part.get())
}
