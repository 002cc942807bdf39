//! Runs that start other runs: what each may use, who asked whom, and what a child's end means above.
//!
//! A tree needs no shared state. Limits go down as slices, in the start of a child, and what was not
//! used comes back with its end; both are events of runs, so a run that is folded again knows what
//! its children hold. Notes and messages are shared by those whose agents have them switched on, and no
//! limit depends on them. Nothing here starts a run or waits for one.

pub mod address;
mod budget;
mod check;
mod child;
mod end;
mod kin;
mod link;
pub mod mailbox;
pub mod notes;
mod tools;

use std::sync::Arc;

use dauntless_contract::{CallKey, History, Lineage, RunId, RunLimits};

pub use budget::{Allowance, Ask, Purse, Slice};
pub use check::check;
pub(crate) use child::{Child, SETTLE_MAX};
pub use end::{Class, End, said};
pub use kin::{Kin, child_run, digest, goal_of};
pub use link::{Hears, Link, LinkKind, LinkPolicy, Links, OnFailure, delegate_spec};
pub use tools::{Asked, TreeTool};

/// A child run to be started, or to be found again if it was started before.
///
/// Its id is the same each time, so a journal that already has the run tells the two apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Delegation {
    /// The call that asks for it, or the step of a plan; its end names it.
    pub call: CallKey,
    /// Which run for this call, counted from 1; its end names it.
    pub attempt: u32,
    /// The child's id.
    pub run: RunId,
    /// Its agent.
    pub agent: Arc<str>,
    /// Its goal.
    pub goal: Arc<str>,
    /// The conversation that it continues; none where it begins its own.
    pub history: Option<Arc<History>>,
    /// What it may use.
    pub limits: RunLimits,
    /// The runs above it.
    pub lineage: Lineage,
}
