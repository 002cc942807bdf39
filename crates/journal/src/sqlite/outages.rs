//! What workers tell each other of dependencies that take no calls.

use std::time::Duration;

use dauntless_contract::Outage;
use rusqlite::{Connection, Result, params};

use super::value::{int, now, uint};

pub(super) fn tell(db: &Connection, dependency: &str, lasts: Duration) -> Result<()> {
    let micros = int(u64::try_from(lasts.as_micros()).unwrap_or(u64::MAX));
    match micros {
        0 => db.prepare_cached("DELETE FROM outage WHERE dependency = ?1")?.execute([dependency])?,
        _ => db
            .prepare_cached("INSERT OR REPLACE INTO outage (dependency, until) VALUES (?1, ?2)")?
            .execute(params![dependency, now().saturating_add(micros)])?,
    };
    Ok(())
}

pub(super) fn all(db: &Connection) -> Result<Vec<Outage>> {
    let now = now();
    let mut select =
        db.prepare_cached("SELECT dependency, until - ?1 FROM outage WHERE until > ?1 ORDER BY dependency")?;
    let outages = select.query_map([now], |row| {
        Ok(Outage { dependency: row.get(0)?, lasts: Duration::from_micros(uint(row.get(1)?)) })
    })?;
    outages.collect()
}
