//! When several children at once have done enough, or can no longer do enough.

use serde::{Deserialize, Serialize};

/// How many of several children must succeed. Those still at work when that is settled are cancelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// Every one.
    #[default]
    All,
    /// The first that does is enough.
    FirstSuccess,
    /// So many.
    Quorum(
        /// At least 1.
        u32,
    ),
    /// As many as can: all are waited for, and none has to.
    BestEffort,
}

/// How far the children are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Neither succeeded nor failed yet.
    pub open: u32,
    /// Gave their answer.
    pub succeeded: u32,
    /// Ended otherwise.
    pub failed: u32,
}

/// What a tally comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// It is not settled.
    Open,
    /// Enough have succeeded.
    Met,
    /// Too many have failed.
    Missed,
}

impl Join {
    /// Whether it is settled.
    pub const fn settle(self, tally: Tally) -> Joined {
        let Tally { open, succeeded, failed } = tally;
        let needed = match self {
            Self::BestEffort => return if open == 0 { Joined::Met } else { Joined::Open },
            Self::All => open + succeeded + failed,
            Self::FirstSuccess => 1,
            Self::Quorum(needed) => needed,
        };
        if succeeded >= needed {
            Joined::Met
        } else if succeeded + open < needed {
            Joined::Missed
        } else {
            Joined::Open
        }
    }

    /// Why so many children can never meet it, if they cannot.
    pub fn problem(self, children: usize) -> Option<String> {
        match self {
            _ if children == 0 => Some("there is nothing to join: name at least one branch".to_owned()),
            Self::Quorum(0) => Some(
                "a quorum of 0 is met before anything is done: use 1 or more, or `best_effort`".to_owned(),
            ),
            Self::Quorum(needed) if usize::try_from(needed).is_ok_and(|needed| needed > children) => {
                Some(format!(
                    "a quorum of {needed} can never be met by {}: lower it, or add branches",
                    if children == 1 { "1 branch".to_owned() } else { format!("{children} branches") }
                ))
            }
            Self::All | Self::FirstSuccess | Self::Quorum(_) | Self::BestEffort => None,
        }
    }
}

#[cfg(test)]
mod tests;
