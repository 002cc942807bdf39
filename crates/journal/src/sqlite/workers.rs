//! What workers do to the runs they share, as statements of one transaction.

use std::path::Path;
use std::sync::Arc;

use dauntless_contract::{
    BlobHash, Claim, ClaimFilter, Fence, JournalError, ListQuery, RunCounts, RunId, RunMeta, RunState,
    Timestamp, WorkerInfo,
};
use rusqlite::{Connection, OptionalExtension, Result, params};

use super::liveness::{bury, lives};
use super::runs::Owner;
use super::value::{DRIVEN, ENDED, Id, PAUSED, QUARANTINED, READY, int, now, number_of, state_of, uint};
use crate::{CLAIMS_MAX, NEWS_MAX, quarantine_reason};

pub(super) fn register(
    db: &Connection,
    database: &Path,
    incarnation: &str,
    worker: &WorkerInfo,
) -> Result<std::result::Result<(), JournalError>> {
    sweep(db, database)?;
    let WorkerInfo { name, host, ttl: _ } = worker;
    let taken: Option<i64> = db
        .prepare_cached("SELECT 1 FROM worker WHERE name = ?1 AND incarnation <> ?2")?
        .query_row([&**name, incarnation], |row| row.get(0))
        .optional()?;
    if taken.is_some() {
        return Ok(Err(JournalError::NameTaken(Arc::clone(name))));
    }
    db.prepare_cached("INSERT INTO worker (incarnation, name, host) VALUES (?1, ?2, ?3)")?.execute([
        incarnation,
        &**name,
        &**host,
    ])?;
    Ok(Ok(()))
}

/// Gives the runs of dead workers back.
fn sweep(db: &Connection, database: &Path) -> Result<()> {
    for incarnation in dead(db, database)? {
        // What waits from now on is not held up by a wall clock that ran ahead.
        db.prepare_cached(
            "UPDATE run SET state = ?1, owner = NULL, token = NULL, ready_at = min(ready_at, ?3) WHERE owner = ?2",
        )?
        .execute(params![READY, incarnation, now()])?;
        db.prepare_cached("DELETE FROM worker WHERE incarnation = ?1")?.execute([&incarnation])?;
        bury(database, &incarnation);
    }
    Ok(())
}

fn dead(db: &Connection, database: &Path) -> Result<Vec<String>> {
    let mut select = db.prepare_cached("SELECT incarnation FROM worker")?;
    let known: Vec<String> = select.query_map([], |row| row.get(0))?.collect::<Result<_>>()?;
    Ok(known.into_iter().filter(|incarnation| !lives(database, incarnation)).collect())
}

/// Whether nobody has given this worker up.
pub(super) fn is_registered(db: &Connection, owner: &Owner) -> Result<bool> {
    db.prepare_cached("SELECT 1 FROM worker WHERE incarnation = ?1")?.exists([&*owner.incarnation])
}

pub(super) fn claim(
    db: &Connection,
    database: &Path,
    me: &Owner,
    want: usize,
    filter: &ClaimFilter,
) -> Result<std::result::Result<Vec<Claim>, JournalError>> {
    sweep(db, database)?;
    if !is_registered(db, me)? {
        return Ok(Err(JournalError::LeaseLost(Arc::clone(&me.name))));
    }
    let now = now();
    db.prepare_cached(
        "UPDATE run SET state = ?1, reason = ?2, token = NULL WHERE state = 0 AND ready_at <= ?3 AND attempts >= ?4",
    )?
    .execute(params![QUARANTINED, quarantine_reason(CLAIMS_MAX), now, CLAIMS_MAX])?;
    let children = if filter.children_only { "AND parent IS NOT NULL" } else { "" };
    let mut update = db.prepare_cached(&format!(
        "UPDATE run SET state = ?1, owner = ?2, owner_name = ?3, epoch = epoch + 1, token = randomblob(16),
                        attempts = attempts + 1
         WHERE n IN (SELECT n FROM run WHERE state = 0 AND ready_at <= ?4 {children} AND (?7 IS NULL OR id = ?7)
                     AND (?5 IS NULL OR code_version IN (SELECT value FROM json_each(?5)))
                     ORDER BY ready_at LIMIT ?6)
         RETURNING id, epoch, token, head, attempts, last_at, written_at, code_version, config"
    ))?;
    let claims = update.query_map(
        params![
            DRIVEN,
            &*me.incarnation,
            &*me.name,
            now,
            versions(filter),
            int(want as u64),
            filter.only.map(Id)
        ],
        |row| {
            let Id(run) = row.get(0)?;
            let since_us = now.saturating_sub(row.get(6)?);
            Ok(Claim {
                fence: Fence { run, epoch: uint(row.get(1)?), token: u128::from_be_bytes(row.get(2)?) },
                head: uint(row.get(3)?),
                attempts: row.get(4)?,
                last_at: Timestamp::from_micros(uint(row.get(5)?)),
                since_last: std::time::Duration::from_micros(uint(since_us)),
                code_version: row.get(7)?,
                config: row.get::<_, Option<[u8; 32]>>(8)?.map(BlobHash),
            })
        },
    )?;
    claims.collect::<Result<_>>().map(Ok)
}

/// The versions of a filter as a list in JSON; none for any.
fn versions(filter: &ClaimFilter) -> Option<String> {
    let versions = filter.code_versions.as_ref()?;
    let versions: Vec<&str> = versions.iter().map(|version| &**version).collect();
    serde_json::to_string(&versions).ok()
}

pub(super) fn reopen(db: &Connection, run: RunId) -> Result<std::result::Result<bool, JournalError>> {
    if super::runs::number(db, run)?.is_none() {
        return Ok(Err(JournalError::NoSuchRun(run)));
    }
    let changed = db
        .prepare_cached(
            "UPDATE run SET state = 0, reason = NULL, attempts = 0, ready_at = ?1 WHERE id = ?2 AND state IN (?3, ?4)",
        )?
        .execute(params![now(), Id(run), PAUSED, QUARANTINED])?;
    Ok(Ok(changed == 1))
}

pub(super) fn list(db: &Connection, query: ListQuery) -> Result<Vec<RunMeta>> {
    let now = now();
    // With a root of its own in the text, the index of roots serves.
    let of_root = if query.root.is_some() { "root = ?4" } else { "?4 IS NULL" };
    let mut select = db.prepare_cached(&format!(
        "SELECT id, state, reason, head, epoch, owner_name, attempts, ready_at, code_version, config, parent,
                (SELECT count(*) FROM letter WHERE run = n AND taken_at_seq IS NULL),
                (SELECT count(*) FROM late_result WHERE run = n),
                (SELECT max(seq) FROM snapshot WHERE run = n), agent, root,
                (SELECT written_at FROM event WHERE run = n AND seq = 1),
                (SELECT written_at FROM event WHERE run = n AND seq = head)
         FROM run WHERE (?1 IS NULL OR state = ?1) AND (?2 IS NULL OR id > ?2) AND {of_root} ORDER BY id LIMIT ?3",
    ))?;
    let metas = select.query_map(
        params![query.state.map(number_of), query.after.map(Id), int(query.limit as u64), query.root.map(Id)],
        |row| {
            let Id(run) = row.get(0)?;
            let state = state_of(row.get(1)?);
            let wait_us =
                if state == RunState::Ready { row.get::<_, i64>(7)?.saturating_sub(now) } else { 0 };
            let since = |column| {
                let us = now.saturating_sub(row.get(column)?);
                Ok::<_, rusqlite::Error>(std::time::Duration::from_micros(uint(us)))
            };
            Ok(RunMeta {
                run,
                agent: row.get(14)?,
                state,
                reason: row.get(2)?,
                head: uint(row.get(3)?),
                epoch: uint(row.get(4)?),
                owner: row.get(5)?,
                attempts: row.get(6)?,
                ready_in: std::time::Duration::from_micros(uint(wait_us)),
                code_version: row.get(8)?,
                config: row.get::<_, Option<[u8; 32]>>(9)?.map(BlobHash),
                parent: row.get::<_, Option<Id>>(10)?.map(|Id(run)| run),
                letters: uint(row.get(11)?),
                late_results: uint(row.get(12)?),
                snapshot: row.get::<_, Option<i64>>(13)?.map(uint),
                root: row.get::<_, Option<Id>>(15)?.map(|Id(run)| run),
                age: since(16)?,
                since_last: since(17)?,
            })
        },
    )?;
    metas.collect()
}

/// From the letters to the runs: there are few that are unread, and many runs.
pub(super) fn with_news(db: &Connection, me: &Owner) -> Result<Vec<RunId>> {
    let mut select = db.prepare_cached(
        "SELECT run.id FROM letter INDEXED BY letter_unread CROSS JOIN run ON run.n = letter.run
         WHERE letter.taken_at_seq IS NULL AND run.owner = ?1
         GROUP BY letter.run ORDER BY min(letter.rowid) LIMIT ?2",
    )?;
    let runs = select
        .query_map(params![&*me.incarnation, int(NEWS_MAX as u64)], |row| row.get(0).map(|Id(run)| run))?;
    runs.collect()
}

pub(super) fn counts(db: &Connection, database: &Path, filter: &ClaimFilter) -> Result<RunCounts> {
    let mut counts = RunCounts::default();
    let mut select = db.prepare_cached("SELECT state, count(*) FROM run GROUP BY state")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let count = uint(row.get(1)?);
        match row.get::<_, i64>(0)? {
            READY => counts.ready = count,
            DRIVEN => counts.driven = count,
            PAUSED => counts.paused = count,
            QUARANTINED => counts.quarantined = count,
            ENDED => counts.ended = count,
            _ => {}
        }
    }
    let dead = serde_json::to_string(&dead(db, database)?).unwrap_or_default();
    let versions = versions(filter);
    let unfit = |of: &str| {
        format!(
            "SELECT count(*), count(*) FILTER (WHERE ?1 IS NOT NULL AND code_version NOT IN
             (SELECT value FROM json_each(?1))) FROM run WHERE {of}"
        )
    };
    let two = |row: &rusqlite::Row<'_>| Ok((uint(row.get(0)?), uint(row.get(1)?)));
    let (orphaned, of_orphaned) = db
        .prepare_cached(&unfit("owner IN (SELECT value FROM json_each(?2))"))?
        .query_row(params![versions, dead], two)?;
    let (_, of_ready) = db.prepare_cached(&unfit("state = 0"))?.query_row(params![versions], two)?;
    counts.orphaned = orphaned;
    counts.driven = counts.driven.saturating_sub(orphaned);
    counts.unclaimable = of_orphaned + of_ready;
    Ok(counts)
}
