//! One HTTP exchange. It exists to see status, headers and body of every failure, and to make sure
//! that one call is one request: it replaces the retrying service of `async-openai`.

use std::fmt;
use std::time::{Duration, SystemTime};

use async_openai::error::OpenAIError;
use async_openai::middleware::HttpRequestFactory;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Client, Response};
use serde_json::value::RawValue;

use crate::retry_after::retry_after;
use crate::wire::WireError;

/// So much of a failure's body is read; enough for any error object.
const FAILURE_BYTES_MAX: usize = 64 * 1024;
/// So much of an answer is read that came whole although a stream was asked for.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// An answer with a status that means failure.
#[derive(Debug)]
pub(super) struct ProviderError {
    pub(super) status: u16,
    pub(super) retry_after: Option<Duration>,
    /// The provider's own word on whether another try makes sense.
    pub(super) should_retry: Option<bool>,
    pub(super) request_id: Option<String>,
    pub(super) error: WireError,
    pub(super) body: String,
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the provider answered with HTTP status {}", self.status)
    }
}

impl std::error::Error for ProviderError {}

/// A good answer in one piece, although a stream was asked for.
#[derive(Debug)]
pub(super) struct PlainAnswer(pub(super) Box<RawValue>);

impl fmt::Display for PlainAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the provider answered in one piece")
    }
}

impl std::error::Error for PlainAnswer {}

/// Sends one request, once.
pub(super) async fn exchange(
    http: Client,
    request: HttpRequestFactory,
    stream: bool,
) -> Result<Response, OpenAIError> {
    let response = http.execute(request.build().await?).await?;
    if !response.status().is_success() {
        return Err(boxed(ProviderError::read(response).await));
    }
    if stream && is_whole(response.headers()) {
        let body = read(response, ANSWER_BYTES_MAX).await?;
        return Err(match serde_json::from_str(&body) {
            Ok(answer) => boxed(PlainAnswer(answer)),
            Err(error) => OpenAIError::JSONDeserialize(error, body),
        });
    }
    Ok(response)
}

fn boxed(error: impl std::error::Error + Send + Sync + 'static) -> OpenAIError {
    OpenAIError::Boxed(Box::new(error))
}

impl ProviderError {
    async fn read(response: Response) -> Self {
        let headers = response.headers();
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let wait = retry_after(text("retry-after-ms"), text("retry-after"), text("date"), SystemTime::now());
        let should_retry = text("x-should-retry").and_then(|word| word.parse().ok());
        let request_id = text("x-request-id").map(str::to_owned);
        let status = response.status().as_u16();
        // The status says enough where the body is lost.
        let body = read(response, FAILURE_BYTES_MAX).await.unwrap_or_default();
        let error = WireError::of_body(&body);
        Self { status, retry_after: wait, should_retry, request_id, error, body }
    }
}

/// Whether this cannot be a stream: an answer in one piece, or the page of somebody in between.
fn is_whole(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.trim_start().to_ascii_lowercase();
    ["application/json", "text/html"].iter().any(|whole| kind.starts_with(whole))
}

/// Reads a body up to a limit; the rest is left unread.
async fn read(mut response: Response, bytes_max: usize) -> Result<String, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await? {
        let room = bytes_max - body.len();
        body.extend_from_slice(piece.get(..room).unwrap_or(&piece));
        if body.len() == bytes_max {
            break;
        }
    }
    Ok(String::from_utf8_lossy(&body).into_owned())
}
