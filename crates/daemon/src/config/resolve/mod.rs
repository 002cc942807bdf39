//! Turns what was written into what it means, and notes what cannot mean anything.
//!
//! References, files beside the configuration, and values that contradict each other are checked
//! here. Names are looked up in the document, not in what could be read of it, so that one mistake
//! in a tool does not also make it unknown to every agent.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{Attendance, ResiliencePolicy};
use dauntless_tools::ToolConfigError;
use regex::Regex;
use serde_json::Value;

use super::document::{Document, join};
use super::file::{ConfigFile, TelemetryFile};
use super::policy::ResilienceFile;
use super::unit::Length;
use super::{Config, DEFAULT_MODEL, TelemetryConfig, ToolConfig, Written, secret};

mod agent;
mod chaos;
mod fallback;
mod journal;
mod links;
mod model;
mod plan;
mod tool;

/// Notes every mistake that the schema cannot see. Without any, the result is complete.
pub(super) fn resolve(
    document: &mut Document<'_>,
    file: ConfigFile,
    base: &Path,
    refuses: &mut dyn FnMut(&ToolConfig) -> Vec<ToolConfigError>,
) -> Config {
    let mut resolver = Resolver { document, base };
    resolver.names();
    resolver.secrets();
    let models = resolver.models(file.model, file.models);
    let tools = resolver.tools(file.tools, refuses);
    resolver.fallbacks();
    resolver.revival(&file.resilience);
    let agents = resolver.agents(file.agents, &file.limits, &models);
    let plans = resolver.plans(file.plans, &file.limits, &agents, &models);
    let chaos = resolver.chaos(file.chaos);
    let redact = resolver.redact(&file.redact.patterns);
    let TelemetryFile { otlp_endpoint, service_name } = file.telemetry;
    let telemetry = TelemetryConfig { otlp_endpoint: otlp_endpoint.map(|url| url.0), service_name };
    let journal = resolver.journal(file.journal);
    let worker = resolver.worker(file.worker);
    Config {
        models,
        agents,
        plans,
        tools,
        resilience: file.resilience.into(),
        chaos,
        redact,
        telemetry,
        journal,
        worker,
        attendance: Attendance::Unattended,
        written: Written(Arc::new(document.value().clone())),
    }
}

struct Resolver<'d, 't> {
    document: &'d mut Document<'t>,
    base: &'d Path,
}

impl Resolver<'_, '_> {
    fn names(&mut self) {
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        for section in ["models", "agents", "plans", "tools"] {
            let pointer = join("", section);
            for name in self.document.names(&pointer) {
                if name.is_empty() || name.len() > 64 || !name.chars().all(legal) {
                    let expected = "a name of 1 to 64 of a-z, A-Z, 0-9, `_` and `-`";
                    self.document.wrong_name(&join(&pointer, &name), expected, &format!("{name:?}"), None);
                }
            }
        }
        if self.document.names("/agents").is_empty()
            && self.document.get("/agents").is_none_or(Value::is_object)
        {
            self.document.missing("/agents", "at least one agent, as a table [agents.NAME]");
        }
        let default = join("/models", DEFAULT_MODEL);
        if self.document.get("/model").is_some() && self.document.get(&default).is_some() {
            let expected = "another name, for [model] is already called \"default\"";
            self.document.wrong_name(&default, expected, "\"default\"", None);
        }
    }

    /// Refuses keys and passwords in the file, wherever they are.
    fn secrets(&mut self) {
        let mut found = Vec::new();
        let root = self.document.value();
        let mut rest: Vec<(String, &Value)> = vec![(String::new(), root)];
        while let Some((pointer, value)) = rest.pop() {
            match value {
                Value::String(text) if is_literal_secret(&pointer, text) => found.push(pointer),
                Value::Array(items) => {
                    rest.extend(items.iter().enumerate().map(|(at, item)| (format!("{pointer}/{at}"), item)));
                }
                Value::Object(map) => {
                    rest.extend(map.iter().map(|(key, value)| (join(&pointer, key), value)));
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        for pointer in found {
            let expected = "no secret in this file";
            let hint = match pointer.starts_with("/tools/") {
                true => "put it into an environment variable and write `${NAME}` in its place",
                false if pointer.starts_with("/journal") => {
                    "write the whole address into an environment variable and name that with `journal.url_env`"
                }
                false => "take it out; a model's key is in the variable that `api_key_env` names",
            };
            self.document.wrong_found(&pointer, expected, "what looks like one", Some(hint.to_owned()));
        }
    }

    fn redact(&mut self, patterns: &[String]) -> Vec<Regex> {
        let mut compiled = Vec::new();
        for (index, pattern) in patterns.iter().enumerate() {
            let at = format!("/redact/patterns/{index}");
            match Regex::new(pattern) {
                Ok(regex) if regex.is_match("") => {
                    let expected = "a pattern that does not match the empty text";
                    self.document.wrong(&at, expected, None);
                }
                Ok(regex) => compiled.push(regex),
                Err(error) => {
                    // The last line is the reason; those before it draw the pattern.
                    let reason = error.to_string();
                    let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
                    self.document.wrong(&at, "a regular expression", Some(reason.to_owned()));
                }
            }
        }
        compiled
    }

    /// The attempt's timeout: one that was written must fit into the deadline, the default gives way.
    fn timeout(&mut self, pointer: &str, timeout: Length, deadline: Length) -> Duration {
        let at = join(pointer, "timeout");
        let end = join(pointer, "deadline");
        if timeout > deadline && self.document.get(&at).is_some() && !self.document.is_noted(&end) {
            let written = self.document.get(&end).is_some();
            let whose = if written { "the deadline" } else { "the default deadline" };
            self.document.wrong(&at, format!("at most {whose}, \"{deadline}\""), None);
        }
        timeout.min(deadline).0
    }

    fn revival(&mut self, file: &ResilienceFile) {
        let pair =
            ("/resilience/revive_after", file.revive_after.0, "/resilience/revive_cap", file.revive_cap.0);
        self.below_cap(pair);
    }

    /// A bound that starts above its cap would only ever be the cap.
    fn caps(&mut self, pointer: &str, policy: &ResiliencePolicy) {
        let pairs = [
            ("retry/base", policy.retry.base, "retry/cap", policy.retry.cap),
            ("breaker/open_for", policy.breaker.open_for, "breaker/open_cap", policy.breaker.open_cap),
        ];
        for (start, length, end, cap) in pairs {
            let (start, end) = (format!("{pointer}/{start}"), format!("{pointer}/{end}"));
            self.below_cap((&start, length, &end, cap));
        }
    }

    fn below_cap(&mut self, (start, length, end, cap): (&str, Duration, &str, Duration)) {
        if length <= cap || self.document.is_noted(start) || self.document.is_noted(end) {
            return;
        }
        let (start_key, end_key) = (last(start), last(end));
        if self.document.get(start).is_some() {
            let expected = format!("at most `{end_key}`, \"{}\"", Length(cap));
            self.document.wrong(start, expected, None);
        } else {
            let expected = format!("at least `{start_key}`, \"{}\"", Length(length));
            self.document.wrong(end, expected, None);
        }
    }

    fn read(&mut self, at: &str, file: &Path) -> Option<String> {
        let path = self.base.join(file);
        let reason = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
        std::fs::read_to_string(&path).map_err(|error| self.document.rule(at, reason(error))).ok()
    }
}

fn last(pointer: &str) -> &str {
    pointer.rsplit('/').next().unwrap_or(pointer)
}

/// A known shape anywhere but in a pattern, or a value written out in a header that carries one.
fn is_literal_secret(pointer: &str, text: &str) -> bool {
    let is_header = pointer.starts_with("/tools/") && pointer.contains("/http/headers/");
    let written_out = !text.contains(['$', '{']) && !text.is_empty();
    !pointer.starts_with("/redact/")
        && (secret::is_in(text) || is_header && written_out && secret::is_named_by(last(pointer)))
}
