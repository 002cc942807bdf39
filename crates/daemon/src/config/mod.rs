//! The configuration file: read once at start, checked whole, and handed on as typed values.
//!
//! A mistake in a configuration must fail at start with a message that names it, so everything that
//! can be known from the file is checked here, and all mistakes are reported at once, each with its
//! line. This refuses to guess: no unknown key is ignored, no value is coerced, no secret is read
//! from the file. The environment is not read either; variables are named and looked up by others.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    AgentSpec, Attendance, Bucket, BudgetPolicy, ModelSpec, RunLimits, Tokens, ToolSpec,
};
use dauntless_core::plan::{Face, Plan};
use dauntless_core::tree::Links;
use dauntless_models::{Api, Profile, known_window};
use dauntless_runtime::RevivalPolicy;
use dauntless_tools::{CommandConfig, HttpConfig, ToolConfigError};
use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

mod chaos;
mod dialect;
mod document;
mod file;
mod journal;
mod outline;
mod parameters;
mod policy;
mod report;
mod resolve;
mod secret;
mod shape;
mod team;
mod unit;

pub use chaos::{ChaosConfig, ChaosSwitch, ToolChaos};
pub use file::ToolCalling;
pub use journal::{JournalConfig, OnConfigChange, StoreAddress, StoreConfig, WorkerConfig};
pub use report::{Mistake, Place, Problem, Report};

use document::Document;
use file::ConfigFile;

/// The name under which `[model]` is kept in [`Config::models`].
pub const DEFAULT_MODEL: &str = "default";

/// A whole configuration: every default applied, every reference good.
#[derive(Clone, Debug)]
pub struct Config {
    /// The models; `[model]` is [`DEFAULT_MODEL`].
    pub models: BTreeMap<Arc<str>, ModelConfig>,
    /// The agents; at least one.
    pub agents: BTreeMap<Arc<str>, AgentConfig>,
    /// The plans; none has the name of an agent.
    pub plans: BTreeMap<Arc<str>, PlanConfig>,
    /// The tools.
    pub tools: BTreeMap<Arc<str>, ToolConfig>,
    /// What all models and tools have in common.
    pub resilience: ResilienceConfig,
    /// Which tools fail on purpose, if any.
    pub chaos: ChaosConfig,
    /// What is masked besides known keys and tokens. None matches the empty text.
    pub redact: Vec<Regex>,
    /// Where traces go.
    pub telemetry: TelemetryConfig,
    /// Where runs are kept that outlive their process.
    pub journal: JournalConfig,
    /// How a worker drives them.
    pub worker: WorkerConfig,
    /// Whether somebody answers the questions of agents. Nobody, unless whoever runs it says so.
    pub attendance: Attendance,
    written: Written,
}

/// The document itself, from which a run's part of it is taken.
#[derive(Clone)]
struct Written(Arc<Value>);

/// Nothing: what it means is in the fields beside it.
impl fmt::Debug for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Config {
    /// What was written, right and complete as it is.
    pub(crate) fn written(&self) -> &Value {
        &self.written.0
    }

    /// The names of all agents and plans, as a list.
    pub(crate) fn names(&self) -> String {
        let names: BTreeSet<&str> = self.agents.keys().chain(self.plans.keys()).map(|name| &**name).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    }

    /// The models, agents, plans and tools of another configuration, and all else as it is here.
    pub(crate) fn with_parts_of(self, other: Self) -> Self {
        let Self { models, agents, plans, tools, written, .. } = other;
        Self { models, agents, plans, tools, written, ..self }
    }
}

/// A model and how it is reached.
#[derive(Clone, Debug)]
pub struct ModelConfig {
    /// What the client declares.
    pub spec: ModelSpec,
    /// Which client, and its own settings.
    pub client: ClientConfig,
    /// How it calls tools.
    pub tool_calling: ToolCalling,
    /// A key of [`Config::models`] that is asked when this one failed in one of these ways.
    pub fallback: Option<(Arc<str>, Vec<Bucket>)>,
}

impl ModelConfig {
    /// What the context window of this model rests on.
    pub fn window(&self) -> WindowSource {
        match (&self.client, self.spec.context_window) {
            (ClientConfig::Scripted { .. }, _) | (_, Some(_)) => WindowSource::Set,
            (ClientConfig::OpenAi { .. }, None) => {
                known_window(&self.spec.name).map_or(WindowSource::Unknown, WindowSource::ByName)
            }
        }
    }
}

/// What the context window of a model rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowSource {
    /// It is configured, or the model needs none.
    Set,
    /// The model's name is known to stand for this one. A server may grant less.
    ByName(
        /// The window.
        Tokens,
    ),
    /// Nothing: a run learns of it by a refused request.
    Unknown,
}

/// Which client serves a model.
#[derive(Clone, Debug)]
pub enum ClientConfig {
    /// A service that speaks the OpenAI API.
    OpenAi {
        /// The address; `None` leaves it to the environment and the client's default.
        base_url: Option<String>,
        /// The environment variable that holds the key.
        api_key_env: String,
        /// Which API it is asked by.
        api: Api,
        /// Whose ways requests follow; `None` leaves it to the host of the address.
        profile: Option<Profile>,
        /// Whether the model may ask for several calls in one reply.
        parallel_calls: bool,
        /// Whether the provider holds the model to schemas, where its strict mode takes the schema.
        strict_schemas: bool,
        /// Whether replies are read as they are written.
        stream: bool,
        /// Whether the schema of an agent's answer goes into the request.
        answer_schemas: bool,
        /// How freely the model writes; `None` leaves it to the provider.
        temperature: Option<f64>,
        /// A stream that is silent for so long counts as broken.
        idle_timeout: Duration,
    },
    /// Replies from a file.
    Scripted {
        /// The file; it existed when the configuration was read.
        script: PathBuf,
    },
}

/// An agent and what it may use.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// The role.
    pub spec: AgentSpec,
    /// A key of [`Config::models`].
    pub model: Arc<str>,
    /// Keys of [`Config::tools`], in the order of the file, each once.
    pub tools: Vec<Arc<str>>,
    /// What a run may use up: its own limits over `[limits]` over the defaults.
    pub limits: RunLimits,
    /// The agents that it may ask: keys of [`Config::agents`], without a circle.
    pub links: Links,
    /// Those of them that its model is offered; the others only stand in for one that failed.
    pub offered: BTreeSet<Arc<str>>,
    /// What other agents read of it, if anything is written.
    pub description: Option<Arc<str>>,
    /// The schema of what it takes from other agents and plans; none for a goal in words.
    pub input: Option<Arc<Value>>,
}

impl AgentConfig {
    /// What a plan must know of it.
    pub fn face(&self) -> Face {
        let output = self.spec.answer.as_ref().map(|answer| Arc::clone(&answer.schema.schema));
        Face { limits: self.limits.clone(), input: self.input.clone(), output }
    }
}

/// A plan, and what a run of it may use up.
#[derive(Clone, Debug)]
pub struct PlanConfig {
    /// What is to be done; every agent in it is a key of [`Config::agents`].
    pub plan: Plan,
    /// What a run may use up: its own limits over `[limits]` over the defaults.
    pub limits: RunLimits,
}

/// A tool and what it does.
#[derive(Clone, Debug)]
pub struct ToolConfig {
    /// What the tool declares.
    pub spec: Arc<ToolSpec>,
    /// What one attempt does.
    pub action: ToolAction,
}

/// What one attempt of a tool does.
#[derive(Clone, Debug)]
pub enum ToolAction {
    /// One HTTP request.
    Http(HttpConfig),
    /// One process.
    Command(CommandConfig),
}

/// What all models and tools have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResilienceConfig {
    /// The retry budget that they share beside their own.
    pub budget: BudgetPolicy,
    /// When what broke too often is started afresh.
    pub revival: RevivalPolicy,
}

/// Where traces go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TelemetryConfig {
    /// A collector that takes OTLP over HTTP; `None` is off.
    pub otlp_endpoint: Option<String>,
    /// The name that the collector files the traces under.
    pub service_name: String,
}

/// Reads a configuration file. Files that it names are looked for beside it.
///
/// # Errors
/// Every mistake in it, or why it cannot be read.
pub fn load(path: &Path) -> Result<Config, Report> {
    load_with(path, &mut |_| Vec::new())
}

/// Like [`load`], and asks `refuses` about each tool that is right so far.
///
/// Whether a tool can be built also depends on the machine: variables that are set, programs that
/// are installed. What `refuses` says about that joins the report, with its line.
///
/// # Errors
/// As for [`load`].
pub fn load_with(
    path: &Path,
    refuses: &mut dyn FnMut(&ToolConfig) -> Vec<ToolConfigError>,
) -> Result<Config, Report> {
    let origin = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| Report::unreadable(&origin, &error))?;
    parse_with(&text, &origin, path.parent().unwrap_or_else(|| Path::new("")), refuses)
}

/// Reads a configuration from text. `origin` names it in reports; files that it names are looked
/// for in `base_dir`.
///
/// # Errors
/// Every mistake in it.
pub fn parse(text: &str, origin: &str, base_dir: &Path) -> Result<Config, Report> {
    parse_with(text, origin, base_dir, &mut |_| Vec::new())
}

fn parse_with(
    text: &str,
    origin: &str,
    base_dir: &Path,
    refuses: &mut dyn FnMut(&ToolConfig) -> Vec<ToolConfigError>,
) -> Result<Config, Report> {
    settled(Document::parse(origin, text)?, base_dir, refuses)
}

/// Reads a configuration from what was once written, where every file that it names has its whole path.
///
/// # Errors
/// Every mistake in it.
pub(crate) fn of_value(origin: &str, value: Value) -> Result<Config, Report> {
    settled(Document::of(origin, value), Path::new(""), &mut |_| Vec::new())
}

fn settled(
    mut document: Document<'_>,
    base_dir: &Path,
    refuses: &mut dyn FnMut(&ToolConfig) -> Vec<ToolConfigError>,
) -> Result<Config, Report> {
    let spoilt = shape::check(&mut document, &schema());
    let file = read(&mut document, spoilt);
    let config = resolve::resolve(&mut document, file, base_dir, refuses);
    match document.is_clean() {
        true => Ok(config),
        false => Err(document.into_report()),
    }
}

/// Reads what the schema let through; what it did not is left out and already noted.
fn read(document: &mut Document<'_>, spoilt: Vec<String>) -> ConfigFile {
    let mut value = document.value().clone();
    for pointer in spoilt {
        document::remove(&mut value, &pointer);
    }
    // The tables of the adapters hold values that only their own types understand.
    for name in document.names("/tools") {
        let tool = document::join("/tools", &name);
        let (http, command) = (document::join(&tool, "http"), document::join(&tool, "command"));
        let refused = [
            value.pointer(&http).map(|table| (http.clone(), HttpConfig::deserialize(table).err())),
            value.pointer(&command).map(|table| (command.clone(), CommandConfig::deserialize(table).err())),
        ];
        for (pointer, error) in refused.into_iter().flatten() {
            if let Some(error) = error {
                document.rule(&pointer, error.to_string());
                document::remove(&mut value, &pointer);
            }
        }
    }
    ConfigFile::deserialize(value).unwrap_or_else(|error| {
        document.rule("", error.to_string());
        ConfigFile::default()
    })
}

/// The JSON Schema of the file, for editors and for the first check of every configuration.
pub fn schema() -> Value {
    shape::schema::<ConfigFile>()
}

#[cfg(test)]
mod tests;
