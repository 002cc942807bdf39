//! The stores, by the address that a configuration has for them.

use std::sync::Arc;

use dauntless_contract::SharedJournal;
use dauntless_journal::{Postgres, PostgresConfig, Sqlite};

/// Why something could not be tried.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// Which store is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    Sqlite,
    /// A server of our own.
    Postgres,
}

impl Kind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Sqlite, Self::Postgres];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// Opens the journal at `sqlite:PATH` or `postgres://…`, without making this handle a worker.
///
/// # Errors
/// What the store says.
pub async fn open(address: &str) -> Result<Arc<dyn SharedJournal>, Error> {
    match address.strip_prefix("sqlite:") {
        Some(path) => Ok(Arc::new(Sqlite::open(path)?)),
        None => Ok(Arc::new(Postgres::connect(PostgresConfig::new(address)).await?)),
    }
}
