//! Stores for the journal of runs.
//!
//! [`Memory`] keeps runs while the process lives, [`Sqlite`] in a file for all workers of one
//! machine, [`Postgres`] in a database for the workers of many. All three pass one suite of tests.
//! Each checks the fence and the expected place of every write; none decides what a run does.

mod memory;
#[cfg(feature = "postgres")]
mod postgres;
mod refusal;
#[cfg(feature = "sqlite")]
mod sqlite;
mod stored;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod trouble;

pub use memory::Memory;
#[cfg(feature = "postgres")]
pub use postgres::{Postgres, PostgresConfig};
#[cfg(feature = "sqlite")]
pub use sqlite::{OpenError, Sqlite};
pub use stored::{decode, hash_of as blob_hash};

#[cfg(any(feature = "postgres", feature = "sqlite"))]
use trouble::Trouble;

/// Claims of a run without progress, after which it is put in quarantine.
const CLAIMS_MAX: u32 = 5;

/// Runs that one call drops.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
const SLICE_RUNS_MAX: usize = 500;
/// Events after which one call drops no further run, so that it ends in time and holds nobody up.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
const SLICE_EVENTS: u64 = 50_000;

/// Runs that one look for news answers.
const NEWS_MAX: usize = 1024;

fn quarantine_reason(claims: u32) -> String {
    format!("claimed {claims} times without getting on: see what ends its workers, then reopen it")
}

#[cfg(test)]
mod tests;
