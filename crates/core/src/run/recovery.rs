//! A run from its journal, after the process that drove it came to its end.
//!
//! The events are folded, and what they led to then is not done again. Two things can make the fold
//! differ from what happened, and both are refused rather than driven on: a tool that is gone, and
//! an answer that nothing in the folded run waits for.

use std::collections::BTreeSet;
use std::sync::Arc;

use dauntless_contract::{CallRecord, Recorded, RunEvent, RunId, Seq, Snapshot};

use super::{Phase, RunMachine, RunSpec};

/// Why a run cannot be driven on from its journal. The run is untouched, and may be paused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoverError {
    /// There is no event, or the first is not the start.
    #[error("the journal of run {0} does not begin with the start of the run")]
    NoStart(
        /// The run.
        RunId,
    ),
    /// The run called a tool that its agent no longer has.
    #[error(
        "run {run} called `{tool}` in event {seq}, and its agent no longer has that tool: give the agent the tool \
         back, or cancel the run"
    )]
    MissingTool {
        /// The run.
        run: RunId,
        /// The event that names the tool.
        seq: Seq,
        /// The tool.
        tool: Arc<str>,
    },
    /// An event answers what the folded run did not ask: its agent was changed since.
    #[error(
        "event {seq} of run {run} answers what the run, as its agent is declared now, did not ask: give the agent \
         its former tools, models and limits back, or cancel the run"
    )]
    Diverged {
        /// The run.
        run: RunId,
        /// The event.
        seq: Seq,
    },
}

/// A run that is being folded from its journal, event by event.
///
/// Begun from a snapshot it needs only the events after it. A snapshot is a memory of the fold and
/// nothing else: one that this program or this agent would not have made is left aside, and the run
/// is folded from its first event, with the same result.
#[derive(Clone, Debug)]
pub struct Recovery {
    machine: RunMachine,
    seq: Seq,
}

impl Recovery {
    /// Begins after a snapshot, if there is one that can be used.
    pub fn begin(run: RunId, spec: Arc<RunSpec>, snapshot: Option<&Snapshot>) -> Self {
        let restored = snapshot.and_then(|snapshot| {
            let machine = RunMachine::restore(run, Arc::clone(&spec), snapshot).ok()?;
            Some(Self { machine, seq: snapshot.seq })
        });
        restored.unwrap_or_else(|| Self { machine: RunMachine::new(run, spec), seq: 0 })
    }

    /// The last event that is in it; 0 where none is. The journal is to be read from there on.
    pub const fn seq(&self) -> Seq {
        self.seq
    }

    /// Takes the event that follows.
    ///
    /// # Errors
    /// When it is not of this run as its agent is declared now. The recovery is over then.
    pub fn fold(&mut self, Recorded { at, event }: Recorded) -> Result<(), RecoverError> {
        let (run, seq) = (self.machine.run, self.seq + 1);
        if seq == 1 && !matches!(event, RunEvent::RunStarted { .. }) {
            return Err(RecoverError::NoStart(run));
        }
        if let Some(tool) = self.machine.missing(&event) {
            return Err(RecoverError::MissingTool { run, seq, tool });
        }
        if !self.machine.waits_for(&event) {
            return Err(RecoverError::Diverged { run, seq });
        }
        // What it led to was carried out, or is owed.
        drop(self.machine.on(at, event));
        self.seq = seq;
        Ok(())
    }

    /// The run after the last event.
    ///
    /// What is owed to it, its next event answers: [`RunEvent::Interrupted`], journaled and then
    /// given to [`RunMachine::on`] like any other. It begins again what was under way. A run that
    /// has an [`outcome`](RunMachine::outcome) is owed nothing.
    ///
    /// The time of that event and of those after it must not be before the last event's, which is
    /// [`RunMachine::at`]; a process whose clock is behind goes on from there. Limits and waits count
    /// the time in between.
    ///
    /// # Errors
    /// [`RecoverError::NoStart`] when there was no event.
    pub fn finish(self) -> Result<RunMachine, RecoverError> {
        match self.machine.phase {
            Phase::Created => Err(RecoverError::NoStart(self.machine.run)),
            _ => Ok(self.machine),
        }
    }
}

impl RunMachine {
    /// Folds a run from all its events, as a [`Recovery`] does it one by one.
    ///
    /// # Errors
    /// When there is no run in the events, or this spec folds them to another run than they are of.
    pub fn recover(
        run: RunId,
        spec: Arc<RunSpec>,
        events: impl IntoIterator<Item = Recorded>,
    ) -> Result<Self, RecoverError> {
        let mut recovery = Recovery::begin(run, spec, None);
        events.into_iter().try_for_each(|event| recovery.fold(event))?;
        recovery.finish()
    }

    /// A tool that this event calls, or may lead to as a fallback, and that the agent had.
    fn missing(&self, event: &RunEvent) -> Option<Arc<str>> {
        let RunEvent::ModelReplied { reply, .. } = event else { return None };
        let (toolbox, had) = (&self.spec.toolbox, &self.had);
        reply.calls.iter().filter(|call| had.contains(&call.name)).find_map(|call| {
            let mut seen = BTreeSet::new();
            let mut name = &call.name;
            while seen.insert(name) {
                let Some(spec) = toolbox.get(name) else { return Some(Arc::clone(name)) };
                name = spec.fallback.as_ref().filter(|name| had.contains(*name))?;
            }
            None
        })
    }

    /// Whether an answer is one to what the run asked. Timers and wishes come when they like.
    pub(super) fn waits_for(&self, event: &RunEvent) -> bool {
        match (&self.phase, event) {
            (
                _,
                RunEvent::TimerFired { .. }
                | RunEvent::CancelRequested { .. }
                | RunEvent::ConfigChosen { .. }
                | RunEvent::LetterSetAside { .. }
                | RunEvent::OutcomeResolved { .. }
                | RunEvent::MessageReceived { .. }
                | RunEvent::Interrupted {}
                | RunEvent::Suspended { .. },
            ) => true,
            (phase, RunEvent::RunStarted { .. }) => *phase == Phase::Created,
            (
                Phase::Asking { turn, model, .. },
                RunEvent::ModelReplied { turn: of, model: from, .. }
                | RunEvent::ModelFailed { turn: of, model: from, .. },
            ) => (turn, model) == (of, from),
            (
                Phase::Summarising(waiting),
                RunEvent::SummaryReplied { turn, model, .. } | RunEvent::SummaryFailed { turn, model, .. },
            ) => waiting.is_for(*turn, *model),
            (
                Phase::Calling(slots) | Phase::Settling { slots, .. },
                RunEvent::CallEnded { call, record: CallRecord { by, .. } },
            ) => slots.running_call(*call, by.as_ref()).is_some(),
            (
                Phase::Calling(slots) | Phase::Settling { slots, .. },
                RunEvent::AttemptFailed { call, by, .. },
            ) => slots.running_call(*call, by.as_ref()).is_some(),
            (Phase::Calling(slots) | Phase::Settling { slots, .. }, RunEvent::CallVerified { call, .. }) => {
                slots.is_verifying(*call)
            }
            // One that comes after its deadline is late, as long as it was a child.
            (_, RunEvent::ChildEnded { call, .. }) if call.turn < self.turn => true,
            (Phase::Calling(slots) | Phase::Settling { slots, .. }, RunEvent::ChildEnded { call, .. }) => {
                slots.slot(*call).is_some_and(|slot| self.spec.links.get(&slot.call.name).is_some())
            }
            (Phase::Calling(_), RunEvent::InputGiven { call, .. }) => {
                self.questions().iter().any(|question| question.call == *call)
            }
            _ => false,
        }
    }
}
