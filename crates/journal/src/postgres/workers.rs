//! What workers do to the runs they share: one statement each. Time is the server's throughout.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    Alarm, BlobHash, Claim, ClaimFilter, Fence, JournalError, ListQuery, RunCounts, RunId, RunMeta,
    Timestamp, WorkerInfo,
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::link::{Link, LinkError};
use super::runs::is_there;
use super::value::{int, length, micros, number_of, run_of, state_of, uint, uuid};
use crate::{CLAIMS_MAX, NEWS_MAX, Trouble, quarantine_reason};

const REGISTER: &str = "
    WITH old AS (DELETE FROM worker WHERE name = $2 RETURNING incarnation),
    freed AS (
        UPDATE run SET state = 0, owner = NULL, token = NULL WHERE owner IN (SELECT incarnation FROM old)),
    gone AS (SELECT count(*) FROM old)
    INSERT INTO worker (incarnation, name, host, ttl, lease_until)
    SELECT $1, $2, $3, $4 * interval '1 microsecond', clock_timestamp() + $4 * interval '1 microsecond' FROM gone";

pub(super) async fn register(
    link: &Link,
    incarnation: Uuid,
    worker: &WorkerInfo,
) -> Result<(), JournalError> {
    #[expect(clippy::cast_precision_loss, reason = "an interval is a multiple of a double")]
    let ttl_us = micros(worker.ttl) as f64;
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
        [&incarnation, &&*worker.name, &&*worker.host, &ttl_us];
    link.query(REGISTER, &values).await.map_err(Trouble::from)?;
    Ok(())
}

const RENEW: &str =
    "UPDATE worker SET lease_until = clock_timestamp() + ttl WHERE incarnation = $1 RETURNING incarnation";

/// Whether the worker had not been given up.
pub(super) async fn renew(link: &Link, incarnation: Uuid) -> Result<bool, Trouble> {
    Ok(!link.query(RENEW, &[&incarnation]).await?.is_empty())
}

/// Gives runs of dead workers back, a slice at a time, past those that another worker looks at.
const SWEEP: &str = "
    UPDATE run SET state = 0, owner = NULL, token = NULL, ready_at = least(ready_at, clock_timestamp())
    WHERE id IN (
        SELECT run.id FROM run JOIN worker ON run.owner = worker.incarnation
        WHERE worker.lease_until < clock_timestamp() LIMIT 1000 FOR UPDATE OF run SKIP LOCKED)";

const BURY: &str = "
    DELETE FROM worker WHERE lease_until < clock_timestamp()
        AND NOT EXISTS (SELECT 1 FROM run WHERE run.owner = worker.incarnation)";

const QUARANTINE: &str = "
    UPDATE run SET state = 3, reason = $1, token = NULL
    WHERE id IN (SELECT id FROM run WHERE state = 0 AND ready_at <= clock_timestamp() AND attempts >= $2
                 LIMIT 1000 FOR UPDATE SKIP LOCKED)";

/// Claims of the runs that fit one condition more.
macro_rules! claim_where {
    ($condition:literal) => {
        concat!("
    UPDATE run SET state = 1, owner = $1, owner_name = $2, epoch = epoch + 1, token = gen_random_uuid(),
                   attempts = attempts + 1, claim_id = $6
    WHERE id IN (
        SELECT id FROM run WHERE state = 0 AND ready_at <= clock_timestamp() AND attempts < $5
            AND ($3::text[] IS NULL OR code_version = ANY ($3)) AND ($7::uuid IS NULL OR id = $7)", $condition, "
        ORDER BY ready_at LIMIT $4 FOR UPDATE SKIP LOCKED)
    RETURNING id, epoch, token, head, attempts, last_at,
              (extract(epoch FROM clock_timestamp() - written_at) * 1000000)::bigint, code_version, config")
    };
}

const CLAIM: &str = claim_where!("");
/// Of its own, so that it finds its index.
const CLAIM_CHILDREN: &str = claim_where!(" AND parent IS NOT NULL");

pub(super) async fn claim(
    link: &Link,
    me: &super::Worker,
    want: usize,
    filter: &ClaimFilter,
) -> Result<Vec<Claim>, JournalError> {
    if !renew(link, me.incarnation).await? {
        return Err(JournalError::LeaseLost(Arc::clone(&me.name)));
    }
    let claims_max = i32::try_from(CLAIMS_MAX).unwrap_or(i32::MAX);
    link.query(SWEEP, &[]).await.map_err(Trouble::from)?;
    // Refused where a run was made for a dead worker at this moment; the next sweep gives it back.
    let _ = link.query_once(BURY, &[]).await;
    link.query(QUARANTINE, &[&quarantine_reason(CLAIMS_MAX), &claims_max]).await.map_err(Trouble::from)?;
    let claim_id = Uuid::new_v4();
    let (versions, want_max, only) = (versions(filter), int(want as u64), filter.only.map(uuid));
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 7] =
        [&me.incarnation, &&*me.name, &versions, &want_max, &claims_max, &claim_id, &only];
    let statement = if filter.children_only { CLAIM_CHILDREN } else { CLAIM };
    let mut rows = answers_to(link, me).await?;
    if rows.len() < want {
        match link.query_once(statement, &values).await {
            Ok(claimed) => rows.extend(claimed),
            Err(error) => {
                if error.is_ambiguous() {
                    me.unanswered().push(claim_id);
                }
                if rows.is_empty() {
                    return Err(Trouble::from(error).into());
                }
            }
        }
    }
    let claims: Result<_, _> = rows.iter().map(claimed).collect();
    claims.map_err(|error| Trouble::from(LinkError::Said(error)).into())
}

const CLAIMED: &str = "
    SELECT id, epoch, token, head, attempts, last_at,
           (extract(epoch FROM clock_timestamp() - written_at) * 1000000)::bigint, code_version, config
    FROM run WHERE owner = $1 AND claim_id = $2";

/// What earlier claims got whose answers were lost: without this, runs would wait for a worker that
/// does not know that they are its own.
async fn answers_to(link: &Link, me: &super::Worker) -> Result<Vec<Row>, Trouble> {
    let Some(claim_id) = me.unanswered().pop() else { return Ok(Vec::new()) };
    let found = link.query(CLAIMED, &[&me.incarnation, &claim_id]).await;
    if found.is_err() {
        me.unanswered().push(claim_id);
    }
    Ok(found?)
}

fn claimed(row: &Row) -> Result<Claim, tokio_postgres::Error> {
    let fence = Fence {
        run: run_of(row.try_get(0)?),
        epoch: uint(row.try_get(1)?),
        token: row.try_get::<_, Uuid>(2)?.as_u128(),
    };
    Ok(Claim {
        fence,
        head: uint(row.try_get(3)?),
        attempts: attempts(row.try_get(4)?),
        last_at: Timestamp::from_micros(uint(row.try_get(5)?)),
        since_last: length(row.try_get(6)?),
        code_version: row.try_get::<_, &str>(7)?.into(),
        config: row.try_get::<_, Option<&[u8]>>(8)?.and_then(hash),
    })
}

fn attempts(stored: i32) -> u32 {
    u32::try_from(stored).unwrap_or_default()
}

fn hash(bytes: &[u8]) -> Option<BlobHash> {
    bytes.try_into().ok().map(BlobHash)
}

fn versions(filter: &ClaimFilter) -> Option<Vec<&str>> {
    filter.code_versions.as_ref().map(|versions| versions.iter().map(|version| &**version).collect())
}

const REOPEN: &str = "
    WITH r AS (
        UPDATE run SET state = 0, reason = NULL, attempts = 0, ready_at = clock_timestamp()
        WHERE id = $1 AND state IN (2, 3) RETURNING id)
    SELECT pg_notify('dauntless_run', '')::text FROM r";

pub(super) async fn reopen(link: &Link, run: RunId) -> Result<bool, JournalError> {
    let reopened = !link.query(REOPEN, &[&uuid(run)]).await.map_err(Trouble::from)?.is_empty();
    if !reopened && !is_there(link, run).await? {
        return Err(JournalError::NoSuchRun(run));
    }
    Ok(reopened)
}

/// The list, of all runs or of those below a root. The index of roots serves only where the text says so.
macro_rules! list {
    ($of_root:literal) => {
        concat!(
            "
    SELECT id, state, reason, head, epoch, owner_name, attempts,
           CASE WHEN state = 0 THEN (extract(epoch FROM ready_at - clock_timestamp()) * 1000000)::bigint ELSE 0 END,
           code_version, config, parent,
           (SELECT count(*) FROM letter WHERE letter.run = run.id AND taken_at_seq IS NULL),
           (SELECT count(*) FROM late_result WHERE late_result.run = run.id),
           (SELECT max(seq) FROM snapshot WHERE snapshot.run = run.id), agent, root,
           (SELECT (extract(epoch FROM clock_timestamp() - written_at) * 1000000)::bigint
            FROM event WHERE event.run = run.id AND seq = 1),
           (extract(epoch FROM clock_timestamp() - written_at) * 1000000)::bigint
    FROM run WHERE ($1::smallint IS NULL OR state = $1) AND ($2::uuid IS NULL OR id > $2) AND ",
            $of_root,
            " ORDER BY id LIMIT $3"
        )
    };
}

const LIST: &str = list!("$4::uuid IS NULL");
const LIST_BELOW: &str = list!("root = $4::uuid");

pub(super) async fn list(link: &Link, query: ListQuery) -> Result<Vec<RunMeta>, JournalError> {
    let statement = if query.root.is_some() { LIST_BELOW } else { LIST };
    let (state, after, limit) = (query.state.map(number_of), query.after.map(uuid), int(query.limit as u64));
    let rows = link
        .query(statement, &[&state, &after, &limit, &query.root.map(uuid)])
        .await
        .map_err(Trouble::from)?;
    let metas: Result<_, _> = rows.iter().map(meta).collect();
    metas.map_err(|error| Trouble::from(LinkError::Said(error)).into())
}

fn meta(row: &Row) -> Result<RunMeta, tokio_postgres::Error> {
    let text = |column: usize| row.try_get::<_, Option<&str>>(column).map(|text| text.map(Into::into));
    Ok(RunMeta {
        run: run_of(row.try_get(0)?),
        agent: row.try_get::<_, &str>(14)?.into(),
        state: state_of(row.try_get(1)?),
        reason: text(2)?,
        head: uint(row.try_get(3)?),
        epoch: uint(row.try_get(4)?),
        owner: text(5)?,
        attempts: attempts(row.try_get(6)?),
        ready_in: length(row.try_get(7)?),
        code_version: row.try_get::<_, &str>(8)?.into(),
        config: row.try_get::<_, Option<&[u8]>>(9)?.and_then(hash),
        parent: row.try_get::<_, Option<Uuid>>(10)?.map(run_of),
        letters: uint(row.try_get(11)?),
        late_results: uint(row.try_get(12)?),
        snapshot: row.try_get::<_, Option<i64>>(13)?.map(uint),
        root: row.try_get::<_, Option<Uuid>>(15)?.map(run_of),
        age: length(row.try_get::<_, Option<i64>>(16)?.unwrap_or_default()),
        since_last: length(row.try_get(17)?),
    })
}

/// From the letters to the runs: there are few that are unread, and many runs.
const WITH_NEWS: &str = "
    SELECT run.id FROM letter JOIN run ON run.id = letter.run
    WHERE letter.taken_at_seq IS NULL AND run.owner = $1
    GROUP BY run.id ORDER BY min(letter.n) LIMIT $2";

pub(super) async fn with_news(link: &Link, me: Uuid) -> Result<Vec<RunId>, JournalError> {
    let rows = link.query(WITH_NEWS, &[&me, &int(NEWS_MAX as u64)]).await.map_err(Trouble::from)?;
    let runs: Result<_, _> = rows.iter().map(|row| row.try_get(0).map(run_of)).collect();
    runs.map_err(|error| Trouble::from(LinkError::Said(error)).into())
}

const COUNTS: &str = "
    WITH r AS (
        SELECT state, code_version, state = 1 AND NOT EXISTS (
            SELECT 1 FROM worker WHERE incarnation = owner AND lease_until >= clock_timestamp()) AS orphaned FROM run)
    SELECT count(*) FILTER (WHERE state = 0), count(*) FILTER (WHERE state = 1 AND NOT orphaned),
           count(*) FILTER (WHERE orphaned), count(*) FILTER (WHERE state = 2), count(*) FILTER (WHERE state = 3),
           count(*) FILTER (WHERE state = 4),
           count(*) FILTER (WHERE (state = 0 OR orphaned) AND $1::text[] IS NOT NULL AND code_version <> ALL ($1))
    FROM r";

pub(super) async fn counts(link: &Link, filter: &ClaimFilter) -> Result<RunCounts, JournalError> {
    let rows = link.query(COUNTS, &[&versions(filter)]).await.map_err(Trouble::from)?;
    let count = |column: usize| rows.first().and_then(|row| row.try_get(column).ok()).map_or(0, uint);
    Ok(RunCounts {
        ready: count(0),
        driven: count(1),
        orphaned: count(2),
        paused: count(3),
        quarantined: count(4),
        ended: count(5),
        unclaimable: count(6),
    })
}

/// What keeps the versions of rows that nobody else can see any more.
const HELD_OPEN: &str = "
    SELECT coalesce(nullif(application_name, ''), usename, 'somebody') || ' (process ' || pid || ')',
           (extract(epoch FROM clock_timestamp() - xact_start) * 1000000)::bigint
    FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
        AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
        AND xact_start < clock_timestamp() - $1 * interval '1 microsecond'
    ORDER BY xact_start";

pub(super) async fn alarms(link: &Link, patience: Duration) -> Result<Vec<Alarm>, JournalError> {
    #[expect(clippy::cast_precision_loss, reason = "an interval is a multiple of a double")]
    let patience_us = micros(patience) as f64;
    let rows = link.query(HELD_OPEN, &[&patience_us]).await.map_err(Trouble::from)?;
    let held = |row: &Row| {
        Ok(Alarm::HeldOpen { by: row.try_get::<_, &str>(0)?.into(), since: length(row.try_get(1)?) })
    };
    let alarms: Result<_, _> = rows.iter().map(held).collect();
    alarms.map_err(|error| Trouble::from(LinkError::Said(error)).into())
}
