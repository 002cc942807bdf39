//! Stores for the journal of runs.
//!
//! [`Memory`] keeps runs while the process lives: for tests and for runs that need not survive.
//! It checks the fence and the expected place of every append, as every store must.

mod memory;

pub use memory::Memory;

#[cfg(test)]
mod tests;
