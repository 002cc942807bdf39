//! One process of a tree, and the run that it drives.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{CallKey, Outcome, Recorded, RunEvent, RunId, Timestamp, Tokens, Usage};
use dauntless_core::plan::PlanMachine;
use dauntless_core::run::{RunEffect, RunMachine};

use super::world::Worker;

/// Either kind of run.
#[derive(Clone, PartialEq)]
pub(super) enum Machine {
    Agent(Box<RunMachine>),
    Plan(Box<PlanMachine>),
}

impl Machine {
    pub(super) fn new(run: RunId, worker: &Worker) -> Self {
        match worker {
            Worker::Agent(spec) => Self::Agent(Box::new(RunMachine::new(run, Arc::clone(spec)))),
            Worker::Plan(spec) => Self::Plan(Box::new(PlanMachine::new(run, Arc::clone(spec)))),
        }
    }

    pub(super) fn on(&mut self, now: Timestamp, event: RunEvent) -> Vec<RunEffect> {
        match self {
            Self::Agent(machine) => machine.on(now, event),
            Self::Plan(machine) => machine.on(now, event),
        }
    }

    pub(super) fn outcome(&self) -> Option<&Outcome> {
        match self {
            Self::Agent(machine) => machine.outcome(),
            Self::Plan(machine) => machine.outcome(),
        }
    }
}

/// When the end of a run arrives above.
#[derive(Clone, Copy)]
pub(super) enum Voice {
    Prompt,
    Late(Duration),
    Silent,
}

/// Whether a process drives its run.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Up {
    Yes,
    /// Until it is started again.
    No,
    /// Nobody starts it again.
    Dead,
}

/// What answers a process waits for, by token.
#[derive(Default)]
pub(super) struct Pending {
    pub(super) model: Option<u64>,
    pub(super) calls: BTreeMap<CallKey, u64>,
}

pub(super) struct Process {
    pub(super) number: u32,
    pub(super) agent: Arc<str>,
    pub(super) goal: Arc<str>,
    pub(super) above: Option<(RunId, CallKey, u32)>,
    pub(super) host: u64,
    pub(super) machine: Machine,
    pub(super) journal: Vec<Recorded>,
    pub(super) up: Up,
    /// Counts its starts.
    pub(super) life: u32,
    /// Wishes that it stops, from while it was down.
    pub(super) letters: Vec<RunEvent>,
    pub(super) pending: Pending,
    /// What its last request used, and its longest reply.
    pub(super) used: Option<(Usage, Tokens)>,
    pub(super) voice: Voice,
}
