//! All runs and workers of a memory store, behind one lock.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use dauntless_contract::{
    AppendError, BlobHash, Claim, ClaimFilter, CreateError, Fence, JournalError, LateResult, Letter,
    ListQuery, NewRun, Outage, ReadError, Recorded, Release, RunCounts, RunId, RunMeta, RunState, Seq,
    Snapshot, WorkerInfo,
};

use super::state::{Run, Taken};
use crate::stored::{BLOB_BYTES_MAX, NOTE_BYTES_MAX, bounded, encode_batch, encode_new};
use crate::{CLAIMS_MAX, NEWS_MAX};

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) inner: Mutex<Inner>,
    pub(super) wakes: Mutex<Wakes>,
}

/// What there was to wake for, and who waits for more.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    count: u64,
    waiting: Vec<Waker>,
}

impl Shared {
    fn wakes(&self) -> MutexGuard<'_, Wakes> {
        self.wakes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wake(&self) {
        let mut wakes = self.wakes();
        wakes.count += 1;
        std::mem::take(&mut wakes.waiting).into_iter().for_each(Waker::wake);
    }

    /// Ends once there was a wake that `seen` does not know.
    pub(super) fn woken<'a>(&'a self, seen: &'a AtomicU64) -> impl Future<Output = ()> + 'a {
        std::future::poll_fn(move |context| {
            let mut wakes = self.wakes();
            if seen.swap(wakes.count, Ordering::Relaxed) != wakes.count {
                return Poll::Ready(());
            }
            wakes.waiting.push(context.waker().clone());
            Poll::Pending
        })
    }
}

#[derive(Debug)]
struct Worker {
    info: WorkerInfo,
    until: Instant,
}

#[derive(Debug)]
pub(super) struct Inner {
    ended_runs_max: usize,
    pub(super) runs: BTreeMap<RunId, Run>,
    /// Ended runs, oldest first.
    ended: VecDeque<RunId>,
    workers: BTreeMap<u64, Worker>,
    workers_ever: u64,
    letters_ever: u64,
    blobs: BTreeMap<BlobHash, Arc<[u8]>>,
    outages: BTreeMap<Arc<str>, Instant>,
}

impl Inner {
    pub(super) fn tell_outage(&mut self, dependency: Arc<str>, lasts: Duration) {
        match lasts.is_zero() {
            true => self.outages.remove(&dependency),
            false => self.outages.insert(dependency, Instant::now() + lasts),
        };
    }

    pub(super) fn outages(&self) -> Vec<Outage> {
        let now = Instant::now();
        let lasting = self.outages.iter().filter(|(_, until)| **until > now);
        lasting
            .map(|(dependency, until)| Outage { dependency: Arc::clone(dependency), lasts: *until - now })
            .collect()
    }

    pub(super) fn new(ended_runs_max: usize) -> Self {
        Self {
            ended_runs_max,
            runs: BTreeMap::new(),
            ended: VecDeque::new(),
            workers: BTreeMap::new(),
            workers_ever: 0,
            letters_ever: 0,
            blobs: BTreeMap::new(),
            outages: BTreeMap::new(),
        }
    }

    pub(super) fn register(&mut self, info: WorkerInfo) -> u64 {
        let namesakes: Vec<u64> = self
            .workers
            .iter()
            .filter(|(_, worker)| worker.info.name == info.name)
            .map(|(n, _)| *n)
            .collect();
        for namesake in namesakes {
            self.forget_worker(namesake);
        }
        self.workers_ever += 1;
        let until = Instant::now() + info.ttl;
        self.workers.insert(self.workers_ever, Worker { info, until });
        self.workers_ever
    }

    pub(super) fn forget_worker(&mut self, worker: u64) {
        self.workers.remove(&worker);
        for run in self.runs.values_mut().filter(|run| run.owner == Some(worker)) {
            run.state = RunState::Ready;
            run.owner = None;
            run.token = None;
        }
    }

    /// Whether the worker had not been given up.
    pub(super) fn renew(&mut self, worker: u64) -> bool {
        let now = Instant::now();
        match self.workers.get_mut(&worker) {
            Some(Worker { info, until }) if *until > now => {
                *until = now + info.ttl;
                true
            }
            _ => false,
        }
    }

    fn lives(&self, worker: u64) -> bool {
        self.workers.get(&worker).is_some_and(|worker| worker.until > Instant::now())
    }

    pub(super) fn create(&mut self, new: NewRun, worker: Option<u64>) -> Result<(), CreateError> {
        encode_new(&new)?;
        let NewRun { fence, first, client_key, agent, parent, root, code_version, config } = new;
        let named = |run: &Run| client_key.is_some() && run.client_key == client_key;
        let known = self.runs.contains_key(&fence.run).then_some(fence.run);
        if let Some(run) = known.or_else(|| self.runs.iter().find(|(_, run)| named(run)).map(|(id, _)| *id)) {
            return Err(CreateError::Exists(run));
        }
        let config = config.map(|bytes| self.keep_blob(bytes));
        let owner = worker.and_then(|worker| self.workers.get(&worker));
        let run = Run {
            state: if owner.is_some() { RunState::Driven } else { RunState::Ready },
            reason: None,
            epoch: fence.epoch,
            token: Some(fence.token),
            owner_name: owner.map(|owner| Arc::clone(&owner.info.name)),
            owner: worker.filter(|_| owner.is_some()),
            attempts: 0,
            ready_at: Instant::now(),
            events: vec![first],
            created: Instant::now(),
            last_write: Instant::now(),
            ended: None,
            snapshots: Vec::new(),
            letters: Vec::new(),
            late: BTreeMap::new(),
            blobs: config.into_iter().collect(),
            pad: None,
            client_key,
            agent,
            parent,
            root,
            code_version,
            config,
        };
        self.runs.insert(fence.run, run);
        Ok(())
    }

    pub(super) fn append(
        &mut self,
        fence: &Fence,
        expected: Seq,
        events: Vec<Recorded>,
        taken: &[Arc<str>],
    ) -> Result<Seq, AppendError> {
        encode_batch(&events)?;
        self.driven(fence)?.append(fence, expected, events, taken)
    }

    /// The run, if the fence may write to it.
    fn driven(&mut self, fence: &Fence) -> Result<&mut Run, AppendError> {
        let run = self.runs.get_mut(&fence.run).ok_or(AppendError::NoSuchRun(fence.run))?;
        run.admits(fence)?;
        Ok(run)
    }

    pub(super) fn read(&self, run: RunId, after: Seq, limit: usize) -> Result<Vec<Recorded>, ReadError> {
        let stored = self.runs.get(&run).ok_or(ReadError::NoSuchRun(run))?;
        let skip = usize::try_from(after).unwrap_or(usize::MAX);
        Ok(stored.events.iter().skip(skip).take(limit).cloned().collect())
    }

    pub(super) fn release(&mut self, fence: &Fence, next: Release) -> Result<(), AppendError> {
        let ended = matches!(next, Release::Ended { .. });
        self.driven(fence)?.release(next);
        if ended {
            self.ended.push_back(fence.run);
            while self.ended.len() > self.ended_runs_max {
                self.drop_oldest();
            }
        }
        Ok(())
    }

    fn drop_oldest(&mut self) {
        let Some(run) = self.ended.pop_front().and_then(|oldest| self.runs.remove(&oldest)) else { return };
        for blob in run.blobs {
            if !self.runs.values().any(|other| other.blobs.contains(&blob)) {
                self.blobs.remove(&blob);
            }
        }
    }

    /// `None` when the worker was given up.
    pub(super) fn claim(&mut self, me: u64, want: usize, filter: &ClaimFilter) -> Option<Vec<Claim>> {
        if !self.renew(me) {
            return None;
        }
        let now = Instant::now();
        let mut open: Vec<(Instant, RunId)> = self
            .runs
            .iter()
            .filter(|(_, run)| self.is_claimable(run, now) && run.fits(filter))
            .filter(|(id, run)| {
                filter.only.is_none_or(|only| only == **id) && (!filter.children_only || run.parent.is_some())
            })
            .map(|(id, run)| (run.ready_at, *id))
            .collect();
        open.sort_unstable();
        let name = self.workers.get(&me).map(|worker| Arc::clone(&worker.info.name));
        let mut claims = Vec::new();
        for (_, id) in open {
            if claims.len() == want {
                break;
            }
            let Some(run) = self.runs.get_mut(&id) else { continue };
            if run.attempts >= CLAIMS_MAX {
                run.state = RunState::Quarantined;
                run.reason = Some(crate::quarantine_reason(run.attempts).into());
                run.token = None;
                run.owner = None;
                continue;
            }
            let token = uuid::Uuid::new_v4().as_u128();
            run.state = RunState::Driven;
            run.epoch += 1;
            run.token = Some(token);
            run.owner = Some(me);
            run.owner_name = name.clone();
            run.attempts += 1;
            claims.push(Claim {
                fence: Fence { run: id, epoch: run.epoch, token },
                head: run.head(),
                attempts: run.attempts,
                last_at: run.last_at(),
                since_last: now.saturating_duration_since(run.last_write),
                code_version: Arc::clone(&run.code_version),
                config: run.config,
            });
        }
        Some(claims)
    }

    fn is_claimable(&self, run: &Run, now: Instant) -> bool {
        match run.state {
            RunState::Ready => run.ready_at <= now,
            RunState::Driven => self.is_orphaned(run),
            RunState::Paused | RunState::Quarantined | RunState::Ended => false,
        }
    }

    fn is_orphaned(&self, run: &Run) -> bool {
        run.state == RunState::Driven && !run.owner.is_some_and(|owner| self.lives(owner))
    }

    pub(super) fn put_snapshot(&mut self, fence: &Fence, snapshot: Snapshot) -> Result<(), AppendError> {
        bounded("a snapshot", snapshot.body.len(), BLOB_BYTES_MAX, "bytes")?;
        self.driven(fence)?.put_snapshot(snapshot);
        Ok(())
    }

    pub(super) fn snapshot(&self, run: RunId, fold_version: u32) -> Result<Option<Snapshot>, JournalError> {
        let run = self.run(run)?;
        Ok(run.snapshots.iter().rev().find(|kept| kept.fold_version == fold_version).cloned())
    }

    pub(super) fn run(&self, run: RunId) -> Result<&Run, JournalError> {
        self.runs.get(&run).ok_or(JournalError::NoSuchRun(run))
    }

    pub(super) fn run_mut(&mut self, run: RunId) -> Result<&mut Run, JournalError> {
        self.runs.get_mut(&run).ok_or(JournalError::NoSuchRun(run))
    }

    pub(super) fn send(&mut self, run: RunId, letter: Letter) -> Result<bool, JournalError> {
        bounded("a letter", letter.body.len(), NOTE_BYTES_MAX, "bytes")?;
        let number = self.letters_ever;
        let run = self.run_mut(run)?;
        let new = !run.knows(&letter.id);
        if new {
            run.letters.push((letter, Taken::No, number));
            self.letters_ever += 1;
        }
        Ok(new)
    }

    pub(super) fn with_news(&self, worker: u64) -> Vec<RunId> {
        let owned = self.runs.iter().filter(|(_, run)| run.owner == Some(worker));
        let mut news: Vec<_> = owned.filter_map(|(id, run)| Some((run.oldest_unread()?, *id))).collect();
        news.sort_unstable();
        news.into_iter().take(NEWS_MAX).map(|(_, run)| run).collect()
    }

    pub(super) fn letters(&self, run: RunId) -> Result<Vec<Letter>, JournalError> {
        Ok(self.run(run)?.unread().cloned().collect())
    }

    pub(super) fn put_late_result(&mut self, late: LateResult) -> Result<(), JournalError> {
        crate::stored::encode_record(&late.record)?;
        self.run_mut(late.run)?.late.entry((late.call, late.epoch)).or_insert(late.record);
        Ok(())
    }

    pub(super) fn late_results(&self, run: RunId) -> Result<Vec<LateResult>, JournalError> {
        let late = self.run(run)?.late.iter();
        Ok(late
            .map(|((call, epoch), record)| LateResult {
                run,
                call: *call,
                epoch: *epoch,
                record: record.clone(),
            })
            .collect())
    }

    pub(super) fn put_blob(&mut self, run: RunId, bytes: Arc<[u8]>) -> Result<BlobHash, JournalError> {
        bounded("a blob", bytes.len(), BLOB_BYTES_MAX, "bytes")?;
        self.run(run)?;
        let hash = self.keep_blob(bytes);
        self.run_mut(run)?.blobs.insert(hash);
        Ok(hash)
    }

    fn keep_blob(&mut self, bytes: Arc<[u8]>) -> BlobHash {
        let hash = crate::stored::hash_of(&bytes);
        self.blobs.entry(hash).or_insert(bytes);
        hash
    }

    pub(super) fn blob(&self, hash: BlobHash) -> Option<Arc<[u8]>> {
        self.blobs.get(&hash).cloned()
    }

    pub(super) fn reopen(&mut self, run: RunId) -> Result<bool, JournalError> {
        let run = self.run_mut(run)?;
        let closed = matches!(run.state, RunState::Paused | RunState::Quarantined);
        if closed {
            run.state = RunState::Ready;
            run.reason = None;
            run.attempts = 0;
            run.ready_at = Instant::now();
        }
        Ok(closed)
    }

    pub(super) fn list(&self, query: ListQuery) -> Vec<RunMeta> {
        let from = query.after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        self.runs
            .range((from, std::ops::Bound::Unbounded))
            .filter(|(_, run)| query.state.is_none_or(|state| state == run.state))
            .filter(|(_, run)| query.root.is_none() || query.root == run.root)
            .take(query.limit)
            .map(|(id, run)| run.meta(*id))
            .collect()
    }

    pub(super) fn counts(&self, filter: &ClaimFilter) -> RunCounts {
        let mut counts = RunCounts::default();
        for run in self.runs.values() {
            let orphaned = self.is_orphaned(run);
            match run.state {
                RunState::Driven if orphaned => counts.orphaned += 1,
                RunState::Ready => counts.ready += 1,
                RunState::Driven => counts.driven += 1,
                RunState::Paused => counts.paused += 1,
                RunState::Quarantined => counts.quarantined += 1,
                RunState::Ended => counts.ended += 1,
            }
            if (orphaned || run.state == RunState::Ready) && !run.fits(filter) {
                counts.unclaimable += 1;
            }
        }
        counts
    }

    pub(super) fn drop_ended(&mut self, kept: Duration, runs_max: usize) -> usize {
        let mut dropped = 0;
        while dropped < runs_max
            && let Some(run) = self.ended.front().and_then(|oldest| self.runs.get(oldest))
            && run.ended.is_some_and(|ended| ended.elapsed() >= kept)
        {
            self.drop_oldest();
            dropped += 1;
        }
        dropped
    }
}
