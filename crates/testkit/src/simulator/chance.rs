//! Chance from a seed: the only one in a simulation.

use std::time::Duration;

use dauntless_core::resilience::Rng;

/// A sequence of draws. Each part of a simulation has its own, so that one does not shift another.
pub(super) struct Chance(Rng);

impl Chance {
    /// The sequence of one part, named by a number, under a seed.
    pub(super) const fn new(seed: u64, part: u64) -> Self {
        // The mixed seed of the part is one of the draws of the whole: streams do not overlap.
        Self(Rng::new(Rng::at(seed, part).draw()))
    }

    /// A number below `bound`; 0 when that is 0.
    pub(super) const fn below(&mut self, bound: u64) -> u64 {
        match self.0.draw().checked_rem(bound) {
            Some(number) => number,
            None => 0,
        }
    }

    /// A number from `low` to `high`, both included.
    pub(super) const fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// The same, for counts.
    pub(super) fn count(&mut self, low: u32, high: u32) -> u32 {
        u32::try_from(self.between(low.into(), high.into())).unwrap_or(high)
    }

    /// True in so many of a hundred cases.
    pub(super) fn percent(&mut self, percent: u32) -> bool {
        self.below(100) < u64::from(percent)
    }

    /// One of several; `T`'s default for none.
    pub(super) fn pick<T: Clone + Default>(&mut self, of: &[T]) -> T {
        let index = usize::try_from(self.below(of.len() as u64)).unwrap_or(0);
        of.get(index).cloned().unwrap_or_default()
    }

    /// A length in whole milliseconds, both ends included.
    pub(super) const fn length_ms(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.between(low, high))
    }
}
