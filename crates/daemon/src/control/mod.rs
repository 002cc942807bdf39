//! Lets an operator look at a running process and switch its tools, from another process.
//!
//! The process listens on a Unix socket that belongs to its user alone. Each connection carries one
//! question and one answer, a line of JSON each, both bounded in size and time. It tells of tools
//! and models and never of a run: no goal, argument or answer passes here. And it never holds up a
//! run: it is served beside it, and a socket that cannot be opened costs only the view.

mod client;
mod place;
mod server;

use std::path::PathBuf;
use std::time::Duration;

use dauntless_contract::{BreakerSwitch, Timestamp, ToolStatus};
use serde::{Deserialize, Serialize};

pub use client::{AskError, ask, sockets};
pub use place::{directory, socket_of};
pub use server::ControlSocket;

/// The longest question, in bytes, its line end included.
const QUESTION_BYTES_MAX: u64 = 4 * 1024;
/// The longest answer, in bytes.
const ANSWER_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// How long one connection may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// What an operator asks of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "ask")]
pub enum Question {
    /// How its tools and models stand.
    Status,
    /// To open, close or reset the breaker of a tool.
    Switch {
        /// The tool.
        tool: String,
        /// What to do.
        to: BreakerSwitch,
    },
}

/// What the process answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "answer")]
pub enum Answer {
    /// How it stands.
    Status(ProcessStatus),
    /// The breaker was switched.
    Switched {
        /// How the tool stands now.
        tool: Box<ToolStatus>,
    },
    /// Nothing was done.
    Refused {
        /// Why, in a sentence.
        why: String,
    },
}

/// A running process and what it knows of its tools and models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessStatus {
    /// Its id.
    pub pid: u32,
    /// The version of Dauntless in it.
    pub version: String,
    /// When the picture was taken, by the clock that its times are told by.
    pub at: Timestamp,
    /// How long it has been listening.
    pub up: Duration,
    /// Tools first, then models.
    pub tools: Vec<ToolStatus>,
}

/// The socket could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", .path.display())]
pub struct ControlError {
    /// Where it should have been.
    pub path: PathBuf,
    /// What stands against it.
    pub why: String,
}

impl ControlError {
    fn new(path: impl Into<PathBuf>, why: impl ToString) -> Self {
        Self { path: path.into(), why: why.to_string() }
    }
}

#[cfg(test)]
mod tests;
