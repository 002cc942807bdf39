//! Misuse of the API, told to the caller. What goes wrong in the world is a failure, not one of these.

use std::sync::Arc;

use dauntless_core::plan::Problem;
use dauntless_core::redact::RedactError;
use dauntless_core::supervision::UnreachableLimit;
use dauntless_core::toolbox::Quarantined;

/// The runtime could not be built. Nothing was started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// An agent given to the builder cannot run.
    #[error("agent `{agent}` cannot run: {}", reasons(.problems))]
    Agent {
        /// The agent.
        agent: Arc<str>,
        /// Its tools that cannot be offered, with the reasons.
        problems: Vec<Quarantined>,
    },
    /// The shape that an agent demands of its answers cannot be used.
    #[error("agent `{agent}` cannot run: {reason}")]
    Answer {
        /// The agent.
        agent: Arc<str>,
        /// What is wrong with the schema.
        reason: String,
    },
    /// The agents that it may ask, or the steps of a plan, do not fit together.
    #[error("agent `{agent}` cannot run: {}", places(.problems))]
    Tree {
        /// The agent.
        agent: Arc<str>,
        /// All that is wrong.
        problems: Vec<Problem>,
    },
    /// Neither the runtime nor the agent has a model.
    #[error("agent `{agent}` has no model: give the runtime one with `.model(…)`, or the agent its own")]
    NoModel {
        /// The agent.
        agent: Arc<str>,
    },
    /// A redaction pattern is not a regular expression.
    #[error(transparent)]
    Redaction(#[from] RedactError),
    /// The restart policy would never give up.
    #[error(transparent)]
    Restarts(#[from] UnreachableLimit),
    /// An actor did not start.
    #[error("the supervision tree did not start: {0}")]
    Start(String),
}

fn places(problems: &[Problem]) -> String {
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    problems.join("; ")
}

fn reasons(problems: &[Quarantined]) -> String {
    let reasons: Vec<&str> = problems.iter().map(|problem| problem.reason.as_str()).collect();
    reasons.join("; ")
}

/// A run was not taken on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The agent cannot run.
    #[error(transparent)]
    Agent(#[from] BuildError),
    /// The agent has no tool of that name.
    #[error("agent `{agent}` has no tool `{tool}`; it has: {known}")]
    NoSuchTool {
        /// The agent.
        agent: Arc<str>,
        /// The name asked for.
        tool: String,
        /// The names there are.
        known: String,
    },
    /// The runtime has stopped.
    #[error("the runtime has stopped and takes no more runs")]
    Stopped,
}

impl SubmitError {
    pub(crate) const fn code(&self) -> &'static str {
        match self {
            Self::Agent(_) | Self::NoSuchTool { .. } => "invalid_agent",
            Self::Stopped => "runtime_stopped",
        }
    }
}
