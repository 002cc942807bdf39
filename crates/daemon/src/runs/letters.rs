//! Words to a run from outside. A letter has a name that follows from what it is about, so that the
//! same command given twice is one letter.

use std::sync::Arc;

use dauntless_contract::{CallKey, LetterContent, RunMeta, RunState};

use super::{Awaited, Runs, RunsError, not_over};

/// What became of the wish to cancel a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// Its worker is told.
    Sent,
    /// The next worker that takes it is told. One that waited for an operator was reopened for that.
    Waiting,
    /// It was told before.
    Before,
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// The run is told.
    Sent,
    /// It was told the same before.
    Before,
}

impl Runs<'_> {
    /// Asks a run to end. It answers its calls that are open and ends as `cancelled`.
    ///
    /// # Errors
    /// [`RunsError::Over`], when it has ended.
    pub async fn cancel(&self, meta: &RunMeta, by: &str) -> Result<Cancelled, RunsError> {
        not_over(meta)?;
        let letter = LetterContent::Cancel { by: by.into() }.letter("cancel");
        let is_new = self.journal.send(meta.run, letter).await?;
        match meta.state {
            RunState::Paused | RunState::Quarantined => {
                self.journal.reopen(meta.run).await?;
                Ok(Cancelled::Waiting)
            }
            RunState::Ready | RunState::Driven | RunState::Ended if !is_new => Ok(Cancelled::Before),
            RunState::Ready => Ok(Cancelled::Waiting),
            RunState::Driven | RunState::Ended => Ok(Cancelled::Sent),
        }
    }

    /// Gives the user's words to a question.
    ///
    /// # Errors
    /// [`RunsError::Over`]; [`RunsError::NoQuestion`], which names those that are open; and
    /// [`RunsError::AnsweredBefore`] where other words are on their way.
    pub async fn answer(&self, meta: &RunMeta, call: CallKey, text: &str) -> Result<Answered, RunsError> {
        not_over(meta)?;
        let id: Arc<str> = format!("answer-{call}").into();
        let look = self.look(meta.clone()).await?;
        let open: Vec<CallKey> = look
            .headline
            .waits
            .iter()
            .filter_map(|wait| match &wait.awaited {
                Awaited::Answer(question) => Some(question.call),
                _ => None,
            })
            .collect();
        let content = LetterContent::Answer { call, text: text.into() };
        let before = look.unread.iter().find(|letter| letter.id == id);
        if let Some(before) = before {
            let is_same = before.content.as_ref() == Some(&content);
            return if is_same {
                Ok(Answered::Before)
            } else {
                Err(RunsError::AnsweredBefore { run: meta.run, call })
            };
        }
        if !open.contains(&call) {
            let open = match open.as_slice() {
                [] => "it asks nothing now".to_owned(),
                calls => {
                    let calls: Vec<String> = calls.iter().map(ToString::to_string).collect();
                    format!("open: {}", calls.join(", "))
                }
            };
            return Err(RunsError::NoQuestion { run: meta.run, call, open });
        }
        match self.journal.send(meta.run, content.letter(id)).await? {
            true => Ok(Answered::Sent),
            false => Err(RunsError::AnsweredBefore { run: meta.run, call }),
        }
    }
}
