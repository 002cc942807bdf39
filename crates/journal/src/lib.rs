//! Stores for the journal of runs.
//!
//! [`Memory`] keeps runs while the process lives, `Sqlite` in a file for all workers of one
//! machine. Both pass one suite of tests.
//! Each checks the fence and the expected place of every write; none decides what a run does.

mod memory;
#[cfg(feature = "sqlite")]
mod sqlite;
mod stored;
#[cfg(feature = "sqlite")]
mod trouble;

pub use memory::Memory;
#[cfg(feature = "sqlite")]
pub use sqlite::{OpenError, Sqlite};

#[cfg(feature = "sqlite")]
use trouble::Trouble;

/// Claims of a run without progress, after which it is put in quarantine.
const CLAIMS_MAX: u32 = 5;

fn quarantine_reason(claims: u32) -> String {
    format!("claimed {claims} times without getting on: see what ends its workers, then reopen it")
}

#[cfg(test)]
mod tests;
