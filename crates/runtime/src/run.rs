//! A run as its caller holds it.

use std::sync::Arc;

use dauntless_contract::{
    CallKey, Clock, Outcome, Progress, Question, RunId, RunTotals, StopReason, Timestamp,
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
    pub(crate) outcome: oneshot::Receiver<Outcome>,
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

    /// Waits for the end. Always an outcome, also when the runtime stops first.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing for the run.
    pub async fn outcome(self) -> Outcome {
        match self.outcome.await {
            Ok(outcome) => outcome,
            Err(_) => lost(self.id, self.clock.now(), self.submitted),
        }
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
    pub(crate) events: Watched,
    pub(crate) canceller: Canceller,
    pub(crate) answerer: Answerer,
    pub(crate) id: RunId,
}

impl RunStream {
    /// The run's id.
    pub const fn id(&self) -> RunId {
        self.id
    }

    /// A way to cancel the run while its events are read.
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }

    /// A way to answer its questions, which come as [`Progress::InputRequested`].
    pub fn answerer(&self) -> Answerer {
        self.answerer.clone()
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
                outcome = &mut handle.outcome => {
                    let lost = || lost(handle.id, handle.clock.now(), handle.submitted);
                    self.ending = Some(outcome.unwrap_or_else(|_| lost()));
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
        lost(self.id, Timestamp::ZERO, Timestamp::ZERO)
    }
}

/// The outcome of a run whose orchestrator died without one.
fn lost(run: RunId, now: Timestamp, submitted: Timestamp) -> Outcome {
    Outcome {
        run,
        reason: StopReason::Internal { code: "orchestrator_lost".into() },
        text: None,
        explanation: Some("The runtime stopped, or the run's orchestrator crashed; see the log.".into()),
        totals: RunTotals::default(),
        elapsed: now.since(submitted),
    }
}
