//! Who drives a run: the agent that it was made for, as the run is pinned to it.
//!
//! A run keeps the configuration of its agent that it began with. Where the agent is configured
//! otherwise now, the policy says which of the two the run goes on with, and a choice that changes it
//! is in its journal.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use dauntless_contract::{
    AppendError, BlobHash, Claim, JournalError, LetterContent, ReadError, Recorded, RunEvent, RunId,
    RunState, Seq, SharedJournal,
};
use dauntless_runtime::{Agent, BuildError, Reins, Runtime};
use tokio::sync::Mutex;

use super::outages;
use crate::config::{Config, OnConfigChange};
use crate::pin::{self, PinError};
use crate::wiring::{App, Durable, NoAgent};

/// Systems of former configurations that are kept although no run is driven in them.
const FORMER_KEPT_MAX: usize = 16;
/// Events read at once.
const PAGE: usize = 500;

/// Looks up a variable of the environment, for as long as the worker lives.
type Variables = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Nobody here can drive a run.
#[derive(Debug, thiserror::Error)]
pub enum NoCrew {
    /// Its events cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Its configuration or its letters cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The choice of a configuration cannot be written.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// It does not begin with its start.
    #[error("the journal of run {0} does not begin with the start of the run")]
    NoStart(RunId),
    /// The agent is not there, or cannot run.
    #[error(transparent)]
    Agent(#[from] NoAgent),
    /// The supervision tree of its agent does not start.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The configuration that it is pinned to is gone from the journal.
    #[error("the configuration that the run is pinned to, {0}, is not in the journal")]
    NoConfig(BlobHash),
    /// The configuration that it is pinned to cannot be used.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// An operator is to choose.
    #[error(
        "agent `{agent}` is configured otherwise than when the run began: `dauntless resume {run} --adopt` goes on with \
         what it is now, `dauntless resume {run} --keep` with what it was"
    )]
    Choose {
        /// The run.
        run: RunId,
        /// Its agent.
        agent: Arc<str>,
    },
}

/// The agent of a run, and the system that it lives in.
pub(super) struct Crew {
    pub(super) agent: Agent,
    app: Arc<App>,
}

impl Crew {
    pub(super) fn runtime(&self) -> &Runtime {
        self.app.runtime()
    }
}

/// The agents of a worker.
pub struct Crews {
    durable: Durable,
    config: Config,
    variables: Variables,
    app: Arc<App>,
    /// What each agent is now.
    current: BTreeMap<Arc<str>, (BlobHash, Arc<[u8]>)>,
    /// Systems of what agents were.
    former: Mutex<HashMap<BlobHash, Arc<App>>>,
}

impl Crews {
    /// The agents of a configuration, on the worker's journal.
    ///
    /// # Errors
    /// [`BuildError`], when the supervision tree itself does not start.
    pub async fn of_config(
        durable: Durable,
        config: &Config,
        variables: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Result<Self, BuildError> {
        let variables: Variables = Arc::new(variables);
        let app = Arc::new(App::assemble_on(config, &*variables, Some(durable.clone())).await?);
        outages::share(&durable.journal, app.runtime()).await;
        let pinned = config.agents.keys().chain(config.plans.keys()).filter_map(|name| {
            let bytes = pin::pin(config, name)?;
            Some((Arc::clone(name), (dauntless_journal::blob_hash(&bytes), bytes)))
        });
        let current = pinned.collect();
        Ok(Self { durable, config: config.clone(), variables, app, current, former: Mutex::default() })
    }

    /// The system of the configuration as it is now.
    pub const fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// What steers a run that is driven here under another one.
    pub(super) async fn child(&self, run: RunId) -> Option<Reins> {
        let here = self.app.runtime().child(run);
        match here {
            Some(reins) => Some(reins),
            None => self.former.lock().await.values().find_map(|app| app.runtime().child(run)),
        }
    }

    /// The agent that a claimed run goes on with. Where that was a choice, it is in the journal, and the
    /// claim knows of it.
    pub(super) async fn of(&self, claim: &mut Claim) -> Result<Crew, NoCrew> {
        let run = claim.fence.run;
        let journal = &*self.durable.journal;
        let first = journal.read(run, 0, 1).await?.pop();
        let Some(RunEvent::RunStarted { agent, lineage, .. }) = first.map(|first| first.event) else {
            return Err(NoCrew::NoStart(run));
        };
        if let Some(lineage) = lineage {
            end_with_its_parent(journal, run, lineage.parent).await?;
        }
        let now = self.current.get(&agent);
        let Some(before) = claim.config else { return self.as_it_is(&agent) };
        let Some((hash, bytes)) = now else { return self.as_it_was(journal, before, &agent).await };
        if *hash == before {
            return self.as_it_is(&agent);
        }
        let choice = match self.config.journal.on_config_change {
            OnConfigChange::Adopt => Some(Choice { adopt: true, letter: None }),
            OnConfigChange::Pin => Choice::of_letter(journal, run).await?,
            OnConfigChange::Ask => match Choice::of_letter(journal, run).await? {
                None if was_kept(journal, run, *hash).await? => None,
                None => return Err(NoCrew::Choose { run, agent }),
                by_letter => by_letter,
            },
        };
        let Some(choice) = choice else { return self.as_it_was(journal, before, &agent).await };
        let (config, over) = if choice.adopt { (*hash, before) } else { (before, *hash) };
        if choice.adopt {
            journal.put_blob(run, Arc::clone(bytes)).await?;
        }
        choice.write(journal, claim, config, over).await?;
        if choice.adopt { self.as_it_is(&agent) } else { self.as_it_was(journal, config, &agent).await }
    }

    fn as_it_is(&self, agent: &str) -> Result<Crew, NoCrew> {
        Ok(Crew { agent: self.app.agent(Some(agent))?.clone(), app: Arc::clone(&self.app) })
    }

    async fn as_it_was(
        &self,
        journal: &dyn SharedJournal,
        hash: BlobHash,
        agent: &str,
    ) -> Result<Crew, NoCrew> {
        let mut former = self.former.lock().await;
        if former.len() > FORMER_KEPT_MAX {
            former.retain(|_, app| Arc::strong_count(app) > 1);
        }
        let app = match former.get(&hash) {
            Some(app) => Arc::clone(app),
            None => {
                let bytes = journal.blob(hash).await?.ok_or(NoCrew::NoConfig(hash))?;
                let config = pin::restore(&bytes, &self.config)?;
                let durable = Some(self.durable.clone());
                let app = Arc::new(App::assemble_on(&config, &*self.variables, durable).await?);
                outages::share(&self.durable.journal, app.runtime()).await;
                former.insert(hash, Arc::clone(&app));
                app
            }
        };
        Ok(Crew { agent: app.agent(Some(agent))?.clone(), app })
    }
}

/// Sees to it that a run whose parent is over ends as well. Its parent's process died before it had.
async fn end_with_its_parent(
    journal: &dyn SharedJournal,
    run: RunId,
    parent: RunId,
) -> Result<(), JournalError> {
    if journal.meta(parent).await?.is_none_or(|meta| meta.state == RunState::Ended) {
        let by = format!("its parent, run {parent}, which is over").into();
        journal.send(run, LetterContent::Cancel { by }.letter("cancel")).await?;
    }
    Ok(())
}

/// Whether the last choice was to keep what the run had over this configuration.
async fn was_kept(journal: &dyn SharedJournal, run: RunId, over: BlobHash) -> Result<bool, ReadError> {
    let (mut kept, mut seen): (bool, Seq) = (false, 0);
    loop {
        let page = journal.read(run, seen, PAGE).await?;
        if page.is_empty() {
            return Ok(kept);
        }
        for Recorded { at: _, event } in page {
            seen += 1;
            if let RunEvent::ConfigChosen { over: other, .. } = event {
                kept = other.parse() == Ok(over);
            }
        }
    }
}

/// Which of two configurations a run goes on with.
struct Choice {
    adopt: bool,
    /// The operator's letter that says so; none for the policy.
    letter: Option<Arc<str>>,
}

impl Choice {
    async fn of_letter(journal: &dyn SharedJournal, run: RunId) -> Result<Option<Self>, JournalError> {
        let letters = journal.letters(run).await?;
        Ok(letters.iter().rev().find_map(|letter| match LetterContent::read(letter) {
            Ok(LetterContent::Configure { adopt }) => {
                Some(Self { adopt, letter: Some(Arc::clone(&letter.id)) })
            }
            _ => None,
        }))
    }

    /// Puts the choice into the journal. Nothing was begun since the last event of a run that nobody
    /// drove yet, and the next owner must know that.
    async fn write(
        &self,
        journal: &dyn SharedJournal,
        claim: &mut Claim,
        config: BlobHash,
        over: BlobHash,
    ) -> Result<(), AppendError> {
        let is_fresh = claim.head == 1 && claim.attempts <= 1;
        let at = if is_fresh { claim.last_at } else { claim.resumes_at() };
        let by = if self.letter.is_some() { "the operator" } else { "the policy `adopt`" };
        let config = config.to_string().into();
        let chosen = RunEvent::ConfigChosen { config, over: over.to_string().into(), by: by.into() };
        let mut events = vec![Recorded { at, event: chosen }];
        if is_fresh {
            events.push(Recorded { at, event: RunEvent::Suspended { calls: Vec::new(), model: false } });
        }
        let letters = self.letter.iter().cloned().collect();
        claim.head = journal.append_taking(&claim.fence, claim.head, events, letters).await?;
        (claim.last_at, claim.since_last) = (at, std::time::Duration::ZERO);
        Ok(())
    }
}
