//! What an operator does with the runs of a journal besides driving them: submit, look, send, fork,
//! replay.
//!
//! Nothing here claims a run or carries out an effect. What changes a run from here is a letter to
//! it, its state for workers, or a new run beside it.

mod export;
mod fork;
mod letters;
mod list;
mod look;
mod machine;
mod replay;
mod submit;
mod tree;

use std::sync::Arc;

use dauntless_contract::{
    AppendError, CallKey, CreateError, JournalError, LetterContent, ListQuery, ReadError, Recorded, RunEvent,
    RunId, RunMeta, RunState, Seq, SharedJournal,
};
use dauntless_core::redact::{RedactError, Redactor};

pub use dauntless_core::run::Awaited;
pub use dauntless_core::story::{Below, Headline, Line, Wait, length};
pub use export::{ExportError, Exported, import};
pub use letters::{Answered, Cancelled};
pub use list::{Listed, Overview, Row};
pub use look::{Late, Look, Unread};
pub use replay::{Difference, Replayed, replay};
pub use submit::{NewSubmission, Submitted};
pub use tree::Branch;

use crate::config::Config;
use crate::store::{self, StoreError};
use crate::wiring::{Environment, NoAgent};

/// Events, and runs, that are asked for at once.
const PAGE: usize = 500;
/// Most runs that are named where several could be meant.
const NAMED_MAX: usize = 5;

/// The runs of a journal, for an operator.
pub struct Runs<'c> {
    journal: Arc<dyn SharedJournal>,
    config: &'c Config,
    environment: Environment<'c>,
    redactor: Redactor,
}

/// Why something about runs could not be done. Nothing of it was.
#[derive(Debug, thiserror::Error)]
pub enum RunsError {
    /// The journal cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The journal did not do what was asked.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Events cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A run cannot be created.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// Events cannot be written.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// There is no such agent, or no telling which.
    #[error(transparent)]
    Agent(#[from] NoAgent),
    /// What is masked cannot be told.
    #[error(transparent)]
    Redact(#[from] RedactError),
    /// No run has such an id.
    #[error("no run of this journal has an id that begins or ends with `{0}`; `dauntless runs` lists them")]
    NoRun(
        /// What was written.
        String,
    ),
    /// Several runs have.
    #[error("`{written}` stands for several runs: {known}; write more of the id")]
    Ambiguous {
        /// What was written.
        written: String,
        /// Some of them.
        known: String,
    },
    /// The run is over.
    #[error("run {run} is over already: {reason}")]
    Over {
        /// The run.
        run: RunId,
        /// How it ended.
        reason: Arc<str>,
    },
    /// The call does not wait for words of the user.
    #[error("call {call} of run {run} is no open question; {open}")]
    NoQuestion {
        /// The run.
        run: RunId,
        /// The call.
        call: CallKey,
        /// Which are.
        open: String,
    },
    /// The question was answered otherwise before.
    #[error("call {call} of run {run} was given another answer before; the first one counts")]
    AnsweredBefore {
        /// The run.
        run: RunId,
        /// The call.
        call: CallKey,
    },
    /// There is no such event.
    #[error("run {run} has events 1 to {head}; a fork begins after one of them, not after {at}")]
    OutOfRange {
        /// The run.
        run: RunId,
        /// The event that was named.
        at: Seq,
        /// The last there is.
        head: Seq,
    },
}

impl<'c> Runs<'c> {
    /// Opens the journal of a configuration.
    ///
    /// # Errors
    /// [`RunsError::Store`], when it cannot be opened.
    pub async fn open(config: &'c Config, environment: Environment<'c>) -> Result<Self, RunsError> {
        Self::on(store::open(&config.journal, environment).await?, config, environment)
    }

    /// The runs of a journal that is open.
    ///
    /// # Errors
    /// When what is masked cannot be told.
    pub fn on(
        journal: Arc<dyn SharedJournal>,
        config: &'c Config,
        environment: Environment<'c>,
    ) -> Result<Self, RunsError> {
        let redactor = crate::wiring::redactor(config, environment)?;
        Ok(Self { journal, config, environment, redactor })
    }

    /// The run of this id. A beginning or an end of it is enough where it stands for one run.
    ///
    /// # Errors
    /// [`RunsError::NoRun`] and [`RunsError::Ambiguous`].
    pub async fn find(&self, written: &str) -> Result<RunMeta, RunsError> {
        let written = written.trim().to_ascii_lowercase();
        if let Ok(run) = written.parse::<RunId>() {
            return self.meta(run).await;
        }
        let mut found = Vec::new();
        let is_meant = |meta: &RunMeta| {
            let id = meta.run.to_string();
            !written.is_empty() && (id.starts_with(&written) || id.ends_with(&written))
        };
        self.each(|meta| found.extend(is_meant(&meta).then_some(meta))).await?;
        match found.pop() {
            None => Err(RunsError::NoRun(written)),
            Some(only) if found.is_empty() => Ok(only),
            Some(last) => {
                let more = (found.len() + 1).saturating_sub(NAMED_MAX);
                let all = found.iter().chain([&last]).take(NAMED_MAX).map(|meta| meta.run.to_string());
                let mut known = all.collect::<Vec<_>>().join(", ");
                if more > 0 {
                    known += &format!(" and {more} more");
                }
                Err(RunsError::Ambiguous { written, known })
            }
        }
    }

    async fn meta(&self, run: RunId) -> Result<RunMeta, RunsError> {
        self.journal.meta(run).await?.ok_or_else(|| RunsError::NoRun(run.to_string()))
    }

    /// Sees to it that a worker can claim a run, and says which configuration it goes on with, where its
    /// agent has another one now. A run that is under way or waits already is left as it is.
    ///
    /// # Errors
    /// [`RunsError::Over`], when it has ended.
    pub async fn make_ready(&self, meta: &RunMeta, adopt: Option<bool>) -> Result<(), RunsError> {
        not_over(meta)?;
        if let Some(adopt) = adopt {
            let letter =
                LetterContent::Configure { adopt }.letter(format!("configure-{adopt}-{}", meta.head));
            self.journal.send(meta.run, letter).await?;
        }
        self.journal.reopen(meta.run).await?;
        Ok(())
    }

    /// Shows every run to `see`, the oldest first.
    async fn each(&self, mut see: impl FnMut(RunMeta)) -> Result<(), JournalError> {
        let mut after = None;
        loop {
            let page = self.journal.list(ListQuery { state: None, root: None, after, limit: PAGE }).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.run);
            page.into_iter().for_each(&mut see);
        }
    }

    /// The first `until` events of a run.
    async fn events(&self, run: RunId, until: Seq) -> Result<Vec<Recorded>, ReadError> {
        let mut events = Vec::new();
        loop {
            let seen = events.len() as Seq;
            let limit = PAGE.min(usize::try_from(until.saturating_sub(seen)).unwrap_or(PAGE));
            if limit == 0 {
                return Ok(events);
            }
            let page = self.journal.read(run, seen, limit).await?;
            if page.is_empty() {
                return Ok(events);
            }
            events.extend(page);
        }
    }
}

/// The agent of a run, as its start names it.
fn agent_of(meta: &RunMeta, events: &[Recorded]) -> Arc<str> {
    match events.first().map(|first| &first.event) {
        Some(RunEvent::RunStarted { agent, .. }) => Arc::clone(agent),
        _ => Arc::clone(&meta.agent),
    }
}

fn not_over(meta: &RunMeta) -> Result<(), RunsError> {
    match meta.state {
        RunState::Ended => Err(RunsError::Over {
            run: meta.run,
            reason: meta.reason.clone().unwrap_or_else(|| "it does not say how".into()),
        }),
        RunState::Ready | RunState::Driven | RunState::Paused | RunState::Quarantined => Ok(()),
    }
}

#[cfg(test)]
mod tests;
