//! How many retries a dependency may be sent, over all runs, so that retries cannot multiply load.
//!
//! A bucket of thousandths of a retry. Successes and time fill it, retries empty it; a first
//! attempt never asks. A retry is paid for twice: from the budget of its dependency, and from the
//! one that caps the sum over all dependencies of a runtime. Integers only: the bound holds exactly, for any order of callers.

use dauntless_contract::{BudgetPolicy, Timestamp};

use super::micros;

const WHOLE_MILLI: u64 = 1000;

/// The retry budget of one dependency. Starts full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryBudget {
    capacity_milli: u64,
    per_success_milli: u64,
    refill_us: u64,
    level_milli: u64,
    filled_to: Timestamp,
    /// Time already counted that does not yet make a thousandth, in µs × 1000 modulo `refill_us`.
    remainder: u64,
}

/// The budget that all dependencies of one runtime share, beside the own one of each.
///
/// A shell implements it over whatever lets several actors reach one [`RetryBudget`].
pub trait CommonBudget {
    /// As [`RetryBudget::withdraw`].
    fn withdraw(&mut self, now: Timestamp, cost_milli: u64) -> Option<Withdrawal>;
    /// As [`RetryBudget::refund`].
    fn refund(&mut self, now: Timestamp, unused: Withdrawal);
    /// As [`RetryBudget::succeeded`].
    fn succeeded(&mut self, now: Timestamp);
}

impl CommonBudget for RetryBudget {
    fn withdraw(&mut self, now: Timestamp, cost_milli: u64) -> Option<Withdrawal> {
        self.withdraw(now, cost_milli)
    }

    fn refund(&mut self, now: Timestamp, unused: Withdrawal) {
        self.refund(now, unused);
    }

    fn succeeded(&mut self, now: Timestamp) {
        self.succeeded(now);
    }
}

/// What a retry took from both budgets: from its dependency's own and from the common one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Paid {
    own: Withdrawal,
    common: Withdrawal,
}

impl Paid {
    /// Takes from both, or from neither if one of them cannot pay.
    pub(super) fn take(
        own: &mut RetryBudget,
        common: &mut dyn CommonBudget,
        now: Timestamp,
        cost_milli: u64,
    ) -> Option<Self> {
        let own_part = own.withdraw(now, cost_milli)?;
        match common.withdraw(now, cost_milli) {
            Some(common) => Some(Self { own: own_part, common }),
            None => {
                own.refund(now, own_part);
                None
            }
        }
    }

    /// Gives both back.
    pub(super) fn refund(self, own: &mut RetryBudget, common: &mut dyn CommonBudget, now: Timestamp) {
        own.refund(now, self.own);
        common.refund(now, self.common);
    }
}

/// An amount taken for a retry. It is spent by starting the retry, or given back once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "spend it by starting the retry, or refund it"]
pub struct Withdrawal {
    milli: u64,
}

impl RetryBudget {
    /// A full budget. A refill time of zero counts as one microsecond.
    pub fn new(policy: &BudgetPolicy) -> Self {
        Self {
            capacity_milli: policy.capacity_milli,
            per_success_milli: policy.per_success_milli,
            refill_us: micros(policy.refill_every).max(1),
            level_milli: policy.capacity_milli,
            filled_to: Timestamp::ZERO,
            remainder: 0,
        }
    }

    /// Takes `cost_milli`, or nothing if there is not enough. Never waits.
    pub fn withdraw(&mut self, now: Timestamp, cost_milli: u64) -> Option<Withdrawal> {
        self.refill(now);
        self.level_milli = self.level_milli.checked_sub(cost_milli)?;
        Some(Withdrawal { milli: cost_milli })
    }

    /// Gives back what was not used.
    pub fn refund(&mut self, now: Timestamp, unused: Withdrawal) {
        self.refill(now);
        self.add(unused.milli);
    }

    /// Adds what a success of the dependency earns.
    pub fn succeeded(&mut self, now: Timestamp) {
        self.refill(now);
        self.add(self.per_success_milli);
    }

    /// What is in it, in thousandths of a retry.
    pub fn level_milli(&self, now: Timestamp) -> u64 {
        let mut then = self.clone();
        then.refill(now);
        then.level_milli
    }

    /// Whether nothing can be added, as of the last operation.
    pub const fn is_full(&self) -> bool {
        self.level_milli == self.capacity_milli
    }

    fn add(&mut self, milli: u64) {
        self.level_milli = self.level_milli.saturating_add(milli).min(self.capacity_milli);
    }

    fn refill(&mut self, now: Timestamp) {
        let passed_us = micros(now.since(self.filled_to));
        self.filled_to = self.filled_to.max(now);
        if self.is_full() {
            // Time that passes over a full bucket is not saved up.
            self.remainder = 0;
            return;
        }
        let credit = u128::from(passed_us) * u128::from(WHOLE_MILLI) + u128::from(self.remainder);
        let gained = credit / u128::from(self.refill_us);
        self.remainder = u64::try_from(credit % u128::from(self.refill_us)).unwrap_or(0);
        self.add(u64::try_from(gained).unwrap_or(u64::MAX));
    }
}

#[cfg(test)]
mod tests;
