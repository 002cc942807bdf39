//! How an orchestrator writes to the journal: each fact before what follows from it, and nothing
//! once the run belongs to somebody else.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    AppendError, CallKey, CallRecord, CallVerdict, CreateError, EffectState, Failure, Fence, Journal,
    JournalError, LateResult, LetterContent, NewRun, Outcome, Recorded, Release, RunEvent, RunId, Seq,
    SharedJournal, Snapshot, StopReason, Timestamp, TooLarge,
};
use dauntless_core::run::FOLD_VERSION;

/// The rules by which runs are decided. A run that was begun under other rules is not folded by these:
/// a worker claims runs of its own version.
pub const CODE_VERSION: &str = "1";

/// First and longest wait for a journal that cannot work now.
const WAIT_FIRST: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(5);
/// How long a run waits for its journal altogether, before it is let go.
const WAIT_IN_ALL: Duration = Duration::from_secs(120);

/// Where the facts of the runtime's runs are kept.
#[derive(Clone)]
pub(crate) enum Ledger {
    /// Runs of this process alone.
    Own(Arc<dyn Journal>),
    /// Runs that workers share.
    Shared(Arc<dyn SharedJournal>),
}

/// What the journal says to an event.
pub(crate) enum Refusal {
    /// The run is somebody else's, or this process cannot know that it is not. Nothing is decided for
    /// it here any more.
    Lost {
        /// What it said.
        error: AppendError,
        /// What it did not take.
        event: Box<RunEvent>,
    },
    /// The event cannot be kept, whoever tries.
    Defect(String),
}

/// The right to write to one run.
pub(crate) struct Appender {
    ledger: Ledger,
    fence: Fence,
    head: Seq,
    birth: NewBorn,
}

/// What a journal is told of a new run besides its first event.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewBorn {
    pub(crate) agent: Arc<str>,
    pub(crate) kin: Option<Kin>,
    pub(crate) config: Option<Arc<[u8]>>,
}

/// The runs above a new one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kin {
    pub(crate) parent: RunId,
    pub(crate) root: RunId,
}

impl Appender {
    /// For a run with events up to `head`.
    pub(crate) fn new(ledger: Ledger, fence: Fence, head: Seq) -> Self {
        Self { ledger, fence, head, birth: NewBorn::default() }
    }

    /// For a run that does not exist yet.
    pub(crate) const fn of_new(ledger: Ledger, fence: Fence, birth: NewBorn) -> Self {
        Self { ledger, fence, head: 0, birth }
    }

    /// Tells a run that is not driven here to stop.
    pub(crate) fn cancel_other(&self, run: RunId, by: Arc<str>) {
        let Ledger::Shared(journal) = &self.ledger else { return };
        let journal = Arc::clone(journal);
        tokio::spawn(async move {
            let letter = LetterContent::Cancel { by }.letter("cancel");
            if let Err(error) = journal.send(run, letter).await {
                tracing::warn!(%run, %error, "a child run was not told to stop");
            }
        });
    }

    /// Puts an event into the journal, with the letter that it takes in. Answers the one it took: a
    /// result that is too large becomes the failure of its call.
    pub(crate) async fn record(
        &mut self,
        now: Timestamp,
        event: RunEvent,
        letter: Option<Arc<str>>,
    ) -> Result<RunEvent, Refusal> {
        let size = match self.append(now, &event, letter.as_ref()).await {
            Ok(()) => return Ok(event),
            Err(AppendError::TooLarge(size)) => size,
            Err(error) => return Err(self.refusal(error, event)),
        };
        let smaller = without_result(event, size).ok_or_else(|| Refusal::Defect(size.to_string()))?;
        match self.append(now, &smaller, None).await {
            Ok(()) => Ok(smaller),
            Err(error) => Err(self.refusal(error, smaller)),
        }
    }

    /// Lets go of the run.
    pub(crate) async fn release(&self, next: Release) -> Result<(), AppendError> {
        self.ledger.journal().release(&self.fence, next).await
    }

    /// What keeps a snapshot of the state after the last event; nothing where none can be kept.
    pub(crate) fn keep(&self, body: Vec<u8>) -> Option<impl Future<Output = ()> + Send + use<>> {
        let Ledger::Shared(journal) = &self.ledger else { return None };
        let (journal, fence) = (Arc::clone(journal), self.fence);
        let snapshot = Snapshot { seq: self.head, fold_version: FOLD_VERSION, body: body.into() };
        Some(async move {
            if let Err(error) = journal.put_snapshot(&fence, snapshot).await {
                tracing::warn!(run = %fence.run, %error, "a snapshot was not kept; resuming will take longer");
            }
        })
    }

    /// What a call came to at an owner before this one, if that is known.
    pub(crate) async fn late_result(
        &self,
        call: CallKey,
        epoch: u64,
    ) -> Result<Option<CallRecord>, JournalError> {
        let Ledger::Shared(journal) = &self.ledger else { return Ok(None) };
        let all = journal.late_results(self.fence.run).await?;
        Ok(all.into_iter().find(|late| (late.call, late.epoch) == (call, epoch)).map(|late| late.record))
    }

    /// Keeps what a call came to although the run has another owner, and lets that one know.
    pub(crate) fn late(&self, call: CallKey, record: CallRecord) {
        let Ledger::Shared(journal) = &self.ledger else { return };
        let (journal, Fence { run, epoch, token: _ }) = (Arc::clone(journal), self.fence);
        tokio::spawn(async move {
            let late = LateResult { run, call, epoch, record };
            let letter = LetterContent::LateResult { call, epoch }.letter(format!("late/{call}/{epoch}"));
            let kept = async {
                journal.put_late_result(late).await?;
                journal.send(run, letter).await
            };
            if let Err(error) = kept.await {
                tracing::warn!(%run, %call, epoch, %error, "what a call came to after a takeover is lost");
            }
        });
    }

    async fn append(
        &mut self,
        now: Timestamp,
        event: &RunEvent,
        letter: Option<&Arc<str>>,
    ) -> Result<(), AppendError> {
        let (mut wait, mut waited) = (WAIT_FIRST, Duration::ZERO);
        loop {
            match (self.try_append(now, event, letter).await, &self.ledger) {
                (Err(AppendError::Unavailable(why)), Ledger::Shared(_)) if waited < WAIT_IN_ALL => {
                    tracing::warn!(run = %self.fence.run, why, "the journal is unavailable; the run waits for it");
                    tokio::time::sleep(wait).await;
                    waited += wait;
                    wait = (wait * 2).min(WAIT_MAX);
                }
                (result, _) => return result,
            }
        }
    }

    async fn try_append(
        &mut self,
        now: Timestamp,
        event: &RunEvent,
        letter: Option<&Arc<str>>,
    ) -> Result<(), AppendError> {
        let recorded = Recorded { at: now, event: event.clone() };
        if self.head == 0 {
            let NewBorn { agent, kin, config } = &self.birth;
            let new = NewRun {
                agent: Arc::clone(agent),
                parent: kin.map(|kin| kin.parent),
                root: kin.map(|kin| kin.root),
                config: config.clone(),
                code_version: CODE_VERSION.into(),
                ..NewRun::new(self.fence, recorded)
            };
            let created = self.ledger.journal().create(new).await;
            created.map_err(|error| match error {
                CreateError::TooLarge(size) => AppendError::TooLarge(size),
                CreateError::Exists(run) => AppendError::Fenced { run, owner_epoch: 1 },
                error => AppendError::Unavailable(error.to_string()),
            })?;
            self.head = 1;
            return Ok(());
        }
        let events = vec![recorded];
        self.head = match (&self.ledger, letter) {
            (Ledger::Shared(journal), Some(letter)) => {
                journal.append_taking(&self.fence, self.head, events, vec![Arc::clone(letter)]).await?
            }
            (ledger, _) => ledger.journal().append(&self.fence, self.head, events).await?,
        };
        Ok(())
    }

    fn refusal(&self, error: AppendError, event: RunEvent) -> Refusal {
        match (&self.ledger, error) {
            (_, error @ (AppendError::Invalid { .. } | AppendError::TooLarge(_))) => {
                Refusal::Defect(error.to_string())
            }
            (Ledger::Own(_), error) => Refusal::Defect(error.to_string()),
            (Ledger::Shared(_), error) => Refusal::Lost { error, event: Box::new(event) },
        }
    }
}

impl Ledger {
    pub(crate) fn journal(&self) -> &dyn Journal {
        match self {
            Self::Own(journal) => &**journal,
            Self::Shared(journal) => &**journal,
        }
    }
}

/// The end of a call or of a child whose value is larger than the journal takes, told as such.
fn without_result(event: RunEvent, size: TooLarge) -> Option<RunEvent> {
    let (call, record) = match event {
        RunEvent::CallEnded { call, record } => (call, record),
        RunEvent::ChildEnded { call, attempt, outcome } => {
            let explanation =
                format!("Its answer of {} bytes is larger than the journal of this run takes.", size.size);
            let reason = StopReason::Truncated;
            let outcome = Outcome { reason, text: None, explanation: Some(explanation.into()), ..*outcome };
            return Some(RunEvent::ChildEnded { call, attempt, outcome: Box::new(outcome) });
        }
        _ => return None,
    };
    let CallVerdict::Succeeded(_) = &record.verdict else { return None };
    let failure = Failure::too_large(format!(
        "The call worked, but its result of {} bytes is larger than the journal of this run takes.",
        size.size
    ));
    let failure = failure.hint("Ask for less at a time: a page or a range.").effect(EffectState::Happened);
    let record = CallRecord { verdict: CallVerdict::Failed(failure), ..record };
    Some(RunEvent::CallEnded { call, record })
}
