//! The runs that a worker drives: one task for each, which sees to it that the run is driven again
//! when its orchestrator crashes, and that whatever cannot be driven says why.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dauntless_contract::{
    Claim, JournalError, LetterContent, Progress, ReadError, Recorded, Release, RunEvent, RunId,
    SharedJournal, StopReason,
};
use dauntless_runtime::{DriveError, Parting, Reins, RunHandle, RunStream, SubmitError};

use super::crews::Crew;
use super::{Crews, NoCrew, OnWorkerEvent, WorkerEvent};

/// How long a run rests that cannot be driven just now.
const REST: Duration = Duration::from_secs(5);
/// Crashes of the orchestrator of one run that are mended, within a time.
const CRASHES_MAX: usize = 3;
const CRASHES_WITHIN: Duration = Duration::from_secs(300);

pub(super) struct Driving {
    journal: Arc<dyn SharedJournal>,
    runs: Mutex<HashMap<RunId, Reins>>,
    tell: OnWorkerEvent,
    /// Whether the progress of runs is told as well.
    watched: bool,
}

/// A run under way.
enum Driven {
    Alone(RunHandle),
    Watched(Box<RunStream>),
}

impl Driven {
    fn reins(&self) -> Reins {
        match self {
            Self::Alone(handle) => handle.reins(),
            Self::Watched(stream) => stream.reins(),
        }
    }
}

/// What becomes of a run whose task ends here.
enum Next {
    /// Nothing is left to do.
    Over,
    /// Another tries it later.
    Rest(Arc<str>),
    /// An operator is needed.
    Pause(Arc<str>),
}

impl Driving {
    pub(super) fn new(journal: Arc<dyn SharedJournal>, tell: OnWorkerEvent, watched: bool) -> Self {
        Self { journal, runs: Mutex::default(), tell, watched }
    }

    /// Drives one run until this worker has no more to do for it.
    pub(super) async fn drive(self: Arc<Self>, mut claim: Claim, crews: Arc<Crews>) {
        let run = claim.fence.run;
        let next = self.driven(&mut claim, &crews).await;
        self.runs().remove(&run);
        let (release, event) = match next {
            Next::Over => return,
            Next::Rest(why) => (Release::Ready { after: REST }, WorkerEvent::Lost { run, why }),
            Next::Pause(why) => match self.cancelled(&claim).await {
                Some(by) => {
                    let reason = StopReason::Cancelled { by };
                    let text = format!("{reason}; it could not be driven: {why}").into();
                    (Release::Ended { reason: text }, WorkerEvent::Ended { run, reason })
                }
                None => (Release::Paused { reason: Arc::clone(&why) }, WorkerEvent::Paused { run, why }),
            },
        };
        match self.journal.release(&claim.fence, release).await {
            Ok(()) => (self.tell)(&event),
            Err(error) => tracing::warn!(%run, %error, "a run that cannot be driven was not given back"),
        }
    }

    /// Who wants a run to end that nobody can drive. It is in its journal then.
    async fn cancelled(&self, claim: &Claim) -> Option<Arc<str>> {
        let letters = self.journal.letters(claim.fence.run).await.ok()?;
        let (id, by) = letters.into_iter().find_map(|letter| match LetterContent::read(&letter) {
            Ok(LetterContent::Cancel { by }) => Some((letter.id, by)),
            _ => None,
        })?;
        let event = RunEvent::CancelRequested { by: Arc::clone(&by) };
        let events = vec![Recorded { at: claim.resumes_at(), event }];
        self.journal.append_taking(&claim.fence, claim.head, events, vec![id]).await.ok()?;
        Some(by)
    }

    async fn driven(&self, claim: &mut Claim, crews: &Crews) -> Next {
        let run = claim.fence.run;
        let crew = match crews.of(claim).await {
            Ok(crew) => crew,
            Err(error) => return error.into_next(),
        };
        let mut crashes = Vec::new();
        loop {
            let driven = match self.begin(&crew, claim).await {
                Ok(driven) => driven,
                Err(error) => return after(error),
            };
            self.runs().insert(run, driven.reins());
            let again = claim.head > 1 || !crashes.is_empty();
            (self.tell)(&WorkerEvent::Claimed { run, agent: Arc::clone(crew.agent.name()), again });
            match self.parting(run, driven).await {
                Parting::Ended(outcome) => {
                    (self.tell)(&WorkerEvent::Ended { run, reason: outcome.reason });
                    return Next::Over;
                }
                Parting::HandedOver => {
                    (self.tell)(&WorkerEvent::HandedOver { run });
                    return Next::Over;
                }
                Parting::Lost(why) => {
                    (self.tell)(&WorkerEvent::Lost { run, why });
                    return Next::Over;
                }
                Parting::Crashed => {
                    crashes.retain(|at: &Instant| at.elapsed() < CRASHES_WITHIN);
                    crashes.push(Instant::now());
                    claim.attempts += 1;
                    if crashes.len() > CRASHES_MAX {
                        let times = crashes.len();
                        return Next::Pause(
                            format!("its orchestrator crashed {times} times in a short time").into(),
                        );
                    }
                }
            }
        }
    }

    async fn begin(&self, crew: &Crew, claim: &Claim) -> Result<Driven, DriveError> {
        Ok(match self.watched {
            true => Driven::Watched(Box::new(crew.runtime().drive_watched(&crew.agent, claim).await?)),
            false => Driven::Alone(crew.runtime().drive(&crew.agent, claim).await?),
        })
    }

    async fn parting(&self, run: RunId, driven: Driven) -> Parting {
        let mut stream = match driven {
            Driven::Alone(handle) => return handle.parting().await,
            Driven::Watched(stream) => stream,
        };
        while let Some(progress) = stream.next().await {
            if !matches!(progress, Progress::RunEnded { .. })
                || matches!(stream.parted(), Some(Parting::Ended(_)))
            {
                (self.tell)(&WorkerEvent::Progress { run, progress: Box::new(progress) });
            }
        }
        stream.parted().cloned().unwrap_or(Parting::Crashed)
    }

    /// Brings the letters of the runs that are driven here.
    pub(super) async fn bring_letters(&self, crews: &Crews) {
        let brought = async {
            for run in self.journal.with_news().await? {
                let at_the_top = self.runs().get(&run).cloned();
                let reins = match at_the_top {
                    Some(reins) => Some(reins),
                    None => crews.child(run).await,
                };
                let Some(reins) = reins else { continue };
                for letter in self.journal.letters(run).await? {
                    reins.deliver(letter);
                }
            }
            Ok::<_, JournalError>(())
        };
        if let Err(error) = brought.await {
            tracing::warn!(%error, "letters to runs cannot be read at present");
        }
    }

    pub(super) fn hand_over_all(&self, at_once: bool) {
        for reins in self.runs().values() {
            reins.hand_over(at_once);
        }
    }

    pub(super) fn abandon_all(&self, why: &str) {
        for reins in self.runs().values() {
            reins.abandon(why);
        }
    }

    pub(super) fn journal(&self) -> &dyn SharedJournal {
        &*self.journal
    }

    pub(super) fn tell(&self, event: &WorkerEvent) {
        (self.tell)(event);
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<RunId, Reins>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What becomes of a run that could not be driven.
fn after(error: DriveError) -> Next {
    match error {
        DriveError::Read(ReadError::Unavailable(_) | ReadError::Fatal(_))
        | DriveError::Submit(SubmitError::Stopped) => Next::Rest(error.to_string().into()),
        error => Next::Pause(error.to_string().into()),
    }
}

impl NoCrew {
    fn into_next(self) -> Next {
        match self {
            Self::Read(ReadError::Unavailable(_) | ReadError::Fatal(_)) => {
                Next::Rest(self.to_string().into())
            }
            Self::Journal(_) | Self::Append(_) | Self::Build(_) => Next::Rest(self.to_string().into()),
            Self::Read(_)
            | Self::NoStart(_)
            | Self::Agent(_)
            | Self::NoConfig(_)
            | Self::Pin(_)
            | Self::Choose { .. } => Next::Pause(self.to_string().into()),
        }
    }
}
