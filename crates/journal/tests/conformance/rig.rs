//! What a test does to a store from outside: open it, kill a worker, make others think it dead.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use dauntless_contract::RunId;
use dauntless_journal::{Memory, Postgres, PostgresConfig, Sqlite};

use crate::cast::{LONG, Store, worker};

/// The ttl of a worker that is to die.
pub(crate) const SHORT: Duration = Duration::from_millis(700);

/// One empty store.
pub(crate) enum Rig {
    Memory(Memory),
    Sqlite(Folder),
    Postgres(Database),
}

impl Rig {
    pub(crate) async fn memory() -> Self {
        Self::Memory(Memory::default())
    }

    pub(crate) async fn sqlite_file() -> Self {
        Self::Sqlite(Folder::new("sqlite"))
    }

    pub(crate) async fn postgres() -> Self {
        Self::Postgres(Database::new().await)
    }

    /// A handle that is no worker.
    pub(crate) async fn open(&self) -> Store {
        match self {
            Self::Memory(memory) => Arc::new(memory.handle()),
            Self::Sqlite(folder) => Arc::new(Sqlite::open(folder.database()).unwrap()),
            Self::Postgres(database) => {
                Arc::new(Postgres::connect(PostgresConfig::new(&database.url())).await.unwrap())
            }
        }
    }

    /// A worker that lives as long as the test.
    pub(crate) async fn worker(&self, name: &str) -> Store {
        self.worker_for(name, LONG).await
    }

    /// A worker that is to die.
    pub(crate) async fn mortal(&self, name: &str) -> Store {
        self.worker_for(name, SHORT).await
    }

    pub(crate) async fn worker_for(&self, name: &str, ttl: Duration) -> Store {
        let store = self.open().await;
        store.register(worker(name, ttl)).await.unwrap();
        store
    }

    /// Makes everybody think that a mortal worker is dead, which goes on and does not know.
    pub(crate) async fn supplant(&self, name: &str) {
        match self {
            Self::Memory(_) | Self::Postgres(_) => {
                tokio::time::sleep(SHORT + Duration::from_millis(50)).await;
            }
            Self::Sqlite(folder) => {
                let db = folder.raw();
                let incarnation: String = db
                    .query_row("SELECT incarnation FROM worker WHERE name = ?1", [name], |row| row.get(0))
                    .unwrap();
                std::fs::remove_file(format!("{}-worker-{incarnation}", folder.database().display()))
                    .unwrap();
            }
        }
    }

    /// How soon a dead worker's runs must be claimable: the statement's bound, and what a machine
    /// that runs other tests as well may add.
    pub(crate) fn takeover_within(&self) -> Duration {
        match self {
            Self::Memory(_) | Self::Sqlite(_) => Duration::from_millis(50),
            Self::Postgres(_) => SHORT + Duration::from_secs(2),
        }
    }

    /// What a process of its own needs to open the store.
    pub(crate) fn address(&self) -> String {
        match self {
            Self::Memory(_) => panic!("no other process sees a memory store"),
            Self::Sqlite(folder) => format!("sqlite:{}", folder.database().display()),
            Self::Postgres(database) => format!("postgres:{}", database.url()),
        }
    }

    /// The bytes that the events take on the disk; `None` where there is none.
    pub(crate) async fn disk_bytes(&self) -> Option<u64> {
        match self {
            Self::Memory(_) => None,
            Self::Sqlite(folder) => {
                folder.raw().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
                Some(std::fs::metadata(folder.database()).unwrap().len())
            }
            Self::Postgres(database) => {
                // What the server does by itself after a while.
                let db = database.raw().await;
                db.batch_execute("VACUUM event, blob, blob_of_run").await.unwrap();
                let size = "SELECT pg_total_relation_size('event') + pg_total_relation_size('blob')";
                let bytes: i64 = db.query_one(size, &[]).await.unwrap().get(0);
                Some(u64::try_from(bytes).unwrap())
            }
        }
    }

    /// Gives a run large events past the store, which it would take too long to write.
    pub(crate) async fn fill(&self, run: RunId, megabytes: i64) {
        match self {
            Self::Memory(_) => panic!("a memory store is filled by its own process"),
            Self::Sqlite(folder) => {
                let statement =
                    "WITH RECURSIVE many (seq) AS (SELECT 2 UNION ALL SELECT seq + 1 FROM many LIMIT ?1 * 64)
                     INSERT INTO event (run, seq, epoch, kind, v, at, written_at, body)
                     SELECT run.n, many.seq, 1, 'filler', 1, 0, 0, randomblob(16000) FROM many, run WHERE run.id = ?2";
                let id = run.as_u128().to_be_bytes();
                folder.raw().execute(statement, rusqlite::params![megabytes, id]).unwrap();
            }
            Self::Postgres(database) => {
                let statement =
                    "INSERT INTO event (run, seq, epoch, kind, v, at, written_at, append_id, body)
                     SELECT $1, seq, 1, 'filler', 1, 0, clock_timestamp(), $1, convert_to(repeat('x', 16000), 'UTF8')
                     FROM generate_series(2, $2::bigint * 64) seq";
                let id = uuid::Uuid::from_u128(run.as_u128());
                database.raw().await.execute(statement, &[&id, &megabytes]).await.unwrap();
            }
        }
    }

    /// One number that a statement past the store answers.
    pub(crate) async fn number(&self, statement: &str) -> i64 {
        match self {
            Self::Memory(_) => panic!("a memory store has no statements"),
            Self::Sqlite(folder) => folder.raw().query_row(statement, [], |row| row.get(0)).unwrap(),
            Self::Postgres(database) => database.raw().await.query_one(statement, &[]).await.unwrap().get(0),
        }
    }

    /// Makes a stored event look as if another program had written it.
    pub(crate) async fn rewrite(&self, run: RunId, seq: i64, kind: &str, version: i64) {
        match self {
            Self::Memory(_) => panic!("a memory store is never read by another program"),
            Self::Sqlite(folder) => {
                let id = run.as_u128().to_be_bytes();
                let changed = folder.raw().execute(
                    "UPDATE event SET kind = ?1, v = ?2
                     WHERE seq = ?3 AND run = (SELECT n FROM run WHERE id = ?4)",
                    rusqlite::params![kind, version, seq, id],
                );
                assert_eq!(changed, Ok(1));
            }
            Self::Postgres(database) => {
                let id = uuid::Uuid::from_u128(run.as_u128());
                let statement = "UPDATE event SET kind = $1, v = $2 WHERE run = $3 AND seq = $4";
                let version = i16::try_from(version).unwrap();
                let changed = database.raw().await.execute(statement, &[&kind, &version, &id, &seq]).await;
                assert_eq!(changed.unwrap(), 1);
            }
        }
    }

    pub(crate) async fn end(self) {
        if let Self::Postgres(database) = self {
            database.drop_all().await;
        }
    }
}

/// A directory of its own that goes away with the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.path().join("journal.db")
    }

    /// A connection past the store.
    pub(crate) fn raw(&self) -> rusqlite::Connection {
        let db = rusqlite::Connection::open(self.database()).unwrap();
        db.busy_timeout(Duration::from_secs(30)).unwrap();
        db
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A schema of its own in the shared server.
pub(crate) struct Database {
    /// Of the schema, and of every connection to it.
    pub(crate) name: String,
    server: String,
}

impl Database {
    async fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let server = tokio::task::spawn_blocking(crate::cluster::shared_url).await.unwrap();
        let name = format!("t{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let database = Self { name, server };
        let create = format!("DROP SCHEMA IF EXISTS {0} CASCADE; CREATE SCHEMA {0}", database.name);
        database.raw().await.batch_execute(&create).await.unwrap();
        database
    }

    pub(crate) fn url(&self) -> String {
        let Self { name, server } = self;
        format!("{server} application_name={name} options='-c search_path={name}'")
    }

    /// A connection past the store.
    pub(crate) async fn raw(&self) -> tokio_postgres::Client {
        let address = format!("{} options='-c search_path={}'", self.server, self.name);
        let (client, connection) = tokio_postgres::connect(&address, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    async fn drop_all(&self) {
        let statement = format!("SET lock_timeout = '5s'; DROP SCHEMA {} CASCADE", self.name);
        // The schema goes with the server at the latest.
        let _ = self.raw().await.batch_execute(&statement).await;
    }
}
