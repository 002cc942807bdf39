//! The notes that the runs of one tree share: small texts with versions.
//!
//! Nobody overwrites what they have not read: a change names the version that it replaces, and is
//! refused when there is another by now. Versions count over all notes, so one that was removed and
//! written anew never has an old number. A change that is asked for again under its key, because
//! nobody knows whether it was made, is made once.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use dauntless_contract::{Failure, Json, ToolOutput};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::excerpt::{counted, listed, shortened};

/// Notes in one tree.
pub const NOTES_MAX: usize = 100;
/// Bytes of one note.
pub const NOTE_BYTES_MAX: usize = 16 * 1024;
/// Bytes of all notes together: they are stored as one, with each change.
pub const ALL_BYTES_MAX: usize = 256 * 1024;
const NAME_BYTES_MAX: usize = 64;
/// What a refused writer is shown of a note, in bytes.
const SHOWN_BYTES_MAX: usize = 800;
/// Changes back that one is known to have been made.
const MADE_MAX: usize = 128;
/// The version of a note that is not there.
const NONE: u64 = 0;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    /// Counts up with every change of any note; at least 1.
    version: u64,
    text: Arc<str>,
    /// The agent that wrote it.
    by: Arc<str>,
}

/// All notes of a tree. Equal changes in equal order give equal notes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notes {
    notes: BTreeMap<Arc<str>, Note>,
    last: u64,
    /// The keys of the last changes, with the version that each made.
    made: VecDeque<(Arc<str>, u64)>,
}

/// A change that somebody asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The same each time that this change is asked for.
    pub key: Arc<str>,
    /// The agent that asks for it.
    pub by: Arc<str>,
    /// The name of the note.
    pub name: Arc<str>,
    /// The version that it replaces; 0 where there is none.
    pub version: u64,
    /// What the note says from now on; an empty text removes it.
    pub text: Arc<str>,
}

impl Change {
    /// What the model reads when it was made, and the note has this version now.
    pub fn made(&self, version: u64) -> ToolOutput {
        let told = match self.text.is_empty() {
            true => json!({ "name": &*self.name, "removed": true }),
            false => json!({ "name": &*self.name, "version": version }),
        };
        ToolOutput::text(Json::from(told).as_str())
    }
}

impl Notes {
    /// One note, or the list of all, as a model reads it.
    ///
    /// # Errors
    /// `not_found` when there is no note of that name, with those that there are.
    pub fn read(&self, name: Option<&str>) -> Result<ToolOutput, Failure> {
        let told = match name {
            Some(name) => {
                let Note { version, text, by } = self.notes.get(name).ok_or_else(|| self.missing(name))?;
                json!({ "name": name, "version": version, "written_by": &**by, "text": &**text })
            }
            None => self
                .notes
                .iter()
                .map(|(name, Note { version, text, by })| {
                    json!({ "name": &**name, "version": version, "written_by": &**by, "bytes": text.len() })
                })
                .collect(),
        };
        Ok(ToolOutput::text(Json::from(told).as_str()))
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// # Errors
    /// `tool_error` for what another program wrote.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Failure> {
        serde_json::from_slice(bytes).map_err(|error| {
            Failure::tool_error("The notes are not in a form that can be read.").source(error)
        })
    }

    /// The notes as a store keeps them.
    pub fn to_bytes(&self) -> Vec<u8> {
        // A value of these fields always has a JSON form.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The version that the change of this key made, if it was made.
    pub fn made(&self, key: &str) -> Option<u64> {
        self.made.iter().find(|(made, _)| **made == *key).map(|(_, version)| *version)
    }

    /// Makes a change, once. Answers the version that it made.
    ///
    /// # Errors
    /// `conflict` when there is another version by now, with what it says; `not_found` when a note
    /// that is not there shall be removed; `too_large` or `invalid_arguments` when the note cannot be
    /// kept. Nothing changes then.
    pub fn change(&mut self, change: Change) -> Result<u64, Failure> {
        let Change { key, by, name, version, text } = change;
        if let Some(version) = self.made(&key) {
            return Ok(version);
        }
        check_name(&name)?;
        self.check_version(&name, version)?;
        if text.is_empty() {
            self.notes.remove(&name).ok_or_else(|| self.missing(&name))?;
            self.last += 1;
        } else {
            self.check_room(&name, &text)?;
            self.last += 1;
            self.notes.insert(name, Note { version: self.last, text, by });
        }
        if self.made.len() == MADE_MAX {
            self.made.pop_front();
        }
        self.made.push_back((key, self.last));
        Ok(self.last)
    }

    fn check_room(&self, name: &str, text: &str) -> Result<(), Failure> {
        if text.len() > NOTE_BYTES_MAX {
            return Err(Failure::too_large(format!(
                "The note `{name}` would have {} bytes, and a note has at most {NOTE_BYTES_MAX}.",
                text.len()
            ))
            .hint("Write less, or spread it over several notes."));
        }
        let others = self.notes.iter().filter(|(other, _)| ***other != *name);
        let (count, bytes) =
            others.fold((0, 0), |(count, bytes), (_, note)| (count + 1, bytes + note.text.len()));
        if count >= NOTES_MAX || bytes + text.len() > ALL_BYTES_MAX {
            return Err(Failure::too_large(format!(
                "There is no room for the note `{name}`: there are {} of {bytes} bytes, and at most {NOTES_MAX} of \
                 {ALL_BYTES_MAX} bytes are kept.",
                counted(count, "other note")
            ))
            .hint("Remove notes that nobody needs any more, or write less."));
        }
        Ok(())
    }

    fn check_version(&self, name: &str, read: u64) -> Result<(), Failure> {
        let found = self.notes.get(name).map_or(NONE, |note| note.version);
        if read == found {
            return Ok(());
        }
        let (message, hint) = match self.notes.get(name) {
            Some(Note { text, by, .. }) => (
                format!(
                    "The note `{name}` is at version {found}, written by `{by}`, and not at {read}. It says: {}",
                    Json::from(serde_json::Value::from(shortened(text, SHOWN_BYTES_MAX))).as_str()
                ),
                format!("Put your change into what it says now, and write that with version {found}."),
            ),
            None => (
                format!("The note `{name}` is not there any more, or never was."),
                format!("Write it with version {NONE} to have a new one."),
            ),
        };
        Err(Failure::conflict(message).hint(hint))
    }

    fn missing(&self, name: &str) -> Failure {
        let names = self.notes.keys().map(|name| &**name);
        let there = if self.notes.is_empty() { "none".to_owned() } else { listed(names, 20) };
        Failure::not_found(format!("There is no note {:?}.", shortened(name, NAME_BYTES_MAX)))
            .hint(format!("The notes that there are: {there}."))
    }
}

fn check_name(name: &str) -> Result<(), Failure> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    if !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(legal) {
        return Ok(());
    }
    Err(Failure::invalid_arguments(format!(
        "{:?} is no name for a note: use 1 to {NAME_BYTES_MAX} of a-z, A-Z, 0-9, `_`, `-`, `.` and `/`.",
        shortened(name, NAME_BYTES_MAX)
    )))
}

#[cfg(test)]
mod tests;
