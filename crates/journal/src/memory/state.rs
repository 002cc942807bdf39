//! What the memory store knows about one run, and what may be written to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dauntless_contract::{
    AppendError, BlobHash, CallKey, CallRecord, ClaimFilter, Fence, Letter, Pad, Recorded, Release, RunId,
    RunMeta, RunState, Seq, Snapshot, Timestamp,
};

use crate::refusal::{Standing, refusal};

/// Snapshots that are kept of one run.
const SNAPSHOTS_KEPT: usize = 2;

#[derive(Debug)]
pub(super) struct Run {
    pub(super) state: RunState,
    pub(super) reason: Option<Arc<str>>,
    pub(super) epoch: u64,
    /// `None` when nobody may append.
    pub(super) token: Option<u128>,
    /// The worker by number, while it drives.
    pub(super) owner: Option<u64>,
    pub(super) owner_name: Option<Arc<str>>,
    pub(super) attempts: u32,
    pub(super) ready_at: Instant,
    pub(super) events: Vec<Recorded>,
    pub(super) created: Instant,
    pub(super) last_write: Instant,
    pub(super) ended: Option<Instant>,
    pub(super) snapshots: Vec<Snapshot>,
    /// With the number that counts the letters of the store.
    pub(super) letters: Vec<(Letter, Taken, u64)>,
    pub(super) late: BTreeMap<(CallKey, u64), CallRecord>,
    pub(super) blobs: BTreeSet<BlobHash>,
    pub(super) pad: Option<Pad>,
    pub(super) client_key: Option<Arc<str>>,
    pub(super) agent: Arc<str>,
    pub(super) parent: Option<RunId>,
    pub(super) root: Option<RunId>,
    pub(super) code_version: Arc<str>,
    pub(super) config: Option<BlobHash>,
}

/// Whether an event has taken a letter in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Yes,
    No,
}

impl Run {
    pub(super) fn head(&self) -> Seq {
        self.events.len() as Seq
    }

    pub(super) fn last_at(&self) -> Timestamp {
        self.events.last().map_or(Timestamp::ZERO, |event| event.at)
    }

    fn standing(&self) -> Standing {
        Standing { head: self.head(), epoch: self.epoch, token: self.token, last_at: self.last_at() }
    }

    /// Whether this fence may write.
    pub(super) fn admits(&self, fence: &Fence) -> Result<(), AppendError> {
        refusal(Some(self.standing()), fence, self.head(), None)
    }

    pub(super) fn append(
        &mut self,
        fence: &Fence,
        expected: Seq,
        events: Vec<Recorded>,
        taken: &[Arc<str>],
    ) -> Result<Seq, AppendError> {
        refusal(Some(self.standing()), fence, expected, events.first().map(|first| first.at))?;
        if events.is_empty() {
            return Ok(expected);
        }
        if events.iter().any(|recorded| recorded.event.moves()) {
            self.attempts = 0;
        }
        self.config = events.iter().rev().find_map(|recorded| recorded.event.config()).or(self.config);
        self.events.extend(events);
        self.last_write = Instant::now();
        for (letter, state, _) in &mut self.letters {
            if taken.contains(&letter.id) {
                *state = Taken::Yes;
            }
        }
        Ok(self.head())
    }

    pub(super) fn release(&mut self, next: Release) {
        self.token = None;
        self.owner = None;
        self.attempts = 0;
        (self.state, self.reason) = match next {
            Release::Ready { after } => {
                self.ready_at = Instant::now() + after;
                (RunState::Ready, None)
            }
            Release::Paused { reason } => (RunState::Paused, Some(reason)),
            Release::Ended { reason } => {
                self.ended = Some(Instant::now());
                (RunState::Ended, Some(reason))
            }
        };
    }

    pub(super) fn put_snapshot(&mut self, snapshot: Snapshot) {
        self.snapshots.retain(|kept| kept.seq != snapshot.seq);
        self.snapshots.push(snapshot);
        self.snapshots.sort_by_key(|kept| kept.seq);
        while self.snapshots.len() > SNAPSHOTS_KEPT {
            self.snapshots.remove(0);
        }
    }

    pub(super) fn unread(&self) -> impl Iterator<Item = &Letter> {
        self.letters.iter().filter(|(_, taken, _)| *taken == Taken::No).map(|(letter, ..)| letter)
    }

    pub(super) fn knows(&self, letter: &str) -> bool {
        self.letters.iter().any(|(known, ..)| &*known.id == letter)
    }

    /// The number of the letter that has waited longest.
    pub(super) fn oldest_unread(&self) -> Option<u64> {
        self.letters.iter().find(|(_, taken, _)| *taken == Taken::No).map(|(.., number)| *number)
    }

    /// Whether a worker of that code can drive it.
    pub(super) fn fits(&self, filter: &ClaimFilter) -> bool {
        filter.code_versions.as_ref().is_none_or(|versions| versions.contains(&self.code_version))
    }

    pub(super) fn meta(&self, run: RunId) -> RunMeta {
        let ready_in = match self.state {
            RunState::Ready => self.ready_at.saturating_duration_since(Instant::now()),
            _ => Duration::ZERO,
        };
        RunMeta {
            run,
            agent: Arc::clone(&self.agent),
            state: self.state,
            reason: self.reason.clone(),
            head: self.head(),
            epoch: self.epoch,
            owner: self.owner_name.clone(),
            attempts: self.attempts,
            ready_in,
            letters: self.unread().count() as u64,
            late_results: self.late.len() as u64,
            snapshot: self.snapshots.last().map(|snapshot| snapshot.seq),
            code_version: Arc::clone(&self.code_version),
            config: self.config,
            parent: self.parent,
            root: self.root,
            age: self.created.elapsed(),
            since_last: self.last_write.elapsed(),
        }
    }
}
