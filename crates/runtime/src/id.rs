//! The one place where chance enters: ids, tokens and the first seed.

use dauntless_contract::RunId;
use uuid::Uuid;

/// A run id that no other run has; ordered by time.
pub(crate) fn run_id() -> RunId {
    RunId::from_u128(Uuid::now_v7().as_u128())
}

/// A token that nobody guesses.
pub(crate) fn token() -> u128 {
    Uuid::new_v4().as_u128()
}

/// Spreads the jitter of processes that start together.
#[expect(clippy::cast_possible_truncation, reason = "half of a random number is a random number")]
pub(crate) fn seed() -> u64 {
    token() as u64
}
