//! What decides in a run: the machine of an agent or that of a plan. Both take the same events and
//! answer with the same effects, so everything else is the same for both.

use std::sync::Arc;

use dauntless_contract::{History, Outcome, Question, Recorded, RunEvent, RunId, Seq, Snapshot, Timestamp};
use dauntless_core::plan::{PlanMachine, PlanSpec};
use dauntless_core::redact::Redactor;
use dauntless_core::run::{RecoverError, Recovery, RunEffect, RunMachine, RunSpec};
use dauntless_core::tree::Kin;
use dauntless_core::tree::mailbox::Room;

/// What every run of one agent or plan shares.
#[derive(Clone)]
pub(crate) enum Brain {
    Agent(Arc<RunSpec>),
    Plan(Arc<PlanSpec>),
}

impl Brain {
    pub(crate) fn name(&self) -> &Arc<str> {
        match self {
            Self::Agent(spec) => &spec.agent.name,
            Self::Plan(spec) => &spec.name,
        }
    }

    pub(crate) fn redactor(&self) -> &Redactor {
        match self {
            Self::Agent(spec) => &spec.redactor,
            Self::Plan(spec) => &spec.redactor,
        }
    }

    /// The part of an agent; none of a plan, which calls nothing itself.
    pub(crate) fn agent(&self) -> Option<&Arc<RunSpec>> {
        match self {
            Self::Agent(spec) => Some(spec),
            Self::Plan(_) => None,
        }
    }
}

/// The state of one run.
pub(crate) enum Machine {
    Agent(Box<RunMachine>),
    Plan(Box<PlanMachine>),
}

impl Machine {
    /// A run that has not started.
    pub(crate) fn new(run: RunId, brain: &Brain) -> Self {
        match brain {
            Brain::Agent(spec) => Self::Agent(Box::new(RunMachine::new(run, Arc::clone(spec)))),
            Brain::Plan(spec) => Self::Plan(Box::new(PlanMachine::new(run, Arc::clone(spec)))),
        }
    }

    pub(crate) fn on(&mut self, now: Timestamp, event: RunEvent) -> Vec<RunEffect> {
        match self {
            Self::Agent(machine) => machine.on(now, event),
            Self::Plan(machine) => machine.on(now, event),
        }
    }

    pub(crate) fn fail(&mut self, now: Timestamp, code: &str, explanation: &str) -> Vec<RunEffect> {
        match self {
            Self::Agent(machine) => machine.fail(now, code, explanation),
            Self::Plan(machine) => machine.fail(now, code, explanation),
        }
    }

    pub(crate) const fn run(&self) -> RunId {
        match self {
            Self::Agent(machine) => machine.run(),
            Self::Plan(machine) => machine.run(),
        }
    }

    pub(crate) const fn outcome(&self) -> Option<&Outcome> {
        match self {
            Self::Agent(machine) => machine.outcome(),
            Self::Plan(machine) => machine.outcome(),
        }
    }

    /// Itself and the runs above it.
    pub(crate) const fn kin(&self) -> &Kin {
        match self {
            Self::Agent(machine) => machine.kin(),
            Self::Plan(machine) => machine.kin(),
        }
    }

    /// Whether it takes part in messages. A plan reads none.
    pub(crate) fn takes_messages(&self) -> bool {
        match self {
            Self::Agent(machine) => machine.takes_messages(),
            Self::Plan(_) => false,
        }
    }

    /// What would become of a message of this name.
    pub(crate) fn room_for(&self, letter: &str) -> Room {
        match self {
            Self::Agent(machine) => machine.room_for(letter),
            Self::Plan(_) => Room::None,
        }
    }

    /// The time of the last event.
    pub(crate) const fn at(&self) -> Timestamp {
        match self {
            Self::Agent(machine) => machine.at(),
            Self::Plan(machine) => machine.at(),
        }
    }

    pub(crate) fn questions(&self) -> Vec<Question> {
        match self {
            Self::Agent(machine) => machine.questions(),
            Self::Plan(_) => Vec::new(),
        }
    }

    /// The conversation; a plan has none.
    pub(crate) fn history(&self) -> Arc<History> {
        match self {
            Self::Agent(machine) => Arc::clone(machine.history()),
            Self::Plan(_) => Arc::default(),
        }
    }

    /// The state as the body of a snapshot. The events of a plan are few: it is folded from them.
    pub(crate) fn snapshot(&self) -> Option<Vec<u8>> {
        match self {
            Self::Agent(machine) => Some(machine.snapshot()),
            Self::Plan(_) => None,
        }
    }
}

/// A run that is folded from its events.
pub(crate) enum Folding {
    Agent(Box<Recovery>),
    Plan { run: RunId, spec: Arc<PlanSpec>, events: Vec<Recorded> },
}

impl Folding {
    pub(crate) fn begin(run: RunId, brain: &Brain, snapshot: Option<&Snapshot>) -> Self {
        match brain {
            Brain::Agent(spec) => Self::Agent(Box::new(Recovery::begin(run, Arc::clone(spec), snapshot))),
            Brain::Plan(spec) => Self::Plan { run, spec: Arc::clone(spec), events: Vec::new() },
        }
    }

    /// The last event in it.
    pub(crate) fn seq(&self) -> Seq {
        match self {
            Self::Agent(recovery) => recovery.seq(),
            Self::Plan { events, .. } => u64::try_from(events.len()).unwrap_or(u64::MAX),
        }
    }

    pub(crate) fn fold(&mut self, event: Recorded) -> Result<(), RecoverError> {
        match self {
            Self::Agent(recovery) => recovery.fold(event),
            Self::Plan { events, .. } => {
                events.push(event);
                Ok(())
            }
        }
    }

    pub(crate) fn finish(self) -> Result<Machine, RecoverError> {
        Ok(match self {
            Self::Agent(recovery) => Machine::Agent(Box::new(recovery.finish()?)),
            Self::Plan { run, spec, events } => {
                Machine::Plan(Box::new(PlanMachine::recover(run, spec, events)?))
            }
        })
    }
}
