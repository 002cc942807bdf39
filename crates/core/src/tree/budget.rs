//! What a run may hand down: limits go down as slices and come back with the end of a child.
//!
//! A slice is taken from what its giver has left, before the child starts, so the children of one
//! run can never hold more together than it had. Nothing is shared, so there is nothing to lock and
//! nothing to lose: the start of a child says what it holds, its end what it used.

use std::time::Duration;

use dauntless_contract::{LimitKind, MicroUsd, RunLimits, RunTotals, Timestamp, Tokens};
use serde::{Deserialize, Serialize};

/// The part of a run's limits that can be divided among runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// Prompt plus completion.
    pub tokens: Tokens,
    /// Money.
    pub cost: MicroUsd,
    /// Calls asked for by models.
    pub tool_calls: u32,
    /// Runs.
    pub children: u32,
}

impl Slice {
    /// All that these limits allow.
    pub const fn of_limits(limits: &RunLimits) -> Self {
        Self {
            tokens: limits.tokens,
            cost: limits.cost,
            tool_calls: limits.tool_calls,
            children: limits.children,
        }
    }

    /// All that was used.
    pub fn of_totals(totals: &RunTotals) -> Self {
        Self {
            tokens: totals.usage.total(),
            cost: totals.cost,
            tool_calls: totals.tool_calls,
            children: totals.children,
        }
    }

    /// What a running child holds: its slice, and itself.
    pub fn held_by(child: &RunLimits) -> Self {
        Self { children: child.children.saturating_add(1), ..Self::of_limits(child) }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens + other.tokens,
            cost: self.cost + other.cost,
            tool_calls: self.tool_calls.saturating_add(other.tool_calls),
            children: self.children.saturating_add(other.children),
        }
    }

    const fn minus(self, other: Self) -> Self {
        Self {
            tokens: Tokens(self.tokens.0.saturating_sub(other.tokens.0)),
            cost: MicroUsd(self.cost.0.saturating_sub(other.cost.0)),
            tool_calls: self.tool_calls.saturating_sub(other.tool_calls),
            children: self.children.saturating_sub(other.children),
        }
    }
}

/// What a giver names for a child. What it does not name is an equal share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Allowance {
    /// At most so many tokens.
    pub tokens: Option<Tokens>,
    /// At most so much money.
    pub cost: Option<MicroUsd>,
    /// At most so many calls.
    pub tool_calls: Option<u32>,
    /// At most so many runs below the child.
    pub children: Option<u32>,
    /// At most so long.
    pub wall_clock: Option<Duration>,
}

/// What is wanted for one child.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The limits that the child's agent has itself; no slice is larger.
    pub own: &'a RunLimits,
    /// What the giver names.
    pub allowance: &'a Allowance,
    /// Into how many equal shares what is left is divided: one for each child that waits, and one
    /// for the giver itself. 1 gives everything away.
    pub shares: u32,
}

/// A run's limits, with what is used of them and what its children hold.
#[derive(Clone, Copy, Debug)]
pub struct Purse<'a> {
    limits: &'a RunLimits,
    left: Slice,
}

impl<'a> Purse<'a> {
    /// The purse of a run with these limits. `used` holds what its ended children used.
    pub fn new<'c>(
        limits: &'a RunLimits,
        used: &RunTotals,
        running: impl IntoIterator<Item = &'c RunLimits>,
    ) -> Self {
        let held = running.into_iter().map(Slice::held_by).fold(Slice::of_totals(used), Slice::plus);
        Self { limits, left: Slice::of_limits(limits).minus(held) }
    }

    /// Takes out what one more running child holds.
    pub fn hold(&mut self, child: &RunLimits) {
        self.left = self.left.minus(Slice::held_by(child));
    }

    /// What is neither used nor held.
    pub const fn left(&self) -> Slice {
        self.left
    }

    /// The limits of one more child, until at most `deadline`.
    ///
    /// A giver that keeps a share keeps a tenth of its time as well, to read what comes back. No
    /// limit of the child is ever "none left, so no limit": a slice of nothing is refused.
    ///
    /// # Errors
    /// The limit that allows no further child.
    pub fn grant(&self, ask: &Ask<'_>, now: Timestamp, deadline: Timestamp) -> Result<RunLimits, LimitKind> {
        let (own, allowance, left) = (ask.own, ask.allowance, self.left);
        let depth = self.limits.depth.checked_sub(1).filter(|depth| *depth > 0).ok_or(LimitKind::Depth)?;
        let below = left.children.checked_sub(1).ok_or(LimitKind::Children)?;
        let shares = ask.shares.max(1);
        let part = |own: u64, named: Option<u64>, left: u64| {
            named.map_or(left / u64::from(shares), |named| named.min(left)).min(own)
        };
        let count = |own: u32, named: Option<u32>, left: u32| {
            named.map_or(left / shares, |named| named.min(left)).min(own)
        };
        let tokens = part(own.tokens.0, allowance.tokens.map(|tokens| tokens.0), left.tokens.0);
        if tokens == 0 {
            return Err(LimitKind::Tokens);
        }
        let cost = part(own.cost.0, allowance.cost.map(|cost| cost.0), left.cost.0);
        if cost == 0 && self.limits.cost.0 > 0 && own.cost.0 > 0 {
            return Err(LimitKind::Cost);
        }
        let time = deadline.since(now);
        let time = if shares > 1 { time - time / 10 } else { time };
        let wall_clock = time.min(own.wall_clock).min(allowance.wall_clock.unwrap_or(Duration::MAX));
        if wall_clock.is_zero() {
            return Err(LimitKind::WallClock);
        }
        Ok(RunLimits {
            turns: own.turns,
            tokens: Tokens(tokens),
            cost: MicroUsd(cost),
            wall_clock,
            tool_calls: count(own.tool_calls, allowance.tool_calls, left.tool_calls),
            depth: depth.min(own.depth),
            children: count(own.children, allowance.children, below),
            children_at_once: own.children_at_once.min(self.limits.children_at_once),
        })
    }
}

#[cfg(test)]
mod tests;
