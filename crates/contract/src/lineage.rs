//! Where a run comes from, when another run started it.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::RunId;

/// What makes two goals the same goal. Made by `core`, the same in every process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GoalDigest(uuid::Uuid);

impl GoalDigest {
    /// Takes a digest of 128 bits.
    pub const fn from_u128(value: u128) -> Self {
        Self(uuid::Uuid::from_u128(value))
    }
}

impl fmt::Debug for GoalDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GoalDigest({})", self.0.simple())
    }
}

/// A run above another one: who works on it, and on what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ancestor {
    /// The agent, or the plan.
    pub agent: Arc<str>,
    /// Its goal.
    pub goal: GoalDigest,
}

/// The runs above a child run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lineage {
    /// The run that started it.
    pub parent: RunId,
    /// The run that nobody started but its submission.
    pub root: RunId,
    /// From the root to the parent. As long as the depth of the child less one.
    pub path: Vec<Ancestor>,
}

impl Lineage {
    /// How deep the child is: the root has depth 1, its children have 2.
    pub fn depth(&self) -> u32 {
        u32::try_from(self.path.len()).unwrap_or(u32::MAX).saturating_add(1)
    }
}
