//! What only a server can break: connections that end under a statement, its own end, and a
//! transaction that somebody else keeps open.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dauntless_contract::{Alarm, JournalError, Release, SharedJournal};
use dauntless_journal::{Postgres, PostgresConfig};

use crate::cast::{Store, append, claim, create, event, names, run};
use crate::cluster::Server;
use crate::rig::{Database, Rig};

/// Appends numbered events to a run until told otherwise; answers how many.
fn appending(
    store: &Store,
    n: u128,
    until: Arc<std::sync::atomic::AtomicBool>,
) -> tokio::task::JoinHandle<u64> {
    let store = Arc::clone(store);
    tokio::spawn(async move {
        let fence = create(&store, n).await;
        let mut head = 1;
        while !until.load(std::sync::atomic::Ordering::Relaxed) {
            head = store.append(&fence, head, vec![event(&head.to_string())]).await.unwrap();
        }
        head
    })
}

async fn assert_whole(store: &Store, n: u128, head: u64) {
    let expected: Vec<String> =
        std::iter::once("start".to_owned()).chain((1..head).map(|head| head.to_string())).collect();
    assert_eq!(names(store, run(n)).await, expected, "none lost, none doubled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dur_31_broken_connections_lose_and_double_no_append() {
    let rig = Rig::postgres().await;
    let store = rig.open().await;
    let stop = Arc::default();
    let writers: Vec<_> = (1..=8).map(|n| appending(&store, n, Arc::clone(&stop))).collect();
    let Rig::Postgres(database) = &rig else { unreachable!() };
    let other = database.raw().await;
    let mut ended = 0;
    for _ in 0..25 {
        tokio::time::sleep(Duration::from_millis(60)).await;
        ended += other
            .execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                 WHERE application_name = $1 AND pid <> pg_backend_pid()",
                &[&database.name],
            )
            .await
            .unwrap();
    }
    assert!(ended >= 5, "{ended} connections were ended");
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    for (n, writer) in (1..).zip(writers) {
        let head = writer.await.unwrap();
        assert!(head > 3, "run {n} came to {head}");
        assert_whole(&store, n, head).await;
    }
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dur_31_a_claim_whose_answer_was_lost_strands_no_run() {
    let rig = Rig::postgres().await;
    let (store, enqueue) = (rig.worker("a").await, rig.open().await);
    for n in 1..=200 {
        create(&enqueue, n).await;
    }
    let Rig::Postgres(database) = &rig else { unreachable!() };
    let other = database.raw().await;
    let killer = tokio::spawn({
        let name = database.name.clone();
        async move {
            for _ in 0..40 {
                let statement =
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1";
                other.execute(statement, &[&name]).await.unwrap();
                tokio::time::sleep(Duration::from_millis(25)).await;
            }
        }
    });
    let mut claimed = std::collections::BTreeSet::new();
    let mut failed = 0;
    while !killer.is_finished() || failed > 0 {
        failed = 0;
        match store.claim(1, Default::default()).await {
            Ok(claims) => {
                for claim in claims {
                    assert!(claimed.insert(claim.fence.run), "handed out twice");
                }
            }
            Err(JournalError::Unavailable(_)) => failed = 1,
            Err(other) => panic!("{other}"),
        }
    }
    claimed.extend(claim(&store, 1000).await.into_iter().map(|claim| claim.fence.run));
    claimed.extend(claim(&store, 1000).await.into_iter().map(|claim| claim.fence.run));
    assert_eq!(claimed.len(), 200);
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dur_31_a_connection_that_idles_while_a_model_thinks_is_made_again() {
    let rig = Rig::postgres().await;
    let Rig::Postgres(database) = &rig else { unreachable!() };
    let url = database.url().replace("options='", "options='-c idle_session_timeout=200ms ");
    let store: Store = Arc::new(Postgres::connect(PostgresConfig::new(&url)).await.unwrap());
    store.register(crate::cast::worker("a", crate::cast::LONG)).await.unwrap();
    let fence = create(&store, 1).await;
    for head in 1..=3 {
        tokio::time::sleep(Duration::from_millis(700)).await;
        append(&store, &fence, head, &head.to_string()).await;
        store.renew().await.unwrap();
    }
    assert_whole(&store, 1, 4).await;
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dur_31_a_server_that_crashes_loses_and_doubles_no_append() {
    let dir = std::env::temp_dir().join(format!("dauntless-journal-crash-{}", std::process::id()));
    let mut server = Server::new(&dir);
    let store: Store = Arc::new(Postgres::connect(PostgresConfig::new(&server.url())).await.unwrap());
    let stop = Arc::default();
    let writers: Vec<_> = (1..=4).map(|n| appending(&store, n, Arc::clone(&stop))).collect();
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        server.crash_and_restart();
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    for (n, writer) in (1..).zip(writers) {
        let head = writer.await.unwrap();
        assert_whole(&store, n, head).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dur_32_a_transaction_left_open_elsewhere_slows_claims_little() {
    let rig = Rig::postgres().await;
    let store = rig.worker("a").await;
    for n in 1..=64 {
        create(&store, n).await;
        store.release(&crate::cast::fence(n), Release::Ready { after: Duration::ZERO }).await.unwrap();
    }
    // Claims and gives back for a while; how many claims a second.
    let rate = async |seconds: f64| {
        let (started, mut claims) = (Instant::now(), 0);
        while started.elapsed().as_secs_f64() < seconds {
            for claimed in claim(&store, 32).await {
                store.release(&claimed.fence, Release::Ready { after: Duration::ZERO }).await.unwrap();
                claims += 1;
            }
        }
        f64::from(claims) / started.elapsed().as_secs_f64()
    };
    let before = rate(1.5).await;
    let Rig::Postgres(database) = &rig else { unreachable!() };
    let other = database.raw().await;
    other.batch_execute("SET application_name = 'somebody else'").await.unwrap();
    other.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM run").await.unwrap();
    let during = rate(3.0).await;
    let alarms = store.alarms(Duration::from_secs(2)).await.unwrap();
    let held =
        |alarm: &&Alarm| alarm.to_string().starts_with(&format!("{} has kept a transaction", database.name));
    assert_eq!(alarms.iter().filter(held).count(), 0, "the store's own are short");
    let held = |alarm: &&Alarm| alarm.to_string().starts_with("somebody else (process ");
    assert_eq!(alarms.iter().filter(held).count(), 1, "{alarms:?}");
    other.batch_execute("COMMIT").await.unwrap();
    assert!(during > before / 2.0, "{before:.0} claims a second before, {during:.0} during");
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dur_16_no_clock_of_a_client_enters_a_condition() {
    let rig = Rig::postgres().await;
    let (owner, other) = (rig.worker("owner").await, rig.worker("other").await);
    let fence = create(&owner, 1).await;
    // The times of events are the client's, here of one whose clock is an hour ahead, then behind.
    let now_us = 1_800_000_000_000_000;
    for (head, hours) in [(1, 1), (2, 1)] {
        owner.append(&fence, head, vec![crate::cast::at(now_us + hours * 3_600_000_000, "x")]).await.unwrap();
    }
    assert_eq!(claim(&other, 9).await, []);
    owner.release(&fence, Release::Ready { after: Duration::ZERO }).await.unwrap();
    let claimed = claim(&other, 9).await.remove(0);
    assert!(claimed.since_last < Duration::from_secs(60), "{claimed:?}");
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dur_25_a_worker_refuses_a_newer_schema() {
    let rig = Rig::postgres().await;
    let store = rig.open().await;
    let Rig::Postgres(database) = &rig else { unreachable!() };
    database.raw().await.execute("INSERT INTO meta (schema_version) VALUES (99)", &[]).await.unwrap();
    let refused = Postgres::connect(PostgresConfig::new(&database.url())).await.unwrap_err();
    assert!(matches!(refused, JournalError::Fatal(_)), "{refused:?}");
    assert!(
        refused.to_string().contains("the database has schema 99, this program knows up to 5"),
        "{refused}"
    );
    let fence = create(&store, 1).await;
    append(&store, &fence, 1, "who was there before goes on").await;
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_workers_bring_one_database_up_to_date() {
    let rig = Rig::postgres().await;
    let mut tasks = tokio::task::JoinSet::new();
    let Rig::Postgres(database) = &rig else { unreachable!() };
    for _ in 0..8 {
        let url = database.url();
        tasks.spawn(async move { Postgres::connect(PostgresConfig::new(&url)).await.map(drop) });
    }
    for connected in tasks.join_all().await {
        connected.unwrap();
    }
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_has_at_most_four_connections() {
    let rig = Rig::postgres().await;
    let store = rig.worker("a").await;
    for n in 1..=50 {
        create(&store, n).await;
        append(&store, &crate::cast::fence(n), 1, "b").await;
    }
    claim(&store, 9).await;
    let Rig::Postgres(Database { name, .. }) = &rig else { unreachable!() };
    let Rig::Postgres(database) = &rig else { unreachable!() };
    let count: i64 = database
        .raw()
        .await
        .query_one("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", &[name])
        .await
        .unwrap()
        .get(0);
    assert!(count <= 4, "{count} connections");
    let _: &Arc<dyn SharedJournal> = &store;
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_loses_what_it_acknowledged_is_refused() {
    let dir = std::env::temp_dir().join(format!("dauntless-journal-fsync-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let server = Server::with(&dir, &["fsync=off"]);
    let refused = Postgres::connect(PostgresConfig::new(&server.url())).await.unwrap_err();
    assert!(refused.to_string().contains("PostgreSQL has fsync = off"), "{refused}");
}

/// An authority and a certificate of it for a server at 127.0.0.1.
fn make_certificates(dir: &Path) {
    std::fs::write(dir.join("names"), "subjectAltName=IP:127.0.0.1").unwrap();
    for line in [
        "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=authority",
        "req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=server",
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out server.pem -extfile names",
    ] {
        let made = Command::new("openssl").args(line.split(' ')).current_dir(dir).output();
        let made = made.expect("openssl is needed: apt-get install openssl");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_is_encrypted_and_the_server_proves_who_it_is() {
    let dir = std::env::temp_dir().join(format!("dauntless-journal-tls-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    make_certificates(&dir);
    let authority = std::fs::read(dir.join("ca.pem")).unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let file = |setting: &str, name: &str| format!("{setting}={}", dir.join(name).display());
    let settings = [
        "listen_addresses=127.0.0.1".to_owned(),
        format!("port={port}"),
        "ssl=on".to_owned(),
        file("ssl_cert_file", "server.pem"),
        file("ssl_key_file", "server.key"),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let _server = Server::with(&dir, &settings);
    let config =
        PostgresConfig::new(&format!("postgresql://tester@127.0.0.1:{port}/postgres?sslmode=require"));
    let stranger = Postgres::connect(config.clone()).await.unwrap_err();
    assert!(matches!(stranger, JournalError::Unavailable(_)), "{stranger:?}");
    let store: Store = Arc::new(Postgres::connect(config.root_certificates(authority)).await.unwrap());
    let fence = create(&store, 1).await;
    append(&store, &fence, 1, "b").await;
    assert_eq!(names(&store, fence.run).await, ["start", "b"]);
}
