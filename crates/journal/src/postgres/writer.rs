//! Gathers the appends that wait into one statement, so that they share one write of the disk. At
//! most one append of a run is in it, sorted by run.
//!
//! When the connection breaks under it, the writer finds out by the id of each append whether it
//! was made, and makes it if not; a caller hears of it only when that takes too long.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{AppendError, Fence, Seq, Timestamp};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::link::{Link, LinkError, REPEAT_PAUSE};
use super::value::{int, run_of, uint, uuid};
use crate::Trouble;
use crate::refusal::{Standing, refusal};
use crate::stored::StoredEvent;

const WAITING_MAX: usize = 1024;
const BATCH_APPENDS_MAX: usize = 1024;
const BATCH_BYTES_MAX: usize = 4 << 20;
/// How long the writer tries to find out what became of a batch.
const RESOLVE_MAX: Duration = Duration::from_secs(60);

/// Appends; of a batch with bodies that are blobs, with the parts that are given.
macro_rules! append_with {
    ($column:literal, $array:literal, $parts:literal) => {
        concat!(
            "
    WITH i AS (
        SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::uuid[], $5::bigint[], $6::bigint[],
                             $7::bigint[], $8::uuid[], $17::boolean[], $18::bytea[])
            AS t (run, head, epoch, token, events, first_at, last_at, append_id, moves, config)),
    g AS (
        UPDATE run SET head = run.head + i.events, last_at = i.last_at, written_at = clock_timestamp(),
                       attempts = CASE WHEN i.moves THEN 0 ELSE run.attempts END,
                       config = coalesce(i.config, run.config)
        FROM i WHERE run.id = i.run AND run.head = i.head AND run.epoch = i.epoch AND run.token = i.token
                 AND run.last_at <= i.first_at
        RETURNING run.id, i.head, i.epoch, i.append_id),
    e AS (
        INSERT INTO event (run, seq, epoch, kind, v, at, written_at, append_id, body", $column, ")
        SELECT g.id, g.head + e.place, g.epoch, e.kind, e.v, e.at, clock_timestamp(), g.append_id, e.body", $column, "
        FROM g JOIN unnest($9::uuid[], $10::bigint[], $11::text[], $12::smallint[], $13::bigint[], $14::bytea[]",
                           $array, ")
            AS e (run, place, kind, v, at, body", $column, ") ON e.run = g.id),
    l AS (
        UPDATE letter SET taken_at_seq = g.head + 1
        FROM g JOIN unnest($15::uuid[], $16::text[]) AS t (run, id) ON t.run = g.id
        WHERE letter.run = t.run AND letter.id = t.id)", $parts, "
    SELECT id FROM g"
        )
    };
}

const APPEND: &str = append_with!("", "", "");

const APPEND_LARGE: &str = append_with!(
    ", body_hash",
    ", $19::bytea[]",
    ",
    t AS (
        SELECT t.* FROM g JOIN unnest($20::uuid[], $21::bytea[], $22::bytea[]) AS t (run, hash, body) ON t.run = g.id
        ORDER BY t.hash),
    b AS (INSERT INTO blob (hash, body) SELECT hash, body FROM t ON CONFLICT DO NOTHING),
    u AS (INSERT INTO blob_of_run (run, hash) SELECT run, hash FROM t ON CONFLICT DO NOTHING)"
);

const MADE: &str = "
    SELECT event.run FROM unnest($1::uuid[], $2::bigint[], $3::uuid[]) AS t (run, seq, append_id)
    JOIN event ON event.run = t.run AND event.seq = t.seq AND event.append_id = t.append_id";

const STANDING: &str = "SELECT id, head, epoch, token, last_at FROM run WHERE id = ANY($1::uuid[])";

/// One append on its way.
pub(super) struct Append {
    pub(super) fence: Fence,
    pub(super) expected: Seq,
    pub(super) events: Vec<StoredEvent>,
    pub(super) letters: Vec<Arc<str>>,
    pub(super) id: Uuid,
    pub(super) reply: oneshot::Sender<Result<Seq, AppendError>>,
}

impl Append {
    fn bytes(&self) -> usize {
        self.events.iter().map(|event| event.body.len()).sum()
    }

    fn first_at(&self) -> Timestamp {
        self.events.first().map_or(Timestamp::MAX, |event| event.at)
    }

    fn last_at(&self) -> Timestamp {
        self.events.last().map_or(Timestamp::ZERO, |event| event.at)
    }

    fn made(self) {
        let head = self.expected + self.events.len() as Seq;
        let _ = self.reply.send(Ok(head));
    }
}

/// Starts the task that writes; it ends when nobody can bring more.
pub(super) fn start(link: Link) -> mpsc::Sender<Append> {
    let (appends, waiting) = mpsc::channel(WAITING_MAX);
    tokio::spawn(write_all(link, waiting));
    appends
}

async fn write_all(link: Link, mut waiting: mpsc::Receiver<Append>) {
    let mut held = VecDeque::new();
    loop {
        if held.is_empty() {
            let Some(first) = waiting.recv().await else { return };
            held.push_back(first);
        }
        while held.len() < BATCH_APPENDS_MAX
            && let Ok(append) = waiting.try_recv()
        {
            held.push_back(append);
        }
        write(&link, gather(&mut held)).await;
    }
}

/// Takes one append of each run, in order of runs, as many as fit; the others stay in their order.
fn gather(held: &mut VecDeque<Append>) -> BTreeMap<Uuid, Append> {
    let (mut batch, mut left, mut bytes) = (BTreeMap::new(), VecDeque::new(), 0);
    while let Some(append) = held.pop_front() {
        let run = uuid(append.fence.run);
        if bytes >= BATCH_BYTES_MAX || batch.contains_key(&run) {
            left.push_back(append);
            continue;
        }
        bytes += append.bytes();
        batch.insert(run, append);
    }
    *held = left;
    batch
}

/// Sees a batch through: every append in it gets its answer.
async fn write(link: &Link, mut batch: BTreeMap<Uuid, Append>) {
    let give_up_at = Instant::now() + RESOLVE_MAX;
    let mut tries = 0;
    while !batch.is_empty() {
        let end = attempt(link, &mut batch, tries > 0).await;
        tries += 1;
        match end {
            Ok(()) => return,
            Err(error) if error.is_collision() && Instant::now() < give_up_at => {}
            Err(error) if error.is_ambiguous() && Instant::now() < give_up_at => {
                tokio::time::sleep(REPEAT_PAUSE).await;
            }
            Err(error) => return fail(batch, error),
        }
    }
}

fn fail(batch: BTreeMap<Uuid, Append>, error: LinkError) {
    let ambiguous = error.is_ambiguous();
    let (Trouble::Unavailable(reason) | Trouble::Fatal(reason)) = error.into();
    for append in batch.into_values() {
        let reason = reason.clone();
        let _ = append.reply.send(Err(match ambiguous {
            true => AppendError::Ambiguous(reason),
            false => AppendError::Unavailable(reason),
        }));
    }
}

/// Writes what is left of a batch, and answers what is settled by that.
async fn attempt(link: &Link, batch: &mut BTreeMap<Uuid, Append>, again: bool) -> Result<(), LinkError> {
    if again {
        settle_made(link, batch).await?;
    }
    let written = send(link, batch).await?;
    settle(batch, &written);
    if batch.is_empty() {
        return Ok(());
    }
    // An earlier try may have come through after it was asked about.
    if again {
        settle_made(link, batch).await?;
    }
    let runs: Vec<Uuid> = batch.keys().copied().collect();
    let mut standings = BTreeMap::new();
    for row in link.query_once(STANDING, &[&runs]).await? {
        let (run, standing) = standing(&row).map_err(LinkError::Said)?;
        standings.insert(run, standing);
    }
    for (run, append) in std::mem::take(batch) {
        let at = append.first_at();
        let refused = refusal(standings.get(&run).copied(), &append.fence, append.expected, Some(at));
        let changed = || AppendError::Unavailable("the run changed while it was looked at; try again".into());
        let _ = append.reply.send(Err(refused.err().unwrap_or_else(changed)));
    }
    Ok(())
}

fn standing(row: &Row) -> Result<(Uuid, Standing), tokio_postgres::Error> {
    let standing = Standing {
        head: uint(row.try_get(1)?),
        epoch: uint(row.try_get(2)?),
        token: row.try_get::<_, Option<Uuid>>(3)?.map(|token| token.as_u128()),
        last_at: Timestamp::from_micros(uint(row.try_get(4)?)),
    };
    Ok((row.try_get(0)?, standing))
}

fn settle(batch: &mut BTreeMap<Uuid, Append>, made: &[Row]) {
    for row in made {
        if let Ok(run) = row.try_get::<_, Uuid>(0)
            && let Some(append) = batch.remove(&run)
        {
            append.made();
        }
    }
}

async fn settle_made(link: &Link, batch: &mut BTreeMap<Uuid, Append>) -> Result<(), LinkError> {
    let (mut runs, mut seqs, mut ids) = (Vec::new(), Vec::new(), Vec::new());
    for (run, append) in batch.iter() {
        runs.push(*run);
        seqs.push(int(append.expected + 1));
        ids.push(append.id);
    }
    let made = link.query_once(MADE, &[&runs, &seqs, &ids]).await?;
    settle(batch, &made);
    Ok(())
}

/// The columns of the appends, events and letters of a batch.
#[derive(Default)]
struct Columns<'a> {
    runs: Vec<Uuid>,
    heads: Vec<i64>,
    epochs: Vec<i64>,
    tokens: Vec<Uuid>,
    counts: Vec<i64>,
    first_ats: Vec<i64>,
    last_ats: Vec<i64>,
    append_ids: Vec<Uuid>,
    event_runs: Vec<Uuid>,
    places: Vec<i64>,
    kinds: Vec<&'a str>,
    versions: Vec<i16>,
    ats: Vec<i64>,
    bodies: Vec<&'a [u8]>,
    letter_runs: Vec<Uuid>,
    letter_ids: Vec<&'a str>,
    /// Of each append, whether its run gets on by it.
    moves: Vec<bool>,
    /// Of each append, the configuration that its run has from then on, where that changes.
    configs: Vec<Option<&'a [u8]>>,
    /// Of each event, where its body is a blob.
    hashes: Vec<Option<&'a [u8]>>,
    blob_runs: Vec<Uuid>,
    blob_hashes: Vec<&'a [u8]>,
    blob_bodies: Vec<&'a [u8]>,
}

async fn send(link: &Link, batch: &BTreeMap<Uuid, Append>) -> Result<Vec<Row>, LinkError> {
    let mut columns = Columns::default();
    for (run, append) in batch {
        columns.add(*run, append);
    }
    let Columns { runs, heads, epochs, tokens, counts, first_ats, last_ats, append_ids, .. } = &columns;
    let Columns { event_runs, places, kinds, versions, ats, bodies, letter_runs, letter_ids, .. } = &columns;
    let Columns { moves, configs, hashes, blob_runs, blob_hashes, blob_bodies, .. } = &columns;
    let values: [&(dyn ToSql + Sync); 22] = [
        runs,
        heads,
        epochs,
        tokens,
        counts,
        first_ats,
        last_ats,
        append_ids,
        event_runs,
        places,
        kinds,
        versions,
        ats,
        bodies,
        letter_runs,
        letter_ids,
        moves,
        configs,
        hashes,
        blob_runs,
        blob_hashes,
        blob_bodies,
    ];
    match values.split_last_chunk::<4>() {
        Some((values, _)) if blob_runs.is_empty() => link.query_once(APPEND, values).await,
        _ => link.query_once(APPEND_LARGE, &values).await,
    }
}

impl<'a> Columns<'a> {
    fn add(&mut self, run: Uuid, append: &'a Append) {
        self.runs.push(run);
        self.heads.push(int(append.expected));
        self.epochs.push(int(append.fence.epoch));
        self.tokens.push(Uuid::from_u128(append.fence.token));
        self.counts.push(int(append.events.len() as u64));
        self.first_ats.push(int(append.first_at().as_micros()));
        self.last_ats.push(int(append.last_at().as_micros()));
        self.append_ids.push(append.id);
        self.moves.push(append.events.iter().any(|event| event.moves));
        let chosen = append.events.iter().rev().find_map(|event| event.config.as_ref());
        self.configs.push(chosen.map(|config| &config.0[..]));
        for (place, event) in (1..).zip(&append.events) {
            self.event_runs.push(run);
            self.places.push(place);
            self.kinds.push(event.kind);
            self.versions.push(i16::try_from(event.version).unwrap_or(i16::MAX));
            self.ats.push(int(event.at.as_micros()));
            self.bodies.push(event.inline());
            self.hashes.push(event.hash.as_ref().map(|hash| &hash.0[..]));
            if let Some((hash, body)) = event.blob() {
                self.blob_runs.push(run);
                self.blob_hashes.push(&hash.0);
                self.blob_bodies.push(body);
            }
        }
        for letter in &append.letters {
            self.letter_runs.push(run);
            self.letter_ids.push(letter);
        }
    }
}

/// Why an append of no events does not fit its run, if it does not.
pub(super) async fn check(link: &Link, fence: &Fence, expected: Seq) -> Result<Seq, AppendError> {
    let rows = link.query(STANDING, &[&vec![uuid(fence.run)]]).await.map_err(Trouble::from)?;
    let standing = match rows.first().map(standing) {
        None => None,
        Some(Ok((run, standing))) => (run_of(run) == fence.run).then_some(standing),
        Some(Err(error)) => return Err(Trouble::from(LinkError::Said(error)).into()),
    };
    refusal(standing, fence, expected, None).map(|()| expected)
}
