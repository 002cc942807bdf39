//! What a run's owner does to it, as statements of one transaction.

use std::sync::Arc;

use dauntless_contract::{
    AppendError, BlobHash, CreateError, Fence, NewRun, ReadError, Recorded, Release, RunId, Seq, Timestamp,
};
use rusqlite::{Connection, OptionalExtension, Result, params};

use super::value::{DRIVEN, ENDED, Id, PAUSED, READY, int, now, uint};
use super::workers::is_registered;
use crate::refusal::{Standing, refusal};
use crate::stored::{PAGE_BYTES_MAX, StoredEvent, decode, hash_of};

/// Snapshots that are kept of one run.
const SNAPSHOTS_KEPT: i64 = 2;

/// Who a new run belongs to.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub(super) incarnation: Arc<str>,
    pub(super) name: Arc<str>,
}

pub(super) fn create(
    db: &Connection,
    new: &NewRun,
    first: &StoredEvent,
    owner: Option<&Owner>,
) -> Result<std::result::Result<(), CreateError>> {
    let NewRun { fence, client_key, agent, parent, root, code_version, config, first: _ } = new;
    let known: Option<Id> = db
        .prepare_cached("SELECT id FROM run WHERE id = ?1 OR client_key = ?2")?
        .query_row(params![Id(fence.run), client_key.as_deref()], |row| row.get(0))
        .optional()?;
    if let Some(Id(run)) = known {
        return Ok(Err(CreateError::Exists(run)));
    }
    let config = config.as_deref().map(|bytes| (hash_of(bytes), bytes));
    // Nobody would look after the runs of a worker that was given up.
    let owner = match owner {
        Some(owner) if is_registered(db, owner)? => Some(owner),
        _ => None,
    };
    db.prepare_cached(
        "INSERT INTO run (id, client_key, parent, code_version, config, state, ready_at, head, last_at, written_at,
                          epoch, token, owner, owner_name, agent, root)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 1, ?8, ?7, ?9, ?10, ?11, ?12, ?13, ?14)",
    )?
    .execute(params![
        Id(fence.run),
        client_key.as_deref(),
        parent.map(Id),
        &**code_version,
        config.map(|(hash, _)| hash.0),
        if owner.is_some() { DRIVEN } else { READY },
        now(),
        int(first.at.as_micros()),
        int(fence.epoch),
        fence.token.to_be_bytes(),
        owner.map(|owner| &*owner.incarnation),
        owner.map(|owner| &*owner.name),
        &**agent,
        root.map(Id),
    ])?;
    let run = db.last_insert_rowid();
    insert_events(db, run, fence.epoch, 1, std::slice::from_ref(first))?;
    if let Some((hash, bytes)) = config {
        keep_blob(db, run, hash, bytes)?;
    }
    Ok(Ok(()))
}

fn insert_events(db: &Connection, run: i64, epoch: u64, first: Seq, events: &[StoredEvent]) -> Result<()> {
    let mut insert = db.prepare_cached(
        "INSERT INTO event (run, seq, epoch, kind, v, at, written_at, body, body_hash)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    let now = now();
    for (seq, event) in (first..).zip(events) {
        let StoredEvent { at, kind, version, hash, .. } = event;
        if let Some((hash, body)) = event.blob() {
            keep_blob(db, run, *hash, body)?;
        }
        insert.execute(params![
            run,
            int(seq),
            int(epoch),
            kind,
            version,
            int(at.as_micros()),
            now,
            event.inline(),
            hash.map(|hash| hash.0)
        ])?;
    }
    Ok(())
}

pub(super) fn keep_blob(db: &Connection, run: i64, hash: BlobHash, bytes: &[u8]) -> Result<()> {
    db.prepare_cached("INSERT OR IGNORE INTO blob (hash, body) VALUES (?1, ?2)")?
        .execute(params![hash.0, bytes])?;
    db.prepare_cached("INSERT OR IGNORE INTO blob_of_run (run, hash) VALUES (?1, ?2)")?
        .execute(params![run, hash.0])?;
    Ok(())
}

pub(super) fn append(
    db: &Connection,
    fence: &Fence,
    expected: Seq,
    events: &[StoredEvent],
    taken: &[Arc<str>],
) -> Result<std::result::Result<Seq, AppendError>> {
    let (Some(first), Some(last)) = (events.first(), events.last()) else {
        return Ok(check(db, fence, expected, None)?.map(|()| expected));
    };
    let head = expected + events.len() as Seq;
    let run: Option<i64> = db
        .prepare_cached(
            "UPDATE run SET head = ?1, last_at = ?2, written_at = ?3,
                            attempts = CASE WHEN ?9 THEN 0 ELSE attempts END, config = coalesce(?10, config)
             WHERE id = ?4 AND head = ?5 AND epoch = ?6 AND token = ?7 AND last_at <= ?8 RETURNING n",
        )?
        .query_row(
            params![
                int(head),
                int(last.at.as_micros()),
                now(),
                Id(fence.run),
                int(expected),
                int(fence.epoch),
                fence.token.to_be_bytes(),
                int(first.at.as_micros()),
                events.iter().any(|event| event.moves),
                events.iter().rev().find_map(|event| event.config).map(|config| config.0)
            ],
            |row| row.get(0),
        )
        .optional()?;
    let Some(run) = run else {
        let refused = check(db, fence, expected, Some(first.at))?;
        return Ok(
            refused.and(Err(AppendError::Unavailable("the run changed while it was looked at".into())))
        );
    };
    insert_events(db, run, fence.epoch, expected + 1, events)?;
    for id in taken {
        db.prepare_cached("UPDATE letter SET taken_at_seq = ?1 WHERE run = ?2 AND id = ?3")?
            .execute(params![int(expected + 1), run, &**id])?;
    }
    Ok(Ok(head))
}

/// Why an append does not fit the run, if it does not.
fn check(
    db: &Connection,
    fence: &Fence,
    expected: Seq,
    first_at: Option<Timestamp>,
) -> Result<std::result::Result<(), AppendError>> {
    let standing = db
        .prepare_cached("SELECT head, epoch, token, last_at FROM run WHERE id = ?1")?
        .query_row([Id(fence.run)], |row| {
            Ok(Standing {
                head: uint(row.get(0)?),
                epoch: uint(row.get(1)?),
                token: row.get::<_, Option<[u8; 16]>>(2)?.map(u128::from_be_bytes),
                last_at: Timestamp::from_micros(uint(row.get(3)?)),
            })
        })
        .optional()?;
    Ok(refusal(standing, fence, expected, first_at))
}

pub(super) fn read(
    db: &Connection,
    run: RunId,
    after: Seq,
    limit: usize,
) -> Result<std::result::Result<Vec<Recorded>, ReadError>> {
    let Some(n) = number(db, run)? else { return Ok(Err(ReadError::NoSuchRun(run))) };
    let mut select = db.prepare_cached(
        "SELECT seq, at, kind, v, coalesce((SELECT blob.body FROM blob WHERE hash = body_hash), body)
         FROM event WHERE run = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
    )?;
    let mut rows = select.query(params![n, int(after), int(limit as u64)])?;
    let (mut events, mut bytes) = (Vec::new(), 0);
    while bytes < PAGE_BYTES_MAX
        && let Some(row) = rows.next()?
    {
        let at = Timestamp::from_micros(uint(row.get(1)?));
        let body = row.get_ref(4)?.as_blob()?;
        bytes += body.len();
        match decode(row.get_ref(2)?.as_str()?, row.get(3)?, body) {
            Ok(event) => events.push(Recorded { at, event }),
            Err(problem) => return Ok(Err(ReadError::Unreadable { run, seq: uint(row.get(0)?), problem })),
        }
    }
    Ok(Ok(events))
}

/// The number of a run in this file.
pub(super) fn number(db: &Connection, run: RunId) -> Result<Option<i64>> {
    db.prepare_cached("SELECT n FROM run WHERE id = ?1")?.query_row([Id(run)], |row| row.get(0)).optional()
}

pub(super) fn release(
    db: &Connection,
    fence: &Fence,
    next: &Release,
) -> Result<std::result::Result<(), AppendError>> {
    let (state, reason, wait) = match next {
        Release::Ready { after } => (READY, None, i64::try_from(after.as_micros()).unwrap_or(i64::MAX)),
        Release::Paused { reason } => (PAUSED, Some(&**reason), 0),
        Release::Ended { reason } => (ENDED, Some(&**reason), 0),
    };
    let now = now();
    let changed = db
        .prepare_cached(
            "UPDATE run SET state = ?1, reason = ?2, ready_at = ?3, token = NULL, owner = NULL, attempts = 0,
                            written_at = CASE WHEN ?1 = 4 THEN ?4 ELSE written_at END
             WHERE id = ?5 AND epoch = ?6 AND token = ?7",
        )?
        .execute(params![
            state,
            reason,
            now.saturating_add(wait),
            now,
            Id(fence.run),
            int(fence.epoch),
            fence.token.to_be_bytes()
        ])?;
    if changed == 1 { Ok(Ok(())) } else { fenced(db, fence).map(Err) }
}

/// The refusal of a write that found no run of its fence.
fn fenced(db: &Connection, fence: &Fence) -> Result<AppendError> {
    let epoch: Option<i64> = db
        .prepare_cached("SELECT epoch FROM run WHERE id = ?1")?
        .query_row([Id(fence.run)], |row| row.get(0))
        .optional()?;
    Ok(match epoch {
        Some(epoch) => AppendError::Fenced { run: fence.run, owner_epoch: uint(epoch) },
        None => AppendError::NoSuchRun(fence.run),
    })
}

pub(super) fn put_snapshot(
    db: &Connection,
    fence: &Fence,
    seq: Seq,
    fold_version: u32,
    body: &[u8],
) -> Result<std::result::Result<(), AppendError>> {
    let run: Option<i64> = db
        .prepare_cached("SELECT n FROM run WHERE id = ?1 AND epoch = ?2 AND token = ?3")?
        .query_row(params![Id(fence.run), int(fence.epoch), fence.token.to_be_bytes()], |row| row.get(0))
        .optional()?;
    let Some(run) = run else { return fenced(db, fence).map(Err) };
    db.prepare_cached(
        "INSERT OR REPLACE INTO snapshot (run, seq, fold_version, body) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![run, int(seq), fold_version, body])?;
    db.prepare_cached(
        "DELETE FROM snapshot WHERE run = ?1 AND seq NOT IN
         (SELECT seq FROM snapshot WHERE run = ?1 ORDER BY seq DESC LIMIT ?2)",
    )?
    .execute(params![run, SNAPSHOTS_KEPT])?;
    Ok(Ok(()))
}
