//! What all parts of one simulation share: the time, the history and the names.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dauntless_contract::{Clock, Outcome, Progress, RunId, Timestamp, ToolCtx};
use tokio::time::Instant;

use super::history::{Attempt, Entry, Fact, History, Operation, Who};

/// Where every simulation begins, so that equal seeds see equal times.
const EPOCH: Timestamp = Timestamp::from_micros(1_000_000_000_000);

/// Shared by the driver, the model and the tools. Cheap to clone.
#[derive(Clone)]
pub(super) struct Stage {
    began: Instant,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    history: History,
    runs: BTreeMap<RunId, Who>,
    others: u32,
    keys: BTreeMap<Arc<str>, u32>,
    faults: Faults,
    running: usize,
}

/// Whether faults are injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Faults {
    On,
    Off,
}

impl Stage {
    /// Starts the time. Call it under tokio's paused clock.
    pub(super) fn new() -> Self {
        let inner = Inner {
            history: History::default(),
            runs: BTreeMap::new(),
            others: 0,
            keys: BTreeMap::new(),
            faults: Faults::On,
            running: 0,
        };
        Self { began: Instant::now(), inner: Arc::new(Mutex::new(inner)) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    pub(super) fn note(&self, fact: Fact) {
        let at = self.now();
        self.inner().history.entries.push(Entry { at, fact });
    }

    /// Notes what the simulator does, and what follows from it for the faults.
    pub(super) fn did(&self, operation: Operation) {
        if operation == Operation::EndFaults {
            self.inner().faults = Faults::Off;
        }
        self.note(Fact::Did(operation));
    }

    pub(super) fn faults(&self) -> Faults {
        self.inner().faults
    }

    /// Attempts under way at all tools.
    pub(super) fn running(&self) -> usize {
        self.inner().running
    }

    /// Counts an attempt that begins or is over.
    pub(super) fn count_running(&self, count: impl FnOnce(usize) -> usize) {
        let mut inner = self.inner();
        inner.running = count(inner.running);
    }

    /// Gives a run the number of the operation that started it.
    pub(super) fn name_run(&self, id: RunId, number: u32) {
        self.inner().runs.insert(id, Who::Run(number));
    }

    /// The number of a run, or of a caller that no operation named.
    pub(super) fn who(&self, id: RunId) -> Who {
        let mut inner = self.inner();
        let Inner { runs, others, .. } = &mut *inner;
        *runs.entry(id).or_insert_with(|| {
            *others += 1;
            Who::Other(*others)
        })
    }

    pub(super) fn attempt(&self, tool: &Arc<str>, ctx: &ToolCtx) -> Attempt {
        Attempt { who: self.who(ctx.run), call: ctx.call, number: ctx.attempt, tool: Arc::clone(tool) }
    }

    /// The number of an idempotency key, by first sight.
    pub(super) fn key(&self, key: &Arc<str>) -> u32 {
        let mut inner = self.inner();
        let next = u32::try_from(inner.keys.len()).unwrap_or(u32::MAX);
        *inner.keys.entry(Arc::clone(key)).or_insert(next)
    }

    /// A time of the runtime's clock, since the start.
    pub(super) fn since_start(at: Timestamp) -> Duration {
        at.since(EPOCH)
    }

    /// Notes what a watcher of a run saw.
    pub(super) fn saw(&self, run: u32, progress: Progress) {
        let progress = match progress {
            Progress::RunEnded { outcome } => {
                let outcome = Outcome { run: RunId::from_u128(run.into()), ..outcome };
                self.run_ended(run, outcome.clone());
                Progress::RunEnded { outcome }
            }
            progress => progress,
        };
        self.note(Fact::Saw { run, progress: Box::new(progress) });
    }

    /// Notes an outcome, with the number of the run in place of its id.
    pub(super) fn run_ended(&self, run: u32, outcome: Outcome) {
        let outcome = Box::new(Outcome { run: RunId::from_u128(run.into()), ..outcome });
        self.note(Fact::RunEnded { run, outcome });
    }

    /// Whether a run has given its answer.
    pub(super) fn has_completed(&self, number: u32) -> bool {
        self.inner().history.entries.iter().rev().any(|entry| match &entry.fact {
            Fact::RunEnded { run, outcome } => *run == number && outcome.is_completed(),
            _ => false,
        })
    }

    pub(super) fn take_history(&self) -> History {
        std::mem::take(&mut self.inner().history)
    }
}

/// The clock that the runtime is given: virtual, from the same point in every simulation.
impl Clock for Stage {
    fn now(&self) -> Timestamp {
        EPOCH + self.began.elapsed()
    }
}
