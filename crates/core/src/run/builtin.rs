//! Tools that the run answers itself: no actor stands behind them, and no attempt is made.
//!
//! They are offered, checked, counted and guarded like any other tool. Only where another call
//! would be dispatched, the run machine takes one of these into its own hands.

use std::sync::Arc;

use dauntless_contract::{AgentSpec, ToolSpec};

use super::ask_user;
use crate::toolbox::{Quarantined, Toolbox};
use crate::tree::TreeTool;

/// Which tool of the run's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Builtin {
    /// Asks whoever set the goal.
    AskUser,
}

impl Builtin {
    const ALL: [Self; 1] = [Self::AskUser];

    const fn name(self) -> &'static str {
        match self {
            Self::AskUser => ask_user::NAME,
        }
    }

    fn spec(self) -> ToolSpec {
        match self {
            Self::AskUser => ask_user::spec(),
        }
    }

    const fn is_on(self, agent: &AgentSpec) -> bool {
        match self {
            Self::AskUser => agent.ask_user,
        }
    }

    /// The one that answers calls of this name for an agent.
    pub(super) fn of(agent: &AgentSpec, name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|builtin| builtin.is_on(agent) && builtin.name() == name)
    }
}

/// The toolbox of an agent: the built-in tools and those of its tree that it has switched on, then
/// its own.
///
/// A tool of its own with the name of one that is switched on is quarantined.
pub fn toolbox(agent: &AgentSpec, own: Vec<Arc<ToolSpec>>) -> (Toolbox, Vec<Quarantined>) {
    let on = Builtin::ALL.into_iter().filter(|builtin| builtin.is_on(agent));
    let on: Vec<_> = on.map(|builtin| Arc::new(builtin.spec())).chain(TreeTool::specs(agent)).collect();
    let is_taken = |spec: &Arc<ToolSpec>| on.iter().any(|taken| taken.name == spec.name);
    let (taken, own): (Vec<_>, Vec<_>) = own.into_iter().partition(is_taken);
    let (toolbox, mut quarantined) = Toolbox::build(on.into_iter().chain(own).collect());
    quarantined.extend(taken.into_iter().map(|spec| Quarantined {
        name: Arc::clone(&spec.name),
        reason: format!(
            "tool `{0}` is a built-in one that this agent has switched on: give your own tool another name, or \
             switch the built-in `{0}` off",
            spec.name
        ),
    }));
    (toolbox, quarantined)
}
