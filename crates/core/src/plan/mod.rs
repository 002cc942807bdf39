//! Plans: what agents do one after the other, side by side or again, decided without a model.

mod join;

pub use join::{Join, Joined, Tally};
