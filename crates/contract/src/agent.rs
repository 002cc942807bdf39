//! What an agent is.

use std::sync::Arc;

/// A named role: instructions and what it may do. Its tools and model come beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSpec {
    /// The name; also in traces and the journal.
    pub name: Arc<str>,
    /// The instructions; may be empty.
    pub instructions: Arc<str>,
    /// What a panic in a tool comes to.
    pub on_panic: PanicPolicy,
}

/// What a panic in a tool comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PanicPolicy {
    /// The model is told that the tool crashed; the run goes on.
    #[default]
    Observe,
    /// The run ends, so that the defect is seen: for tests and development.
    EndRun,
}
