//! Who waits for a place, and whose turn is next.
//!
//! Runs take turns: one call of each, round and round, so that a run with a hundred calls does not
//! hold up a run with one. Within a run, first come is first served.

use std::collections::BTreeMap;

use dauntless_contract::RunId;

use super::Ticket;

/// The calls that wait for a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Queue {
    lanes: BTreeMap<RunId, Lane>,
    /// The runs that have calls waiting, in the order in which it is their turn.
    rotation: BTreeMap<u64, RunId>,
    len: usize,
    next_number: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Lane {
    /// The key in the rotation.
    position: u64,
    calls: BTreeMap<u64, Ticket>,
}

/// A place in the queue, for leaving it early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    run: RunId,
    number: u64,
}

impl Queue {
    pub(super) fn push(&mut self, run: RunId, ticket: Ticket) -> Turn {
        let number = self.next_number;
        self.next_number += 1;
        self.len += 1;
        let lane = self.lanes.entry(run).or_insert_with(|| {
            self.rotation.insert(number, run);
            Lane { position: number, calls: BTreeMap::new() }
        });
        lane.calls.insert(number, ticket);
        Turn { run, number }
    }

    /// The next in turn. Its run goes to the end of the rotation.
    pub(super) fn pop(&mut self) -> Option<Ticket> {
        let (_, run) = self.rotation.pop_first()?;
        let lane = self.lanes.get_mut(&run)?;
        let (_, ticket) = lane.calls.pop_first()?;
        self.len -= 1;
        if lane.calls.is_empty() {
            self.lanes.remove(&run);
        } else {
            lane.position = self.next_number;
            self.rotation.insert(self.next_number, run);
            self.next_number += 1;
        }
        Some(ticket)
    }

    /// Takes a call out that no longer waits. One that is out already is left alone.
    pub(super) fn leave(&mut self, turn: Turn) {
        let Some(lane) = self.lanes.get_mut(&turn.run) else { return };
        if lane.calls.remove(&turn.number).is_none() {
            return;
        }
        self.len -= 1;
        if lane.calls.is_empty() {
            self.rotation.remove(&lane.position);
            self.lanes.remove(&turn.run);
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    #[cfg(test)]
    pub(super) fn holds(&self, turn: Turn, ticket: Ticket) -> bool {
        self.lanes.get(&turn.run).and_then(|lane| lane.calls.get(&turn.number)) == Some(&ticket)
    }
}

#[cfg(test)]
mod tests;
