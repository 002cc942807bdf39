//! A journal as lines of JSON: one that says whose it is, then one for each event.

use std::sync::Arc;

use dauntless_contract::{Recorded, RunEvent, RunId, RunMeta, Seq, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Runs, RunsError};

/// A run as it was exported.
#[derive(Clone, Debug, PartialEq)]
pub struct Exported {
    /// The run.
    pub run: RunId,
    /// Its agent.
    pub agent: Arc<str>,
    /// How it ended, if it had.
    pub ended: Option<Arc<str>>,
    /// Its events.
    pub events: Vec<Recorded>,
}

/// A text that is no exported run.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// There is no line that says whose it is.
    #[error("the first line does not say which run this is; `dauntless export RUN` writes such a file")]
    NoHeader,
    /// A line is no event.
    #[error("line {line} is no event that this version knows: {problem}")]
    NoEvent {
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        problem: serde_json::Error,
    },
}

#[derive(Serialize, Deserialize)]
struct HeaderLine {
    run: RunId,
    agent: Arc<str>,
    state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<Arc<str>>,
    #[serde(default)]
    code_version: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<RunId>,
    events: Seq,
}

#[derive(Serialize, Deserialize)]
struct EventLine {
    seq: Seq,
    /// In microseconds since the Unix epoch.
    at: Timestamp,
    event: RunEvent,
}

impl Runs<'_> {
    /// The run as lines, without the secrets that this process knows.
    ///
    /// # Errors
    /// When its events cannot be read, all of them.
    pub async fn export(&self, meta: &RunMeta) -> Result<String, RunsError> {
        let events = self.events(meta.run, meta.head).await?;
        let header = HeaderLine {
            run: meta.run,
            agent: Arc::clone(&meta.agent),
            state: meta.state.as_str().to_owned(),
            reason: meta.reason.clone(),
            code_version: Arc::clone(&meta.code_version),
            parent: meta.parent,
            events: events.len() as Seq,
        };
        let mut text = self.line(&header);
        for (seq, Recorded { at, event }) in (1..).zip(events) {
            text.push_str(&self.line(&EventLine { seq, at, event }));
        }
        Ok(text)
    }

    /// A line with what is to be masked taken out of every text in it, and nothing else changed.
    fn line(&self, line: &impl Serialize) -> String {
        // Ids, times and facts always have a JSON form.
        let text = serde_json::to_string(line).unwrap_or_default();
        let mut value: Value = serde_json::from_str(&text).unwrap_or_default();
        match self.mask(&mut value) {
            true => format!("{value}\n"),
            false => text + "\n",
        }
    }

    fn mask(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => match self.redactor.text(text) {
                std::borrow::Cow::Borrowed(_) => false,
                std::borrow::Cow::Owned(masked) => {
                    *text = masked;
                    true
                }
            },
            Value::Array(items) => self.mask_all(items.iter_mut()),
            Value::Object(map) => self.mask_all(map.values_mut()),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    fn mask_all<'v>(&self, values: impl Iterator<Item = &'v mut Value>) -> bool {
        values.map(|value| usize::from(self.mask(value))).sum::<usize>() > 0
    }
}

/// Reads what [`Runs::export`] wrote.
///
/// # Errors
/// [`ExportError`], with the line.
pub fn import(text: &str) -> Result<Exported, ExportError> {
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let header = lines.next().and_then(|(_, line)| serde_json::from_str::<HeaderLine>(line).ok());
    let HeaderLine { run, agent, state, reason, .. } = header.ok_or(ExportError::NoHeader)?;
    let event = |(line, text): (usize, &str)| {
        let read: EventLine =
            serde_json::from_str(text).map_err(|problem| ExportError::NoEvent { line, problem })?;
        Ok(Recorded { at: read.at, event: read.event })
    };
    let events = lines.map(event).collect::<Result<_, _>>()?;
    Ok(Exported { run, agent, ended: reason.filter(|_| state == "ended"), events })
}
