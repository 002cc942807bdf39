//! Fallbacks: each names something that is there, and none leads round in a circle.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Resolver;
use crate::config::DEFAULT_MODEL;
use crate::config::document::join;

impl Resolver<'_, '_> {
    /// Checks the fallbacks of all models and all tools.
    pub(super) fn fallbacks(&mut self) {
        let mut models = self.document.names("/models");
        models.extend(self.document.get("/model").map(|_| DEFAULT_MODEL.to_owned()));
        let model = |name: &str, resolver: &Self| match resolver.document.get("/model") {
            Some(_) if name == DEFAULT_MODEL => "/model".to_owned(),
            _ => join("/models", name),
        };
        self.fallbacks_of("a model", &models, model);
        let tools = self.document.names("/tools");
        self.fallbacks_of("a tool", &tools, |name, _| join("/tools", name));
    }

    /// Checks the key `fallback` in the tables of these names.
    pub(super) fn fallbacks_of(
        &mut self,
        what: &str,
        known: &[String],
        table: impl Fn(&str, &Self) -> String,
    ) {
        let next = |name: &str, resolver: &Self| {
            let at = join(&table(name, resolver), "fallback");
            let fallback = resolver.document.get(&at).and_then(Value::as_str).map(str::to_owned);
            fallback.map(|fallback| (at, fallback))
        };
        for name in known {
            let Some((at, fallback)) = next(name, self) else { continue };
            if !known.contains(&fallback) {
                self.unknown_name(&at, what, &fallback, known);
                continue;
            }
            let (mut seen, mut step) = (BTreeSet::new(), Some(fallback));
            while let Some(current) = step.filter(|current| seen.insert(current.clone())) {
                step = next(&current, self).map(|(_, fallback)| fallback);
            }
            if seen.contains(name) {
                let expected = format!("{what} whose own fallbacks do not lead back to {name:?}");
                self.document.wrong(&at, expected, None);
            }
        }
    }

    /// Checks that an agent has the fallbacks of its tools too: what it may not use cannot stand in.
    pub(super) fn fallbacks_in(&mut self, pointer: &str, tools: &[String]) {
        for (index, tool) in tools.iter().enumerate() {
            let at = join(&join("/tools", tool), "fallback");
            let fallback = self.document.get(&at).and_then(Value::as_str).map(str::to_owned);
            let Some(fallback) = fallback.filter(|fallback| !tools.contains(fallback)) else { continue };
            if self.document.names("/tools").contains(&fallback) {
                let expected = format!("beside it {fallback:?}, the fallback of {tool:?}");
                self.document.wrong(&format!("{pointer}/tools/{index}"), expected, None);
            }
        }
    }
}
