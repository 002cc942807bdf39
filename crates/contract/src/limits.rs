//! What a run may use up. Every limit is finite.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{MicroUsd, Tokens};

/// The limits of one run. A run that reaches one ends with `limit_reached`, never with `completed`.
///
/// A run that starts others gives each a slice of its own tokens, cost, calls and children, and
/// takes back what was not used: so the limits of the root hold for the whole tree. Turns are each
/// run's own, and a child's time is a part of its parent's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLimits {
    /// Model requests of this run alone; an attempt repeated by a retry counts once. The last turn, in which a run
    /// at its limit is asked for its best answer, comes on top.
    pub turns: u32,
    /// Prompt plus completion, over all turns.
    pub tokens: Tokens,
    /// Cost over all turns, by the model's [`Price`](crate::Price).
    pub cost: MicroUsd,
    /// Time from submit, waiting included.
    pub wall_clock: Duration,
    /// Tool calls asked for by the model, executed or not.
    pub tool_calls: u32,
    /// How many levels of runs there may be from this one down: with 1 it can start no other.
    pub depth: u32,
    /// Runs that may be started below this one, at all levels together.
    #[serde(default = "children")]
    pub children: u32,
    /// Runs that this one may have under way at once; more wait for their turn.
    #[serde(default = "children_at_once")]
    pub children_at_once: u32,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            turns: 50,
            tokens: Tokens(2_000_000),
            cost: MicroUsd(10_000_000),
            wall_clock: Duration::from_secs(3600),
            tool_calls: 1000,
            depth: 4,
            children: children(),
            children_at_once: children_at_once(),
        }
    }
}

const fn children() -> u32 {
    100
}

const fn children_at_once() -> u32 {
    16
}

/// Which limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// [`RunLimits::turns`].
    Turns,
    /// [`RunLimits::tokens`].
    Tokens,
    /// [`RunLimits::cost`].
    Cost,
    /// [`RunLimits::wall_clock`].
    WallClock,
    /// [`RunLimits::tool_calls`].
    ToolCalls,
    /// [`RunLimits::depth`].
    Depth,
    /// [`RunLimits::children`].
    Children,
    /// The rounds that a loop of a plan may take.
    Rounds,
}

impl fmt::Display for LimitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Turns => "turns",
            Self::Tokens => "tokens",
            Self::Cost => "cost",
            Self::WallClock => "wall_clock",
            Self::ToolCalls => "tool_calls",
            Self::Depth => "depth",
            Self::Children => "children",
            Self::Rounds => "rounds",
        })
    }
}
