//! Chance from a seed, so that what struck can be told and drawn again.

/// Draws numbers (SplitMix64).
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// Starts at a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `end`; 0 where that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)).checked_rem(end).unwrap_or(0)
    }

    /// One of them; none where there are none.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        usize::try_from(self.below(of.len() as u64)).ok().and_then(|at| of.get(at)).copied()
    }
}
