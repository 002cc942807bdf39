//! A run, folded by the machine of its agent or by that of its plan.

use std::sync::Arc;

use dauntless_contract::{Outcome, Recorded, RunId};
use dauntless_core::plan::PlanMachine;
use dauntless_core::redact::Redactor;
use dauntless_core::run::{RecoverError, RunMachine};
use dauntless_core::story::Folded;

use super::Awaited;
use crate::wiring::Spec;

/// The state of a run.
pub(super) enum Machine {
    Agent(Box<RunMachine>),
    Plan(Box<PlanMachine>),
}

impl Machine {
    /// Folds a run from its events.
    pub(super) fn recover(run: RunId, spec: &Spec, events: &[Recorded]) -> Result<Self, RecoverError> {
        let events = events.iter().cloned();
        Ok(match spec {
            Spec::Agent(spec) => Self::Agent(Box::new(RunMachine::recover(run, Arc::clone(spec), events)?)),
            Spec::Plan(spec) => Self::Plan(Box::new(PlanMachine::recover(run, Arc::clone(spec), events)?)),
        })
    }

    pub(super) fn folded(&self) -> Folded<'_> {
        match self {
            Self::Agent(machine) => Folded::from(&**machine),
            Self::Plan(machine) => Folded::from(&**machine),
        }
    }

    pub(super) const fn outcome(&self) -> Option<&Outcome> {
        match self {
            Self::Agent(machine) => machine.outcome(),
            Self::Plan(machine) => machine.outcome(),
        }
    }

    pub(super) fn waits(&self) -> Vec<Awaited> {
        self.folded().waits
    }
}

impl Spec {
    pub(super) fn redactor(&self) -> &Redactor {
        match self {
            Self::Agent(spec) => &spec.redactor,
            Self::Plan(spec) => &spec.redactor,
        }
    }
}
