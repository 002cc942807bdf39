//! What a letter to a run says.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{CallKey, Letter, RunId};

/// The content of a [`Letter`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LetterContent {
    /// The run shall stop.
    Cancel {
        /// Who wants it.
        by: Arc<str>,
    },
    /// The user's words to a question.
    Answer {
        /// The call that asked.
        call: CallKey,
        /// The words; blank when the user has none.
        text: Arc<str>,
    },
    /// Which configuration the run shall go on with, of two of its agent.
    Configure {
        /// The one that the agent has now, in place of the one the run has had so far.
        adopt: bool,
    },
    /// Another run of the tree says something.
    Message {
        /// The run.
        from: RunId,
        /// Its agent, as it is answered.
        agent: Arc<str>,
        /// What it says.
        text: Arc<str>,
    },
    /// A call came to its end after the run had been taken over from the worker that had started it.
    LateResult {
        /// The call.
        call: CallKey,
        /// The epoch of that worker.
        epoch: u64,
    },
}

impl LetterContent {
    /// A letter that says this.
    pub fn letter(&self, id: impl Into<Arc<str>>) -> Letter {
        // A value of these fields always has a JSON form.
        let body = serde_json::to_vec(self).unwrap_or_default();
        Letter { id: id.into(), body: body.into() }
    }

    /// Reads a letter.
    ///
    /// # Errors
    /// What a newer program wrote, or nobody of ours.
    pub fn read(letter: &Letter) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(&letter.body)
    }
}
