//! Brings the database up to date, one migrator at a time, and refuses one that is newer or too old
//! to work with.

use tokio_postgres::Client;

use super::link::LinkError;
use crate::Trouble;

/// The numbered steps of the schema, oldest first. A released one never changes, and none takes
/// away what the version before it uses, so that two versions can run side by side.
const MIGRATIONS: [&str; 5] = [
    include_str!("../../migrations/postgres-0001.sql"),
    include_str!("../../migrations/postgres-0002.sql"),
    include_str!("../../migrations/postgres-0003.sql"),
    include_str!("../../migrations/postgres-0004.sql"),
    include_str!("../../migrations/postgres-0005.sql"),
];

const SERVER_MIN: i32 = 150_000;

/// Any number that no other program is likely to choose.
const MIGRATOR: i64 = 0x6461_756e_746c_6573;

pub(super) async fn migrate(client: &mut Client) -> Result<(), Trouble> {
    let said = |error| Trouble::from(LinkError::Said(error));
    let row =
        client.query_one("SELECT current_setting('server_version_num')::int", &[]).await.map_err(said)?;
    let server: i32 = row.try_get(0).map_err(said)?;
    if server < SERVER_MIN {
        return Err(Trouble::Fatal(format!("PostgreSQL {} is too old: use 15 or newer", server / 10_000)));
    }
    let row = client.query_one("SELECT current_setting('fsync')", &[]).await.map_err(said)?;
    if row.try_get::<_, &str>(0).map_err(said)? != "on" {
        let text = "PostgreSQL has fsync = off and can lose what it acknowledged: set it to on";
        return Err(Trouble::Fatal(text.into()));
    }
    let change = client.transaction().await.map_err(said)?;
    change.execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATOR]).await.map_err(said)?;
    change
        .batch_execute("CREATE TABLE IF NOT EXISTS meta (schema_version integer NOT NULL)")
        .await
        .map_err(said)?;
    let row =
        change.query_one("SELECT coalesce(max(schema_version), 0) FROM meta", &[]).await.map_err(said)?;
    let found = usize::try_from(row.try_get::<_, i32>(0).map_err(said)?).unwrap_or_default();
    let known = MIGRATIONS.len();
    if found > known {
        return Err(Trouble::Fatal(format!(
            "the database has schema {found}, this program knows up to {known}: use the newer program"
        )));
    }
    for (number, step) in (1_i32..).zip(MIGRATIONS).skip(found) {
        change.batch_execute(step).await.map_err(said)?;
        change.execute("INSERT INTO meta (schema_version) VALUES ($1)", &[&number]).await.map_err(said)?;
    }
    change.commit().await.map_err(said)
}
