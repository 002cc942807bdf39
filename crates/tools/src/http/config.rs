//! What an operator writes about an HTTP tool.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

/// A tool that is one HTTP request. Lives in `[tools.NAME.http]`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpConfig {
    /// The request method. Default GET. GET and HEAD follow up to 3 redirects on the same origin.
    #[serde(default)]
    pub method: HttpMethod,
    /// The URL, `http` or `https`. `{name}` puts in an argument, percent-encoded; it can change
    /// neither scheme nor path structure, and a host only to one listed in `hosts`. `{name?}` in
    /// the query may be absent and then takes its whole `key=value` pair along.
    pub url: String,
    /// More query parameters: key to template. A pair is left out when its argument is absent.
    /// A value with `${NAME}` takes that environment variable and no arguments. Default none.
    #[serde(default)]
    pub query: BTreeMap<String, String>,
    /// Request headers. `${NAME}` puts in an environment variable, which is then treated as a
    /// secret. Default none.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The JSON body: `"arguments"` (all of them), `"rest"` (those that the URL and the query do not
    /// use), `"none"`, or a table whose strings are templates: `"{name}"` alone puts in the argument
    /// with its JSON type. Default `"arguments"` for POST, PUT and PATCH, `"none"` otherwise.
    #[serde(default)]
    pub body: Option<BodyConfig>,
    /// JSON pointer (RFC 6901) to the part of the answer that the model gets, like `/data/items`.
    /// Default the whole body as text.
    #[serde(default)]
    pub response: Option<String>,
    /// The hosts that may be called, as `host` or `host:port`. Only a host named here may have a
    /// private, loopback or link-local address. Default the host of `url`.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Failure codes by status, like `404 = "no_results"` or `5xx = "unavailable"`; a single status
    /// goes before its class. Default as in the documentation of failures.
    #[serde(default)]
    pub status: BTreeMap<String, String>,
    /// The header that carries the idempotency key, like `Idempotency-Key`. Required when the tool's
    /// effect is `keyed`. Default none.
    #[serde(default)]
    pub idempotency_header: Option<String>,
    /// The request that tells whether an interrupted call happened, for a tool whose effect is
    /// `verifiable`. Default none: the model is told that nobody knows.
    #[serde(default)]
    pub verify: Option<VerifyConfig>,
}

/// The GET request that tells whether an interrupted call happened. Lives in
/// `[tools.NAME.http.verify]`. A success says that it did, and its body is the result of the call;
/// 404 and 410 say that it did not, and that it may be made again; any other answer says nothing.
/// Headers and `hosts` are those of the call, and so is the idempotency key in its header.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VerifyConfig {
    /// The URL, with placeholders for the arguments of the call.
    pub url: String,
    /// More query parameters, as for the call. Default none.
    #[serde(default)]
    pub query: BTreeMap<String, String>,
    /// JSON pointer (RFC 6901) to the part of the answer that is the result of the call. Default the
    /// whole body as text.
    #[serde(default)]
    pub response: Option<String>,
}

/// The request method of an HTTP tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum HttpMethod {
    /// Reads.
    #[default]
    Get,
    /// Reads the headers only.
    Head,
    /// Creates, or does something.
    Post,
    /// Replaces.
    Put,
    /// Changes in part.
    Patch,
    /// Removes.
    Delete,
}

/// What the body of a request is made of.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected \"arguments\", \"rest\", \"none\" or a table that is the JSON body")]
pub enum BodyConfig {
    /// A word for what it is made from.
    From(BodyFrom),
    /// A JSON object with templates in its strings.
    Template(Map<String, Value>),
}

/// Which arguments a body holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BodyFrom {
    /// All of them.
    Arguments,
    /// Those that the URL and the query do not use.
    Rest,
    /// None: there is no body.
    None,
}

impl HttpMethod {
    /// Whether the method promises to change nothing.
    pub(super) const fn is_safe(self) -> bool {
        match self {
            Self::Get | Self::Head => true,
            Self::Post | Self::Put | Self::Patch | Self::Delete => false,
        }
    }

    pub(super) const fn default_body(self) -> BodyFrom {
        match self {
            Self::Post | Self::Put | Self::Patch => BodyFrom::Arguments,
            Self::Get | Self::Head | Self::Delete => BodyFrom::None,
        }
    }
}

impl From<HttpMethod> for reqwest::Method {
    fn from(method: HttpMethod) -> Self {
        match method {
            HttpMethod::Get => Self::GET,
            HttpMethod::Head => Self::HEAD,
            HttpMethod::Post => Self::POST,
            HttpMethod::Put => Self::PUT,
            HttpMethod::Patch => Self::PATCH,
            HttpMethod::Delete => Self::DELETE,
        }
    }
}
