//! What an agent is.

use std::sync::Arc;

use crate::AnswerSchema;

/// A named role: instructions and what it may do. Its tools and model come beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSpec {
    /// The name; also in traces and the journal.
    pub name: Arc<str>,
    /// The instructions; may be empty.
    pub instructions: Arc<str>,
    /// What a panic in a tool comes to.
    pub on_panic: PanicPolicy,
    /// What its answers must look like; none where any words will do.
    pub answer: Option<AnswerSpec>,
    /// Whether it may ask the user, with the built-in tool `ask_user`.
    pub ask_user: bool,
    /// Whether it has the notes that the runs of its tree share.
    pub notes: bool,
    /// Whether it sends messages to its parent and to the runs beside it, and is sent some.
    pub messages: bool,
}

/// What the answers of an agent must look like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerSpec {
    /// The shape.
    pub schema: Arc<AnswerSchema>,
    /// How often a run asks again for an answer that does not fit. Default 2.
    pub reasks_max: u32,
}

impl AnswerSpec {
    /// A shape, with the usual number of further tries.
    pub const fn new(schema: Arc<AnswerSchema>) -> Self {
        Self { schema, reasks_max: 2 }
    }
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
