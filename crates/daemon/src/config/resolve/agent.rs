//! Agents: what each is told and may use.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use dauntless_contract::{AgentSpec, AnswerSchema, AnswerSpec, MicroUsd, RunLimits, Tokens};

use dauntless_core::tree::Links;
use dauntless_runtime::Agent;
use serde_json::Value;

use super::Resolver;
use super::links::Asks;
use crate::config::document::join;
use crate::config::file::{AgentFile, LimitsFile};
use crate::config::shape::nearest;
use crate::config::{AgentConfig, DEFAULT_MODEL, ModelConfig};

impl Resolver<'_, '_> {
    pub(super) fn agents(
        &mut self,
        agents: BTreeMap<String, AgentFile>,
        defaults: &LimitsFile,
        models: &BTreeMap<Arc<str>, ModelConfig>,
    ) -> BTreeMap<Arc<str>, AgentConfig> {
        let (mut resolved, mut asks) = (BTreeMap::new(), BTreeMap::new());
        for (name, mut file) in agents {
            let asked = Asks::of(&mut file);
            let agent = self.agent(&join("/agents", &name), &name, file, defaults, models);
            resolved.insert(name.as_str().into(), agent);
            asks.insert(name, asked);
        }
        self.links(asks, &mut resolved, models);
        resolved
    }

    fn agent(
        &mut self,
        pointer: &str,
        name: &str,
        file: AgentFile,
        defaults: &LimitsFile,
        models: &BTreeMap<Arc<str>, ModelConfig>,
    ) -> AgentConfig {
        let instructions = self.instructions(pointer, file.instructions, file.instructions_file.as_deref());
        let model = self.model_of(pointer, file.model);
        self.tools_of(pointer, &file.tools);
        self.fallbacks_in(pointer, &file.tools);
        let limits = run_limits(&file.limits, defaults);
        let answer = self.answer(pointer, name, file.answer.map(Value::Object), file.answer_file.as_deref());
        let answer =
            answer.map(|schema| AnswerSpec { reasks_max: file.answer_reasks, ..AnswerSpec::new(schema) });
        for (key, is_on, built_in) in [
            ("ask_user", file.ask_user, "ask_user"),
            ("notes", file.notes, "notes_read"),
            ("notes", file.notes, "notes_write"),
            ("messages", file.messages, "send_message"),
        ] {
            if is_on && file.tools.iter().any(|tool| tool == built_in) {
                let expected = format!("false, or another name for the tool `{built_in}` of this agent");
                self.document.wrong(&join(pointer, key), expected, None);
            }
        }
        let spec = AgentSpec {
            name: name.into(),
            instructions: instructions.into(),
            on_panic: file.on_panic.into(),
            answer,
            ask_user: file.ask_user,
            notes: file.notes,
            messages: file.messages,
        };
        self.priced(pointer, &model, models);
        let input =
            self.object_schema(pointer, "input", file.input.map(Value::Object), file.input_file.as_deref());
        AgentConfig {
            spec,
            model,
            tools: file.tools.into_iter().map(Into::into).collect(),
            limits,
            links: Links::default(),
            offered: BTreeSet::new(),
            description: file.description.map(Into::into),
            input: input.map(Arc::new),
        }
    }

    fn instructions(&mut self, pointer: &str, inline: Option<String>, file: Option<&Path>) -> String {
        match (inline, file) {
            (Some(text), None) => text,
            (None, Some(file)) => self.read(&join(pointer, "instructions_file"), file).unwrap_or_default(),
            (None, None) => {
                let expected = "what the agent is told about its role, or instructions_file";
                self.document.missing(&join(pointer, "instructions"), expected);
                String::new()
            }
            (Some(_), Some(_)) => {
                let expected = "one of instructions and instructions_file";
                self.document.wrong_found(&join(pointer, "instructions_file"), expected, "both", None);
                String::new()
            }
        }
    }

    /// The shape of the agent's answers, from wherever it is; `None` when there is none or it cannot be used.
    fn answer(
        &mut self,
        pointer: &str,
        name: &str,
        inline: Option<Value>,
        file: Option<&Path>,
    ) -> Option<Arc<AnswerSchema>> {
        let at = join(pointer, if file.is_some() { "answer_file" } else { "answer" });
        let schema: Value = match (inline, file) {
            (None, None) => return None,
            (Some(schema), None) => schema,
            (None, Some(file)) => {
                let text = self.read(&at, file)?;
                let not_json = |error| self.document.rule(&at, format!("the file is not JSON: {error}"));
                serde_json::from_str(&text).map_err(not_json).ok()?
            }
            (Some(_), Some(_)) => {
                self.document.wrong_found(&at, "one of answer and answer_file", "both", None);
                return None;
            }
        };
        // The agent's own name is checked elsewhere; here only the schema is in question.
        if let Some(reason) = Agent::new(name).answer_schema("answer", schema.clone()).check_answer() {
            self.document.rule(&at, reason);
            return None;
        }
        Some(Arc::new(AnswerSchema { name: name.into(), schema: Arc::new(schema) }))
    }

    fn model_of(&mut self, pointer: &str, named: Option<String>) -> Arc<str> {
        let mut known = self.document.names("/models");
        known.extend(self.document.get("/model").map(|_| DEFAULT_MODEL.to_owned()));
        let at = join(pointer, "model");
        match named {
            None if self.document.get("/model").is_none() => {
                self.document.missing(&at, "the name of a model, because there is no [model] for all agents");
            }
            Some(name) if !known.contains(&name) => self.unknown_name(&at, "a model", &name, &known),
            None => {}
            Some(name) => return name.into(),
        }
        DEFAULT_MODEL.into()
    }

    fn tools_of(&mut self, pointer: &str, tools: &[String]) {
        let known = self.document.names("/tools");
        let mut seen = BTreeSet::new();
        for (index, tool) in tools.iter().enumerate() {
            let at = format!("{pointer}/tools/{index}");
            if !known.contains(tool) {
                self.unknown_name(&at, "a tool", tool, &known);
            } else if !seen.insert(tool) {
                self.document.wrong_found(&at, "each tool once", format!("{tool:?} again"), None);
            }
        }
    }

    pub(super) fn unknown_name(&mut self, at: &str, what: &str, name: &str, known: &[String]) {
        self.document.wrong(at, format!("the name of {what} in this file"), Some(meant(name, known)));
    }

    /// A limit in usd without a price, of the model or of a fallback, would never be reached.
    pub(super) fn priced(&mut self, pointer: &str, model: &str, models: &BTreeMap<Arc<str>, ModelConfig>) {
        let own = format!("{pointer}/limits/usd");
        let Some(at) = [own.as_str(), "/limits/usd"].into_iter().find(|at| self.document.get(at).is_some())
        else {
            return;
        };
        let (mut seen, mut next) = (BTreeSet::new(), Some(model));
        while let Some((name, config)) = next.and_then(|name| models.get_key_value(name))
            && seen.insert(name)
        {
            let table = match &**name {
                DEFAULT_MODEL if self.document.get("/model").is_some() => "/model".to_owned(),
                name => join("/models", name),
            };
            if self.document.get(&join(&table, "price")).is_none() {
                let expected =
                    format!("`price` on model {name:?}, without which this limit is never reached");
                let way_out = Some("a free model has a price of 0.0".to_owned());
                return self.document.wrong_found(at, expected, "none", way_out);
            }
            next = config.fallback.as_ref().map(|(name, _)| &**name);
        }
    }
}

/// What an unknown name was probably meant to be, or what there is.
pub(super) fn meant(name: &str, known: &[String]) -> String {
    match nearest(name, known) {
        Some(near) => format!("did you mean {near:?}?"),
        None if known.is_empty() => "there is none in this file".to_owned(),
        None => format!("there is {}", known.join(", ")),
    }
}

/// The own limits over those of the file over the defaults.
pub(super) fn run_limits(own: &LimitsFile, defaults: &LimitsFile) -> RunLimits {
    let base = RunLimits::default();
    RunLimits {
        turns: own.turns.or(defaults.turns).unwrap_or(base.turns),
        tokens: own.tokens.or(defaults.tokens).map_or(base.tokens, Tokens),
        cost: own.usd.or(defaults.usd).map_or(base.cost, MicroUsd::from_usd),
        wall_clock: own.wall_clock.or(defaults.wall_clock).map_or(base.wall_clock, |length| length.0),
        tool_calls: own.tool_calls.or(defaults.tool_calls).unwrap_or(base.tool_calls),
        depth: own.depth.or(defaults.depth).unwrap_or(base.depth),
        children: own.children.or(defaults.children).unwrap_or(base.children),
        children_at_once: own.children_at_once.or(defaults.children_at_once).unwrap_or(base.children_at_once),
    }
}
