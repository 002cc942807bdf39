//! What is kept beside the events of a run, and how all of it goes in the end.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{BlobHash, CallKey, JournalError, LateResult, Letter, RunId, Snapshot};
use rusqlite::{Connection, OptionalExtension, Result, params};

use super::runs::{keep_blob, number};
use super::value::{int, now, uint};
use crate::stored::{decode_record, decode_snapshot, hash_of};
use crate::{SLICE_EVENTS, SLICE_RUNS_MAX};

/// Free pages that one transaction gives back to the filesystem.
const SLICE_PAGES_MAX: u32 = 4096;

type Answer<T> = Result<std::result::Result<T, JournalError>>;

pub(super) fn snapshot(db: &Connection, run: RunId, fold_version: u32) -> Answer<Option<Snapshot>> {
    let Some(n) = number(db, run)? else { return Ok(Err(JournalError::NoSuchRun(run))) };
    let found = db
        .prepare_cached(
            "SELECT seq, body FROM snapshot WHERE run = ?1 AND fold_version = ?2 ORDER BY seq DESC LIMIT 1",
        )?
        .query_row(params![n, fold_version], |row| {
            let body = decode_snapshot(row.get_ref(1)?.as_blob()?);
            let seq = uint(row.get(0)?);
            Ok(body.map(|body| Snapshot { seq, fold_version, body }))
        })
        .optional()?;
    Ok(Ok(found.flatten()))
}

pub(super) fn send(db: &Connection, run: RunId, letter: &Letter) -> Answer<bool> {
    let Some(n) = number(db, run)? else { return Ok(Err(JournalError::NoSuchRun(run))) };
    let new = db
        .prepare_cached("INSERT OR IGNORE INTO letter (run, id, body) VALUES (?1, ?2, ?3)")?
        .execute(params![n, &*letter.id, &*letter.body])?;
    Ok(Ok(new == 1))
}

pub(super) fn letters(db: &Connection, run: RunId) -> Answer<Vec<Letter>> {
    let Some(n) = number(db, run)? else { return Ok(Err(JournalError::NoSuchRun(run))) };
    let mut select = db.prepare_cached(
        "SELECT id, body FROM letter WHERE run = ?1 AND taken_at_seq IS NULL ORDER BY rowid",
    )?;
    let letters = select
        .query_map([n], |row| Ok(Letter { id: row.get(0)?, body: row.get::<_, Vec<u8>>(1)?.into() }))?;
    letters.collect::<Result<_>>().map(Ok)
}

pub(super) fn put_late_result(db: &Connection, late: &LateResult, body: &[u8]) -> Answer<()> {
    let Some(n) = number(db, late.run)? else { return Ok(Err(JournalError::NoSuchRun(late.run))) };
    db.prepare_cached(
        "INSERT OR IGNORE INTO late_result (run, turn, place, epoch, body) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![n, late.call.turn, late.call.index, int(late.epoch), body])?;
    Ok(Ok(()))
}

pub(super) fn late_results(db: &Connection, run: RunId) -> Answer<Vec<LateResult>> {
    let Some(n) = number(db, run)? else { return Ok(Err(JournalError::NoSuchRun(run))) };
    let mut select = db.prepare_cached(
        "SELECT turn, place, epoch, body FROM late_result WHERE run = ?1 ORDER BY turn, place, epoch",
    )?;
    let mut rows = select.query([n])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let call = CallKey { turn: row.get(0)?, index: row.get(1)? };
        match decode_record(row.get_ref(3)?.as_blob()?) {
            Ok(record) => found.push(LateResult { run, call, epoch: uint(row.get(2)?), record }),
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(found))
}

pub(super) fn put_blob(db: &Connection, run: RunId, bytes: &[u8]) -> Answer<BlobHash> {
    let Some(n) = number(db, run)? else { return Ok(Err(JournalError::NoSuchRun(run))) };
    let hash = hash_of(bytes);
    keep_blob(db, n, hash, bytes)?;
    Ok(Ok(hash))
}

pub(super) fn blob(db: &Connection, hash: BlobHash) -> Result<Option<Arc<[u8]>>> {
    db.prepare_cached("SELECT body FROM blob WHERE hash = ?1")?
        .query_row([hash.0], |row| Ok(row.get::<_, Vec<u8>>(0)?.into()))
        .optional()
}

/// Drops a slice of the runs that ended long enough ago, and gives a slice of free pages back.
pub(super) fn drop_ended(db: &Connection, kept: Duration, runs_max: usize) -> Result<usize> {
    let before = now().saturating_sub(i64::try_from(kept.as_micros()).unwrap_or(i64::MAX));
    let mut select = db.prepare_cached(
        "SELECT n FROM (
             SELECT n, sum(head) OVER (ORDER BY written_at, n) - head AS before FROM (
                 SELECT n, head, written_at FROM run WHERE state = 4 AND written_at <= ?1
                 ORDER BY written_at LIMIT ?2)) WHERE before < ?3",
    )?;
    let slice = int(runs_max.min(SLICE_RUNS_MAX) as u64);
    let runs: Vec<i64> = select
        .query_map(params![before, slice, int(SLICE_EVENTS)], |row| row.get(0))?
        .collect::<Result<_>>()?;
    for run in &runs {
        for table in ["event", "snapshot", "letter", "late_result", "pad"] {
            db.prepare_cached(&format!("DELETE FROM {table} WHERE run = ?1"))?.execute([run])?;
        }
        db.prepare_cached(
            "DELETE FROM blob WHERE hash IN (SELECT hash FROM blob_of_run WHERE run = ?1)
             AND NOT EXISTS (SELECT 1 FROM blob_of_run other WHERE other.hash = blob.hash AND other.run <> ?1)",
        )?
        .execute([run])?;
        db.prepare_cached("DELETE FROM blob_of_run WHERE run = ?1")?.execute([run])?;
        db.prepare_cached("DELETE FROM run WHERE n = ?1")?.execute([run])?;
    }
    let mut vacuum = db.prepare(&format!("PRAGMA incremental_vacuum({SLICE_PAGES_MAX})"))?;
    let mut pages = vacuum.query([])?;
    while pages.next()?.is_some() {}
    Ok(runs.len())
}
