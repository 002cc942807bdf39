//! Where requests go and what every one of them carries.
//!
//! `async-openai`'s own configuration reads the environment, which a library must not do.

use async_openai::config::Config;
use reqwest::header::HeaderMap;
use secrecy::SecretString;

/// The address of a provider and the headers for it, checked when the client was built.
#[derive(Clone)]
pub(super) struct Endpoint {
    base_url: String,
    headers: HeaderMap,
    /// The key is already in the headers, marked as sensitive; nothing else needs it.
    no_key: SecretString,
}

impl Endpoint {
    pub(super) fn new(base_url: String, headers: HeaderMap) -> Self {
        Self { base_url, headers, no_key: SecretString::default() }
    }
}

impl Config for Endpoint {
    fn headers(&self) -> HeaderMap {
        self.headers.clone()
    }
    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base_url)
    }
    fn query(&self) -> Vec<(&str, &str)> {
        Vec::new()
    }
    fn api_base(&self) -> &str {
        &self.base_url
    }
    fn api_key(&self) -> &SecretString {
        &self.no_key
    }
}
