//! How ids, counts, lengths of time and states stand in the columns of the database.

use std::time::Duration;

use dauntless_contract::{RunId, RunState};
use uuid::Uuid;

/// The numbers of the states; a stored one never changes. The statements write them out.
pub(super) fn number_of(state: RunState) -> i16 {
    match state {
        RunState::Ready => 0,
        RunState::Driven => 1,
        RunState::Paused => 2,
        RunState::Quarantined => 3,
        RunState::Ended => 4,
    }
}

pub(super) fn state_of(number: i16) -> RunState {
    RunState::ALL.into_iter().find(|state| number_of(*state) == number).unwrap_or(RunState::Ended)
}

pub(super) fn uuid(run: RunId) -> Uuid {
    Uuid::from_u128(run.as_u128())
}

pub(super) fn run_of(id: Uuid) -> RunId {
    RunId::from_u128(id.as_u128())
}

/// Counts that the server cannot hold stay at its top.
pub(super) fn int(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(super) fn uint(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or_default()
}

/// A length in microseconds, at most a hundred years: more does not fit a date.
pub(super) fn micros(length: Duration) -> i64 {
    const CENTURY_US: i64 = 100 * 366 * 86_400 * 1_000_000;
    i64::try_from(length.as_micros()).unwrap_or(CENTURY_US).min(CENTURY_US)
}

pub(super) fn length(us: i64) -> Duration {
    Duration::from_micros(uint(us))
}
