//! A tool that is one HTTP request.
//!
//! Every call is exactly one request (besides redirects of a reading request on its own origin):
//! the client's own retries and the proxies of the environment are off, because the runtime alone
//! decides about repetition and the operator alone about the way out.

mod address;
mod answer;
mod body;
mod config;
pub(crate) mod retry_after;
mod status;
mod url;
mod verify;

#[cfg(test)]
mod tests;

use std::error::Error;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    BoxFuture, Effect, EffectState, Failure, Json, Tool, ToolCtx, ToolOutput, ToolSpec, Verified,
};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Request};

use self::address::{GuardedResolver, Host, PrivateAddress};
use self::answer::AnswerReader;
use self::body::Body;
pub use self::config::{BodyConfig, BodyFrom, HttpConfig, HttpMethod, VerifyConfig};
use self::status::StatusMap;
use self::url::UrlTemplate;
use self::verify::Verifier;
use crate::arguments::Arguments;
use crate::config::{Reader, ToolConfigError, check_pointer};
use crate::environment::Environment;

/// Longest wait for a connection, the name's resolution and TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const REDIRECTS_MAX: usize = 3;
const USER_AGENT: &str = concat!("dauntless/", env!("CARGO_PKG_VERSION"));

/// A tool that is one HTTP request, made from an [`HttpConfig`].
///
/// # Limits
/// A connection must stand within 10 s. A body has at most 1 MiB, of a failure the first 16 KiB are
/// looked at. Statuses become failure codes by a fixed table, which `status` overrides.
///
/// # Cancel safety
/// Dropping the future of a call closes its connection; whether the service did its part by then is
/// not known.
pub struct HttpTool {
    spec: Arc<ToolSpec>,
    client: Client,
    request: RequestTemplate,
    answer: AnswerReader,
    verify: Option<Verifier>,
    secrets: Vec<String>,
}

/// What every request is made from.
struct RequestTemplate {
    method: HttpMethod,
    url: UrlTemplate,
    headers: HeaderMap,
    body: Body,
    idempotency_header: Option<HeaderName>,
}

impl fmt::Debug for HttpTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTool").field("name", &self.spec.name).finish_non_exhaustive()
    }
}

impl HttpTool {
    /// Builds the tool; `env` looks up environment variables.
    ///
    /// # Errors
    /// Every mistake in the configuration, each with its place under `http`.
    pub fn build(
        spec: Arc<ToolSpec>,
        config: HttpConfig,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, Vec<ToolConfigError>> {
        let mut reader = Reader::new("http", &spec.parameters, Environment::new(env));
        let hosts: Vec<Host> = config
            .hosts
            .iter()
            .enumerate()
            .filter_map(|(index, host)| reader.take(format_args!("hosts.{index}"), Host::parse(host)))
            .collect();
        let request = RequestTemplate::read(&config, &hosts, spec.effect, &mut reader);
        let status = StatusMap::read(&config.status, &mut reader);
        check_pointer(config.response.as_deref(), &mut reader);
        let client = reader.take("url", client(config.method, &hosts));
        let mut mistakes = Vec::new();
        let verify = config.verify.as_ref().and_then(|verify| {
            let mut reader = Reader::new("http.verify", &spec.parameters, Environment::new(env));
            let read = Verifier::read(verify, request.as_ref(), (&hosts, spec.effect), &mut reader);
            reader.finish(read).map_err(|found| mistakes = found).ok()
        });
        let ((request, client), mut secrets) = match reader.finish(request.zip(client)) {
            Ok(built) if mistakes.is_empty() => built,
            Ok(_) => return Err(mistakes),
            Err(found) => return Err(found.into_iter().chain(mistakes).collect()),
        };
        let (verify, more) = verify.unzip();
        secrets.extend(more.into_iter().flatten());
        let changes_nothing = config.method.is_safe() || spec.effect == Effect::ReadOnly;
        let answer = AnswerReader { status, pointer: config.response, changes_nothing };
        Ok(Self { spec, client, request, answer, verify, secrets })
    }

    /// What came from the environment and must never be shown to anyone.
    pub fn secrets(&self) -> Vec<String> {
        self.secrets.clone()
    }

    async fn send(&self, ctx: &ToolCtx, arguments: &Json) -> Result<ToolOutput, Failure> {
        let request = self.request.render(ctx, arguments)?;
        let response = self.client.execute(request).await.map_err(|error| self.not_answered(error))?;
        self.answer.read(response).await
    }

    /// No answer came. What was certainly not sent may be sent again, whatever the effect.
    fn not_answered(&self, error: reqwest::Error) -> Failure {
        let error = error.without_url();
        let failure = if causes(&error).any(|cause| cause.is::<PrivateAddress>()) {
            Failure::permission_denied("This tool's service has a private address, which it may not reach.")
                .hint("The operator can allow it by listing the host under `hosts`.")
        } else if error.is_connect() {
            Failure::connection_failed("The service cannot be reached; nothing was sent.")
        } else if self.answer.changes_nothing {
            Failure::connection_failed("The connection broke before the service answered.")
        } else {
            Failure::connection_failed(
                "The connection broke before the service answered: it may have done its part.",
            )
            .effect(EffectState::Unknown)
        };
        failure.source(chain(&error))
    }
}

impl Tool for HttpTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, ctx: ToolCtx, arguments: Json) -> BoxFuture<'_, Result<ToolOutput, Failure>> {
        Box::pin(async move { self.send(&ctx, &arguments).await })
    }

    fn verify(&self, ctx: ToolCtx, arguments: Json) -> BoxFuture<'_, Result<Verified, Failure>> {
        Box::pin(async move {
            match &self.verify {
                Some(verify) => verify.ask(&ctx, &arguments, |error| self.not_answered(error)).await,
                None => Ok(Verified::CannotTell),
            }
        })
    }
}

impl RequestTemplate {
    fn read(config: &HttpConfig, hosts: &[Host], effect: Effect, reader: &mut Reader<'_>) -> Option<Self> {
        let url = UrlTemplate::read(&config.url, &config.query, hosts, reader);
        let default_body = BodyConfig::From(config.method.default_body());
        let body = Body::read(config.body.as_ref().unwrap_or(&default_body), reader);
        // Where the URL or the body cannot be read, it is not known what they use.
        if url.is_some() && matches!(body, Some(Body::None | Body::Template(_))) {
            let way_out = "put it in the URL, the query or the body, or take it out of the schema";
            reader.refuse_unused("body", way_out);
        }
        let headers = read_headers(config, !matches!(body, Some(Body::None)), reader);
        if effect == Effect::Keyed && config.idempotency_header.is_none() {
            reader.mistake(
                "idempotency_header",
                "the tool's effect is `keyed`, but nothing carries the key: name the header, like `Idempotency-Key`",
            );
        }
        let idempotency_header = match &config.idempotency_header {
            Some(name) => Some(reader.take("idempotency_header", header_name(name))?),
            None => None,
        };
        Some(Self { method: config.method, url: url?, headers, body: body?, idempotency_header })
    }

    fn render(&self, ctx: &ToolCtx, arguments: &Json) -> Result<Request, Failure> {
        let named = Arguments::read(arguments)?;
        let mut request = Request::new(self.method.into(), self.url.render(&named)?);
        *request.headers_mut() = self.headers.clone();
        if let Some(name) = &self.idempotency_header {
            request.headers_mut().insert(name.clone(), HeaderValue::from_str(&ctx.idempotency_key)?);
        }
        *request.body_mut() = self.body.render(arguments, &named)?.map(Into::into);
        Ok(request)
    }
}

fn read_headers(config: &HttpConfig, has_body: bool, reader: &mut Reader<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if has_body {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    for (name, text) in &config.headers {
        let field = format!("headers.{name}");
        let value = reader.expand(&field, text).and_then(|value| {
            let value = HeaderValue::from_str(&value);
            reader.take(
                &field,
                value.map_err(|_| "the value has characters that no header may have".to_owned()),
            )
        });
        let name = reader.take(&field, header_name(name));
        if let Some((name, mut value)) = name.zip(value) {
            value.set_sensitive(Environment::is_named_in(text));
            headers.insert(name, value);
        }
    }
    headers
}

fn header_name(name: &str) -> Result<HeaderName, String> {
    HeaderName::from_str(name).map_err(|_| format!("`{name}` is no header name, like `X-Api-Key`"))
}

fn client(method: HttpMethod, hosts: &[Host]) -> Result<Client, String> {
    Client::builder()
        .no_proxy()
        .retry(reqwest::retry::never())
        .redirect(if method.is_safe() { same_origin() } else { Policy::none() })
        .referer(false)
        .dns_resolver(GuardedResolver::new(hosts))
        .connect_timeout(CONNECT_TIMEOUT)
        .user_agent(USER_AGENT)
        .build()
        .map_err(|error| format!("the HTTP client cannot be set up: {}", chain(&error)))
}

/// Follows a few redirects that stay where the operator pointed; any other is left as the answer.
fn same_origin() -> Policy {
    Policy::custom(|attempt| {
        let stays = attempt.previous().last().is_some_and(|from| from.origin() == attempt.url().origin());
        if stays && attempt.previous().len() <= REDIRECTS_MAX { attempt.follow() } else { attempt.stop() }
    })
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// An error and its causes, for the operator.
fn chain(error: &(dyn Error + 'static)) -> String {
    causes(error).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
