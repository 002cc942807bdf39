//! How a person's words reach a run that asked for them.

use std::sync::Arc;

use dauntless_contract::{CallKey, Question};
use ractor::ActorRef;
use tokio::sync::oneshot;

use crate::orchestrator::RunMsg;

/// Answers the questions of one run. Cheap to clone.
#[derive(Clone)]
pub struct Answerer {
    pub(crate) actor: ActorRef<RunMsg>,
}

/// The words were not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// No question waits at this call: it was answered, it is none, or there is no such call.
    #[error("call {call} waits for no answer; {}", listed(.open))]
    NotOpen {
        /// The call.
        call: CallKey,
        /// The calls that wait for one.
        open: Vec<CallKey>,
    },
    /// The run has ended.
    #[error("the run has ended and takes no more answers")]
    Ended,
}

impl AnswerError {
    pub(crate) fn not_open(call: CallKey, open: &[Question]) -> Self {
        Self::NotOpen { call, open: open.iter().map(|question| question.call).collect() }
    }
}

fn listed(calls: &[CallKey]) -> String {
    let calls: Vec<String> = calls.iter().map(ToString::to_string).collect();
    if calls.is_empty() { "no question is open".to_owned() } else { format!("open are {}", calls.join(", ")) }
}

impl Answerer {
    /// The questions that wait now, in the order of the calls; none once the run has ended.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing for the run.
    pub async fn questions(&self) -> Vec<Question> {
        let (reply, questions) = oneshot::channel();
        let _ = self.actor.send_message(RunMsg::Questions { reply });
        questions.await.unwrap_or_default()
    }

    /// Gives the user's words to a question. Blank words say that the user has no answer. They are
    /// redacted like everything a run keeps.
    ///
    /// # Errors
    /// [`AnswerError`], when the call is not an open question. The run goes on as before.
    ///
    /// # Cancel safety
    /// The words are on their way once this was polled, whether the future is dropped or not.
    pub async fn answer(&self, call: CallKey, text: impl Into<Arc<str>>) -> Result<(), AnswerError> {
        let (reply, taken) = oneshot::channel();
        let _ = self.actor.send_message(RunMsg::Answer { call, text: text.into(), reply });
        taken.await.unwrap_or(Err(AnswerError::Ended))
    }
}
