//! Tools: what each declares and does.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use dauntless_contract::{OnExhausted, ResiliencePolicy, ToolSpec};
use dauntless_tools::ToolConfigError;
use serde_json::{Value, json};

use super::Resolver;
use crate::config::document::join;
use crate::config::file::ToolFile;
use crate::config::{ToolAction, ToolConfig, parameters};

impl Resolver<'_, '_> {
    pub(super) fn tools(
        &mut self,
        tools: BTreeMap<String, ToolFile>,
        refuses: &mut dyn FnMut(&ToolConfig) -> Vec<ToolConfigError>,
    ) -> BTreeMap<Arc<str>, ToolConfig> {
        for name in self.document.names("/tools") {
            self.one_action(&join("/tools", &name));
        }
        let mut resolved = BTreeMap::new();
        for (name, file) in tools {
            let pointer = join("/tools", &name);
            let Some(tool) = self.tool(&pointer, &name, file) else { continue };
            for ToolConfigError { field, message } in refuses(&tool) {
                self.document.rule(&format!("{pointer}/{}", field.replace('.', "/")), message);
            }
            resolved.insert(name.into(), tool);
        }
        resolved
    }

    fn one_action(&mut self, pointer: &str) {
        let is_written = |key: &str| self.document.get(&join(pointer, key)).is_some();
        match (is_written("http"), is_written("command")) {
            (true, false) | (false, true) => {}
            (false, false) => {
                let expected = "a table [http] or [command], which says what the tool does";
                self.document.wrong_found(pointer, expected, "neither", None);
            }
            (true, true) => {
                self.document.wrong_found(pointer, "one of the tables [http] and [command]", "both", None);
            }
        }
    }

    fn tool(&mut self, pointer: &str, name: &str, file: ToolFile) -> Option<ToolConfig> {
        let parameters =
            self.parameters(pointer, file.parameters.map(Value::Object), file.parameters_file.as_deref());
        let resilience = ResiliencePolicy {
            attempt_timeout: self.timeout(pointer, file.timeout, file.deadline),
            deadline: file.deadline.0,
            concurrency: file.concurrency,
            waiting: file.waiting,
            abandoned_max: file.abandoned_max,
            retry: file.retry.into(),
            breaker: file.breaker.into(),
            budget: file.budget.into(),
        };
        self.caps(pointer, &resilience);
        let action = file.http.map(ToolAction::Http).or_else(|| file.command.map(ToolAction::Command));
        if file.max_park.is_some() && file.on_exhausted != OnExhausted::Park {
            let message =
                "it has no effect without on_exhausted = \"park\": set that, or leave this out".to_owned();
            self.document.rule(&join(pointer, "max_park"), message);
        }
        let declared = ToolSpec::new(name, file.description, parameters?);
        let spec = ToolSpec {
            effect: file.effect,
            on_exhausted: file.on_exhausted,
            fallback: file.fallback.map(Into::into),
            polling: file.polling,
            output_bytes_max: file.output_max.0,
            resilience,
            max_park: file.max_park.map_or(declared.max_park, |longest| longest.0),
            ..declared
        };
        Some(ToolConfig { spec: spec.into(), action: action? })
    }

    /// The schema of a tool's arguments, from wherever it is; `None` when it cannot be used.
    fn parameters(&mut self, pointer: &str, inline: Option<Value>, file: Option<&Path>) -> Option<Value> {
        if inline.is_none() && file.is_none() {
            return Some(json!({ "type": "object", "properties": {}, "additionalProperties": false }));
        }
        self.object_schema(pointer, "parameters", inline, file)
    }

    /// The schema of an object, from a key or from the file that the key beside it names; `None` when there
    /// is none or it cannot be used.
    pub(super) fn object_schema(
        &mut self,
        pointer: &str,
        key: &str,
        inline: Option<Value>,
        file: Option<&Path>,
    ) -> Option<Value> {
        let key_of_file = format!("{key}_file");
        let at = join(pointer, if file.is_some() { &key_of_file } else { key });
        let schema = match (inline, file) {
            (None, None) => return None,
            (Some(schema), None) => schema,
            (None, Some(file)) => {
                let text = self.read(&at, file)?;
                let parsed = serde_json::from_str(&text);
                parsed
                    .map_err(|error| self.document.rule(&at, format!("the file is not JSON: {error}")))
                    .ok()?
            }
            (Some(_), Some(_)) => {
                self.document.wrong_found(&at, format!("one of {key} and {key_of_file}"), "both", None);
                return None;
            }
        };
        let mistakes = parameters::check(&schema);
        for (inside, words) in &mistakes {
            // Only a schema in this file has places in it.
            let (place, prefix) =
                if file.is_none() { (format!("{at}{inside}"), "") } else { (at.clone(), inside.as_str()) };
            let gap = if prefix.is_empty() { "" } else { ": " };
            self.document.rule(&place, format!("{prefix}{gap}{words}"));
        }
        mistakes.is_empty().then_some(schema)
    }
}
