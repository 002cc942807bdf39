//! The part of a configuration that one agent or one plan needs, as bytes that a run is pinned to.
//!
//! A run that outlives its process goes on with the agent it began with. So the agent, its tools and
//! its models are kept with the run, with the files that they name inside, and those of every agent
//! that it may ask, and everything else is left out: whatever belongs to the process (where the journal is, where traces go, what is masked,
//! what fails on purpose) is that of the process which drives the run. Equal agents give equal bytes
//! however their files are laid out. There is no secret in them, for there is none in the file.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::config::{self, AgentConfig, ClientConfig, Config, DEFAULT_MODEL, Report};

/// What reports call a pinned configuration.
const ORIGIN: &str = "the configuration that the run is pinned to";

/// Bytes that no configuration can be made of.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// They are no JSON.
    #[error("{ORIGIN} is not readable: {0}")]
    NotJson(serde_json::Error),
    /// They say what this program does not take, or a file that they name is gone.
    #[error("{0}")]
    Refused(Report),
}

/// What the agent or the plan needs, in canonical JSON; none when there is neither of that name.
///
/// That is also whatever is needed by the agents that it may ask, and by those that they may ask.
pub fn pin(config: &Config, name: &str) -> Option<Arc<[u8]>> {
    let written = config.written();
    let (mut pinned, mut open, mut seen) = (Map::new(), Vec::new(), BTreeSet::new());
    match (config.agents.get_key_value(name), config.plans.get_key_value(name)) {
        (Some((name, _)), _) => open.push(Arc::clone(name)),
        (None, Some((name, plan))) => {
            put(&mut pinned, "plans", name, limited(written, "plans", name));
            open.extend(plan.agents());
        }
        (None, None) => return None,
    }
    while let Some((name, resolved)) = open.pop().and_then(|name| config.agents.get_key_value(&name)) {
        if seen.insert(name) {
            agent(config, name, resolved, &mut pinned);
            open.extend(resolved.links.agents().cloned());
        }
    }
    // A value always has a JSON form.
    Some(serde_json::to_vec(&sorted(Value::Object(pinned))).unwrap_or_default().into())
}

/// An agent, with its tools and its models.
fn agent(config: &Config, name: &str, resolved: &AgentConfig, pinned: &mut Map<String, Value>) {
    let written = config.written();
    put(pinned, "agents", name, agent_of(written, name, resolved));
    models(config, &resolved.model, pinned);
    for tool in &resolved.tools {
        let mut table = table(written, &["tools", tool]);
        if let (Some(_), Some(known)) = (table.remove("parameters_file"), config.tools.get(tool)) {
            table.insert("parameters".to_owned(), Value::clone(&known.spec.parameters));
        }
        put(pinned, "tools", tool, table);
    }
}

/// The configuration that was pinned, in a process that is configured like `process`.
///
/// # Errors
/// [`PinError`], when this program does not take it.
pub fn restore(pinned: &[u8], process: &Config) -> Result<Config, PinError> {
    let value = serde_json::from_slice(pinned).map_err(PinError::NotJson)?;
    let agent = config::of_value(ORIGIN, value).map_err(PinError::Refused)?;
    Ok(process.clone().with_parts_of(agent))
}

fn agent_of(written: &Value, name: &str, resolved: &AgentConfig) -> Map<String, Value> {
    let mut agent = limited(written, "agents", name);
    agent.remove("instructions_file");
    agent.insert("instructions".to_owned(), Value::from(&*resolved.spec.instructions));
    let schema = resolved.spec.answer.as_ref().map(|answer| &*answer.schema.schema);
    if let Some(schema @ Value::Object(_)) = schema {
        agent.remove("answer_file");
        agent.insert("answer".to_owned(), schema.clone());
    }
    if let (Some(_), Some(input)) = (agent.remove("input_file"), &resolved.input) {
        agent.insert("input".to_owned(), Value::clone(input));
    }
    agent
}

/// A table with the limits that hold for it.
fn limited(written: &Value, section: &str, name: &str) -> Map<String, Value> {
    let mut limited = table(written, &[section, name]);
    let mut limits = table(written, &["limits"]);
    if section == "plans" {
        // They are each agent's own.
        limits.remove("turns");
    }
    limits.extend(table(written, &[section, name, "limits"]));
    match limits.is_empty() {
        true => limited.remove("limits"),
        false => limited.insert("limits".to_owned(), Value::Object(limits)),
    };
    limited
}

/// The model of this name, and those that are asked when it fails.
fn models(config: &Config, first: &Arc<str>, pinned: &mut Map<String, Value>) {
    let written = config.written();
    let (mut seen, mut next) = (BTreeSet::new(), Some(first));
    while let Some((name, model)) = next.and_then(|name| config.models.get_key_value(name))
        && seen.insert(name)
    {
        let is_default = &**name == DEFAULT_MODEL && written.get("model").is_some();
        let mut table =
            if is_default { table(written, &["model"]) } else { table(written, &["models", name]) };
        if let ClientConfig::Scripted { script } = &model.client {
            table.insert("script".to_owned(), Value::from(absolute(script)));
        }
        match is_default {
            true => drop(pinned.insert("model".to_owned(), Value::Object(table))),
            false => put(pinned, "models", name, table),
        }
        next = model.fallback.as_ref().map(|(name, _)| name);
    }
}

/// A table as it was written; empty where there is none.
fn table(written: &Value, path: &[&str]) -> Map<String, Value> {
    let found = path.iter().try_fold(written, |value, key| value.get(key));
    found.and_then(Value::as_object).cloned().unwrap_or_default()
}

fn put(pinned: &mut Map<String, Value>, section: &str, name: &str, table: Map<String, Value>) {
    let section = pinned.entry(section).or_insert_with(|| Value::Object(Map::new()));
    if let Some(section) = section.as_object_mut() {
        section.insert(name.to_owned(), Value::Object(table));
    }
}

fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

/// The value with the keys of every table in order, whatever order a map keeps.
fn sorted(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        Value::Object(map) => {
            let mut entries: Vec<_> = map.into_iter().collect();
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            Value::Object(entries.into_iter().map(|(key, value)| (key, sorted(value))).collect())
        }
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => plain,
    }
}

#[cfg(test)]
mod tests;
