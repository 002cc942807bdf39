//! One call at a dependency: what is remembered between its attempts.

use std::time::Duration;

use dauntless_contract::{Effect, EffectState, Failure, RunId, Timestamp};

use super::budget::Paid;
use super::queue::Turn;
use super::{Permit, Ticket};

/// What every phase of a call shares.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) ticket: Ticket,
    pub(super) run: RunId,
    pub(super) effect: Effect,
    pub(super) submitted: Timestamp,
    pub(super) deadline: Timestamp,
    /// All attempts, those before it was submitted too.
    pub(super) attempts: u32,
    /// Attempts before it was submitted.
    made: u32,
    pub(super) crashes: u32,
    pub(super) waited: Duration,
    /// What attempts that are over may have done.
    pub(super) done: EffectState,
    timers: u32,
    pub(super) further: Further,
}

/// Whether an attempt may follow the one under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Further {
    Wanted,
    Unwanted,
}

/// Where a call stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Phase {
    /// `timer` ends the wait; a timer with another number is of an earlier wait.
    Waiting {
        spot: Spot,
        timer: u32,
        retry: Option<Box<Retry>>,
    },
    Running {
        permit: Permit,
        since: Timestamp,
    },
}

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    /// A free place, in turn.
    Place { turn: Turn },
    /// The rate gate to open.
    Gate,
    /// The backoff to pass.
    Backoff,
}

/// What a call holds from a failed attempt to the next.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Retry {
    pub(super) last: Failure,
    pub(super) paid: Paid,
    pub(super) since: Timestamp,
}

impl Call {
    pub(super) fn new(
        ticket: Ticket,
        run: RunId,
        effect: Effect,
        submitted: Timestamp,
        deadline: Timestamp,
        attempts_made: u32,
    ) -> Self {
        Self {
            ticket,
            run,
            effect,
            submitted,
            deadline,
            attempts: attempts_made,
            made: attempts_made,
            crashes: 0,
            waited: Duration::ZERO,
            done: EffectState::None,
            timers: 0,
            further: Further::Wanted,
        }
    }

    /// The number of the next timer: a timer of an earlier wait can then not end this one.
    pub(super) fn next_timer(&mut self) -> u32 {
        self.timers = self.timers.wrapping_add(1);
        self.timers
    }

    /// Attempts since it was submitted.
    pub(super) const fn attempts_here(&self) -> u32 {
        self.attempts - self.made
    }

    /// Remembers what an attempt that is over may have done.
    pub(super) fn remember(&mut self, effect: EffectState) {
        self.done = either(self.done, effect);
    }

    /// What the whole call did, given what its last attempt did.
    pub(super) fn effect_after(&self, last: EffectState) -> EffectState {
        match (self.effect, either(self.done, last)) {
            (Effect::ReadOnly, EffectState::Unknown) => EffectState::None,
            (_, done) => done,
        }
    }
}

/// What two attempts did together.
const fn either(first: EffectState, second: EffectState) -> EffectState {
    match (first, second) {
        (EffectState::Happened, _) | (_, EffectState::Happened) => EffectState::Happened,
        (EffectState::Unknown, _) | (_, EffectState::Unknown) => EffectState::Unknown,
        (EffectState::None, EffectState::None) => EffectState::None,
    }
}
