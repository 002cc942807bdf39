//! What only a file can break: many processes at one lock, readers that stay, a disk that is full.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::Alarm;
use dauntless_journal::Sqlite;

use crate::cast::{Store, append, create, noise};
use crate::child::Process;
use crate::rig::{Folder, Rig};

const SECONDS: u64 = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dur_29_eight_processes_take_turns_at_one_file() {
    let rig = Rig::sqlite_file().await;
    rig.open().await;
    let mut processes: Vec<Process> = (0..8)
        .map(|n| Process::start(&rig.address(), &format!("load {} {SECONDS}", 100 * (n + 1))))
        .collect();
    let mut appends = Vec::new();
    for process in &mut processes {
        let said = process.says().expect("no process fails");
        let [_, count, longest_ms] = said.split(' ').collect::<Vec<_>>()[..] else { panic!("{said}") };
        appends.push(count.parse::<u64>().unwrap());
        let longest_ms: u64 = longest_ms.parse().unwrap();
        // A second on a machine that does nothing else; a check may share it with anything.
        assert!(longest_ms < 20_000, "one append waited {longest_ms} ms");
    }
    let (least, most) = (appends.iter().min().unwrap(), appends.iter().max().unwrap());
    // Twice as much on a machine that does nothing else: whoever is not scheduled takes no turns.
    assert!(most < &(least * 10), "{appends:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dur_30_an_abandoned_reader_blocks_no_writer() {
    let folder = Folder::new("reader");
    let rig = Rig::Sqlite(folder);
    let store = rig.open().await;
    let fence = create(&store, 1).await;
    let mut bytes = noise(4_000_000, 1).into_bytes();
    for head in 1..=25 {
        bytes[0] = u8::try_from(head).unwrap();
        store.put_blob(fence.run, bytes.clone().into()).await.unwrap();
        append(&store, &fence, head, "x").await;
        // Asked and dropped before the answer.
        let _ = tokio::time::timeout(Duration::ZERO, store.read(fence.run, 0, 1000)).await;
    }
    let Rig::Sqlite(folder) = &rig else { unreachable!() };
    let wal = std::fs::metadata(folder.path().join("journal.db-wal")).unwrap().len();
    assert!(wal < 64 << 20, "the log has {wal} bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dur_30_a_reader_that_does_not_end_is_told_of_and_its_log_shrinks_after_it() {
    let folder = Folder::new("foreign");
    let store: Store = Arc::new(Sqlite::open(folder.database()).unwrap());
    let fence = create(&store, 1).await;
    let reader = folder.raw();
    reader.execute_batch("BEGIN; SELECT count(*) FROM event").unwrap();
    let log = || std::fs::metadata(folder.path().join("journal.db-wal")).unwrap().len();
    let mut bytes = noise(8_000_000, 1).into_bytes();
    let mut blob = 0;
    while log() <= 64 << 20 {
        assert_eq!(store.alarms(Duration::ZERO).await.unwrap(), []);
        blob += 1;
        bytes[0] = blob;
        let write = store.put_blob(fence.run, bytes.clone().into());
        tokio::time::timeout(Duration::from_secs(20), write).await.expect("no writer waits").unwrap();
    }
    let alarms = store.alarms(Duration::ZERO).await.unwrap();
    assert!(matches!(alarms[..], [Alarm::LogTooLarge { bytes }] if bytes > 64 << 20), "{alarms:?}");
    reader.execute_batch("COMMIT").unwrap();
    for head in 1..=3 {
        append(&store, &fence, head, "x").await;
    }
    assert!(log() <= 64 << 20, "{} bytes are left", log());
    assert_eq!(store.alarms(Duration::ZERO).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_schema_is_refused() {
    let folder = Folder::new("newer");
    drop(Sqlite::open(folder.database()).unwrap());
    folder.raw().pragma_update(None, "user_version", 99).unwrap();
    let refused = Sqlite::open(folder.database()).unwrap_err().to_string();
    assert!(
        refused.contains("has schema 99, this program knows up to 5: use the newer program"),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_failed_write_the_process_must_end_and_nothing_acknowledged_is_lost() {
    let rig = Rig::sqlite_file().await;
    rig.open().await;
    let mut process = Process::start_on_a_small_disk(&rig.address(), "fill");
    let mut acked = 0;
    let last = loop {
        let said = process.says().expect("the worker says how it failed");
        match said.strip_prefix("ack ") {
            Some(head) => acked = head.parse().unwrap(),
            None => break said,
        }
    };
    assert!(last.starts_with("fatal fatal the journal failed and this process must end: "), "{last}");
    drop(process);
    let store = rig.open().await;
    let there = store.read(crate::cast::run(1), 0, 1000).await.unwrap().len() as u64;
    assert!(acked > 3 && there >= acked, "{acked} acknowledged, {there} there");
    append(&store, &crate::cast::fence(1), there, "goes on").await;
}
