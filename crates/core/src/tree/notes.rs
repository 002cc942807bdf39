//! The notes that the runs of one tree share: small texts with versions.
//!
//! Nobody overwrites what they have not read: a change names the version that it replaces, and is
//! refused when there is another by now. Versions count over all notes, so one that was removed and
//! written anew never has an old number.

use std::collections::BTreeMap;
use std::sync::Arc;

use dauntless_contract::Failure;
use serde::{Deserialize, Serialize};

use crate::excerpt::{counted, listed, shortened};

/// Notes in one tree.
pub const NOTES_MAX: usize = 100;
/// Bytes of one note.
pub const NOTE_BYTES_MAX: usize = 32 * 1024;
/// Bytes of all notes together.
pub const ALL_BYTES_MAX: usize = 1024 * 1024;
const NAME_BYTES_MAX: usize = 64;
/// The version of a note that is not there.
const NONE: u64 = 0;

/// One note.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Counts up with every change of any note; at least 1.
    pub version: u64,
    /// What it says.
    pub text: Arc<str>,
    /// The agent that wrote it.
    pub by: Arc<str>,
}

/// All notes of a tree. Equal writes in equal order give equal notes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notes {
    notes: BTreeMap<Arc<str>, Note>,
    last: u64,
}

impl Notes {
    /// A note, if there is one of this name.
    pub fn get(&self, name: &str) -> Option<&Note> {
        self.notes.get(name)
    }

    /// All notes, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Note)> {
        self.notes.iter()
    }

    /// Writes a note in place of the version that the writer has read; 0 where there was none.
    /// Answers the new version.
    ///
    /// # Errors
    /// `conflict` when there is another version by now; `too_large` or `invalid_arguments` when the
    /// note cannot be kept. Nothing changes then.
    pub fn write(
        &mut self,
        by: &Arc<str>,
        name: &str,
        version: u64,
        text: &Arc<str>,
    ) -> Result<u64, Failure> {
        check_name(name)?;
        self.check_version(name, version)?;
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
        self.last += 1;
        let note = Note { version: self.last, text: Arc::clone(text), by: Arc::clone(by) };
        self.notes.insert(name.into(), note);
        Ok(self.last)
    }

    /// Removes the version of a note that the caller has read.
    ///
    /// # Errors
    /// `not_found` when there is no such note, `conflict` when there is another version by now.
    pub fn remove(&mut self, name: &str, version: u64) -> Result<(), Failure> {
        if self.get(name).is_none() {
            let names = self.notes.keys().map(|name| &**name);
            let there = if self.notes.is_empty() { "none".to_owned() } else { listed(names, 20) };
            return Err(Failure::not_found(format!(
                "There is no note {:?}.",
                shortened(name, NAME_BYTES_MAX)
            ))
            .hint(format!("The notes that there are: {there}.")));
        }
        self.check_version(name, version)?;
        self.notes.remove(name);
        self.last += 1;
        Ok(())
    }

    fn check_version(&self, name: &str, read: u64) -> Result<(), Failure> {
        let found = self.get(name).map_or(NONE, |note| note.version);
        if read == found {
            return Ok(());
        }
        let message = match self.get(name) {
            Some(note) => format!(
                "The note `{name}` was not changed: it is at version {found} by now, written by `{}`, and not at {read}.",
                note.by
            ),
            None => format!("The note `{name}` was not changed: it is not there any more, or never was."),
        };
        Err(Failure::conflict(message).hint(format!(
            "Read it again, put your change into what it says now, and write that with version {found}."
        )))
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
