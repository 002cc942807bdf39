//! The retry budget that all tools and models of one runtime share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dauntless_contract::{BudgetPolicy, Timestamp};
use dauntless_core::resilience::{CommonBudget, RetryBudget, Withdrawal};

/// One budget that every actor reaches. It is locked for single operations alone, and not at all by
/// a success while it is full, which is nearly always.
pub(crate) struct RuntimeBudget {
    budget: Mutex<RetryBudget>,
    full: AtomicBool,
}

impl RuntimeBudget {
    pub(crate) fn new(policy: &BudgetPolicy) -> Self {
        Self { budget: Mutex::new(RetryBudget::new(policy)), full: AtomicBool::new(true) }
    }

    fn lock(&self) -> MutexGuard<'_, RetryBudget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<R>(&self, change: impl FnOnce(&mut RetryBudget) -> R) -> R {
        let mut budget = self.lock();
        let result = change(&mut budget);
        // Under the lock, so that the flag never says "full" after a withdrawal.
        self.full.store(budget.is_full(), Ordering::Release);
        result
    }
}

impl CommonBudget for &RuntimeBudget {
    fn withdraw(&mut self, now: Timestamp, cost_milli: u64) -> Option<Withdrawal> {
        self.change(|budget| budget.withdraw(now, cost_milli))
    }

    fn refund(&mut self, now: Timestamp, unused: Withdrawal) {
        self.change(|budget| budget.refund(now, unused));
    }

    fn succeeded(&mut self, now: Timestamp) {
        if !self.full.load(Ordering::Acquire) {
            self.change(|budget| budget.succeeded(now));
        }
    }
}
