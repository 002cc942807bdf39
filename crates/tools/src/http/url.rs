//! URLs with placeholders that cannot break out of their place.

use std::collections::BTreeMap;

use dauntless_contract::Failure;
use reqwest::Url;

use super::address::{Host, is_public};
use crate::arguments::Arguments;
use crate::config::Reader;
use crate::environment::Environment;
use crate::template::Template;

/// A URL with placeholders, and the hosts it may lead to.
pub(super) struct UrlTemplate {
    scheme: &'static str,
    authority: Template,
    /// What is between the slashes.
    segments: Vec<Template>,
    query: Vec<(String, Template)>,
    hosts: Vec<Host>,
}

impl UrlTemplate {
    /// Reads `url` and `query`; `listed` is the operator's allow-list, empty for the URL's own host.
    pub(super) fn read(
        url: &str,
        query: &BTreeMap<String, String>,
        listed: &[Host],
        reader: &mut Reader<'_>,
    ) -> Option<Self> {
        let mapped: Vec<_> = query.iter().map(|(key, text)| read_pair(key, text, reader)).collect();
        let (scheme, rest) = reader.take("url", split_scheme(url))?;
        let (rest, own_query) = split_outside(rest, '?');
        let (authority, path) = split_outside(rest, '/');
        let authority = reader.template("url", authority);
        let segments: Vec<_> = split_all(path, '/').map(|text| read_segment(text, reader)).collect();
        let own_pairs = split_all(own_query, '&').filter(|pair| !pair.is_empty());
        let own_pairs: Vec<_> = own_pairs
            .map(|pair| {
                let (key, value) = split_outside(pair, '=');
                Some((key.to_owned(), reader.template("url", value)?))
            })
            .collect();
        let authority = authority?;
        Some(Self {
            scheme,
            hosts: reader.take("url", allowed_hosts(scheme, &authority, listed))?,
            authority,
            segments: segments.into_iter().collect::<Option<_>>()?,
            query: own_pairs.into_iter().chain(mapped).collect::<Option<_>>()?,
        })
    }

    /// The URL of one call, or why these arguments give none.
    pub(super) fn render(&self, arguments: &Arguments) -> Result<Url, Failure> {
        let authority = self.authority.render(arguments, str::to_owned)?.unwrap_or_default();
        let in_hosts = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':');
        if !self.authority.is_literal() && !authority.chars().all(in_hosts) {
            return Err(forbidden_host());
        }
        let mut text = format!("{}://{authority}", self.scheme);
        for segment in &self.segments {
            text.push('/');
            text.push_str(&render_segment(segment, arguments)?);
        }
        let mut separator = '?';
        for (key, template) in &self.query {
            if let Some(value) = template.render(arguments, percent_encode)? {
                text.push_str(&format!("{separator}{key}={value}"));
                separator = '&';
            }
        }
        let url = Url::parse(&text).map_err(|_| forbidden_host())?;
        match Host::of(&url) {
            Some(host) if self.hosts.iter().any(|allowed| allowed.allows(&host)) => Ok(url),
            _ => Err(forbidden_host()),
        }
    }
}

fn forbidden_host() -> Failure {
    Failure::invalid_arguments("These arguments lead to a host that this tool may not call.")
        .hint("Use other values for the arguments that choose the host.")
}

fn split_scheme(url: &str) -> Result<(&'static str, &str), String> {
    if split_all(url, '#').count() > 1 {
        return Err("a `#` part is never sent to a server: leave it out".to_owned());
    }
    let found = ["https", "http"].into_iter().find_map(|scheme| {
        let rest = url.strip_prefix(scheme)?.strip_prefix("://")?;
        Some((scheme, rest))
    });
    found.ok_or_else(|| format!("`{url}` is no URL of the web: it must begin with `https://` or `http://`"))
}

fn read_pair(key: &str, text: &str, reader: &mut Reader<'_>) -> Option<(String, Template)> {
    let field = format!("query.{key}");
    let template = if Environment::is_named_in(text) {
        Template::literal(percent_encode(&reader.expand(field, text)?))
    } else {
        let template = reader.take(&field, Template::parse(text))?;
        reader.check(field, template.lenient(percent_encode))?
    };
    Some((percent_encode(key), template))
}

fn read_segment(text: &str, reader: &mut Reader<'_>) -> Option<Template> {
    let template = reader.template("url", text)?;
    if let Some((name, _)) = template.holes().find(|(_, optional)| *optional) {
        let message = format!("`{{{name}?}}` may be absent, which only works in the query");
        reader.mistake("url", message);
    }
    Some(template)
}

/// Checks a fixed host against the allow-list at once; without a list it is the list.
fn allowed_hosts(scheme: &str, authority: &Template, listed: &[Host]) -> Result<Vec<Host>, String> {
    let Some(fixed) = authority.fixed() else {
        if listed.is_empty() {
            return Err(
                "the host has a placeholder: list the hosts that may be called under `hosts`".to_owned()
            );
        }
        return Ok(listed.to_vec());
    };
    let url = Url::parse(&format!("{scheme}://{fixed}/"))
        .map_err(|error| format!("the host cannot be read: {error}"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(
            "the URL holds credentials: move them to `headers`, from an environment variable".to_owned()
        );
    }
    let host = Host::of(&url).ok_or("the URL has no host")?;
    if listed.is_empty() {
        return match host.address() {
            Some(address) if !is_public(address) => Err(format!(
                "{address} is a private address: list it under `hosts` if the tool is to reach it"
            )),
            _ => Ok(vec![host]),
        };
    }
    if !listed.iter().any(|allowed| allowed.allows(&host)) {
        return Err(format!("the host `{fixed}` is not listed under `hosts`"));
    }
    Ok(listed.to_vec())
}

/// One path segment. It may not vanish or become `..`: that would name another resource.
fn render_segment(segment: &Template, arguments: &Arguments) -> Result<String, Failure> {
    let text = segment.render(arguments, percent_encode)?.unwrap_or_default();
    let plain = text.to_ascii_lowercase().replace("%2e", ".");
    match segment.holes().next() {
        Some((name, _)) if matches!(plain.as_str(), "" | "." | "..") => Err(Failure::invalid_arguments(
            format!("`{name}` cannot be empty, `.` or `..` here."),
        )
        .detail(format!("$.{name}"), "a name or an id", format!("{plain:?}"))),
        _ => Ok(text),
    }
}

/// Encodes all but the characters that mean the same everywhere in a URL.
fn percent_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// What is before and after the first `separator` that is not in a placeholder.
fn split_outside(text: &str, separator: char) -> (&str, &str) {
    let mut parts = split_all(text, separator);
    let before = parts.next().unwrap_or_default();
    (before, text.get(before.len() + separator.len_utf8()..).unwrap_or_default())
}

/// What is between the `separator`s that are not in a placeholder.
fn split_all(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    text.split(move |c| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == separator && depth == 0
    })
}
