//! What a run asks of a person, and whether there is one.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::CallKey;

/// Whether somebody can answer the questions of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attendance {
    /// Nobody: a question is answered at once, with a failure that says so.
    #[default]
    Unattended,
    /// Somebody: a question waits.
    Attended,
}

impl Attendance {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(crate) const fn is_unattended(&self) -> bool {
        matches!(self, Self::Unattended)
    }
}

/// A question of the model that waits for the user's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The call that asks; its answer names it.
    pub call: CallKey,
    /// The question, redacted.
    pub question: Arc<str>,
    /// What the model offers to choose from, redacted; empty for a question in the open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Arc<str>>,
}
