//! What did not start, and why, in words and in a form that an exit code can be told from.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use dauntless_models::{OpenAiBuildError, ScriptError};
use dauntless_runtime::{BuildError, Quarantined};
use dauntless_tools::ToolConfigError;

use crate::config::Config;

/// A tool, an agent or a plan that did not start. Its text names it, with the reason.
#[derive(Clone, Debug)]
pub struct Broken {
    /// Its name in the configuration.
    pub name: Arc<str>,
    /// Why it did not start.
    pub cause: Arc<Cause>,
}

/// Why a part did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// A tool lacks something on this machine.
    #[error("{}", joined(.0))]
    Tool(Vec<ToolConfigError>),
    /// The tools of an agent cannot be offered to a model.
    #[error("{}", joined(.0.iter().map(|problem| problem.reason.clone())))]
    Declarations(Vec<Quarantined>),
    /// The model of an agent cannot be had.
    #[error(transparent)]
    Model(Arc<ModelError>),
    /// Agents of a plan did not start.
    #[error("it needs what did not start: {}", joined(lacks.iter().map(|name| format!("agent `{name}`"))))]
    Plan {
        /// Their names.
        lacks: Vec<Arc<str>>,
    },
}

impl Cause {
    /// What did not start.
    const fn of(&self) -> &'static str {
        match self {
            Self::Tool(_) => "tool",
            Self::Declarations(_) | Self::Model(_) => "agent",
            Self::Plan { .. } => "plan",
        }
    }
}

/// A model that cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// Its key is missing.
    #[error("model `{model}` needs the environment variable {variable}: set it to the provider's key")]
    NoKey {
        /// The model, as the configuration names it.
        model: Arc<str>,
        /// The variable.
        variable: String,
    },
    /// Its client cannot be built.
    #[error("model `{model}`: {error}")]
    Client {
        /// The model, as the configuration names it.
        model: Arc<str>,
        /// Why.
        error: OpenAiBuildError,
    },
    /// Its script cannot be read.
    #[error("model `{model}`: cannot read the script {}: {error}", .path.display())]
    ScriptFile {
        /// The model, as the configuration names it.
        model: Arc<str>,
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Its script cannot be followed.
    #[error("model `{model}`: {}: {error}", .path.display())]
    Script {
        /// The model, as the configuration names it.
        model: Arc<str>,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: ScriptError,
    },
}

/// There is no such agent or plan, or no telling which.
#[derive(Debug, thiserror::Error)]
pub enum NoAgent {
    /// The configuration has none of that name.
    #[error("there is no agent or plan `{name}`; the configuration has: {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The agent is there and cannot run.
    #[error("{} `{name}` cannot run: {cause}", cause.of())]
    Broken {
        /// The agent.
        name: Arc<str>,
        /// Why.
        cause: Arc<Cause>,
    },
    /// No name was given, and there are several.
    #[error("say which agent is meant; the configuration has: {known}")]
    Which {
        /// The names there are.
        known: String,
    },
}

/// There is no such tool, or it cannot be called.
#[derive(Debug, thiserror::Error)]
pub enum NoTool {
    /// The configuration has none of that name.
    #[error("there is no tool `{name}`; the configuration has: {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The tool is there and cannot start.
    #[error("tool `{name}` cannot start: {cause}")]
    Broken {
        /// The tool.
        name: Arc<str>,
        /// Why.
        cause: Arc<Cause>,
    },
    /// The runtime did not start.
    #[error(transparent)]
    Runtime(#[from] BuildError),
}

impl Broken {
    /// Whether it is an agent or a plan; a tool otherwise.
    pub fn is_agent(&self) -> bool {
        match &*self.cause {
            Cause::Tool(_) => false,
            Cause::Declarations(_) | Cause::Model(_) | Cause::Plan { .. } => true,
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}` is left out: {}", self.cause.of(), self.name, self.cause)
    }
}

impl NoTool {
    /// The configuration has no tool of this name.
    pub fn unknown(name: &str, config: &Config) -> Self {
        let known = match config.tools.is_empty() {
            true => "none".to_owned(),
            false => config.tools.keys().map(|name| &**name).collect::<Vec<_>>().join(", "),
        };
        Self::Unknown { name: name.to_owned(), known }
    }
}

fn joined<T: fmt::Display>(parts: impl IntoIterator<Item = T>) -> String {
    parts.into_iter().map(|part| part.to_string()).collect::<Vec<_>>().join("; ")
}
