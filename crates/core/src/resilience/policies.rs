//! What all callers of one dependency share, and what outlives the actor that serves it.

use std::time::Duration;

use dauntless_contract::ResiliencePolicy;

use super::{Breaker, Gate, RetryBudget, Rng, Stats};

/// How long after its timeout a probe's result may still come in before it counts as lost.
const PROBE_GRACE: Duration = Duration::from_secs(1);

/// The breaker, the retry budget, the rate gate and the counters of one dependency.
///
/// The shell keeps them outside the actor's state: a restart forgets the calls, not the experience.
#[derive(Clone, Debug, PartialEq)]
pub struct Policies {
    /// Leaves a broken dependency alone.
    pub breaker: Breaker,
    /// Bounds the retries.
    pub budget: RetryBudget,
    /// Holds callers back when the other side asked for it.
    pub gate: Gate,
    /// What is shown to people.
    pub stats: Stats,
    /// Attempts that were stopped and whose code goes on all the same; the shell counts them.
    pub abandoned: u32,
}

impl Policies {
    /// A closed breaker, a full budget and an open gate.
    pub fn new(policy: &ResiliencePolicy, seed: u64) -> Self {
        let mut seeds = Rng::new(seed);
        let probe_ttl = policy.attempt_timeout.saturating_add(PROBE_GRACE);
        Self {
            breaker: Breaker::new(&policy.breaker, probe_ttl, seeds.draw()),
            budget: RetryBudget::new(&policy.budget),
            gate: Gate::new(seeds.draw()),
            stats: Stats::default(),
            abandoned: 0,
        }
    }
}
