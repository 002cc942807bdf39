//! The tools for what the runs of one tree share, as a model sees them.
//!
//! They are tools like any other: dispatched, guarded, recorded with their end, and begun again after
//! a crash as their effect allows. The runtime has what they act on.

use std::sync::Arc;

use dauntless_contract::{AgentSpec, Effect, Failure, Json, OnExhausted, ResiliencePolicy, ToolSpec};
use serde::Deserialize;
use serde_json::{Value, json};

/// What a call of one of them asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A note.
    Read {
        /// Its name; none for the list of all.
        name: Option<Arc<str>>,
    },
    /// A change of a note.
    Write {
        /// Its name.
        name: Arc<str>,
        /// The version that it replaces.
        version: u64,
        /// What it says from now on.
        text: Arc<str>,
    },
    /// A message.
    Send {
        /// Who it is for.
        to: Arc<str>,
        /// What it says.
        text: Arc<str>,
    },
}

/// The arguments of all of them.
#[derive(Deserialize)]
struct Arguments {
    name: Option<Arc<str>>,
    version: Option<u64>,
    to: Option<Arc<str>>,
    #[serde(default)]
    text: Arc<str>,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeTool {
    /// Reads a note, or lists all.
    NotesRead,
    /// Changes a note.
    NotesWrite,
    /// Sends a message to another run.
    SendMessage,
}

impl TreeTool {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::NotesRead, Self::NotesWrite, Self::SendMessage];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotesRead => "notes_read",
            Self::NotesWrite => "notes_write",
            Self::SendMessage => "send_message",
        }
    }

    /// Whether an agent has it switched on.
    pub const fn is_on(self, agent: &AgentSpec) -> bool {
        match self {
            Self::NotesRead | Self::NotesWrite => agent.notes,
            Self::SendMessage => agent.messages,
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Self::NotesRead => {
                "Read a note that the agents who work on this share, with its version. Without a name, list all notes."
            }
            Self::NotesWrite => {
                "Write a note that the agents who work on this share. Give the version that you have read, or 0 for a \
                 note that is not there yet: a note that was changed since is not overwritten. An empty text removes \
                 the note."
            }
            Self::SendMessage => {
                "Send a message to an agent that works beside you, by its name, or to `parent`, who asked you. It \
                 reads it before its next turn, if it has one. Do not wait for an answer: messages to you come by \
                 themselves."
            }
        }
    }

    fn parameters(self) -> Value {
        let text = |description: &str| json!({ "type": "string", "description": description });
        let (properties, required) = match self {
            Self::NotesRead => (json!({ "name": text("The name of the note.") }), json!([])),
            Self::NotesWrite => (
                json!({
                    "name": text("The name of the note."),
                    "version": {
                        "type": "integer",
                        "minimum": 0,
                        "description": "The version that you have read; 0 for a new note.",
                    },
                    "text": text("The whole text of the note."),
                }),
                json!(["name", "version", "text"]),
            ),
            Self::SendMessage => (
                json!({ "to": text("The name of the agent, or `parent`."), "text": text("The message.") }),
                json!(["to", "text"]),
            ),
        };
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    }

    /// Its declaration. All runs of a runtime share the tool, hence its many places.
    pub fn spec(self) -> ToolSpec {
        let effect = match self {
            Self::NotesRead => Effect::ReadOnly,
            Self::NotesWrite | Self::SendMessage => Effect::Keyed,
        };
        ToolSpec {
            effect,
            on_exhausted: OnExhausted::Observe,
            resilience: ResiliencePolicy { concurrency: 64, waiting: 4096, ..ResiliencePolicy::default() },
            ..ToolSpec::new(self.name(), self.description(), self.parameters())
        }
    }

    /// What a call with these arguments asks for. They have been held against the schema.
    ///
    /// # Errors
    /// `invalid_arguments` where a number is too large.
    pub fn asked(self, arguments: &Json) -> Result<Asked, Failure> {
        let bad = || Failure::invalid_arguments("An argument is missing or out of range.");
        let Arguments { name, version, to, text } = arguments.to().map_err(|error| bad().source(error))?;
        Ok(match self {
            Self::NotesRead => Asked::Read { name },
            Self::NotesWrite => {
                Asked::Write { name: name.ok_or_else(bad)?, version: version.ok_or_else(bad)?, text }
            }
            Self::SendMessage => Asked::Send { to: to.ok_or_else(bad)?, text },
        })
    }

    /// The declarations of those that an agent has switched on.
    pub(crate) fn specs(agent: &AgentSpec) -> impl Iterator<Item = Arc<ToolSpec>> + use<'_> {
        Self::ALL.into_iter().filter(|tool| tool.is_on(agent)).map(|tool| Arc::new(tool.spec()))
    }
}
