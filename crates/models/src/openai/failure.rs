//! Turns what went wrong with a request into a failure: the kind by a table of statuses and codes,
//! the words for people, and the raw cause for the operator's log, without secrets.

use std::error::Error;
use std::num::NonZeroU32;
use std::time::Duration;

use async_openai::error::OpenAIError;
use dauntless_contract::{Bucket, EffectState, Failure, FailureCode};

use super::transport::ProviderError;
use crate::secret::Secret;
use crate::wire::WireError;

/// The most of a raw cause that is kept.
const SOURCE_BYTES_MAX: usize = 2048;
/// The most of a provider's own words that is shown.
const WORDS_BYTES_MAX: usize = 300;

/// The kind of failure behind a status and the provider's names for it.
///
/// A used-up quota, an overlong conversation and a call that the provider could not read hide behind
/// several statuses, so their names count for more. Status 0 stands for an error inside an answer that said all is well.
pub(super) fn classify(status: u16, error: &WireError, has_retry_after: bool) -> FailureCode {
    let named = error.names().find_map(named_code);
    if let Some(code @ (FailureCode::QuotaExhausted | FailureCode::TooLarge | FailureCode::Unavailable)) =
        named
    {
        return code;
    }
    match status {
        400 | 422 if is_unnamed(error) && speaks_of_length(error) => FailureCode::TooLarge,
        400 | 422 => FailureCode::InvalidArguments,
        401 => FailureCode::Unauthenticated,
        402 => FailureCode::QuotaExhausted,
        403 => FailureCode::PermissionDenied,
        // A redirect means that the model is not at this address; the key does not follow it.
        300..=399 | 404 => FailureCode::NotFound,
        408 => FailureCode::Timeout,
        409 => FailureCode::Unavailable,
        410 => FailureCode::Gone,
        413 => FailureCode::TooLarge,
        429 if error.names().next().is_none() && speaks_of(error, &QUOTAS) => FailureCode::QuotaExhausted,
        429 if !has_retry_after && speaks_of(error, &LONG_PERIODS) => FailureCode::QuotaExhausted,
        429 => FailureCode::RateLimited,
        503 | 529 if has_retry_after => FailureCode::RateLimited,
        405..=499 => FailureCode::InvalidArguments,
        500..=599 => FailureCode::Unavailable,
        _ => named.unwrap_or(FailureCode::Unavailable),
    }
}

/// What a provider's code or type means by itself.
fn named_code(name: &str) -> Option<FailureCode> {
    Some(match name.to_ascii_lowercase().as_str() {
        "insufficient_quota"
        | "billing_hard_limit_reached"
        | "billing_not_active"
        | "quota_exceeded"
        | "exceeded_current_quota_error"
        | "rate_limit_daily" => FailureCode::QuotaExhausted,
        "context_length_exceeded"
        | "exceed_context_size_error"
        | "context_window_exceeded"
        | "string_above_max_length"
        | "request_too_large" => FailureCode::TooLarge,
        "rate_limit_exceeded"
        | "rate_limit_reached"
        | "rate_limit_error"
        | "throttling_error"
        | "too_many_requests"
        | "resource_exhausted" => FailureCode::RateLimited,
        "invalid_api_key" | "authentication_error" | "unauthenticated" => FailureCode::Unauthenticated,
        "permission_denied" | "permission_error" => FailureCode::PermissionDenied,
        "model_not_found" | "not_found_error" | "not_found" => FailureCode::NotFound,
        "invalid_request_error" | "invalid_prompt" | "invalid_argument" | "bad_request" => {
            FailureCode::InvalidArguments
        }
        // The same request may well get another answer.
        "tool_use_failed" => FailureCode::Unavailable,
        "timeout" | "timeout_error" | "deadline_exceeded" => FailureCode::Timeout,
        _ => return None,
    })
}

/// Phrases of providers that answer 429 for a used-up quota and give no code to tell it by.
const QUOTAS: [&str; 4] =
    ["monthly usage limit", "billing cycle", "exceeded your current quota", "insufficient balance"];

/// Phrases for limits that no backoff outlasts. They count whatever the code, because one code
/// stands for limits of a minute and of a day, unless the provider says when to come back.
const LONG_PERIODS: [&str; 5] = ["per day", "perday", "daily", "per month", "monthly"];
/// Phrases of providers that refuse an overlong conversation and name it no more than a bad request.
const LENGTH_PHRASES: [&str; 6] = [
    "maximum context length",
    "contextwindowexceedederror",
    "prompt is too long",
    "input token count",
    "exceeds the context window",
    "exceeds the available context size",
];

fn speaks_of_length(error: &WireError) -> bool {
    speaks_of(error, &LENGTH_PHRASES)
}

/// Whether the provider's names say no more than the status does.
fn is_unnamed(error: &WireError) -> bool {
    const BAD_REQUEST: [&str; 5] =
        ["invalid_request_error", "badrequesterror", "bad_request", "invalid_argument", "badrequest"];
    error.names().all(|name| BAD_REQUEST.contains(&name.to_ascii_lowercase().as_str()))
}

fn speaks_of(error: &WireError, phrases: &[&str]) -> bool {
    let words = error.message.as_deref().unwrap_or_default().to_ascii_lowercase();
    phrases.iter().any(|phrase| words.contains(phrase))
}

/// Words failures for one model.
#[derive(Clone, Copy)]
pub(super) struct Reporter<'a> {
    pub(super) model: &'a str,
    pub(super) secrets: &'a [Secret],
}

impl Reporter<'_> {
    /// The provider answered with a status that means failure.
    pub(super) fn of_answer(self, answer: &ProviderError) -> Failure {
        let code = classify(answer.status, &answer.error, answer.retry_after.is_some());
        let is_transient = code.bucket() == Bucket::Transient;
        let code = match answer.should_retry {
            Some(false) if is_transient => FailureCode::ToolError,
            Some(true) if !is_transient => FailureCode::Unavailable,
            Some(_) | None => code,
        };
        let how = format!(" (HTTP {})", answer.status);
        let mut failure = self.provider_failure(code, &how, &answer.error);
        if answer.status == 408 {
            failure = failure.effect(EffectState::None);
        }
        if let Some(wait) = answer.retry_after {
            failure = failure.retry_after(wait);
        }
        let id = answer.request_id.as_deref().unwrap_or("none");
        self.source(failure, &format!("HTTP {}, request id {id}: {}", answer.status, answer.body))
    }

    /// The provider said that all is well, and then that it is not.
    pub(super) fn in_band(self, error: &WireError, body: &str) -> Failure {
        let code = classify(error.status().unwrap_or(0), error, false);
        let failure = self.provider_failure(code, " (inside an answer with HTTP 200)", error);
        self.source(failure, body)
    }

    /// A good status, and nothing in the body.
    pub(super) fn no_choice(self, body: &str) -> Failure {
        let failure = Failure::unavailable(format!("The answer of model `{}` holds no message.", self.model));
        self.source(failure, body)
    }

    /// The finish reason is `error`, and nothing says which.
    pub(super) fn ended_in_error(self) -> Failure {
        Failure::unavailable(format!("Model `{}` stopped with an error that it does not name.", self.model))
    }

    /// The stream ended without a finish reason.
    pub(super) fn cut_off(self) -> Failure {
        let text = format!("The answer of model `{}` broke off before its end.", self.model);
        Failure::connection_failed(text).effect(EffectState::Unknown)
    }

    /// No answer within an attempt's time.
    pub(super) fn late(self, patience: Duration) -> Failure {
        Failure::timeout(format!(
            "The provider of model `{}` did not answer within {patience:?}.",
            self.model
        ))
    }

    /// The stream went silent.
    pub(super) fn stalled(self, silence: Duration) -> Failure {
        Failure::timeout(format!(
            "The answer of model `{}` stalled: nothing came for {silence:?}.",
            self.model
        ))
    }

    /// The stream broke, or a chunk of it is not JSON.
    pub(super) fn of_stream(self, error: &OpenAIError) -> Failure {
        let failure = match error {
            OpenAIError::JSONDeserialize(..) => Failure::unavailable(format!(
                "A piece of the answer of model `{}` is not JSON, so the answer cannot be trusted.",
                self.model
            )),
            _ => self.cut_off(),
        };
        self.source(failure, &error.to_string())
    }

    /// The exchange failed, and no status says how.
    pub(super) fn of_exchange(self, error: OpenAIError) -> Failure {
        let model = self.model;
        match error {
            OpenAIError::Reqwest(error) => {
                let failure = if error.is_connect() {
                    Failure::connection_failed(format!("No connection to the provider of model `{model}`."))
                        .hint("Check the base URL and the network.")
                } else {
                    self.cut_off()
                };
                self.source(failure, &chain(&error.without_url()))
            }
            OpenAIError::JSONDeserialize(cause, body) => {
                let text = format!("The answer of the provider of model `{model}` is not JSON.");
                let failure = Failure::unavailable(text)
                    .hint("Check that the base URL is that of the API; it usually ends in `/v1`.");
                self.source(failure, &format!("{cause}: {body}"))
            }
            error => {
                let text = format!("The request to model `{model}` could not be made.");
                self.source(Failure::tool_error(text).effect(EffectState::None), &error.to_string())
            }
        }
    }

    fn provider_failure(self, code: FailureCode, how: &str, error: &WireError) -> Failure {
        let (what, hint, quotes) = describe(code);
        let mut text = format!("{what} for model `{}`{how}.", self.model);
        if quotes && let Some(words) = &error.message {
            let words = self.masked(words, WORDS_BYTES_MAX);
            text.push_str(&format!(" The provider says: \"{words}\""));
        }
        let mut failure = Failure::new(code, text);
        let window = error.window.and_then(|tokens| u32::try_from(tokens).ok()).and_then(NonZeroU32::new);
        if let (FailureCode::TooLarge, Some(tokens)) = (code, window) {
            failure = failure.window(tokens);
        }
        if hint.is_empty() { failure } else { failure.hint(hint) }
    }

    fn source(self, failure: Failure, cause: &str) -> Failure {
        failure.source(self.masked(cause, SOURCE_BYTES_MAX))
    }

    /// The text without secrets, cut at a character. They go first: half a key is a secret too.
    fn masked(self, text: &str, bytes_max: usize) -> String {
        let text = self.secrets.iter().fold(text.to_owned(), |text, secret| secret.mask(text));
        let cut = (0..=bytes_max.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let (head, rest) = text.split_at(cut);
        if rest.is_empty() { head.to_owned() } else { format!("{head}… ({} bytes more)", rest.len()) }
    }
}

/// What to say about a kind of failure, what to do next, and whether the provider's words help.
///
/// They help where the request must change. Where access is the matter they may repeat the key,
/// and where the service is, they tell of its insides.
fn describe(code: FailureCode) -> (&'static str, &'static str, bool) {
    match code {
        FailureCode::InvalidArguments => ("The provider refused the request as invalid", "", true),
        FailureCode::Unauthenticated => (
            "The provider does not accept the API key",
            "Check the API key and that it is for this provider.",
            false,
        ),
        FailureCode::QuotaExhausted => (
            "The quota is used up",
            "Raise the limit or the balance at the provider, or use another model.",
            true,
        ),
        FailureCode::PermissionDenied => (
            "The API key does not allow this request",
            "Ask for access at the provider, or use another model.",
            false,
        ),
        FailureCode::NotFound => {
            ("The provider finds nothing", "Check the model's name and the base URL.", true)
        }
        FailureCode::TooLarge => {
            ("The conversation is too long", "Shorten it, or use a model with a larger context.", true)
        }
        FailureCode::Gone => ("The provider no longer offers this address", "Use another model.", false),
        FailureCode::RateLimited => ("The provider limits the rate of requests", "", false),
        FailureCode::Timeout => ("The provider gave up waiting", "", false),
        FailureCode::ToolError => ("The provider failed and says that another try is of no use", "", false),
        _ => ("The provider cannot serve requests now", "", false),
    }
}

fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}
