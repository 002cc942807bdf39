//! The calls of one turn while they are under way: one slot each, in the order they were asked for.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    CallKey, CallRecord, CallVerdict, Effect, EffectState, Failure, Json, ModelReply, Observation, Round,
    StopReason, Timestamp, ToolCall, ToolSpec,
};
use serde::{Deserialize, Serialize};

use super::attempts::Tried;
use crate::observation;
use crate::plan::Tally;
use crate::toolbox::{Fingerprint, Toolbox};

mod delegated;

pub(super) use delegated::{ChildStage, Delegated};

/// The calls of one turn, in the order the model asked for them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Slots {
    turn: u32,
    text: Option<Arc<str>>,
    extra: Option<Json>,
    slots: Vec<Slot>,
    /// How many slots are still running: a batch of a thousand must not be searched at each answer.
    open: usize,
    /// The first slot in call order whose failure ends the run.
    terminal: Option<usize>,
    /// How the delegations that have ended did.
    tally: Tally,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Slot {
    pub(super) call: ToolCall,
    pub(super) fingerprint: Fingerprint,
    pub(super) state: SlotState,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum SlotState {
    Running(Running),
    /// Nothing of it is under way: it waits for its tool to be back.
    Parked(Running, Wait),
    /// Another run works on it.
    Delegated(Delegated),
    Answered {
        observation: Observation,
        cut: Cut,
        terminal: Option<Terminal>,
    },
}

/// A call without its observation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Running {
    /// The tool that the model asked for.
    #[serde(with = "super::snapshot::by_name")]
    pub(super) asked: Arc<ToolSpec>,
    /// The tool that works on it: the same, or a fallback.
    #[serde(with = "super::snapshot::by_name")]
    pub(super) by: Arc<ToolSpec>,
    /// The call as a fallback has it.
    pub(super) elsewhere: Option<Elsewhere>,
    /// Attempts before it was last sent to a tool.
    pub(super) attempts: u32,
    /// Their waits.
    pub(super) waited: Duration,
    /// Until when it may be parked, once it was.
    pub(super) patience: Option<Timestamp>,
    /// The earlier call whose idempotency key it has.
    pub(super) repeats: Option<CallKey>,
    /// How often its process ended while this tool worked on it.
    pub(super) interruptions: u32,
    /// What this tool tried.
    pub(super) tried: Tried,
    pub(super) stage: Stage,
}

/// What the tool of a running call was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Stage {
    /// The call.
    Working,
    /// Whether the call happened.
    Verifying,
}

/// A call as a fallback has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Elsewhere {
    pub(super) fingerprint: Fingerprint,
    pub(super) arguments: Json,
}

/// The wait of a parked call.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Wait {
    pub(super) since: Timestamp,
    pub(super) at: Timestamp,
    pub(super) spread: Duration,
}

impl Running {
    pub(super) fn new(spec: Arc<ToolSpec>, repeats: Option<CallKey>) -> Self {
        let by = Arc::clone(&spec);
        Self {
            by,
            asked: spec,
            elsewhere: None,
            attempts: 0,
            waited: Duration::ZERO,
            patience: None,
            repeats,
            interruptions: 0,
            tried: Tried::default(),
            stage: Stage::Working,
        }
    }

    /// All attempts of the call, one under way too.
    fn attempts_in_all(&self) -> u32 {
        match self.stage {
            Stage::Working => self.attempts + self.tried.under_way(),
            Stage::Verifying => self.attempts,
        }
    }
}

/// Whether the output limit cut this call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Cut {
    Whole,
    Truncated,
}

/// A failure that nobody in the run can do anything about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Terminal {
    pub(super) reason: StopReason,
    pub(super) explanation: Arc<str>,
}

impl Slots {
    pub(super) fn open(turn: u32, reply: &ModelReply) -> Self {
        Self {
            turn,
            text: reply.text.clone(),
            extra: reply.extra.clone(),
            slots: Vec::with_capacity(reply.calls.len()),
            open: 0,
            terminal: None,
            tally: Tally::default(),
        }
    }

    /// Gives restored calls the declarations of their tools again. False where one is not there.
    pub(super) fn restore(&mut self, toolbox: &Toolbox) -> bool {
        let declare = |spec: &mut Arc<ToolSpec>| match toolbox.get(&spec.name) {
            Some(declared) => {
                *spec = Arc::clone(declared);
                true
            }
            None => false,
        };
        self.slots.iter_mut().all(|slot| match &mut slot.state {
            SlotState::Running(running) | SlotState::Parked(running, _) => {
                declare(&mut running.asked) && declare(&mut running.by)
            }
            SlotState::Delegated(_) | SlotState::Answered { .. } => true,
        })
    }

    pub(super) fn key(&self, index: usize) -> CallKey {
        CallKey { turn: self.turn, index: u32::try_from(index).unwrap_or(u32::MAX) }
    }

    /// The key that the next call gets.
    pub(super) fn next_key(&self) -> CallKey {
        self.key(self.slots.len())
    }

    pub(super) fn push(&mut self, call: ToolCall, fingerprint: Fingerprint, state: SlotState) -> CallKey {
        if let SlotState::Running(_) | SlotState::Parked(..) | SlotState::Delegated(_) = state {
            self.open += 1;
        }
        self.slots.push(Slot { call, fingerprint, state });
        self.key(self.slots.len() - 1)
    }

    /// The calls that are under way.
    pub(super) fn running(&self) -> impl Iterator<Item = CallKey> {
        self.running_with_spec().map(|(key, _)| key)
    }

    pub(super) fn running_with_spec(&self) -> impl Iterator<Item = (CallKey, &Arc<ToolSpec>)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| match &slot.state {
            SlotState::Running(running) => Some((self.key(index), &running.by)),
            SlotState::Parked(..) | SlotState::Delegated(_) | SlotState::Answered { .. } => None,
        })
    }

    /// The calls that have no observation yet, with their arguments.
    pub(super) fn open_calls(&self) -> impl Iterator<Item = (CallKey, &Slot)> {
        let open =
            self.slots.iter().enumerate().filter(|(_, slot)| matches!(slot.state, SlotState::Running(_)));
        open.map(|(index, slot)| (self.key(index), slot))
    }

    pub(super) const fn all_answered(&self) -> bool {
        self.open == 0
    }

    /// The call that `key` names, if it still runs and this tool works on it: a fallback by its
    /// name, the tool itself by none. Anything else is late or double.
    pub(super) fn running_call(&self, key: CallKey, by: Option<&Arc<str>>) -> Option<(&Slot, &Running)> {
        let slot = self.slots.get(usize::try_from(key.index).ok()?)?;
        match &slot.state {
            SlotState::Running(running)
                if key.turn == self.turn
                    && running.stage == Stage::Working
                    && running.by.name == *by.unwrap_or(&slot.call.name) =>
            {
                Some((slot, running))
            }
            SlotState::Running(_)
            | SlotState::Parked(..)
            | SlotState::Delegated(_)
            | SlotState::Answered { .. } => None,
        }
    }

    /// The calls that have no observation yet.
    pub(super) fn open_keys(&self) -> Vec<CallKey> {
        let open = self
            .slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| !matches!(slot.state, SlotState::Answered { .. }));
        open.map(|(index, _)| self.key(index)).collect()
    }

    /// The call that `key` names.
    pub(super) fn slot(&self, key: CallKey) -> Option<&Slot> {
        self.slots.get(usize::try_from(key.index).ok().filter(|_| key.turn == self.turn)?)
    }

    /// The call that `key` names, if it runs.
    pub(super) fn running_mut(&mut self, key: CallKey) -> Option<&mut Running> {
        match &mut self.slot_mut(key)?.state {
            SlotState::Running(running) => Some(running),
            SlotState::Parked(..) | SlotState::Delegated(_) | SlotState::Answered { .. } => None,
        }
    }

    /// A failure as the whole call has it: an attempt that was lost may have had the effect that
    /// the last one certainly had not. A verifiable call was asked about that before it went on.
    pub(super) fn with_what_was_lost(&self, key: CallKey, mut record: CallRecord) -> CallRecord {
        if let CallVerdict::Failed(failure) = &mut record.verdict
            && let Some((_, running)) = self.running_call(key, record.by.as_ref())
            && running.interruptions > 0
            && !matches!(running.by.effect, Effect::ReadOnly | Effect::Verifiable)
            && failure.effect == EffectState::None
        {
            failure.effect = EffectState::Unknown;
        }
        record
    }

    /// Gives a running call to another tool.
    pub(super) fn hand_over(
        &mut self,
        key: CallKey,
        (by, elsewhere): (Arc<ToolSpec>, Elsewhere),
        record: &CallRecord,
    ) {
        let Ok(index) = usize::try_from(key.index) else { return };
        if let Some(Slot { state: SlotState::Running(running), .. }) = self.slots.get_mut(index) {
            running.by = by;
            running.elsewhere = Some(elsewhere);
            running.interruptions = 0;
            running.tried = Tried::default();
            running.attempts += record.attempts;
            running.waited += record.waited;
        }
    }

    /// Parks a running call: the tool that the model asked for is asked again later.
    pub(super) fn park(&mut self, key: CallKey, wait: Wait, until: Timestamp, record: &CallRecord) {
        let Some(slot) = self.slot_mut(key) else { return };
        if let SlotState::Running(running) = &slot.state {
            let is_same = running.by.name == running.asked.name;
            let running = Running {
                by: Arc::clone(&running.asked),
                interruptions: if is_same { running.interruptions } else { 0 },
                attempts: running.attempts + record.attempts,
                waited: running.waited + record.waited,
                tried: Tried::default(),
                patience: Some(until),
                ..running.clone()
            };
            slot.state = SlotState::Parked(running, wait);
        }
    }

    /// Lets a parked call go on. Answers its tool and how long it was parked.
    pub(super) fn unpark(&mut self, now: Timestamp, key: CallKey) -> Option<(Arc<str>, Duration)> {
        let slot = self.slot_mut(key)?;
        let SlotState::Parked(running, wait) = &slot.state else { return None };
        let parked = now.since(wait.since);
        let running = Running { waited: running.waited + parked, ..running.clone() };
        slot.state = SlotState::Running(running);
        Some((Arc::clone(&slot.call.name), parked))
    }

    /// A call that is parked.
    pub(super) fn first_parked(&self) -> Option<(CallKey, &ToolCall, &Running)> {
        self.slots.iter().enumerate().find_map(|(index, slot)| match &slot.state {
            SlotState::Parked(running, _) => Some((self.key(index), &slot.call, running)),
            SlotState::Running(_) | SlotState::Delegated(_) | SlotState::Answered { .. } => None,
        })
    }

    fn slot_mut(&mut self, key: CallKey) -> Option<&mut Slot> {
        let index = usize::try_from(key.index).ok().filter(|_| key.turn == self.turn)?;
        self.slots.get_mut(index)
    }

    /// Gives an open call its one observation.
    pub(super) fn answer(&mut self, key: CallKey, observation: Observation, terminal: Option<Terminal>) {
        let Ok(index) = usize::try_from(key.index) else { return };
        let Some(slot) = self.slots.get_mut(index) else { return };
        if terminal.is_some() {
            self.terminal = Some(self.terminal.map_or(index, |first| first.min(index)));
        }
        slot.state = SlotState::Answered { observation, cut: Cut::Whole, terminal };
        self.open -= 1;
    }

    pub(super) fn first_terminal(&self) -> Option<&Terminal> {
        match &self.slots.get(self.terminal?)?.state {
            SlotState::Answered { terminal, .. } => terminal.as_ref(),
            SlotState::Running(_) | SlotState::Parked(..) | SlotState::Delegated(_) => None,
        }
    }

    pub(super) fn any_cut(&self) -> bool {
        self.slots.iter().any(|slot| matches!(slot.state, SlotState::Answered { cut: Cut::Truncated, .. }))
    }

    /// The round for the history. A call that never ended is answered as unknown.
    pub(super) fn into_round(self) -> Round {
        let calls = self
            .slots
            .into_iter()
            .map(|slot| match slot.state {
                SlotState::Answered { observation, .. } => (slot.call, observation),
                SlotState::Running(running) | SlotState::Parked(running, _) => {
                    let failure = Failure::cancelled("The run ended before this call answered.")
                        .effect(EffectState::Unknown);
                    (slot.call, observation::failure(&failure, running.attempts_in_all(), running.by.effect))
                }
                SlotState::Delegated(delegated) => {
                    let failure = Failure::cancelled(format!(
                        "The run ended before `{}`, which had been told to stop, did.",
                        delegated.agent
                    ));
                    let failure = failure.effect(EffectState::Unknown);
                    (slot.call, observation::failure(&failure, delegated.attempt, Effect::Once))
                }
            })
            .collect();
        Round { text: self.text, extra: self.extra, calls }
    }
}
