//! Who a message is for: the parent, or one of the runs that have the same parent.
//!
//! A sibling goes by the name of its agent. Where an agent has several runs among them, each has the
//! number by which it was started: `writer#2`. Nobody further away can be reached.

use std::sync::Arc;

use dauntless_contract::{Failure, RunId};

use crate::excerpt::{listed, shortened};

/// The address of the parent, whatever its name.
pub const PARENT: &str = "parent";
const SHOWN_BYTES_MAX: usize = 80;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Sibling {
    run: RunId,
    agent: Arc<str>,
    /// Which run of this agent; counted from 1.
    number: u32,
    is_under_way: bool,
}

/// The runs of a parent, the sender of a message among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Siblings(Vec<Sibling>);

impl Siblings {
    /// Those that were started in this order, each with its agent and whether it has not ended.
    pub fn in_order(runs: impl IntoIterator<Item = (RunId, Arc<str>, bool)>) -> Self {
        let mut siblings: Vec<Sibling> = Vec::new();
        for (run, agent, is_under_way) in runs {
            let before = siblings.iter().filter(|sibling| sibling.agent == agent).count();
            let number = u32::try_from(before).unwrap_or(u32::MAX).saturating_add(1);
            siblings.push(Sibling { run, agent, number, is_under_way });
        }
        Self(siblings)
    }

    /// The address of one of them.
    pub fn name(&self, run: RunId) -> Option<Arc<str>> {
        self.0.iter().find(|sibling| sibling.run == run).map(|sibling| self.address(sibling))
    }

    fn address(&self, sibling: &Sibling) -> Arc<str> {
        let is_only = !self.0.iter().any(|other| other.agent == sibling.agent && other.run != sibling.run);
        match is_only {
            true => Arc::clone(&sibling.agent),
            false => format!("{}#{}", sibling.agent, sibling.number).into(),
        }
    }

    /// The run that `to` is the address of, as `me` writes it: one that has not ended, if there is one.
    ///
    /// # Errors
    /// `ambiguous` where it may be several, `not_found` where it is none; with the addresses that
    /// there are.
    pub fn find(&self, me: RunId, to: &str) -> Result<RunId, Failure> {
        let is = |sibling: &&Sibling| {
            *sibling.agent == *to || format!("{}#{}", sibling.agent, sibling.number) == to
        };
        let meant: Vec<&Sibling> = self.0.iter().filter(is).collect();
        let open: Vec<&Sibling> =
            meant.iter().copied().filter(|sibling| sibling.is_under_way && sibling.run != me).collect();
        let shown = shortened(to, SHOWN_BYTES_MAX);
        match (open.as_slice(), meant.as_slice()) {
            ([one], _) => Ok(one.run),
            ([], []) => Err(self.nobody(me, format!("There is no {shown:?} to write to."))),
            ([], [itself]) if itself.run == me => {
                Err(self.nobody(me, format!("{shown:?} is yourself, and nobody else.")))
            }
            // A message that is sent again may have reached it before it ended.
            ([], [one]) => Ok(one.run),
            ([], _) => {
                Err(self.nobody(me, format!("Every {shown:?} has ended and reads no messages any more.")))
            }
            (several, _) => {
                let addresses: Vec<_> = several.iter().map(|sibling| self.address(sibling)).collect();
                let named = listed(addresses.iter().map(|address| &**address), 20);
                Err(Failure::ambiguous(format!("There are several of {shown:?}: {named}."))
                    .hint("Write to one of them, by its number.")
                    .candidates(addresses))
            }
        }
    }

    fn nobody(&self, me: RunId, message: String) -> Failure {
        let open = self.0.iter().filter(|sibling| sibling.is_under_way && sibling.run != me);
        let mut addresses: Vec<Arc<str>> = open.map(|sibling| self.address(sibling)).collect();
        addresses.push(PARENT.into());
        let named = listed(addresses.iter().map(|address| &**address), 20);
        Failure::not_found(message)
            .hint(format!("You can write to {named}, or go on without it."))
            .candidates(addresses)
    }
}

/// A run that no other one started has nobody to write to.
pub fn alone() -> Failure {
    Failure::not_found("There is nobody to write to: no agent asked this run, and none works beside it.")
        .hint("Put what you have to say into your answer.")
}

#[cfg(test)]
mod tests;
