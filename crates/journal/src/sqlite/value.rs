//! How ids, counts, times and states stand in the columns of the file.

use std::time::{SystemTime, UNIX_EPOCH};

use dauntless_contract::{RunId, RunState};
use rusqlite::types::{FromSql, FromSqlResult, ToSqlOutput, ValueRef};
use rusqlite::{Result, ToSql};

/// The numbers of the states; a stored one never changes.
pub(super) const READY: i64 = 0;
pub(super) const DRIVEN: i64 = 1;
pub(super) const PAUSED: i64 = 2;
pub(super) const QUARANTINED: i64 = 3;
pub(super) const ENDED: i64 = 4;

pub(super) fn number_of(state: RunState) -> i64 {
    match state {
        RunState::Ready => READY,
        RunState::Driven => DRIVEN,
        RunState::Paused => PAUSED,
        RunState::Quarantined => QUARANTINED,
        RunState::Ended => ENDED,
    }
}

pub(super) fn state_of(number: i64) -> RunState {
    match number {
        READY => RunState::Ready,
        DRIVEN => RunState::Driven,
        PAUSED => RunState::Paused,
        QUARANTINED => RunState::Quarantined,
        _ => RunState::Ended,
    }
}

/// A run id, as its 16 bytes.
pub(super) struct Id(pub(super) RunId);

impl ToSql for Id {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(self.0.as_u128().to_be_bytes().to_vec().into())
    }
}

impl FromSql for Id {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let bytes: [u8; 16] = FromSql::column_result(value)?;
        Ok(Self(RunId::from_u128(u128::from_be_bytes(bytes))))
    }
}

/// Counts that the engine cannot hold stay at its top.
pub(super) fn int(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(super) fn uint(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or_default()
}

/// The wall clock, in microseconds. It says when waiting runs are ready and how long a run lay
/// still; who lives and who owns is not a matter of time here.
pub(super) fn now() -> i64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(wall.as_micros()).unwrap_or(i64::MAX)
}
