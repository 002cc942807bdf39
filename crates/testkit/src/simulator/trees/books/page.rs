//! What is known of one run of a tree: what it was given, used and was told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{CallKey, Outcome, RunId, RunLimits, Timestamp, Tokens, Usage};

/// What can be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) tokens: u64,
    pub(super) cost: u64,
    pub(super) calls: u64,
    pub(super) children: u64,
}

impl Use {
    pub(super) const fn of_limits(limits: &RunLimits) -> Self {
        Self {
            tokens: limits.tokens.0,
            cost: limits.cost.0,
            calls: limits.tool_calls as u64,
            children: limits.children as u64,
        }
    }

    /// What a child that runs holds: its slice, and itself.
    pub(super) const fn held(limits: &RunLimits) -> Self {
        let slice = Self::of_limits(limits);
        Self { children: slice.children + 1, ..slice }
    }

    pub(super) const fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens + other.tokens,
            cost: self.cost + other.cost,
            calls: self.calls + other.calls,
            children: self.children + other.children,
        }
    }

    pub(super) const fn minus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_sub(other.tokens),
            cost: self.cost.saturating_sub(other.cost),
            calls: self.calls.saturating_sub(other.calls),
            children: self.children.saturating_sub(other.children),
        }
    }

    pub(super) const fn fits(self, other: Self) -> bool {
        self.tokens <= other.tokens
            && self.cost <= other.cost
            && self.calls <= other.calls
            && self.children <= other.children
    }
}

/// A child as its parent's effects have it.
#[derive(Clone)]
pub(super) struct Held {
    pub(super) attempt: u32,
    pub(super) run: RunId,
    pub(super) limits: RunLimits,
}

/// The page of one run.
pub(super) struct Page {
    pub(super) number: u32,
    pub(super) agent: Arc<str>,
    pub(super) goal: String,
    pub(super) above: Option<RunId>,
    pub(super) limits: RunLimits,
    pub(super) began: Timestamp,
    /// What it used itself, by what it was told.
    pub(super) own: Use,
    pub(super) turns: u32,
    pub(super) last: Option<(Usage, Tokens)>,
    /// What its children came to, by their own outcomes.
    pub(super) charged: Use,
    pub(super) charged_turns: u32,
    pub(super) held: BTreeMap<CallKey, Held>,
    /// The run that a call came to last.
    pub(super) came: BTreeMap<CallKey, RunId>,
    pub(super) told_to_stop: BTreeSet<RunId>,
    pub(super) given_up: BTreeSet<RunId>,
    /// What really was used by it and all below, whoever counts it.
    pub(super) below: Use,
    pub(super) happened: bool,
    /// By how much its requests used more than could be known, at most; and all of those below.
    pub(super) surprise: (u64, u64),
    pub(super) surprises: (u64, u64),
    /// The turns with calls, and how many.
    pub(super) asked: Vec<(u32, u32)>,
    pub(super) offered: bool,
    pub(super) dispatched: BTreeSet<CallKey>,
    pub(super) reported: BTreeSet<CallKey>,
    pub(super) stopped: Option<Timestamp>,
    pub(super) ended: Option<(Timestamp, Outcome)>,
    pub(super) crashes: u32,
    pub(super) down: Duration,
}

impl Page {
    pub(super) fn new(
        number: u32,
        agent: &Arc<str>,
        goal: String,
        above: Option<RunId>,
        limits: &RunLimits,
        began: Timestamp,
    ) -> Self {
        Self {
            number,
            agent: Arc::clone(agent),
            goal,
            above,
            limits: limits.clone(),
            began,
            own: Use::default(),
            turns: 0,
            last: None,
            charged: Use::default(),
            charged_turns: 0,
            held: BTreeMap::new(),
            came: BTreeMap::new(),
            told_to_stop: BTreeSet::new(),
            given_up: BTreeSet::new(),
            below: Use::default(),
            happened: false,
            surprise: (0, 0),
            surprises: (0, 0),
            asked: Vec::new(),
            offered: false,
            dispatched: BTreeSet::new(),
            reported: BTreeSet::new(),
            stopped: None,
            ended: None,
            crashes: 0,
            down: Duration::ZERO,
        }
    }

    /// A child that is waited for no longer counts as having used all that it held.
    pub(super) fn give_up(&mut self, call: CallKey) {
        if let Some(held) = self.held.remove(&call) {
            self.charged = self.charged.plus(Use::held(&held.limits));
            self.given_up.insert(held.run);
        }
    }
}
