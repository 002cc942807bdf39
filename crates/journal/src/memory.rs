//! The store that forgets when the process ends.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dauntless_contract::{
    AppendError, BoxFuture, CreateError, Fence, Journal, NewRun, ReadError, Recorded, RunId, Seq,
};

/// Keeps runs in memory: all that are under way, and the last few that have ended.
#[derive(Debug)]
pub struct Memory {
    ended_runs_max: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    runs: BTreeMap<RunId, Run>,
    /// Ended runs, oldest first.
    ended: VecDeque<RunId>,
}

#[derive(Debug)]
struct Run {
    fence: Fence,
    events: Vec<Recorded>,
}

impl Memory {
    /// A store that keeps the last `ended_runs_max` ended runs for reading.
    pub fn new(ended_runs_max: usize) -> Self {
        Self { ended_runs_max, inner: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn create_now(&self, run: NewRun) -> Result<(), CreateError> {
        let NewRun { fence, first } = run;
        let mut inner = self.lock();
        if inner.runs.contains_key(&fence.run) {
            return Err(CreateError::Exists(fence.run));
        }
        inner.runs.insert(fence.run, Run { fence, events: vec![first] });
        Ok(())
    }

    fn append_now(&self, fence: &Fence, expected: Seq, events: Vec<Recorded>) -> Result<Seq, AppendError> {
        let mut inner = self.lock();
        let run = inner.owned_run(fence)?;
        let head = run.events.len() as Seq;
        if head != expected {
            return Err(AppendError::Conflict { run: fence.run, head, expected });
        }
        run.events.extend(events);
        Ok(run.events.len() as Seq)
    }

    fn read_now(&self, run: RunId, after: Seq, limit: usize) -> Result<Vec<Recorded>, ReadError> {
        let inner = self.lock();
        let stored = inner.runs.get(&run).ok_or(ReadError::NoSuchRun(run))?;
        let skip = usize::try_from(after).unwrap_or(usize::MAX);
        Ok(stored.events.iter().skip(skip).take(limit).cloned().collect())
    }

    fn release_now(&self, fence: &Fence) -> Result<(), AppendError> {
        let mut inner = self.lock();
        inner.owned_run(fence)?;
        if !inner.ended.contains(&fence.run) {
            inner.ended.push_back(fence.run);
        }
        while inner.ended.len() > self.ended_runs_max {
            if let Some(oldest) = inner.ended.pop_front() {
                inner.runs.remove(&oldest);
            }
        }
        Ok(())
    }
}

impl Inner {
    fn owned_run(&mut self, fence: &Fence) -> Result<&mut Run, AppendError> {
        let run = self.runs.get_mut(&fence.run).ok_or(AppendError::NoSuchRun(fence.run))?;
        if run.fence != *fence {
            return Err(AppendError::Fenced { run: fence.run, owner_epoch: run.fence.epoch });
        }
        Ok(run)
    }
}

/// Keeps the last 256 ended runs.
impl Default for Memory {
    fn default() -> Self {
        Self::new(256)
    }
}

impl Journal for Memory {
    fn create(&self, run: NewRun) -> BoxFuture<'_, Result<(), CreateError>> {
        Box::pin(std::future::ready(self.create_now(run)))
    }

    fn append<'a>(
        &'a self,
        fence: &'a Fence,
        expected: Seq,
        events: Vec<Recorded>,
    ) -> BoxFuture<'a, Result<Seq, AppendError>> {
        Box::pin(std::future::ready(self.append_now(fence, expected, events)))
    }

    fn read(&self, run: RunId, after: Seq, limit: usize) -> BoxFuture<'_, Result<Vec<Recorded>, ReadError>> {
        Box::pin(std::future::ready(self.read_now(run, after, limit)))
    }

    fn release<'a>(&'a self, fence: &'a Fence) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(std::future::ready(self.release_now(fence)))
    }
}
