//! The folded state of a run as bytes, so that a long run is not folded from its first event.
//!
//! A snapshot is a memory of the fold. It names the agent that it was folded for, and is good for
//! exactly that one: for any other, and for another version of the fold, the events are the truth
//! and are folded again. What the agent's declaration has is not repeated in it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use dauntless_contract::{Attendance, History, Message, RunId, RunLimits, RunTotals, Snapshot, Timestamp};
use serde::{Deserialize, Serialize};

use super::held::Held;
use super::limits::Foresight;
use super::nudge::Unproductive;
use super::resolved::News;
use super::suspended::UnderWay;
use super::withdrawn::Withdrawn;
use super::{Phase, RunMachine, RunSpec};
use crate::context::Context;
use crate::loop_guard::LoopGuard;
use crate::toolbox::Digest;
use crate::tree::Kin;
use crate::tree::mailbox::Mailbox;

/// The version of the fold. To be counted up with every change after which the same events give
/// another state, or the same state is written otherwise; snapshots of other versions are left aside.
pub const FOLD_VERSION: u32 = 1;

/// Why a snapshot cannot be used. The run can be folded from its events all the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// Another version of Dauntless made it.
    #[error("the snapshot is of version {0} of the fold, this program folds by version {FOLD_VERSION}")]
    OtherVersion(
        /// Its version.
        u32,
    ),
    /// It was made for an agent that is declared otherwise, or for another run.
    #[error("the snapshot was made for another run or for another declaration of its agent")]
    OtherAgent,
    /// It is not the state of a run.
    #[error("the snapshot cannot be read: {0}")]
    Malformed(String),
}

/// A [`RunMachine`] without what its spec has.
#[derive(Serialize, Deserialize)]
struct State<'a> {
    run: RunId,
    agent: Digest,
    limits: RunLimits,
    started: Timestamp,
    at: Timestamp,
    had: BTreeSet<Arc<str>>,
    turn: u32,
    history: Cow<'a, [Message]>,
    totals: RunTotals,
    foresight: Foresight,
    guard: LoopGuard,
    held: Held,
    unproductive: Unproductive,
    withdrawn: Withdrawn,
    rejected: BTreeSet<Arc<str>>,
    context: Context,
    /// Whether the tokens in the context were counted with the model's vocabulary.
    is_sharp: bool,
    attendance: Attendance,
    misfits: u32,
    lost: u32,
    under_way: UnderWay,
    kin: Kin,
    news: News,
    #[serde(default, skip_serializing_if = "Mailbox::is_empty")]
    mailbox: Mailbox,
    phase: Phase,
}

impl RunMachine {
    /// The state as the body of a snapshot, to be stored with [`FOLD_VERSION`] and the place of the
    /// last event in it.
    ///
    /// A body that could not be written is empty, and is never restored.
    pub fn snapshot(&self) -> Vec<u8> {
        let Self {
            run,
            ref spec,
            limits,
            started,
            at,
            had,
            turn,
            ref history,
            totals,
            foresight,
            guard,
            held,
            unproductive,
            withdrawn,
            rejected,
            context,
            attendance,
            misfits,
            lost,
            under_way,
            kin,
            news,
            mailbox,
            phase,
        } = self.clone();
        let (agent, history, is_sharp) = (declared(spec), history.messages().into(), context.is_sharp());
        let state = State {
            run,
            agent,
            limits,
            started,
            at,
            had,
            turn,
            history,
            totals,
            foresight,
            guard,
            held,
            unproductive,
            withdrawn,
            rejected,
            context,
            is_sharp,
            attendance,
            misfits,
            lost,
            under_way,
            kin,
            news,
            mailbox,
            phase,
        };
        serde_json::to_vec(&state).unwrap_or_default()
    }

    /// The machine that made a snapshot, for a run of the same agent.
    ///
    /// # Errors
    /// When it is no snapshot of this run by this fold for this agent.
    pub fn restore(run: RunId, spec: Arc<RunSpec>, snapshot: &Snapshot) -> Result<Self, RestoreError> {
        if snapshot.fold_version != FOLD_VERSION {
            return Err(RestoreError::OtherVersion(snapshot.fold_version));
        }
        let state: State<'_> = serde_json::from_slice(&snapshot.body)
            .map_err(|error| RestoreError::Malformed(error.to_string()))?;
        if state.run != run || state.agent != declared(&spec) {
            return Err(RestoreError::OtherAgent);
        }
        state.into_machine(spec)
    }
}

impl State<'_> {
    fn into_machine(self, spec: Arc<RunSpec>) -> Result<RunMachine, RestoreError> {
        let malformed = |what: &str| RestoreError::Malformed(what.to_owned());
        let Self {
            run,
            agent: _,
            limits,
            started,
            at,
            had,
            turn,
            history,
            totals,
            foresight,
            guard,
            held,
            unproductive,
            withdrawn,
            rejected,
            mut context,
            is_sharp,
            attendance,
            misfits,
            lost,
            under_way,
            kin,
            news,
            mailbox,
            mut phase,
        } = self;
        let history = History::from_messages(history.into_owned());
        let history = Arc::new(history.ok_or_else(|| malformed("its history is none"))?);
        if is_sharp {
            context.restore(spec.model.counter.clone());
        }
        let is_complete = match &mut phase {
            Phase::Calling(slots) | Phase::Settling { slots, .. } => slots.restore(&spec.toolbox),
            Phase::Summarising(waiting) => {
                waiting.restore(&history);
                true
            }
            Phase::Created | Phase::Asking { .. } | Phase::Ended(_) => true,
        };
        if !is_complete {
            return Err(malformed("it names a tool that is not there"));
        }
        Ok(RunMachine {
            run,
            spec,
            limits,
            started,
            at,
            had,
            turn,
            history,
            totals,
            foresight,
            guard,
            held,
            unproductive,
            withdrawn,
            rejected,
            context,
            attendance,
            misfits,
            lost,
            under_way,
            kin,
            news,
            mailbox,
            phase,
        })
    }
}

/// Tells two declarations of an agent apart, as far as a run can depend on them. A difference that
/// is none costs no more than a fold from the first event.
pub(super) fn declared(spec: &RunSpec) -> Digest {
    let RunSpec { agent, toolbox, answer, model, fallbacks, redactor: _, links } = spec;
    Digest::of(&[&format!("{agent:?} {:?} {answer:?} {model:?} {fallbacks:?} {links:?}", toolbox.offered())])
}

/// A tool by its name. What is read is only the name; see [`Slots::restore`](super::Slots::restore).
pub(super) mod by_name {
    use std::sync::Arc;

    use dauntless_contract::ToolSpec;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(in crate::run) fn serialize<S: Serializer>(
        spec: &Arc<ToolSpec>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        spec.name.serialize(serializer)
    }

    pub(in crate::run) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<ToolSpec>, D::Error> {
        let name = Arc::<str>::deserialize(deserializer)?;
        Ok(Arc::new(ToolSpec::new(name, "", serde_json::Value::Null)))
    }
}

/// A map whose keys are no text.
pub(super) mod as_pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(in crate::run) fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub(in crate::run) fn deserialize<'de, K, V, D>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Vec::<(K, V)>::deserialize(deserializer)?.into_iter().collect())
    }
}
