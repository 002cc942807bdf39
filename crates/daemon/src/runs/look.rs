//! One run, with all that an operator needs to understand where it stands.

use std::collections::BTreeMap;
use std::sync::Arc;

use dauntless_contract::{
    CallKey, CallVerdict, LetterContent, ReadError, Recorded, RunEvent, RunId, RunMeta, RunState, Seq,
    Timestamp,
};
use dauntless_core::story::{Headline, Line, Story, Wait};

use super::machine::Machine;
use super::{Awaited, Runs, RunsError, agent_of, length};
use crate::pin;
use crate::wiring::{self, Spec};

/// A run.
#[derive(Clone, Debug)]
pub struct Look {
    /// Where it stands for workers.
    pub meta: RunMeta,
    /// What its events say, in short.
    pub headline: Headline,
    /// And in full.
    pub timeline: Vec<Line>,
    /// Why the rest of its events cannot be shown.
    pub unreadable: Option<String>,
    /// Why it would not go on with the agent that it has.
    pub unrecoverable: Option<String>,
    /// Letters that no event has taken in.
    pub unread: Vec<Unread>,
    /// The runs that it asked for and whose end it has seen, each with the event that holds it.
    pub ends: BTreeMap<RunId, Seq>,
    /// What calls came to after the run had been taken over from the worker that had started them.
    pub late: Vec<Late>,
    /// The time of the run at which this is true.
    pub now: Timestamp,
}

/// A letter that no event has taken in.
#[derive(Clone, Debug)]
pub struct Unread {
    /// The sender's name for it.
    pub id: Arc<str>,
    /// What it says; none where this program cannot read it.
    pub content: Option<LetterContent>,
}

/// What a call came to too late.
#[derive(Clone, Debug)]
pub struct Late {
    /// The call.
    pub call: CallKey,
    /// The epoch of the worker that had started it.
    pub epoch: u64,
    /// In words.
    pub text: String,
}

impl Runs<'_> {
    /// Reads a run.
    ///
    /// # Errors
    /// When the journal cannot be read. Events that this program does not know are told.
    pub async fn look(&self, meta: RunMeta) -> Result<Look, RunsError> {
        let (events, unreadable) = self.readable(&meta).await?;
        let mut story = Story::new(self.redactor.clone());
        events.iter().for_each(|event| story.see(event));
        let machine = match unreadable {
            None => self.machine(&meta, &events).await,
            // What follows is not known, so no machine can stand there.
            Some(_) => None,
        };
        let (machine, unrecoverable) = match machine {
            Some(Ok(machine)) => (Some(machine), None),
            Some(Err(why)) => (None, Some(why)),
            None => (None, None),
        };
        let mut headline = story.headline(machine.as_ref().map(Machine::folded));
        if meta.state == RunState::Ended {
            headline.waits.clear();
        }
        let unread = match meta.letters {
            0 => Vec::new(),
            _ => self.journal.letters(meta.run).await?,
        };
        let unread = unread
            .iter()
            .map(|letter| Unread { id: Arc::clone(&letter.id), content: LetterContent::read(letter).ok() });
        let late =
            if meta.late_results == 0 { Vec::new() } else { self.journal.late_results(meta.run).await? };
        let late = late.into_iter().map(|late| Late {
            call: late.call,
            epoch: late.epoch,
            text: match late.record.verdict {
                CallVerdict::Succeeded(output) => format!("ok: {}", self.redactor.text(&output.text)),
                CallVerdict::Failed(failure) => {
                    format!("{}: {}", failure.code, self.redactor.text(&failure.message))
                }
            },
        });
        let ends = (1..).zip(&events).filter_map(|(seq, Recorded { event, .. })| match event {
            RunEvent::ChildEnded { outcome, .. } => Some((outcome.run, seq)),
            _ => None,
        });
        Ok(Look {
            headline,
            ends: ends.collect(),
            timeline: story.timeline().to_vec(),
            unreadable,
            unrecoverable,
            unread: unread.collect(),
            late: late.collect(),
            now: story.last_at() + meta.since_last,
            meta,
        })
    }

    /// The events up to the first that this program cannot use, and why it cannot.
    async fn readable(&self, meta: &RunMeta) -> Result<(Vec<Recorded>, Option<String>), RunsError> {
        match self.events(meta.run, meta.head).await {
            Ok(events) => Ok((events, None)),
            Err(error @ ReadError::Unreadable { seq, .. }) => {
                Ok((self.events(meta.run, seq.saturating_sub(1)).await?, Some(error.to_string())))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The run's machine, by the agent that it is pinned to or else by the one that is configured; none
    /// where there is none of the two.
    async fn machine(&self, meta: &RunMeta, events: &[Recorded]) -> Option<Result<Machine, String>> {
        let agent = agent_of(meta, events);
        let spec = self.pinned(meta, &agent).await.or_else(|| self.spec(&agent).ok())?;
        Some(Machine::recover(meta.run, &spec, events).map_err(|error| error.to_string()))
    }

    async fn pinned(&self, meta: &RunMeta, agent: &str) -> Option<Spec> {
        let bytes = self.journal.blob(meta.config?).await.ok()??;
        let config = pin::restore(&bytes, self.config).ok()?;
        wiring::spec(&config, agent, self.environment, self.redactor.clone()).ok()
    }

    pub(super) fn spec(&self, agent: &str) -> Result<Spec, RunsError> {
        Ok(wiring::spec(self.config, agent, self.environment, self.redactor.clone())?)
    }
}

impl Look {
    /// What it waits for, in words, the first thing first.
    pub fn waits(&self) -> Vec<String> {
        let told = |waits: &[Wait]| waits.iter().map(|wait| wait.told(self.now)).collect::<Vec<_>>();
        match self.meta.state {
            RunState::Ended => Vec::new(),
            RunState::Paused => vec!["an operator, to resume it".to_owned()],
            RunState::Quarantined => {
                vec!["an operator, to see what ends its workers and resume it".to_owned()]
            }
            RunState::Driven => told(&self.headline.waits),
            RunState::Ready => {
                let questions: Vec<Wait> = self
                    .headline
                    .waits
                    .iter()
                    .filter(|wait| matches!(wait.awaited, Awaited::Answer(_) | Awaited::Tool { .. }))
                    .cloned()
                    .collect();
                let worker = match self.meta.ready_in.is_zero() {
                    true => "a worker".to_owned(),
                    false => format!("its time, in {}", length(self.meta.ready_in)),
                };
                [worker].into_iter().chain(told(&questions)).collect()
            }
        }
    }
}
