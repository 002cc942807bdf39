//! What is kept beside the events of a run, and how all of it goes in the end: one statement each.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{BlobHash, CallKey, JournalError, LateResult, Letter, RunId, Snapshot};
use tokio_postgres::Row;

use super::link::{Link, LinkError};
use super::runs::is_there;
use super::value::{int, micros, uint, uuid};
use crate::stored::{decode_record, decode_snapshot, hash_of};
use crate::{SLICE_EVENTS, SLICE_RUNS_MAX, Trouble};

pub(super) fn bad(error: tokio_postgres::Error) -> JournalError {
    Trouble::from(LinkError::Said(error)).into()
}

/// The rows; an error when there is neither one nor such a run.
pub(super) async fn rows_of(
    link: &Link,
    run: RunId,
    rows: Result<Vec<Row>, LinkError>,
) -> Result<Vec<Row>, JournalError> {
    let rows = rows.map_err(Trouble::from)?;
    if rows.is_empty() && !is_there(link, run).await? {
        return Err(JournalError::NoSuchRun(run));
    }
    Ok(rows)
}

const SNAPSHOT: &str =
    "SELECT seq, body FROM snapshot WHERE run = $1 AND fold_version = $2 ORDER BY seq DESC LIMIT 1";

pub(super) async fn snapshot(
    link: &Link,
    run: RunId,
    fold_version: u32,
) -> Result<Option<Snapshot>, JournalError> {
    let version = i32::try_from(fold_version).unwrap_or(i32::MAX);
    let rows = rows_of(link, run, link.query(SNAPSHOT, &[&uuid(run), &version]).await).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let seq = uint(row.try_get(0).map_err(bad)?);
    let body = decode_snapshot(row.try_get(1).map_err(bad)?);
    Ok(body.map(|body| Snapshot { seq, fold_version, body }))
}

const SEND: &str = "
    INSERT INTO letter (run, id, body) SELECT id, $2, $3 FROM run WHERE id = $1
    ON CONFLICT DO NOTHING RETURNING id";

pub(super) async fn send(link: &Link, run: RunId, letter: &Letter) -> Result<bool, JournalError> {
    let sent = link.query(SEND, &[&uuid(run), &&*letter.id, &&*letter.body]).await;
    Ok(!rows_of(link, run, sent).await?.is_empty())
}

const LETTERS: &str = "SELECT id, body FROM letter WHERE run = $1 AND taken_at_seq IS NULL ORDER BY n";

pub(super) async fn letters(link: &Link, run: RunId) -> Result<Vec<Letter>, JournalError> {
    let rows = rows_of(link, run, link.query(LETTERS, &[&uuid(run)]).await).await?;
    let letter = |row: &Row| {
        let (id, body): (&str, &[u8]) = (row.try_get(0)?, row.try_get(1)?);
        Ok(Letter { id: id.into(), body: body.into() })
    };
    rows.iter().map(letter).collect::<Result<_, _>>().map_err(bad)
}

const PUT_LATE: &str = "
    INSERT INTO late_result (run, turn, place, epoch, body) SELECT id, $2, $3, $4, $5 FROM run WHERE id = $1
    ON CONFLICT DO NOTHING RETURNING run";

pub(super) async fn put_late_result(link: &Link, late: &LateResult, body: &[u8]) -> Result<(), JournalError> {
    let LateResult { run, call, epoch, record: _ } = late;
    let put = link
        .query(PUT_LATE, &[&uuid(*run), &i64::from(call.turn), &i64::from(call.index), &int(*epoch), &body])
        .await;
    rows_of(link, *run, put).await.map(drop)
}

const LATE: &str =
    "SELECT turn, place, epoch, body FROM late_result WHERE run = $1 ORDER BY turn, place, epoch";

pub(super) async fn late_results(link: &Link, run: RunId) -> Result<Vec<LateResult>, JournalError> {
    let rows = rows_of(link, run, link.query(LATE, &[&uuid(run)]).await).await?;
    let count = |stored: i64| u32::try_from(stored).unwrap_or_default();
    rows.iter()
        .map(|row| {
            let (turn, index) = (row.try_get(0).map_err(bad)?, row.try_get(1).map_err(bad)?);
            Ok(LateResult {
                run,
                call: CallKey { turn: count(turn), index: count(index) },
                epoch: uint(row.try_get(2).map_err(bad)?),
                record: decode_record(row.try_get(3).map_err(bad)?)?,
            })
        })
        .collect()
}

const PUT_BLOB: &str = "
    WITH r AS (SELECT id FROM run WHERE id = $1 FOR SHARE),
    b AS (INSERT INTO blob (hash, body) SELECT $2, $3 FROM r ON CONFLICT DO NOTHING),
    u AS (INSERT INTO blob_of_run (run, hash) SELECT id, $2 FROM r ON CONFLICT DO NOTHING)
    SELECT id FROM r";

pub(super) async fn put_blob(link: &Link, run: RunId, bytes: &[u8]) -> Result<BlobHash, JournalError> {
    let hash = hash_of(bytes);
    let put = link.query(PUT_BLOB, &[&uuid(run), &&hash.0[..], &bytes]).await;
    rows_of(link, run, put).await?;
    Ok(hash)
}

const BLOB: &str = "SELECT body FROM blob WHERE hash = $1";

pub(super) async fn blob(link: &Link, hash: BlobHash) -> Result<Option<Arc<[u8]>>, JournalError> {
    let rows = link.query(BLOB, &[&&hash.0[..]]).await.map_err(Trouble::from)?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(row.try_get::<_, &[u8]>(0).map_err(bad)?.into()))
}

/// A blob that a run begins to use at this moment keeps the statement from its end by its
/// reference; it is then repeated, and finds the reference.
const DROP_ENDED: &str = "
    WITH gone AS (
        SELECT id FROM (
            SELECT id, sum(head) OVER (ORDER BY ended_at, id) - head AS before FROM (
                SELECT id, head, ended_at FROM run
                WHERE ended_at <= clock_timestamp() - $1 * interval '1 microsecond'
                ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED) ended) slice
        WHERE before < $3::bigint),
    e AS (DELETE FROM event USING gone WHERE event.run = gone.id),
    s AS (DELETE FROM snapshot USING gone WHERE snapshot.run = gone.id),
    l AS (DELETE FROM letter USING gone WHERE letter.run = gone.id),
    t AS (DELETE FROM late_result USING gone WHERE late_result.run = gone.id),
    u AS (DELETE FROM blob_of_run USING gone WHERE blob_of_run.run = gone.id RETURNING hash),
    b AS (
        DELETE FROM blob WHERE hash IN (SELECT hash FROM u) AND NOT EXISTS (
            SELECT 1 FROM blob_of_run other WHERE other.hash = blob.hash AND other.run NOT IN (SELECT id FROM gone))),
    r AS (DELETE FROM run USING gone WHERE run.id = gone.id)
    SELECT count(*) FROM gone";

pub(super) async fn drop_ended(link: &Link, kept: Duration, runs_max: usize) -> Result<usize, JournalError> {
    #[expect(clippy::cast_precision_loss, reason = "an interval is a multiple of a double")]
    let kept_us = micros(kept) as f64;
    let slice = int(runs_max.min(SLICE_RUNS_MAX) as u64);
    let rows =
        link.query(DROP_ENDED, &[&kept_us, &slice, &int(SLICE_EVENTS)]).await.map_err(Trouble::from)?;
    let dropped = rows.first().and_then(|row| row.try_get(0).ok()).map_or(0, uint);
    Ok(usize::try_from(dropped).unwrap_or(usize::MAX))
}
