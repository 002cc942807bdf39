//! What workers tell each other of dependencies that take no calls.

use std::time::Duration;

use dauntless_contract::{JournalError, Outage};
use tokio_postgres::Row;

use super::link::Link;
use super::notes::bad;
use super::value::{int, uint};
use crate::Trouble;

const FORGET: &str = "DELETE FROM outage WHERE dependency = $1";

const TELL: &str = "
    INSERT INTO outage (dependency, until)
    VALUES ($1, clock_timestamp() + $2::bigint * interval '1 microsecond')
    ON CONFLICT (dependency) DO UPDATE SET until = excluded.until";

const ALL: &str = "
    SELECT dependency, (extract(epoch FROM until - clock_timestamp()) * 1000000)::bigint
    FROM outage WHERE until > clock_timestamp() ORDER BY dependency";

pub(super) async fn tell(link: &Link, dependency: &str, lasts: Duration) -> Result<(), JournalError> {
    let micros = int(u64::try_from(lasts.as_micros()).unwrap_or(u64::MAX));
    let told = match micros {
        0 => link.query(FORGET, &[&dependency]).await,
        _ => link.query(TELL, &[&dependency, &micros]).await,
    };
    told.map_err(Trouble::from)?;
    Ok(())
}

pub(super) async fn all(link: &Link) -> Result<Vec<Outage>, JournalError> {
    let rows = link.query(ALL, &[]).await.map_err(Trouble::from)?;
    let outage = |row: &Row| {
        let lasts = Duration::from_micros(uint(row.try_get(1)?));
        Ok(Outage { dependency: row.try_get::<_, &str>(0)?.into(), lasts })
    };
    rows.iter().map(outage).collect::<Result<_, _>>().map_err(bad)
}
