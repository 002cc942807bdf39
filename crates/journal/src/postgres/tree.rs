//! What the runs of one tree share: one statement each.

use dauntless_contract::{ChildRun, JournalError, Letter, Pad, Posted, RunId};

use tokio_postgres::Row;

use super::link::Link;
use super::notes::{bad, rows_of};
use super::value::{int, run_of, state_of, uint, uuid};
use crate::Trouble;

const POST: &str = "
    WITH r AS (
        SELECT id, state = 4 AS ended,
               (SELECT count(*) FROM letter WHERE run = $1 AND taken_at_seq IS NULL) >= $4::bigint AS is_full,
               EXISTS (SELECT 1 FROM letter WHERE run = $1 AND id = $2) AS is_known
        FROM run WHERE id = $1),
    l AS (
        INSERT INTO letter (run, id, body) SELECT id, $2, $3 FROM r WHERE NOT (ended OR is_full OR is_known)
        ON CONFLICT DO NOTHING RETURNING id)
    SELECT ended, is_full, is_known, EXISTS (SELECT 1 FROM l) FROM r";

pub(super) async fn post(
    link: &Link,
    run: RunId,
    letter: &Letter,
    unread_max: usize,
) -> Result<Posted, JournalError> {
    let unread_max = int(unread_max as u64);
    let rows = link.query(POST, &[&uuid(run), &&*letter.id, &&*letter.body, &unread_max]).await;
    let rows = rows_of(link, run, rows).await?;
    let is =
        |column: usize| rows.first().map_or(Ok(false), |row| row.try_get::<_, bool>(column)).map_err(bad);
    let (ended, is_full, is_known, is_new) = (is(0)?, is(1)?, is(2)?, is(3)?);
    Ok(match (is_new, is_known, ended, is_full) {
        (true, ..) => Posted::New,
        (_, true, ..) => Posted::Again,
        (_, _, true, _) => Posted::Ended,
        (.., true) => Posted::Full,
        // Another one of that id came at the same moment.
        (false, false, false, false) => Posted::Again,
    })
}

/// The time of a run's first event is that of its creation.
const CHILDREN: &str = "
    SELECT id, agent, state FROM run WHERE parent = $1
    ORDER BY (SELECT written_at FROM event WHERE event.run = run.id AND seq = 1), id";

pub(super) async fn children(link: &Link, parent: RunId) -> Result<Vec<ChildRun>, JournalError> {
    let rows = link.query(CHILDREN, &[&uuid(parent)]).await.map_err(Trouble::from)?;
    let child = |row: &Row| {
        let (run, state) = (run_of(row.try_get(0)?), state_of(row.try_get(2)?));
        Ok(ChildRun { run, agent: row.try_get::<_, &str>(1)?.into(), state })
    };
    rows.iter().map(child).collect::<Result<_, _>>().map_err(bad)
}

const PAD: &str = "SELECT version, body FROM run LEFT JOIN pad ON pad.run = run.id WHERE run.id = $1";

pub(super) async fn pad(link: &Link, root: RunId) -> Result<Option<Pad>, JournalError> {
    let rows = rows_of(link, root, link.query(PAD, &[&uuid(root)]).await).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let version: Option<i64> = row.try_get(0).map_err(bad)?;
    let body: Option<&[u8]> = row.try_get(1).map_err(bad)?;
    Ok(version.zip(body).map(|(version, body)| Pad { version: uint(version), body: body.into() }))
}

const PUT_PAD: &str = "
    WITH r AS (SELECT id FROM run WHERE id = $1),
    u AS (
        UPDATE pad SET version = version + 1, body = $3 FROM r
        WHERE run = r.id AND version = $2::bigint RETURNING run),
    i AS (
        INSERT INTO pad (run, version, body) SELECT id, 1, $3 FROM r WHERE $2::bigint = 0
        ON CONFLICT DO NOTHING RETURNING run)
    SELECT EXISTS (SELECT 1 FROM u) OR EXISTS (SELECT 1 FROM i) FROM r";

pub(super) async fn put_pad(
    link: &Link,
    root: RunId,
    expected: u64,
    body: &[u8],
) -> Result<bool, JournalError> {
    let rows = link.query(PUT_PAD, &[&uuid(root), &int(expected), &body]).await;
    let rows = rows_of(link, root, rows).await?;
    rows.first().map_or(Ok(false), |row| row.try_get(0)).map_err(bad)
}
