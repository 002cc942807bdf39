//! What a run's owner does to it, but for appends: one statement each.

use std::sync::Arc;

use dauntless_contract::{
    AppendError, CreateError, Fence, NewRun, ReadError, Recorded, Release, RunId, Seq, Snapshot, Timestamp,
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::link::{Link, LinkError};
use super::value::{int, micros, run_of, uint, uuid};
use crate::Trouble;
use crate::stored::{PAGE_BYTES_MAX, StoredEvent, decode, encode_snapshot, hash_of};

const CREATE: &str = "
    WITH me AS (SELECT incarnation, name FROM worker WHERE incarnation = $10),
    r AS (
        INSERT INTO run (id, client_key, parent, code_version, config, state, ready_at, head, last_at, written_at,
                         epoch, token, owner, owner_name, agent, root)
        SELECT $1, $2, $3, $4, $5, CASE WHEN me.incarnation IS NULL THEN 0 ELSE 1 END, clock_timestamp(), 1, $6,
               clock_timestamp(), $7, $8, me.incarnation, me.name, $14, $15
        FROM (SELECT 1) one LEFT JOIN me ON true
        ON CONFLICT DO NOTHING RETURNING id, owner),
    e AS (
        INSERT INTO event (run, seq, epoch, kind, v, at, written_at, append_id, body, body_hash)
        SELECT id, 1, $7, $11, $12, $6, clock_timestamp(), gen_random_uuid(), $13, $16 FROM r),
    t AS (
        SELECT id, hash, body FROM r, unnest(ARRAY[$5, $16]::bytea[], ARRAY[$9, $17]::bytea[]) AS t (hash, body)
        WHERE hash IS NOT NULL ORDER BY hash),
    b AS (INSERT INTO blob (hash, body) SELECT hash, body FROM t ON CONFLICT DO NOTHING),
    u AS (INSERT INTO blob_of_run (run, hash) SELECT id, hash FROM t ON CONFLICT DO NOTHING)
    SELECT id, CASE WHEN owner IS NULL THEN pg_notify('dauntless_run', '') END::text FROM r";

const KNOWN: &str = "SELECT id, epoch, token FROM run WHERE id = $1 OR client_key = $2";

/// The worker that has registered, by its incarnation, becomes the owner.
pub(super) async fn create(
    link: &Link,
    new: &NewRun,
    first: &StoredEvent,
    worker: Option<Uuid>,
) -> Result<(), CreateError> {
    let NewRun { fence, client_key, agent, parent, root, code_version, config, first: _ } = new;
    let config = config.as_deref().map(|bytes| (hash_of(bytes), bytes));
    let hash = config.as_ref().map(|(hash, _)| &hash.0[..]);
    let created = link
        .query_again(
            CREATE,
            &[
                &uuid(fence.run),
                &client_key.as_deref(),
                &parent.map(uuid),
                &&**code_version,
                &hash,
                &int(first.at.as_micros()),
                &int(fence.epoch),
                &Uuid::from_u128(fence.token),
                &config.map(|(_, bytes)| bytes),
                &worker,
                &first.kind,
                &i16::try_from(first.version).unwrap_or(i16::MAX),
                &first.inline(),
                &&**agent,
                &root.map(uuid),
                &first.blob().map(|(hash, _)| &hash.0[..]),
                &first.blob().map(|(_, body)| body),
            ],
        )
        .await
        .map_err(Trouble::from)?;
    if !created.rows.is_empty() {
        return Ok(());
    }
    let known =
        link.query(KNOWN, &[&uuid(fence.run), &client_key.as_deref()]).await.map_err(Trouble::from)?;
    let known: Option<(Uuid, i64, Option<Uuid>)> = known
        .first()
        .and_then(|row| Some((row.try_get(0).ok()?, row.try_get(1).ok()?, row.try_get(2).ok()?)));
    match known {
        Some((_, epoch, Some(token)))
            if created.repeated && (uint(epoch), token.as_u128()) == (fence.epoch, fence.token) =>
        {
            Ok(())
        }
        Some((run, ..)) => Err(CreateError::Exists(run_of(run))),
        None => Err(CreateError::Unavailable("the run was dropped while it was created; try again".into())),
    }
}

const READ: &str = "
    SELECT seq, at, kind, v, body FROM (
        SELECT seq, at, kind, v, body, sum(length(body)) OVER (ORDER BY seq) - length(body) AS before
        FROM (
            SELECT seq, at, kind, v,
                   coalesce((SELECT blob.body FROM blob WHERE blob.hash = event.body_hash), event.body) AS body
            FROM event WHERE run = $1 AND seq > $2 ORDER BY seq LIMIT $3) events) page
    WHERE before < $4 ORDER BY seq";

const IS_THERE: &str = "SELECT 1 FROM run WHERE id = $1";

pub(super) async fn read(
    link: &Link,
    run: RunId,
    after: Seq,
    limit: usize,
) -> Result<Vec<Recorded>, ReadError> {
    let bytes = int(PAGE_BYTES_MAX as u64);
    let rows = link
        .query(READ, &[&uuid(run), &int(after), &int(limit as u64), &bytes])
        .await
        .map_err(Trouble::from)?;
    if rows.is_empty() && !is_there(link, run).await? {
        return Err(ReadError::NoSuchRun(run));
    }
    rows.iter().map(|row| recorded(run, row)).collect()
}

fn recorded(run: RunId, row: &Row) -> Result<Recorded, ReadError> {
    let bad = |error| ReadError::from(Trouble::from(LinkError::Said(error)));
    let at = Timestamp::from_micros(uint(row.try_get(1).map_err(bad)?));
    let version = row.try_get::<_, i16>(3).map_err(bad)?;
    let body: &[u8] = row.try_get(4).map_err(bad)?;
    match decode(row.try_get(2).map_err(bad)?, u16::try_from(version).unwrap_or_default(), body) {
        Ok(event) => Ok(Recorded { at, event }),
        Err(problem) => Err(ReadError::Unreadable { run, seq: uint(row.try_get(0).map_err(bad)?), problem }),
    }
}

pub(super) async fn is_there(link: &Link, run: RunId) -> Result<bool, Trouble> {
    Ok(!link.query(IS_THERE, &[&uuid(run)]).await?.is_empty())
}

const RELEASE: &str = "
    WITH r AS (
        UPDATE run SET state = $4::smallint, reason = $5, token = NULL, owner = NULL, attempts = 0,
                       ready_at = clock_timestamp() + $6::float8 * interval '1 microsecond',
                       ended_at = CASE WHEN $4::smallint = 4 THEN clock_timestamp() END
        WHERE id = $1 AND epoch = $2 AND token = $3 RETURNING id)
    SELECT id, CASE WHEN $4::smallint = 0 AND $6::float8 = 0 THEN pg_notify('dauntless_run', '') END::text FROM r";

pub(super) async fn release(link: &Link, fence: &Fence, next: &Release) -> Result<(), AppendError> {
    let (state, reason, wait_us): (i16, Option<&Arc<str>>, i64) = match next {
        Release::Ready { after } => (0, None, micros(*after)),
        Release::Paused { reason } => (2, Some(reason), 0),
        Release::Ended { reason } => (4, Some(reason), 0),
    };
    let released = link
        .query_again(
            RELEASE,
            &[
                &uuid(fence.run),
                &int(fence.epoch),
                &Uuid::from_u128(fence.token),
                &state,
                &reason.map(|reason| &**reason),
                #[expect(clippy::cast_precision_loss, reason = "an interval is a multiple of a double")]
                &(wait_us as f64),
            ],
        )
        .await
        .map_err(Trouble::from)?;
    if !released.rows.is_empty() {
        return Ok(());
    }
    match fenced(link, fence).await? {
        // Nobody has claimed it since: the earlier try has let go of it.
        AppendError::Fenced { owner_epoch, .. } if released.repeated && owner_epoch == fence.epoch => Ok(()),
        refused => Err(refused),
    }
}

const EPOCH: &str = "SELECT epoch FROM run WHERE id = $1";

/// The refusal of a write that found no run of its fence.
async fn fenced(link: &Link, fence: &Fence) -> Result<AppendError, Trouble> {
    let rows = link.query(EPOCH, &[&uuid(fence.run)]).await?;
    Ok(match rows.first().and_then(|row| row.try_get(0).ok()) {
        Some(epoch) => AppendError::Fenced { run: fence.run, owner_epoch: uint(epoch) },
        None => AppendError::NoSuchRun(fence.run),
    })
}

const PUT_SNAPSHOT: &str = "
    WITH r AS (SELECT id FROM run WHERE id = $1 AND epoch = $2 AND token = $3 FOR SHARE),
    s AS (
        INSERT INTO snapshot (run, seq, fold_version, body) SELECT id, $4, $5, $6 FROM r
        ON CONFLICT (run, seq) DO UPDATE SET fold_version = excluded.fold_version, body = excluded.body),
    d AS (
        DELETE FROM snapshot USING r WHERE snapshot.run = r.id AND snapshot.seq <> $4 AND snapshot.seq NOT IN
            (SELECT seq FROM snapshot kept WHERE kept.run = $1 AND kept.seq <> $4 ORDER BY seq DESC LIMIT 1))
    SELECT id FROM r";

/// Keeps this snapshot and the newest of the others.
pub(super) async fn put_snapshot(link: &Link, fence: &Fence, snapshot: &Snapshot) -> Result<(), AppendError> {
    let body = encode_snapshot(&snapshot.body)?;
    let kept = link
        .query(
            PUT_SNAPSHOT,
            &[
                &uuid(fence.run),
                &int(fence.epoch),
                &Uuid::from_u128(fence.token),
                &int(snapshot.seq),
                &i32::try_from(snapshot.fold_version).unwrap_or(i32::MAX),
                &body,
            ],
        )
        .await
        .map_err(Trouble::from)?;
    if kept.is_empty() { Err(fenced(link, fence).await?) } else { Ok(()) }
}
