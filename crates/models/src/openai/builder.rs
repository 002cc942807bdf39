//! Puts a client together and refuses what could only fail later, at the first request.

use std::sync::Arc;
use std::time::Duration;

use async_openai::Client;
use dauntless_contract::{ModelSpec, Price, ResiliencePolicy, Tokens};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Url, redirect};
use serde_json::{Map, Value};

use super::endpoint::Endpoint;
use super::{Api, OpenAi, transport};
use crate::profile::Profile;
use crate::secret::Secret;
use crate::tokens::{known_counter, known_window};
use crate::wire::Calling;

const OPENAI_BASE_URL: &str = "https://api.openai.com/v1";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// No conversation worth the name fits into less.
const WINDOW_MIN: u64 = 256;
/// Body fields that have settings of their own.
const RESERVED: [&str; 14] = [
    "include",
    "input",
    "instructions",
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens",
    "messages",
    "model",
    "parallel_tool_calls",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "tools",
];

/// Sets up an [`OpenAi`] client. Every setting but the model's name has a default.
#[derive(Clone, Debug)]
pub struct OpenAiBuilder {
    model: Arc<str>,
    provider: Arc<str>,
    base_url: Option<String>,
    api_key: Option<Secret>,
    headers: Vec<(String, Secret)>,
    stream: bool,
    temperature: Option<f64>,
    max_output_tokens: Option<u32>,
    context_window: Option<Tokens>,
    price: Price,
    resilience: ResiliencePolicy,
    idle_timeout: Duration,
    body: Map<String, Value>,
    api: Api,
    profile: Option<Profile>,
    calling: Calling,
    answer_schemas: bool,
}

/// Settings from which no client can be made.
#[derive(Debug, thiserror::Error)]
pub enum OpenAiBuildError {
    /// The model's name is blank.
    #[error("the model has no name: give the name that the provider knows it by, like `gpt-4o-mini`")]
    NoModel,
    /// The base URL cannot be used.
    #[error("base URL `{url}` cannot be used: {problem}; give something like `{OPENAI_BASE_URL}`")]
    BaseUrl {
        /// The URL, without a password that it may hold.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The API key cannot stand in a header.
    #[error(
        "the API key holds a line break or another character that no HTTP header may hold: copy it again"
    )]
    ApiKey,
    /// A header cannot be sent.
    #[error("header `{name}` cannot be sent: its name or value holds a character that HTTP does not allow")]
    Header {
        /// The header's name.
        name: String,
    },
    /// A body field has a setting of its own.
    #[error("body field `{field}` has a setting of its own on the builder: use that")]
    ReservedField {
        /// The field.
        field: String,
    },
    /// A setting is out of its range.
    #[error("`{setting}` is {value}: use {expected}")]
    OutOfRange {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
    /// The HTTP client cannot be made.
    #[error("the HTTP client cannot be set up: {0}")]
    Http(#[source] reqwest::Error),
}

impl OpenAiBuilder {
    pub(super) fn new(model: Arc<str>) -> Self {
        Self {
            model,
            provider: "openai".into(),
            base_url: None,
            api_key: None,
            headers: Vec::new(),
            stream: true,
            temperature: None,
            max_output_tokens: None,
            context_window: None,
            price: Price::default(),
            resilience: ResiliencePolicy::for_model(),
            idle_timeout: IDLE_TIMEOUT,
            body: Map::new(),
            api: Api::default(),
            profile: None,
            calling: Calling { parallel: true, strict: false },
            answer_schemas: true,
        }
    }

    /// Which API the provider is asked by; chat completions unless set.
    #[must_use]
    pub fn api(mut self, api: Api) -> Self {
        self.api = api;
        self
    }

    /// What the provider wants otherwise than others; known by the host of the base URL unless set.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = Some(profile);
        self
    }

    /// Whether the model may ask for several calls in one reply; it may unless set to false. Not
    /// every provider keeps to it, and all calls of a reply are answered all the same.
    #[must_use]
    pub fn parallel_calls(mut self, parallel: bool) -> Self {
        self.calling.parallel = parallel;
        self
    }

    /// Whether the provider is to hold the model to the schemas, of tools and of the answer; not
    /// unless set. Left out where strict mode would refuse the schema: every object must be closed
    /// (`additionalProperties: false`) and require all its properties.
    #[must_use]
    pub fn strict_schemas(mut self, strict: bool) -> Self {
        self.calling.strict = strict;
        self
    }

    /// The address before `/chat/completions` or `/responses`; none or blank for OpenAI's own. A slash at the end
    /// makes no difference.
    #[must_use]
    pub fn base_url(mut self, url: impl Into<Option<String>>) -> Self {
        self.base_url = url.into().filter(|url| !url.trim().is_empty());
        self
    }

    /// The API key; none or blank for a provider that wants none. White space around it is dropped.
    #[must_use]
    pub fn api_key(mut self, key: impl Into<Option<Secret>>) -> Self {
        let trimmed = |key: Secret| Secret::new(key.expose().trim());
        self.api_key = key.into().map(trimmed).filter(|key| !key.expose().is_empty());
        self
    }

    /// Who serves the model, for traces; `openai` unless set.
    #[must_use]
    pub fn provider(mut self, name: impl Into<Arc<str>>) -> Self {
        self.provider = name.into();
        self
    }

    /// Adds a header to every request, like `OpenAI-Organization`. Its value is kept secret.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Secret>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Whether answers come in pieces; they do unless set to false.
    #[must_use]
    pub fn stream(mut self, stream: bool) -> Self {
        self.stream = stream;
        self
    }

    /// How freely the model picks its words, from 0 to 2; the provider's default unless set.
    #[must_use]
    pub fn temperature(mut self, temperature: f64) -> Self {
        self.temperature = Some(temperature);
        self
    }

    /// The most tokens one reply may have, reasoning included.
    #[must_use]
    pub fn max_output_tokens(mut self, tokens: u32) -> Self {
        self.max_output_tokens = Some(tokens);
        self
    }

    /// The most tokens that a request and its reply may have together; by the model's name, where
    /// that is known, unless set. A run keeps its conversation below this.
    #[must_use]
    pub fn context_window(mut self, tokens: Tokens) -> Self {
        self.context_window = Some(tokens);
        self
    }

    /// What the model costs; nothing unless set.
    #[must_use]
    pub fn price(mut self, price: Price) -> Self {
        self.price = price;
        self
    }

    /// Timeouts, retries, breaker, budget, concurrency; [`ResiliencePolicy::for_model`] unless set.
    /// Of it the client itself only keeps the attempt's timeout, up to the first chunk of a stream.
    #[must_use]
    pub fn resilience(mut self, policy: ResiliencePolicy) -> Self {
        self.resilience = policy;
        self
    }

    /// The longest silence between two chunks of a stream. Default 30 s.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// Adds fields to the body of every request, like `{"seed": 7}`.
    #[must_use]
    pub fn body(mut self, fields: Map<String, Value>) -> Self {
        self.body.extend(fields);
        self
    }

    /// Whether the schema that an agent demands of its answers goes into the request, as
    /// `response_format`. It does unless set to false, for a provider that refuses the field or does
    /// not take it together with tools. The instructions tell the schema either way.
    #[must_use]
    pub fn answer_schemas(mut self, send: bool) -> Self {
        self.answer_schemas = send;
        self
    }

    /// Makes the client. Opens no connection.
    ///
    /// # Errors
    /// [`OpenAiBuildError`] with the first setting that cannot work.
    pub fn build(self) -> Result<OpenAi, OpenAiBuildError> {
        if self.model.trim().is_empty() {
            return Err(OpenAiBuildError::NoModel);
        }
        let base_url = self.checked_base_url()?;
        let headers = self.checked_headers()?;
        let host = base_url.host_str().unwrap_or_default();
        let profile = self.profile.clone().unwrap_or_else(|| Profile::of_host(host));
        let settings = self.checked_settings(&profile)?;
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(redirect::Policy::none())
            .retry(reqwest::retry::never())
            .build()
            .map_err(OpenAiBuildError::Http)?;
        let stream = self.stream;
        let client = http.clone();
        let service = tower::service_fn(move |request| transport::exchange(http.clone(), request, stream));
        let endpoint = Endpoint::new(base_url.as_str().trim_end_matches('/').to_owned(), headers);
        let spec = ModelSpec {
            context_window: self.context_window.or_else(|| known_window(&self.model)),
            counter: known_counter(&self.model),
            name: self.model,
            provider: self.provider,
            price: self.price,
            output_tokens_max: self.max_output_tokens,
            resilience: self.resilience,
        };
        Ok(OpenAi {
            spec: Arc::new(spec),
            client: Client::build(client, endpoint).with_http_service(service),
            stream,
            idle_timeout: self.idle_timeout,
            settings: Arc::new(settings),
            api: self.api,
            profile: Arc::new(profile),
            calling: self.calling,
            answer_schemas: self.answer_schemas,
            secrets: self
                .api_key
                .into_iter()
                .chain(self.headers.into_iter().map(|(_, value)| value))
                .collect(),
        })
    }

    fn checked_base_url(&self) -> Result<Url, OpenAiBuildError> {
        let text = self.base_url.as_deref().unwrap_or(OPENAI_BASE_URL).trim();
        let wrong = |url: &str, problem: &str| {
            Err(OpenAiBuildError::BaseUrl { url: url.to_owned(), problem: problem.to_owned() })
        };
        let url = match Url::parse(text) {
            Ok(url) => url,
            Err(error) => return wrong(text, &error.to_string()),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return wrong(
                url.host_str().unwrap_or_default(),
                "it holds a user name or password, set the API key instead",
            );
        }
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return wrong(text, "it is no http or https address");
        }
        if url.query().is_some() || url.fragment().is_some() {
            return wrong(url.path(), "it holds a `?` or `#` part, leave that out");
        }
        Ok(url)
    }

    fn checked_headers(&self) -> Result<HeaderMap, OpenAiBuildError> {
        let mut headers = HeaderMap::new();
        if let Some(key) = &self.api_key {
            let value = format!("Bearer {}", key.expose());
            headers.insert(AUTHORIZATION, sensitive(&value).ok_or(OpenAiBuildError::ApiKey)?);
        }
        for (name, value) in &self.headers {
            let error = || OpenAiBuildError::Header { name: name.clone() };
            let parsed: HeaderName = name.parse().map_err(|_| error())?;
            headers.insert(parsed, sensitive(value.expose()).ok_or_else(error)?);
        }
        Ok(headers)
    }

    fn checked_settings(&self, profile: &Profile) -> Result<Map<String, Value>, OpenAiBuildError> {
        let out_of_range =
            |setting, value: String, expected| Err(OpenAiBuildError::OutOfRange { setting, value, expected });
        if let Some(field) = self.body.keys().find(|field| RESERVED.contains(&field.as_str())) {
            return Err(OpenAiBuildError::ReservedField { field: field.clone() });
        }
        if self.idle_timeout.is_zero() {
            return out_of_range("idle_timeout", "0s".to_owned(), "a positive length, like 30 s");
        }
        if let Some(Tokens(window @ ..WINDOW_MIN)) = self.context_window {
            return out_of_range("context_window", window.to_string(), "256 or more");
        }
        let mut settings = self.body.clone();
        if let Some(temperature) = self.temperature {
            if !(0.0..=2.0).contains(&temperature) {
                return out_of_range("temperature", temperature.to_string(), "0 to 2");
            }
            settings.insert("temperature".to_owned(), temperature.into());
        }
        if let Some(tokens) = self.max_output_tokens {
            if tokens == 0 {
                return out_of_range("max_output_tokens", "0".to_owned(), "1 or more");
            }
            let name = match self.api {
                Api::Responses { .. } => "max_output_tokens",
                Api::Chat if profile.completion_tokens => "max_completion_tokens",
                Api::Chat => "max_tokens",
            };
            settings.insert(name.to_owned(), tokens.into());
        }
        Ok(settings)
    }
}

fn sensitive(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}
