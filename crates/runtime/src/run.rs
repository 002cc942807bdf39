//! A run as its caller holds it.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    CallKey, Clock, Letter, Outcome, Progress, Question, RunId, RunTotals, StopReason, Timestamp,
};
use ractor::ActorRef;
use tokio::sync::oneshot;

use crate::answerer::{AnswerError, Answerer};
use crate::orchestrator::RunMsg;
use crate::watch::Watched;

/// A submitted run. It lives until its outcome, not until this is dropped.
pub struct RunHandle {
    pub(crate) id: RunId,
    pub(crate) actor: ActorRef<RunMsg>,
    pub(crate) parting: oneshot::Receiver<Parting>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) submitted: Timestamp,
}

impl RunHandle {
    /// The run's id.
    pub const fn id(&self) -> RunId {
        self.id
    }

    /// Asks the run to stop. It answers each call it has open and ends as `cancelled`.
    pub fn cancel(&self, by: impl Into<Arc<str>>) {
        let _ = self.actor.send_message(RunMsg::Cancel { by: by.into() });
    }

    /// A way to cancel from elsewhere.
    pub fn canceller(&self) -> Canceller {
        Canceller { actor: self.actor.clone() }
    }

    /// A way to answer its questions from elsewhere.
    pub fn answerer(&self) -> Answerer {
        Answerer { actor: self.actor.clone() }
    }

    /// The questions that wait for the user; see [`Answerer::questions`].
    pub async fn questions(&self) -> Vec<Question> {
        self.answerer().questions().await
    }

    /// Gives the user's words to a question; see [`Answerer::answer`].
    ///
    /// # Errors
    /// [`AnswerError`], when the call is not an open question.
    pub async fn answer(&self, call: CallKey, text: impl Into<Arc<str>>) -> Result<(), AnswerError> {
        self.answerer().answer(call, text).await
    }

    /// What its worker tells it.
    pub fn reins(&self) -> Reins {
        Reins { actor: self.actor.clone() }
    }

    /// Waits for the end. Always an outcome, also when the runtime stops first.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing for the run.
    pub async fn outcome(self) -> Outcome {
        let (run, clock, submitted) = (self.id, Arc::clone(&self.clock), self.submitted);
        self.parting().await.into_outcome(run, clock.now().since(submitted))
    }

    /// Waits until this process has no more to do for the run, and answers why.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing for the run.
    pub async fn parting(self) -> Parting {
        self.parting.await.unwrap_or(Parting::Crashed)
    }
}

/// Why a process has no more to do for a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Parting {
    /// The run is over.
    Ended(Outcome),
    /// It was let go of in good order, for another to go on with.
    HandedOver,
    /// It is another's, or the journal cannot be written to; with the reason. What is in the journal
    /// holds.
    Lost(Arc<str>),
    /// Its orchestrator died, or the runtime stopped. A run that is in a journal can be driven on.
    Crashed,
}

impl Parting {
    fn into_outcome(self, run: RunId, elapsed: Duration) -> Outcome {
        let (code, explanation) = match self {
            Self::Ended(outcome) => return outcome,
            Self::HandedOver => {
                ("handed_over", "This process let go of the run; another goes on with it.".into())
            }
            Self::Lost(why) => {
                ("taken_over", format!("This process does not drive the run any more: {why}."))
            }
            Self::Crashed => (
                "orchestrator_lost",
                "The runtime stopped, or the run's orchestrator crashed; see the log.".into(),
            ),
        };
        broken(run, code, explanation, elapsed)
    }
}

/// The outcome of a run whose end its own machine did not decide; `code` names where it broke.
pub(crate) fn broken(run: RunId, code: &str, explanation: impl Into<Arc<str>>, elapsed: Duration) -> Outcome {
    Outcome {
        run,
        reason: StopReason::Internal { code: code.into() },
        text: None,
        explanation: Some(explanation.into()),
        totals: RunTotals::default(),
        elapsed,
    }
}

/// How a worker steers a run that it drives. Cheap to clone; a run that has ended hears nothing.
#[derive(Clone)]
pub struct Reins {
    actor: ActorRef<RunMsg>,
}

impl Reins {
    /// Brings a letter. One that was brought before is not read again.
    pub fn deliver(&self, letter: Letter) {
        let _ = self.actor.send_message(RunMsg::Letter(letter));
    }

    /// Asks the run to stop. It answers each call it has open and ends as `cancelled`.
    pub fn cancel(&self, by: impl Into<Arc<str>>) {
        let _ = self.actor.send_message(RunMsg::Cancel { by: by.into() });
    }

    /// Begins nothing more, waits for what is under way, and lets go of the run. `at_once` does not
    /// wait: what is under way is left as the effect of its tool allows.
    pub fn hand_over(&self, at_once: bool) {
        let _ = self.actor.send_message(RunMsg::HandOver { at_once });
    }

    /// The run is no longer this process's. What it still does is told to the new owner.
    pub fn abandon(&self, why: impl Into<Arc<str>>) {
        let _ = self.actor.send_message(RunMsg::Abandon { why: why.into() });
    }
}

/// Cancels one run. Cheap to clone.
#[derive(Clone)]
pub struct Canceller {
    actor: ActorRef<RunMsg>,
}

impl Canceller {
    /// Asks the run to stop; `by` is named in the outcome.
    pub fn cancel(&self, by: impl Into<Arc<str>>) {
        let _ = self.actor.send_message(RunMsg::Cancel { by: by.into() });
    }
}

/// The progress of a run, ending with its outcome.
pub struct RunStream {
    pub(crate) handle: Option<RunHandle>,
    pub(crate) ending: Option<Outcome>,
    pub(crate) parted: Option<Parting>,
    pub(crate) events: Watched,
    pub(crate) canceller: Canceller,
    pub(crate) answerer: Answerer,
    pub(crate) id: RunId,
}

impl RunStream {
    pub(crate) fn new(handle: RunHandle, events: Watched) -> Self {
        let (canceller, answerer, id) = (handle.canceller(), handle.answerer(), handle.id());
        Self { handle: Some(handle), ending: None, parted: None, events, canceller, answerer, id }
    }

    /// The run's id.
    pub const fn id(&self) -> RunId {
        self.id
    }

    /// A way to cancel the run while its events are read.
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }

    /// What its worker tells it.
    pub fn reins(&self) -> Reins {
        Reins { actor: self.canceller.actor.clone() }
    }

    /// A way to answer its questions, which come as [`Progress::InputRequested`].
    pub fn answerer(&self) -> Answerer {
        self.answerer.clone()
    }

    /// Why this process has no more to do for the run; none before its end.
    pub const fn parted(&self) -> Option<&Parting> {
        self.parted.as_ref()
    }

    /// The next event; after [`Progress::RunEnded`], which is never lost, nothing.
    ///
    /// # Cancel safety
    /// Safe: no event is lost by dropping the future.
    pub async fn next(&mut self) -> Option<Progress> {
        loop {
            if self.ending.is_some() {
                // What was told before the end comes before it; stragglers of late attempts do not.
                let rest = self.events.rest();
                return rest.or_else(|| self.ending.take().map(|outcome| Progress::RunEnded { outcome }));
            }
            let handle = self.handle.as_mut()?;
            tokio::select! {
                biased;
                Some(progress) = self.events.next() => return Some(progress),
                parting = &mut handle.parting => {
                    let elapsed = handle.clock.now().since(handle.submitted);
                    let parting = parting.unwrap_or(Parting::Crashed);
                    self.parted = Some(parting.clone());
                    self.ending = Some(parting.into_outcome(handle.id, elapsed));
                    self.handle = None;
                }
            }
        }
    }

    /// Reads to the end, showing each event to `see`, and answers the outcome.
    pub async fn watch(mut self, mut see: impl FnMut(&Progress)) -> Outcome {
        while let Some(progress) = self.next().await {
            see(&progress);
            if let Progress::RunEnded { outcome } = progress {
                return outcome;
            }
        }
        Parting::Crashed.into_outcome(self.id, Duration::ZERO)
    }
}
