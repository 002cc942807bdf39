//! A server whose copy takes its place: what was acknowledged is there when the copy is synchronous,
//! and an owner that the copy does not know is refused when it is not.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dauntless_contract::{AppendError, ClaimFilter};
use dauntless_journal::{Postgres, PostgresConfig};

use crate::cast::{LONG, Store, append, create, event, fence, names, run, worker};
use crate::cluster::Server;

fn directory(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("dauntless-journal-{name}-{}", std::process::id()))
}

/// A handle that knows both servers and goes to the one that takes writes.
async fn connect(servers: [&Server; 2]) -> Store {
    let hosts = servers.map(|server| server.host()).join(",");
    let url = format!("host={hosts} user=tester dbname=postgres sslmode=disable");
    Arc::new(Postgres::connect(PostgresConfig::new(&url)).await.unwrap())
}

fn pair(name: &str) -> (Server, Server) {
    let (first, second) = (directory(&format!("{name}-a")), directory(&format!("{name}-b")));
    let primary = Server::new(&first);
    let standby = primary.standby(&second);
    (primary, standby)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dur_36_a_synchronous_copy_takes_over_and_has_all_that_was_acknowledged() {
    let (mut primary, standby) = tokio::task::spawn_blocking(|| pair("sync")).await.unwrap();
    primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'").await;
    primary.execute("SELECT pg_reload_conf()").await;
    primary.wait_for("SELECT sync_state = 'sync' FROM pg_stat_replication").await;
    let store = connect([&primary, &standby]).await;
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (1..=4)
        .map(|n| {
            let (store, stop) = (Arc::clone(&store), Arc::clone(&stop));
            tokio::spawn(async move {
                let fence = create(&store, n).await;
                let mut head = 1;
                while !stop.load(Ordering::Relaxed) {
                    head = store.append(&fence, head, vec![event(&head.to_string())]).await.unwrap();
                }
                head
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(500)).await;
    primary.kill();
    standby.promote();
    tokio::time::sleep(Duration::from_secs(2)).await;
    stop.store(true, Ordering::Relaxed);
    for (n, writer) in (1..).zip(writers) {
        let head = writer.await.unwrap();
        let expected: Vec<String> =
            std::iter::once("start".to_owned()).chain((1..head).map(|head| head.to_string())).collect();
        assert!(head > 3, "run {n} came to {head}");
        assert_eq!(names(&store, run(n)).await, expected, "none lost, none doubled");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dur_36_an_owner_that_an_asynchronous_copy_does_not_know_is_stopped() {
    let (mut primary, mut standby) = tokio::task::spawn_blocking(|| pair("async")).await.unwrap();
    let old = connect([&primary, &standby]).await;
    create(&old, 1).await;
    append(&old, &fence(1), 1, "copied").await;
    let give_back = dauntless_contract::Release::Ready { after: Duration::ZERO };
    old.release(&fence(1), give_back).await.unwrap();
    primary.wait_for("SELECT replay_lsn = pg_current_wal_lsn() FROM pg_stat_replication").await;
    standby.stop();
    // What happens from here on, the copy will never know of.
    old.register(worker("old", LONG)).await.unwrap();
    let lost = old.claim(1, ClaimFilter::default()).await.unwrap().remove(0).fence;
    append(&old, &lost, 2, "acknowledged and lost").await;
    primary.kill();
    standby.start_again();
    standby.promote();
    let new = connect([&primary, &standby]).await;
    new.register(worker("new", LONG)).await.unwrap();
    let claimed = new.claim(1, ClaimFilter::default()).await.unwrap().remove(0);
    assert_eq!((claimed.head, claimed.fence.epoch), (2, lost.epoch), "the copy counts the same epoch again");
    for expected in [2, 3] {
        let refused = old.append(&lost, expected, vec![event("zombie")]).await;
        assert!(matches!(refused, Err(AppendError::Fenced { .. })), "{refused:?}");
    }
    append(&new, &claimed.fence, 2, "goes on").await;
    assert_eq!(names(&new, run(1)).await, ["start", "copied", "goes on"]);
}
