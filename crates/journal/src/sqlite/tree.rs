//! What the runs of one tree share, as statements of one transaction.

use dauntless_contract::{ChildRun, JournalError, Letter, Pad, Posted, RunId};
use rusqlite::{Connection, OptionalExtension, Result, params};

use super::notes::send;
use super::runs::number;
use super::value::{ENDED, Id, int, state_of, uint};

type Answer<T> = Result<std::result::Result<T, JournalError>>;

pub(super) fn post(db: &Connection, run: RunId, letter: &Letter, unread_max: usize) -> Answer<Posted> {
    let found = db
        .prepare_cached(
            "SELECT state, (SELECT count(*) FROM letter WHERE run = n AND taken_at_seq IS NULL),
                    EXISTS (SELECT 1 FROM letter WHERE run = n AND id = ?2)
             FROM run WHERE id = ?1",
        )?
        .query_row(params![Id(run), &*letter.id], |row| {
            Ok((row.get::<_, i64>(0)?, uint(row.get(1)?), row.get::<_, bool>(2)?))
        })
        .optional()?;
    Ok(match found {
        None => Err(JournalError::NoSuchRun(run)),
        Some((.., true)) => Ok(Posted::Again),
        Some((ENDED, ..)) => Ok(Posted::Ended),
        Some((_, unread, _)) if unread >= unread_max as u64 => Ok(Posted::Full),
        Some(_) => send(db, run, letter)?.map(|_| Posted::New),
    })
}

pub(super) fn children(db: &Connection, parent: RunId) -> Result<Vec<ChildRun>> {
    let mut select = db.prepare_cached("SELECT id, agent, state FROM run WHERE parent = ?1 ORDER BY n")?;
    let children = select.query_map([Id(parent)], |row| {
        let Id(run) = row.get(0)?;
        Ok(ChildRun { run, agent: row.get(1)?, state: state_of(row.get(2)?) })
    })?;
    children.collect()
}

pub(super) fn pad(db: &Connection, root: RunId) -> Answer<Option<Pad>> {
    let Some(n) = number(db, root)? else { return Ok(Err(JournalError::NoSuchRun(root))) };
    db.prepare_cached("SELECT version, body FROM pad WHERE run = ?1")?
        .query_row([n], |row| Ok(Pad { version: uint(row.get(0)?), body: row.get::<_, Vec<u8>>(1)?.into() }))
        .optional()
        .map(Ok)
}

pub(super) fn put_pad(db: &Connection, root: RunId, expected: u64, body: &[u8]) -> Answer<bool> {
    let Some(n) = number(db, root)? else { return Ok(Err(JournalError::NoSuchRun(root))) };
    let statement = match expected {
        0 => "INSERT OR IGNORE INTO pad (run, version, body) VALUES (?1, ?2 + 1, ?3)",
        _ => "UPDATE pad SET version = version + 1, body = ?3 WHERE run = ?1 AND version = ?2",
    };
    Ok(Ok(db.prepare_cached(statement)?.execute(params![n, int(expected), body])? == 1))
}
