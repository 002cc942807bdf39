//! From a configuration to a running system: models, tools and agents, put together once.
//!
//! A part that cannot start is named with its reason and left out, and the rest works: a missing
//! variable of one tool must not take the service down.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{Model, Tool};
use dauntless_models::{OpenAi, OpenAiBuildError, ScriptError, Scripted, Secret};
use dauntless_runtime::{Agent, BuildError, Runtime};
use dauntless_tools::{CommandTool, HttpTool, ProcessReaper, ToolConfigError};

use crate::config::{ClientConfig, Config, ModelConfig, ToolAction, ToolConfig};

/// Looks up a variable of the environment. Injected, so that only the binary reads the real one.
pub type Environment<'a> = &'a (dyn Fn(&str) -> Option<String> + Send + Sync);

/// A configured system, running.
pub struct App {
    runtime: Runtime,
    agents: BTreeMap<Arc<str>, Agent>,
    broken: Vec<Broken>,
    reaper: Arc<ProcessReaper>,
}

/// A tool or an agent that did not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// What it is: `tool` or `agent`.
    pub kind: &'static str,
    /// Its name in the configuration.
    pub name: Arc<str>,
    /// Why, with the way out.
    pub reason: String,
}

/// The system cannot run at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AssembleError {
    /// The key of a model is missing.
    #[error("model `{model}` needs the environment variable {variable}: set it to the provider's key")]
    NoKey {
        /// The model, as the configuration names it.
        model: Arc<str>,
        /// The variable.
        variable: String,
    },
    /// A model client cannot be built.
    #[error("model `{model}`: {error}")]
    Model {
        /// The model, as the configuration names it.
        model: Arc<str>,
        /// Why.
        error: OpenAiBuildError,
    },
    /// A script cannot be read.
    #[error("model `{model}`: cannot read the script {path}: {error}")]
    ScriptFile {
        /// The model.
        model: Arc<str>,
        /// The file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// A script cannot be followed.
    #[error("model `{model}`: {path}: {error}")]
    Script {
        /// The model.
        model: Arc<str>,
        /// The file.
        path: String,
        /// What is wrong with it.
        error: ScriptError,
    },
    /// The runtime did not start.
    #[error(transparent)]
    Runtime(#[from] BuildError),
}

/// There is no such agent, or no telling which.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAgent {
    /// The configuration has none of that name.
    #[error("there is no agent `{name}`; the configuration has: {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The agent is there and cannot run.
    #[error("agent `{name}` cannot run: {reason}")]
    Broken {
        /// The agent.
        name: String,
        /// Why.
        reason: String,
    },
    /// No name was given, and there are several.
    #[error("say which agent with --agent; the configuration has: {known}")]
    Which {
        /// The names there are.
        known: String,
    },
}

impl App {
    /// Builds and starts everything that a configuration names.
    ///
    /// # Errors
    /// [`AssembleError`], when a model that an agent needs cannot be had.
    pub async fn assemble(config: &Config, environment: Environment<'_>) -> Result<Self, AssembleError> {
        let reaper = Arc::new(ProcessReaper::new());
        let mut parts = Parts { tools: BTreeMap::new(), broken: Vec::new(), secrets: Vec::new() };
        for (name, tool) in &config.tools {
            parts.tool(name, tool, environment, &reaper);
        }
        let models = parts.models(config, environment)?;
        let mut builder = Runtime::builder()
            .secrets(parts.secrets.drain(..))
            .redact(config.redact.iter().map(|pattern| pattern.as_str().to_owned()));
        let mut agents = BTreeMap::new();
        for (name, agent) in &config.agents {
            let Some(model) = models.get(&agent.model) else { continue };
            let tools = agent.tools.iter().filter_map(|tool| parts.tools.get(tool).cloned());
            let built = Agent::new(Arc::clone(name))
                .instructions(Arc::clone(&agent.spec.instructions))
                .on_panic(agent.spec.on_panic)
                .shared_model(Arc::clone(model))
                .limits(agent.limits.clone())
                .tools(tools);
            let problems = built.check();
            if problems.is_empty() {
                builder = builder.agent(&built);
                agents.insert(Arc::clone(name), built);
                continue;
            }
            let reasons: Vec<String> = problems
                .iter()
                .map(|problem| format!("tool `{}`: {}", problem.name, problem.reason))
                .collect();
            parts.broken.push(Broken { kind: "agent", name: Arc::clone(name), reason: reasons.join("; ") });
        }
        Ok(Self { runtime: builder.build().await?, agents, broken: parts.broken, reaper })
    }

    /// The runtime.
    pub const fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The agents that can run.
    pub const fn agents(&self) -> &BTreeMap<Arc<str>, Agent> {
        &self.agents
    }

    /// What did not start.
    pub fn broken(&self) -> &[Broken] {
        &self.broken
    }

    /// The agent of this name; without one, the only agent there is.
    ///
    /// # Errors
    /// [`NoAgent`], naming the agents there are.
    pub fn agent(&self, name: Option<&str>) -> Result<&Agent, NoAgent> {
        let known = || self.agents.keys().map(|name| &**name).collect::<Vec<_>>().join(", ");
        match (name, self.agents.values().next()) {
            (None, Some(only)) if self.agents.len() == 1 => Ok(only),
            (None, _) => Err(NoAgent::Which { known: known() }),
            (Some(name), _) => self.agents.get(name).ok_or_else(|| {
                let broken =
                    self.broken.iter().find(|broken| broken.kind == "agent" && &*broken.name == name);
                match broken {
                    Some(broken) => NoAgent::Broken { name: name.to_owned(), reason: broken.reason.clone() },
                    None => NoAgent::Unknown { name: name.to_owned(), known: known() },
                }
            }),
        }
    }

    /// Ends every run and every process, within a time.
    pub async fn shutdown(&self, within: Duration) {
        self.runtime.shutdown(within).await;
        self.reaper.drain(within).await;
    }

    /// Kills every process of every tool at once. For the moment before a hard exit.
    pub fn kill_processes(&self) {
        self.reaper.kill_all();
    }

    /// What [`kill_processes`](Self::kill_processes) needs, to be held by a signal handler.
    pub fn reaper(&self) -> Arc<ProcessReaper> {
        Arc::clone(&self.reaper)
    }
}

/// What has been built so far.
struct Parts {
    tools: BTreeMap<Arc<str>, Arc<dyn Tool>>,
    broken: Vec<Broken>,
    secrets: Vec<String>,
}

impl Parts {
    fn tool(
        &mut self,
        name: &Arc<str>,
        config: &ToolConfig,
        environment: Environment<'_>,
        reaper: &Arc<ProcessReaper>,
    ) {
        let spec = Arc::clone(&config.spec);
        let built: Result<Arc<dyn Tool>, Vec<ToolConfigError>> = match &config.action {
            ToolAction::Http(http) => HttpTool::build(spec, http.clone(), &environment).map(|tool| {
                self.secrets.extend(tool.secrets());
                Arc::new(tool) as Arc<dyn Tool>
            }),
            ToolAction::Command(command) => {
                let built = CommandTool::build(spec, command.clone(), &environment, Arc::clone(reaper));
                built.map(|tool| {
                    self.secrets.extend(tool.secrets());
                    Arc::new(tool) as Arc<dyn Tool>
                })
            }
        };
        match built {
            Ok(tool) => {
                self.tools.insert(Arc::clone(name), tool);
            }
            Err(errors) => {
                let reasons: Vec<String> = errors.iter().map(ToString::to_string).collect();
                let reason = reasons.join("; ");
                self.broken.push(Broken { kind: "tool", name: Arc::clone(name), reason });
            }
        }
    }

    /// The models that agents use. One that nobody uses is not built, so it may lack its key.
    fn models(
        &mut self,
        config: &Config,
        environment: Environment<'_>,
    ) -> Result<BTreeMap<Arc<str>, Arc<dyn Model>>, AssembleError> {
        let mut models = BTreeMap::new();
        for name in config.agents.values().map(|agent| &agent.model) {
            if models.contains_key(name) {
                continue;
            }
            if let Some(model) = config.models.get(name) {
                models.insert(Arc::clone(name), self.model(name, model, environment)?);
            }
        }
        Ok(models)
    }

    fn model(
        &mut self,
        name: &Arc<str>,
        config: &ModelConfig,
        environment: Environment<'_>,
    ) -> Result<Arc<dyn Model>, AssembleError> {
        let model = || Arc::clone(name);
        match &config.client {
            ClientConfig::OpenAi { base_url, api_key_env, stream, temperature, idle_timeout } => {
                let filled = |name: &str| environment(name).filter(|value| !value.trim().is_empty());
                let key = filled(api_key_env)
                    .ok_or_else(|| AssembleError::NoKey { model: model(), variable: api_key_env.clone() })?;
                self.secrets.push(key.clone());
                let spec = &config.spec;
                let mut builder = OpenAi::builder(Arc::clone(&spec.name))
                    .api_key(Secret::new(key))
                    .provider(Arc::clone(&spec.provider))
                    .stream(*stream)
                    .price(spec.price)
                    .resilience(spec.resilience.clone())
                    .idle_timeout(*idle_timeout);
                if let Some(url) = base_url.clone().or_else(|| filled("OPENAI_BASE_URL")) {
                    builder = builder.base_url(url);
                }
                if let Some(tokens) = spec.output_tokens_max {
                    builder = builder.max_output_tokens(tokens);
                }
                if let Some(temperature) = temperature {
                    builder = builder.temperature(*temperature);
                }
                let built =
                    builder.build().map_err(|error| AssembleError::Model { model: model(), error })?;
                Ok(Arc::new(built))
            }
            ClientConfig::Scripted { script } => {
                let path = script.display().to_string();
                let text = std::fs::read_to_string(script).map_err(|error| AssembleError::ScriptFile {
                    model: model(),
                    path: path.clone(),
                    error,
                })?;
                let read = match script.extension().is_some_and(|extension| extension == "json") {
                    true => Scripted::from_json(&text),
                    false => Scripted::from_toml(&text),
                };
                let scripted = read.map_err(|error| AssembleError::Script { model: model(), path, error })?;
                let spec = config.spec.clone();
                Ok(Arc::new(scripted.with_spec(|declared| *declared = spec)))
            }
        }
    }
}
