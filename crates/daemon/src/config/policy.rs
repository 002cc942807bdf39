//! The tables that bound a dependency: retry, breaker and budget. Models and tools share them.

use dauntless_contract::{BreakerPolicy, BudgetPolicy, RetryPolicy};
use dauntless_runtime::RevivalPolicy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ResilienceConfig;
use super::unit::Length;

/// How often and when an attempt is repeated.
#[derive(Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RetryFile {
    /// Attempts in all, the first included. 1 switches retries off.
    #[schemars(range(min = 1))]
    pub(super) attempts: u32,
    /// Upper bound of the wait before the second attempt; the wait is drawn from zero to it.
    pub(super) base: Length,
    /// What the bound is multiplied by for each further attempt.
    #[schemars(range(min = 1))]
    pub(super) factor: f64,
    /// The bound stops growing here.
    pub(super) cap: Length,
    /// A server that asks for a longer wait than this is not waited for.
    pub(super) retry_after_cap: Length,
}

/// When a dependency is left alone, and for how long.
#[derive(Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct BreakerFile {
    /// The window that failures are counted in.
    pub(super) window: Length,
    /// Fewer calls than this in the window never trip by ratio.
    #[schemars(range(min = 1))]
    pub(super) min_calls: u32,
    /// Share of failed calls in the window that trips, above 0 and at most 1.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub(super) failure_ratio: f64,
    /// So many failures in a row trip, whatever the ratio.
    #[schemars(range(min = 1))]
    pub(super) consecutive_failures: u32,
    /// First wait after a trip; doubles with each further trip.
    pub(super) open_for: Length,
    /// The wait stops growing here.
    pub(super) open_cap: Length,
    /// So many successful probes close it.
    #[schemars(range(min = 1))]
    pub(super) close_after: u32,
    /// Closed for so long, the wait is back at open_for.
    pub(super) decay: Length,
}

/// How many retries a dependency may be sent, over all runs. First attempts cost nothing.
#[derive(Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct BudgetFile {
    /// The most retries it can hold, and what it starts with. 0 allows none but the refilled.
    #[schemars(range(min = 0))]
    pub(super) capacity: f64,
    /// What each success adds, in retries.
    #[schemars(range(min = 0))]
    pub(super) per_success: f64,
    /// One whole retry is added in this time.
    pub(super) refill_every: Length,
}

impl Default for RetryFile {
    fn default() -> Self {
        let RetryPolicy { max_attempts, base, factor, cap, retry_after_cap } = RetryPolicy::default();
        Self {
            attempts: max_attempts,
            base: base.into(),
            factor,
            cap: cap.into(),
            retry_after_cap: retry_after_cap.into(),
        }
    }
}

impl From<RetryFile> for RetryPolicy {
    fn from(file: RetryFile) -> Self {
        Self {
            max_attempts: file.attempts,
            base: file.base.0,
            factor: file.factor,
            cap: file.cap.0,
            retry_after_cap: file.retry_after_cap.0,
        }
    }
}

impl Default for BreakerFile {
    fn default() -> Self {
        let policy = BreakerPolicy::default();
        Self {
            window: policy.window.into(),
            min_calls: policy.min_calls,
            failure_ratio: policy.failure_ratio,
            consecutive_failures: policy.consecutive_failures,
            open_for: policy.open_for.into(),
            open_cap: policy.open_cap.into(),
            close_after: policy.close_after,
            decay: policy.decay.into(),
        }
    }
}

impl From<BreakerFile> for BreakerPolicy {
    fn from(file: BreakerFile) -> Self {
        Self {
            window: file.window.0,
            min_calls: file.min_calls,
            failure_ratio: file.failure_ratio,
            consecutive_failures: file.consecutive_failures,
            open_for: file.open_for.0,
            open_cap: file.open_cap.0,
            close_after: file.close_after,
            decay: file.decay.0,
        }
    }
}

impl Default for BudgetFile {
    #[expect(clippy::cast_precision_loss, reason = "the defaults are small")]
    fn default() -> Self {
        let policy = BudgetPolicy::default();
        Self {
            capacity: policy.capacity_milli as f64 / 1000.0,
            per_success: policy.per_success_milli as f64 / 1000.0,
            refill_every: policy.refill_every.into(),
        }
    }
}

impl From<BudgetFile> for BudgetPolicy {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "never negative, and `as` saturates, which is meant"
    )]
    fn from(file: BudgetFile) -> Self {
        let milli = |retries: f64| (retries * 1000.0).round() as u64;
        Self {
            capacity_milli: milli(file.capacity),
            per_success_milli: milli(file.per_success),
            refill_every: file.refill_every.0,
        }
    }
}

/// What all models and tools have in common.
#[derive(Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ResilienceFile {
    /// The most retries that all of them together can be sent at once. A retry is paid for twice:
    /// here and from the budget of its model or tool.
    #[schemars(range(min = 0))]
    pub(super) budget_capacity: f64,
    /// What each success adds, in retries.
    #[schemars(range(min = 0))]
    pub(super) budget_per_success: f64,
    /// One whole retry is added in this time.
    pub(super) budget_refill_every: Length,
    /// A tool or model that broke too often is out of service; after this time it is started afresh.
    pub(super) revive_after: Length,
    /// That time doubles while it keeps breaking, up to this.
    pub(super) revive_cap: Length,
}

impl Default for ResilienceFile {
    #[expect(clippy::cast_precision_loss, reason = "the defaults are small")]
    fn default() -> Self {
        let (budget, revival) = (BudgetPolicy::for_runtime(), RevivalPolicy::default());
        Self {
            budget_capacity: budget.capacity_milli as f64 / 1000.0,
            budget_per_success: budget.per_success_milli as f64 / 1000.0,
            budget_refill_every: budget.refill_every.into(),
            revive_after: revival.after.into(),
            revive_cap: revival.cap.into(),
        }
    }
}

impl From<ResilienceFile> for ResilienceConfig {
    fn from(file: ResilienceFile) -> Self {
        let budget = BudgetFile {
            capacity: file.budget_capacity,
            per_success: file.budget_per_success,
            refill_every: file.budget_refill_every,
        };
        let revival = RevivalPolicy { after: file.revive_after.0, cap: file.revive_cap.0 };
        Self { budget: budget.into(), revival }
    }
}
