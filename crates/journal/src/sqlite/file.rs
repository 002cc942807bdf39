//! Opens the database file, or refuses to: an engine with a known defect, a filesystem whose locks
//! other machines do not see, and a setting that acknowledges before the disk has it.

use std::fs::File;
use std::path::{Path, PathBuf};

use dauntless_contract::Alarm;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

/// The numbered steps of the schema, oldest first. A released one never changes.
const MIGRATIONS: [&str; 5] = [
    include_str!("../../migrations/sqlite-0001.sql"),
    include_str!("../../migrations/sqlite-0002.sql"),
    include_str!("../../migrations/sqlite-0003.sql"),
    include_str!("../../migrations/sqlite-0004.sql"),
    include_str!("../../migrations/sqlite-0005.sql"),
];

/// From this version on, a checkpoint beside a reset of the WAL corrupts nothing.
const VERSION_MIN: i32 = 3_051_003;

/// What is left of the write-ahead log, however large it was, once nobody reads in it any more.
const LOG_BYTES_MAX: u32 = 64 << 20;

/// Types of filesystems whose files are on another machine, or may be: their locks and their
/// shared memory do not hold between machines.
const REMOTE: [(i64, &str); 13] = [
    (0x6969, "nfs"),
    (0x517b, "smb"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "fuse"),
    (0x5346_414f, "afs"),
    (0x6b41_4653, "kafs"),
    (0x7375_7245, "coda"),
    (0x00c3_6400, "ceph"),
    (0x0bd0_0bd0, "lustre"),
    (0x4750_4653, "gpfs"),
    (0x0116_1970, "gfs2"),
];

/// Why a journal file was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The engine has a defect that loses data.
    #[error("SQLite {found} can corrupt a write-ahead log; build with 3.51.3 or newer")]
    EngineTooOld {
        /// Its version.
        found: String,
    },
    /// The file is, or may be, on another machine.
    #[error(
        "{path} is on a network filesystem ({kind}), where locks do not hold: use a local disk, or PostgreSQL for \
         several machines"
    )]
    Remote {
        /// The directory.
        path: PathBuf,
        /// The kind of filesystem.
        kind: &'static str,
    },
    /// The engine did not take a setting that durability needs.
    #[error("SQLite has {setting} = {found} where {needed} is needed: remove what overrides it")]
    NotDurable {
        /// The setting.
        setting: &'static str,
        /// What it is.
        found: String,
        /// What it must be.
        needed: &'static str,
    },
    /// A newer version of this program has written the file.
    #[error("{path} has schema {found}, this program knows up to {known}: use the newer program")]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: usize,
        /// The newest that is known.
        known: usize,
    },
    /// The engine failed.
    #[error("SQLite cannot open {path}: {source}")]
    Engine {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: rusqlite::Error,
    },
    /// A file beside the database could not be used.
    #[error("cannot use {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// A path beside the database, with an ending of its own.
pub(super) fn beside(database: &Path, ending: &str) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(ending);
    path.into()
}

/// The lock of whoever writes, among all processes: the system hands it on in order, where the
/// engine's own is a race of sleepers.
pub(super) fn open_baton(database: &Path) -> Result<File, OpenError> {
    let path = beside(database, "-baton");
    let open = File::options().create(true).truncate(false).write(true).open(&path);
    open.map_err(|source| OpenError::File { path, source })
}

/// Opens the connection that writes, and brings the schema up to date.
pub(super) fn open_writer(database: &Path, baton: &File) -> Result<Connection, OpenError> {
    check_engine(rusqlite::version_number(), rusqlite::version())?;
    check_filesystem(database)?;
    let file = |source| OpenError::File { path: database.to_owned(), source };
    baton.lock().map_err(file)?;
    let opened = set_up(database);
    baton.unlock().map_err(file)?;
    opened
}

fn set_up(database: &Path) -> Result<Connection, OpenError> {
    let engine = |source| OpenError::Engine { path: database.to_owned(), source };
    let mut connection = Connection::open(database).map_err(engine)?;
    connection
        .execute_batch(
            "PRAGMA busy_timeout = 30000;
             PRAGMA auto_vacuum = INCREMENTAL;
             PRAGMA journal_mode = WAL;
             PRAGMA synchronous = FULL;
             PRAGMA wal_autocheckpoint = 4000;
             PRAGMA mmap_size = 0;",
        )
        .map_err(engine)?;
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES_MAX).map_err(engine)?;
    check_settings(&connection).map_err(|error| error.with_path(database))?;
    migrate(&mut connection, database)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

fn migrate(connection: &mut Connection, database: &Path) -> Result<(), OpenError> {
    let engine = |source| OpenError::Engine { path: database.to_owned(), source };
    let change = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(engine)?;
    let found: usize =
        change.pragma_query_value(None, "user_version", |row| row.get::<_, u32>(0)).map_err(engine)? as usize;
    let known = MIGRATIONS.len();
    if found > known {
        return Err(OpenError::NewerSchema { path: database.to_owned(), found, known });
    }
    for step in MIGRATIONS.iter().skip(found) {
        change.execute_batch(step).map_err(engine)?;
    }
    change.pragma_update(None, "user_version", i64::try_from(known).unwrap_or_default()).map_err(engine)?;
    change.commit().map_err(engine)
}

/// Opens a connection that cannot write.
pub(super) fn open_reader(database: &Path) -> Result<Connection, OpenError> {
    let engine = |source| OpenError::Engine { path: database.to_owned(), source };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(database, flags).map_err(engine)?;
    connection.execute_batch("PRAGMA busy_timeout = 30000; PRAGMA mmap_size = 0;").map_err(engine)?;
    Ok(connection)
}

/// A log beyond its bound: a reader keeps it from being written back and begun anew.
pub(super) fn alarm(database: &Path) -> Option<Alarm> {
    let bytes = std::fs::metadata(beside(database, "-wal")).ok()?.len();
    (bytes > LOG_BYTES_MAX.into()).then_some(Alarm::LogTooLarge { bytes })
}

pub(super) fn check_engine(number: i32, name: &str) -> Result<(), OpenError> {
    if number < VERSION_MIN {
        return Err(OpenError::EngineTooOld { found: name.to_owned() });
    }
    Ok(())
}

fn check_filesystem(database: &Path) -> Result<(), OpenError> {
    let directory = match database.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let file = |source| OpenError::File { path: directory.to_owned(), source };
    let found = rustix::fs::statfs(directory).map_err(|error| file(error.into()))?;
    #[expect(clippy::allow_attributes, reason = "the type of the field differs between systems")]
    #[allow(
        clippy::unnecessary_cast,
        clippy::useless_conversion,
        reason = "the type of the field differs between systems"
    )]
    check_kind(directory, found.f_type as i64)
}

pub(super) fn check_kind(directory: &Path, kind: i64) -> Result<(), OpenError> {
    match REMOTE.iter().find(|(number, _)| *number == kind) {
        Some((_, kind)) => Err(OpenError::Remote { path: directory.to_owned(), kind }),
        None => Ok(()),
    }
}

/// A setting that is not as it must be, or an engine that does not tell.
pub(super) enum SettingError {
    NotDurable { setting: &'static str, found: String, needed: &'static str },
    Engine(rusqlite::Error),
}

impl SettingError {
    fn with_path(self, path: &Path) -> OpenError {
        match self {
            Self::NotDurable { setting, found, needed } => OpenError::NotDurable { setting, found, needed },
            Self::Engine(source) => OpenError::Engine { path: path.to_owned(), source },
        }
    }
}

/// Asks the engine what it really does.
pub(super) fn check_settings(connection: &Connection) -> Result<(), SettingError> {
    let value = |setting| {
        connection
            .query_row(&format!("SELECT CAST({setting} AS TEXT) FROM pragma_{setting}"), [], |row| {
                row.get::<_, String>(0)
            })
            .map_err(SettingError::Engine)
    };
    for (setting, needed) in [("synchronous", "2"), ("journal_mode", "wal")] {
        let found = value(setting)?;
        if found != needed {
            let needed = if needed == "2" { "2 (FULL)" } else { needed };
            return Err(SettingError::NotDurable { setting, found, needed });
        }
    }
    Ok(())
}
