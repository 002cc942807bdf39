//! A worker: claims runs from a journal that many may share, drives them until they end, and gives
//! them back in good order when it is told to stop.
//!
//! It decides nothing about a run and nothing about who owns one: the first is the run machine's, the
//! second the journal's. It refuses to serve anything over a network; whoever does wraps it.

mod crews;
mod driving;
mod keeping;
mod outages;
mod upkeep;

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{ClaimFilter, JournalError, Progress, RunId, SharedJournal, StopReason};
use dauntless_runtime::CODE_VERSION;
use tokio::task::JoinSet;

use crate::config::Config;
use crate::wiring::Durable;

pub use crews::{Crews, NoCrew};
use driving::Driving;
use keeping::Keeping;

/// Runs claimed by one statement.
const CLAIMED_AT_ONCE: usize = 32;
/// How long a worker waits for a hint before it looks by itself.
const POLL: Duration = Duration::from_secs(1);
/// How long after its grace period a stopping worker waits for the journal to take its runs back.
const LET_GO_WITHIN: Duration = Duration::from_secs(5);

/// How a worker works.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// Its name, unique among the workers of the journal.
    pub name: Arc<str>,
    /// Where it runs, for the operator.
    pub host: Arc<str>,
    /// How long after its last sign of life its runs may be taken over, in a store that cannot see it die.
    pub ttl: Duration,
    /// Runs driven at once. Runs that another run waits for come on top.
    pub capacity: NonZero<u32>,
    /// How long calls may go on once it was told to stop.
    pub grace: Duration,
    /// How long runs are kept after their end; for ever without it.
    pub kept: Option<Duration>,
    /// Whether the progress of runs is told.
    pub watched: bool,
}

impl WorkerOptions {
    /// As a configuration says. Without a name there, the worker has one that no other has.
    pub fn of(config: &Config) -> Self {
        let worker = &config.worker;
        let host = host();
        let name = worker.name.as_deref().map_or_else(
            || format!("{host}-{}-{:04x}", std::process::id(), chance() % 0x1_0000).into(),
            Into::into,
        );
        Self {
            name,
            host: host.into(),
            ttl: worker.ttl,
            capacity: NonZero::new(worker.capacity).unwrap_or(NonZero::<u32>::MIN),
            grace: worker.grace,
            kept: Some(config.journal.keep),
            watched: false,
        }
    }
}

/// What this machine calls itself.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "worker".to_owned() } else { name.to_owned() }
}

/// What an operator sees of a worker.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkerEvent {
    /// It drives a run.
    Claimed {
        /// The run.
        run: RunId,
        /// Its agent.
        agent: Arc<str>,
        /// Whether somebody drove it before.
        again: bool,
    },
    /// A run is over.
    Ended {
        /// The run.
        run: RunId,
        /// Why.
        reason: StopReason,
    },
    /// A run was given back for another to go on with.
    HandedOver {
        /// The run.
        run: RunId,
    },
    /// A run is another's, or cannot be driven at present.
    Lost {
        /// The run.
        run: RunId,
        /// Why.
        why: Arc<str>,
    },
    /// A run waits for an operator.
    Paused {
        /// The run.
        run: RunId,
        /// Why.
        why: Arc<str>,
    },
    /// Something happened in a run. Told where [`WorkerOptions::watched`] asks for it.
    Progress {
        /// The run.
        run: RunId,
        /// What.
        progress: Box<Progress>,
    },
    /// Runs that nobody here can drive, or that were given up. Told when it changes.
    Stranded {
        /// Of a version of the code that this worker does not have.
        unclaimable: u64,
        /// Claimed too often without getting on.
        quarantined: u64,
    },
}

impl fmt::Display for WorkerEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claimed { run, agent, again: false } => write!(f, "{run} starts with agent `{agent}`"),
            Self::Claimed { run, agent, again: true } => write!(f, "{run} goes on with agent `{agent}`"),
            Self::Ended { run, reason } => write!(f, "{run} ended: {reason}"),
            Self::HandedOver { run } => write!(f, "{run} was given back, for another worker to go on with"),
            Self::Lost { run, why } => write!(f, "{run} is not driven here any more: {why}"),
            Self::Paused { run, why } => write!(f, "{run} is paused: {why}"),
            Self::Progress { run, progress } => write!(f, "{run}: {progress:?}"),
            Self::Stranded { unclaimable, quarantined } => write!(
                f,
                "runs that wait in vain: {unclaimable} for a worker with other code, {quarantined} in quarantine; \
                 `dauntless runs` shows them"
            ),
        }
    }
}

/// Why a worker came to an end by itself.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The journal refused the worker, or can no longer be trusted.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The run that was asked for is not there to be driven.
    #[error(
        "run {0} cannot be claimed: it is driven elsewhere, over, paused or in quarantine; `dauntless show {0}` \
         says which"
    )]
    NotClaimable(RunId),
}

/// Takes what a worker tells. It must return at once.
pub type OnWorkerEvent = Arc<dyn Fn(&WorkerEvent) + Send + Sync>;

/// Drives the runs of a journal.
pub struct Worker {
    journal: Arc<dyn SharedJournal>,
    options: WorkerOptions,
    keeping: Keeping,
    driving: Arc<Driving>,
}

impl Worker {
    /// Registers a worker at the journal's handle.
    ///
    /// # Errors
    /// When the journal does not take it: another worker of that name lives, or the store cannot work.
    pub async fn register(
        journal: Arc<dyn SharedJournal>,
        options: WorkerOptions,
        tell: OnWorkerEvent,
    ) -> Result<Self, JournalError> {
        let keeping = Keeping::register(&journal, &options).await?;
        let driving = Arc::new(Driving::new(Arc::clone(&journal), tell, options.watched));
        Ok(Self { journal, options, keeping, driving })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.options.name
    }

    /// What systems are assembled on, whose runs it drives.
    pub fn durable(&self) -> Durable {
        Durable { journal: Arc::clone(&self.journal), lease: self.keeping.lease().clone() }
    }

    /// Claims and drives until `stop` resolves, then lets every run go: calls may end within the
    /// grace period, and what is done is in the journal.
    ///
    /// # Errors
    /// When the journal can no longer be trusted. The runs are left to others.
    pub async fn run(self, crews: Crews, stop: impl Future<Output = ()> + Send) -> Result<(), WorkerError> {
        self.work(crews, None, stop).await
    }

    /// Claims and drives one run alone, until it is over or `stop` resolves.
    ///
    /// # Errors
    /// [`WorkerError::NotClaimable`], and as [`run`](Self::run).
    pub async fn run_one(
        self,
        crews: Crews,
        run: RunId,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<(), WorkerError> {
        self.work(crews, Some(run), stop).await
    }

    async fn work(
        mut self,
        crews: Crews,
        only: Option<RunId>,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<(), WorkerError> {
        let crews = Arc::new(crews);
        let mut tasks = JoinSet::new();
        let mut stop = std::pin::pin!(stop);
        let mut lost = self.keeping.losses();
        let _upkeep = upkeep::begin(Arc::clone(&self.driving), self.options.kept);
        let mut claimed_any = false;
        let ended = loop {
            let claimed = match self.claim(&crews, only, &mut tasks).await {
                Ok(claimed) => claimed,
                Err(JournalError::LeaseLost(_) | JournalError::NotRegistered) => {
                    lost.mark_changed();
                    0
                }
                Err(error @ JournalError::Fatal(_)) => break Err(error.into()),
                Err(error) => {
                    tracing::warn!(%error, "no runs can be claimed at present");
                    0
                }
            };
            claimed_any |= claimed > 0;
            if let (Some(only), true) = (only, tasks.is_empty()) {
                break if claimed_any { Ok(()) } else { Err(WorkerError::NotClaimable(only)) };
            }
            self.driving.bring_letters(&crews).await;
            if claimed == CLAIMED_AT_ONCE {
                continue;
            }
            tokio::select! {
                biased;
                () = &mut stop => break Ok(()),
                _ = lost.changed() => {
                    self.driving.abandon_all("its worker could not renew its lease in time");
                    while tasks.join_next().await.is_some() {}
                    match self.keeping.register_again(&self.journal, &self.options).await {
                        Err(error @ JournalError::Fatal(_)) => break Err(error.into()),
                        Err(error) => {
                            tracing::warn!(%error, "the worker cannot register again yet");
                            tokio::time::sleep(POLL).await;
                            lost.mark_changed();
                        }
                        Ok(()) => {}
                    }
                }
                Some(_) = tasks.join_next() => {}
                () = self.journal.woken() => {}
                () = tokio::time::sleep(spread(POLL)) => {}
            }
        };
        self.let_go(&mut tasks).await;
        ended
    }

    /// Claims what there is room for, and sets out to drive it. Answers how many runs.
    async fn claim(
        &self,
        crews: &Arc<Crews>,
        only: Option<RunId>,
        tasks: &mut JoinSet<()>,
    ) -> Result<usize, JournalError> {
        while tasks.try_join_next().is_some() {}
        let capacity = usize::try_from(self.options.capacity.get()).unwrap_or(usize::MAX);
        let free = capacity.saturating_sub(tasks.len());
        let filter = ClaimFilter {
            // Whoever waits for a child holds a place; the child must not wait for that place.
            children_only: free == 0,
            only,
            ..own_code()
        };
        let want = if free == 0 { CLAIMED_AT_ONCE } else { free.min(CLAIMED_AT_ONCE) };
        let claims = self.journal.claim(want, filter).await?;
        let claimed = claims.len();
        for claim in claims {
            tasks.spawn(Arc::clone(&self.driving).drive(claim, Arc::clone(crews)));
        }
        Ok(claimed)
    }

    async fn let_go(&self, tasks: &mut JoinSet<()>) {
        let all_gone = async |tasks: &mut JoinSet<()>| while tasks.join_next().await.is_some() {};
        self.driving.hand_over_all(false);
        if tokio::time::timeout(self.options.grace, all_gone(tasks)).await.is_ok() {
            return;
        }
        self.driving.hand_over_all(true);
        if tokio::time::timeout(LET_GO_WITHIN, all_gone(tasks)).await.is_err() {
            tracing::warn!(
                runs = tasks.len(),
                "some runs were not given back; another worker takes them over"
            );
        }
    }
}

/// A third more or less, so that workers that started together do not ask together.
fn spread(wait: Duration) -> Duration {
    let chance = u32::try_from(chance() % 600).unwrap_or_default();
    wait * (700 + chance) / 1000
}

/// A number that no other process has; for nothing that must not be guessed.
fn chance() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn own_code() -> ClaimFilter {
    ClaimFilter { code_versions: Some(vec![CODE_VERSION.into()]), ..ClaimFilter::default() }
}

#[cfg(test)]
mod tests;
