//! Opens the journal that a configuration names.
//!
//! What the stores refuse (a network filesystem, an engine with a defect, a server without `fsync`)
//! comes through in their own words, with the place it is about. Nothing here falls back to another
//! place: runs that are looked for in the wrong journal would seem to be lost.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dauntless_contract::{JournalError, SharedJournal};
use dauntless_journal::{OpenError, Postgres, PostgresConfig, Sqlite};

use crate::config::{JournalConfig, StoreAddress, StoreConfig};
use crate::wiring::Environment;

/// A journal that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing says where the user's files are.
    #[error(
        "the configuration names no journal, and neither XDG_STATE_HOME nor HOME says where one would be: name it with \
         journal = \"sqlite:PATH\""
    )]
    NoHome,
    /// The variable that holds the address is not set.
    #[error("the journal's address is in the environment variable {0}, which is not set")]
    NoVariable(
        /// The variable.
        String,
    ),
    /// The variable holds something else. What, is not shown.
    #[error("the environment variable {variable} does not hold the address of a journal: {problem}")]
    NoAddress {
        /// The variable.
        variable: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A file or a directory cannot be used.
    #[error("cannot use {}: {source}", .path.display())]
    Unusable {
        /// It.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file was refused.
    #[error("the journal cannot be opened: {0}")]
    File(OpenError),
    /// The server was refused, or did not answer.
    #[error("the journal at {address} cannot be opened: {error}")]
    Server {
        /// Where, without a password.
        address: StoreAddress,
        /// Why.
        error: JournalError,
    },
    /// The process is about to end.
    #[error("the process ends before the journal is open")]
    Ending,
}

/// Where the journal is.
///
/// # Errors
/// [`StoreError`], when the environment does not say.
pub fn address(config: &JournalConfig, environment: Environment<'_>) -> Result<StoreAddress, StoreError> {
    let filled = |name: &str| environment(name).filter(|value| !value.trim().is_empty());
    match &config.store {
        StoreConfig::At(address) => Ok(address.clone()),
        StoreConfig::Variable { name, otherwise } => match (filled(name), otherwise) {
            (Some(text), _) => {
                text.parse().map_err(|problem| StoreError::NoAddress { variable: name.clone(), problem })
            }
            (None, Some(address)) => Ok(address.clone()),
            (None, None) => Err(StoreError::NoVariable(name.clone())),
        },
        StoreConfig::PerUser => {
            let absolute = |name: &str| filled(name).map(PathBuf::from).filter(|path| path.is_absolute());
            let state = absolute("XDG_STATE_HOME")
                .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
                .ok_or(StoreError::NoHome)?;
            Ok(StoreAddress::Sqlite(state.join("dauntless/journal.db")))
        }
    }
}

/// Opens the journal. The directory of the user's own one is made where it is missing.
///
/// # Errors
/// [`StoreError`] says what is wrong and what to do about it.
pub async fn open(
    config: &JournalConfig,
    environment: Environment<'_>,
) -> Result<Arc<dyn SharedJournal>, StoreError> {
    let address = address(config, environment)?;
    let is_ours = config.store == StoreConfig::PerUser;
    match &address {
        StoreAddress::Sqlite(path) => {
            let path = path.clone();
            // Another process may be bringing the file up to date.
            let opened = tokio::task::spawn_blocking(move || {
                if let (true, Some(directory)) = (is_ours, path.parent()) {
                    private(directory)
                        .map_err(|source| StoreError::Unusable { path: directory.to_owned(), source })?;
                }
                Sqlite::open(path).map_err(StoreError::File)
            });
            Ok(Arc::new(opened.await.map_err(|_| StoreError::Ending)??))
        }
        StoreAddress::Postgres(url) => {
            let mut server = PostgresConfig::new(url);
            if let Some(path) = &config.root_certificates {
                let pem = std::fs::read(path)
                    .map_err(|source| StoreError::Unusable { path: path.clone(), source })?;
                server = server.root_certificates(pem);
            }
            let connected = Postgres::connect(server).await;
            Ok(Arc::new(connected.map_err(|error| StoreError::Server { address, error })?))
        }
    }
}

/// Makes a directory that only its owner looks into: a journal holds conversations.
fn private(directory: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

#[cfg(test)]
mod tests;
