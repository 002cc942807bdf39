//! Chance from a seed, so that jitter spreads callers and equal runs still behave equally.
//!
//! SplitMix64: one word of state, and the n-th draw is a function of seed and n. It refuses to
//! draw from the process's own entropy; the shell chooses the seed. Not for secrets.

use std::time::Duration;

use super::micros;

const STRIDE: u64 = 0x9E37_79B9_7F4A_7C15;

/// A seeded generator of jitter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// Starts the sequence of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Starts the sequence of `seed` at its `index`-th draw.
    pub const fn at(seed: u64, index: u64) -> Self {
        Self { state: seed.wrapping_add(index.wrapping_mul(STRIDE)) }
    }

    /// Draws a number; all are equally likely.
    pub const fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STRIDE);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Draws a length between zero and `longest`, both included, in whole microseconds.
    pub fn up_to(&mut self, longest: Duration) -> Duration {
        let us = micros(longest);
        let scaled = (u128::from(self.draw()) * (u128::from(us) + 1)) >> 64;
        Duration::from_micros(u64::try_from(scaled).unwrap_or(us))
    }
}

#[cfg(test)]
mod tests;
