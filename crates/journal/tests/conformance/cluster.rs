//! The PostgreSQL server that the processes of this test program share. Each holds a lock while it
//! lives; a keeper, which is this program as well, ends the server when nobody has held it for a
//! while.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::postgres_server::{log, url};

pub(crate) use crate::postgres_server::Server;

const KEPT: &str = "JOURNAL_TEST_KEEP";
/// How often in a row, a second apart, nobody must be there.
const IDLE_CHECKS: u32 = 5;

impl Server {
    /// A connection past the store.
    async fn raw(&self) -> tokio_postgres::Client {
        let (client, connection) = tokio_postgres::connect(&self.url(), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    pub(crate) async fn execute(&self, statement: &str) {
        self.raw().await.execute(statement, &[]).await.unwrap();
    }

    /// Waits until a statement answers yes.
    pub(crate) async fn wait_for(&self, statement: &str) {
        let (client, started) = (self.raw().await, Instant::now());
        loop {
            let row = client.query_opt(statement, &[]).await.unwrap();
            if row.and_then(|row| row.get::<_, Option<bool>>(0)) == Some(true) {
                return;
            }
            assert!(started.elapsed() < Duration::from_secs(30), "never: {statement}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn shared_dir() -> PathBuf {
    // A socket's path is short, and each checkout has a server of its own.
    let mut hasher = DefaultHasher::new();
    env!("CARGO_TARGET_TMPDIR").hash(&mut hasher);
    std::env::temp_dir().join(format!("dauntless-journal-{:016x}", hasher.finish()))
}

fn lock_file(name: &str) -> File {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    File::options().create(true).truncate(false).write(true).open(path).unwrap()
}

/// The address of the server that all processes of this program share; started by the first.
pub(crate) fn shared_url() -> String {
    let (dir, users, starter) = (shared_dir(), lock_file("postgres-users"), lock_file("postgres-starter"));
    users.lock_shared().unwrap();
    starter.lock().unwrap();
    if !dir.join("keeper-is-there").exists() {
        let _ = std::fs::remove_dir_all(&dir);
        Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "cluster::keep_the_server"])
            .env(KEPT, &dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map(drop)
            .unwrap();
        let started = Instant::now();
        while !dir.join("keeper-is-there").exists() {
            assert!(started.elapsed() < Duration::from_secs(90), "no server: {}", log(&dir));
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    drop(starter);
    // The lock lasts as long as this process.
    std::mem::forget(users);
    url(&dir)
}

#[test]
#[ignore = "the body of the process that keeps the shared server"]
fn keep_the_server() {
    let Some(dir) = std::env::var_os(KEPT).map(PathBuf::from) else { return };
    let server = Server::new(&dir);
    std::fs::write(dir.join("keeper-is-there"), "").unwrap();
    let users = lock_file("postgres-users");
    let mut idle = 0;
    while idle < IDLE_CHECKS {
        std::thread::sleep(Duration::from_secs(1));
        idle = match users.try_lock() {
            // Held until the server has ended, so that whoever comes now waits and starts another.
            Ok(()) if idle + 1 == IDLE_CHECKS => IDLE_CHECKS,
            Ok(()) => {
                users.unlock().unwrap();
                idle + 1
            }
            Err(_) => 0,
        };
    }
    drop(server);
}
