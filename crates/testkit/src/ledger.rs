//! Counts effects where the tool cannot hide them: outside of it, and outside its process.
//!
//! A retry that repeats an effect looks like a success from within. The ledger is the other side:
//! the account that was charged, the mail server that sent. It only records and counts; it never
//! drops a repetition, because finding one is what it is for.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(test)]
mod tests;

/// A record of effects by key. Clones write to the same record.
///
/// # Examples
/// ```should_panic
/// use dauntless_testkit::EffectLedger;
///
/// let ledger = EffectLedger::in_memory();
/// ledger.record("refund ORD-1");
/// ledger.record("refund ORD-1");
/// ledger.assert_at_most_once(); // panics: the money went out twice
/// ```
#[derive(Clone, Debug)]
pub struct EffectLedger {
    store: Store,
}

#[derive(Clone, Debug)]
enum Store {
    Memory(Arc<Mutex<Vec<String>>>),
    File(PathBuf),
}

impl EffectLedger {
    /// For effects made by this process.
    pub fn in_memory() -> Self {
        Self { store: Store::Memory(Arc::default()) }
    }

    /// For effects that outlive a process: one line a key, appended to the file at `path`.
    ///
    /// A file that exists is read on, so a process that was killed and its successor share one
    /// ledger. Any program can take part: `echo "$KEY" >> path`.
    ///
    /// # Errors
    /// When the file cannot be opened for writing.
    pub fn in_file(path: impl AsRef<Path>) -> io::Result<Self> {
        append_to(path.as_ref())?;
        Ok(Self { store: Store::File(path.as_ref().to_owned()) })
    }

    /// Records one effect. It has happened when this returns, also if the process dies right after.
    ///
    /// # Panics
    /// When the key is not one line, or the file cannot be written.
    #[track_caller]
    pub fn record(&self, key: &str) {
        assert!(!key.contains(['\n', '\r']), "an effect key must be one line: {key:?}");
        match &self.store {
            Store::Memory(keys) => keys.lock().unwrap_or_else(PoisonError::into_inner).push(key.to_owned()),
            Store::File(path) => {
                // One write of the whole line: lines of processes that write at once never mix.
                let line = format!("{key}\n");
                let written = append_to(path).and_then(|mut file| file.write_all(line.as_bytes()));
                written.unwrap_or_else(|error| unusable(path, &error));
            }
        }
    }

    /// How often the effect happened.
    ///
    /// # Panics
    /// When the file cannot be read.
    #[track_caller]
    pub fn count(&self, key: &str) -> usize {
        self.keys().iter().filter(|have| *have == key).count()
    }

    /// How many effects happened in all.
    ///
    /// # Panics
    /// When the file cannot be read.
    #[track_caller]
    pub fn total(&self) -> usize {
        self.keys().len()
    }

    /// Every effect that happened, in order, repetitions included.
    ///
    /// # Panics
    /// When the file cannot be read.
    #[track_caller]
    pub fn keys(&self) -> Vec<String> {
        match &self.store {
            Store::Memory(keys) => keys.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            Store::File(path) => match std::fs::read(path) {
                Ok(bytes) => String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect(),
                Err(error) => unusable(path, &error),
            },
        }
    }

    /// The effects that happened more than once, and how often.
    ///
    /// # Panics
    /// When the file cannot be read.
    #[track_caller]
    pub fn repeated(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for key in self.keys() {
            *counts.entry(key).or_insert(0) += 1;
        }
        counts.retain(|_, count| *count > 1);
        counts
    }

    /// Holds that no effect happened twice.
    ///
    /// # Panics
    /// When one did, naming each and how often; or when the file cannot be read.
    #[track_caller]
    pub fn assert_at_most_once(&self) {
        let repeated = self.repeated();
        let lines: Vec<String> =
            repeated.iter().map(|(key, count)| format!("  {key}: {count} times")).collect();
        assert!(repeated.is_empty(), "effects happened more than once:\n{}", lines.join("\n"));
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

#[track_caller]
#[expect(clippy::panic, reason = "a ledger that cannot count must not look like a clean one")]
fn unusable(path: &Path, error: &io::Error) -> ! {
    panic!("the effect ledger {} cannot be used: {error}", path.display())
}
