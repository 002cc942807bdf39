//! The version before this one, at work on the same database: its statements, from before and after
//! the change of the schema.

use std::time::Duration;

use dauntless_contract::{ListQuery, Recorded, RunEvent, Timestamp};
use dauntless_journal::{Postgres, PostgresConfig, Sqlite};
use rusqlite::params;
use uuid::Uuid;

use crate::cast::{Store, append, claim_within, names, noise, run};
use crate::rig::{Folder, Rig};

const SQLITE_1: &str = include_str!("../../migrations/sqlite-0001.sql");
const POSTGRES_1: &str = include_str!("../../migrations/postgres-0001.sql");

const START: &[u8] = br#"{"by":"start"}"#;
const NEXT: &[u8] = br#"{"by":"written by the version before"}"#;

/// What holds whichever store it was: old and new read and write in turn.
async fn assert_both_work(new: &Store, write_old: &mut dyn FnMut(i64)) {
    assert_eq!(names(new, run(1)).await, ["start"]);
    new.register(crate::cast::worker("new", Duration::from_secs(600))).await.unwrap();
    write_old(2);
    let listed = new.list(ListQuery { state: None, root: None, after: None, limit: 9 }).await.unwrap();
    assert_eq!((listed[0].head, &*listed[0].agent, listed[0].root), (2, "", None));
    assert!(listed[0].age < Duration::from_secs(60), "{listed:?}");
    let claimed = claim_within(new, Duration::from_secs(10)).await.unwrap();
    append(new, &claimed.fence, 2, "written by this version").await;
    let large = noise(100_000, 1);
    let large = Recorded {
        at: Timestamp::from_micros(1_000_000),
        event: RunEvent::CancelRequested { by: large.into() },
    };
    new.append(&claimed.fence, 3, vec![large.clone()]).await.unwrap();
    assert_eq!(new.read(run(1), 3, 9).await.unwrap(), [large]);
    let before = &names(new, run(1)).await[..3];
    assert_eq!(before, ["start", "written by the version before", "written by this version"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dur_25_two_versions_share_a_file() {
    let folder = Folder::new("older");
    let old = folder.raw();
    old.execute_batch("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;").unwrap();
    old.execute_batch(SQLITE_1).unwrap();
    old.pragma_update(None, "user_version", 1).unwrap();
    let id = run(1).as_u128().to_be_bytes();
    let now = i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_micros()).unwrap();
    old.execute(
        "INSERT INTO run (id, client_key, parent, code_version, config, state, ready_at, head, last_at, written_at,
                          epoch, token, owner, owner_name)
         VALUES (?1, NULL, NULL, '', NULL, 0, ?2, 1, 1000000, ?2, 1, ?1, NULL, NULL)",
        params![id, now],
    )
    .unwrap();
    // Prepared before the schema changes, as a worker that goes on has it.
    let insert = "INSERT INTO event (run, seq, epoch, kind, v, at, written_at, body)
                  VALUES (?1, ?2, ?3, 'cancel_requested', 1, 1000000, ?4, ?5)";
    let mut insert = old.prepare(insert).unwrap();
    insert.execute(params![1, 1, 1, now, START]).unwrap();
    let new: Store = std::sync::Arc::new(Sqlite::open(folder.database()).unwrap());
    let mut write_old = |seq: i64| {
        let moved = old.execute("UPDATE run SET head = ?1 WHERE id = ?2 AND token = ?2", params![seq, id]);
        assert_eq!(moved, Ok(1));
        insert.execute(params![1, seq, 1, now, NEXT]).unwrap();
    };
    assert_both_work(&new, &mut write_old).await;
    let mut read = old.prepare("SELECT kind, v, body FROM event WHERE run = 1 AND seq = 3").unwrap();
    let body: Vec<u8> = read.query_row([], |row| row.get(2)).unwrap();
    assert_eq!(body, br#"{"by":"written by this version"}"#, "the version before reads what is not large");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dur_25_two_versions_share_a_database() {
    let rig = Rig::postgres().await;
    let Rig::Postgres(database) = &rig else { unreachable!() };
    let old = database.raw().await;
    old.batch_execute("CREATE TABLE meta (schema_version integer NOT NULL); INSERT INTO meta VALUES (1)")
        .await
        .unwrap();
    old.batch_execute(POSTGRES_1).await.unwrap();
    let id = Uuid::from_u128(run(1).as_u128());
    old.execute(
        "INSERT INTO run (id, client_key, parent, code_version, config, state, ready_at, head, last_at, written_at,
                          epoch, token)
         VALUES ($1, NULL, NULL, '', NULL, 0, clock_timestamp(), 1, 1000000, clock_timestamp(), 1, $1)",
        &[&id],
    )
    .await
    .unwrap();
    // Prepared before the schema changes, as a worker that goes on has it.
    let append = old
        .prepare(
            "WITH g AS (UPDATE run SET head = $2, written_at = clock_timestamp() WHERE id = $1 AND token = $1 RETURNING id)
             INSERT INTO event (run, seq, epoch, kind, v, at, written_at, append_id, body)
             SELECT id, $2, 1, 'cancel_requested', 1, 1000000, clock_timestamp(), gen_random_uuid(), $3 FROM g",
        )
        .await
        .unwrap();
    let read =
        old.prepare("SELECT seq, at, kind, v, body FROM event WHERE run = $1 AND seq = $2").await.unwrap();
    old.execute(&append, &[&id, &1_i64, &START]).await.unwrap();
    let new: Store =
        std::sync::Arc::new(Postgres::connect(PostgresConfig::new(&database.url())).await.unwrap());
    let mut write_old = |seq: i64| {
        let write = async { old.execute(&append, &[&id, &seq, &NEXT]).await.unwrap() };
        let written = tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(write));
        assert_eq!(written, 1);
    };
    assert_both_work(&new, &mut write_old).await;
    let body: Vec<u8> = old.query_one(&read, &[&id, &3_i64]).await.unwrap().get(4);
    assert_eq!(body, br#"{"by":"written by this version"}"#, "the version before reads what is not large");
    rig.end().await;
}
