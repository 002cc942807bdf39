//! Where the runs of a journal are kept, and what a worker that drives them is like.
//!
//! An address may come from a variable of the environment, because that of a server mostly holds a
//! password. One that is written into the file must not.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::unit::{Length, VariableName};

/// The journal of runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalConfig {
    /// Where it is.
    pub store: StoreConfig,
    /// The certificates, in PEM, that the server's is checked against; none for those of the system.
    pub root_certificates: Option<PathBuf>,
    /// How long a run is kept after its end.
    pub keep: Duration,
    /// What becomes of a run whose agent was changed in the configuration since it began.
    pub on_config_change: OnConfigChange,
}

/// Where a journal is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreConfig {
    /// A file in the user's own directory for state.
    PerUser,
    /// There.
    At(StoreAddress),
    /// Where a variable of the environment says.
    Variable {
        /// The variable.
        name: String,
        /// Where it is when the variable is not set; none when it has to be.
        otherwise: Option<StoreAddress>,
    },
}

/// The address of a store.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreAddress {
    /// A file of SQLite.
    Sqlite(PathBuf),
    /// A database of PostgreSQL, by its whole address.
    Postgres(String),
}

/// What becomes of a run whose agent was changed since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnConfigChange {
    /// It goes on with the agent as it was.
    #[default]
    Pin,
    /// It goes on with the agent as it is now.
    Adopt,
    /// It is paused until an operator says.
    Ask,
}

/// How a worker drives runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerConfig {
    /// Runs that it drives at once.
    pub capacity: u32,
    /// Its name, unique among the workers of the journal; none for one that the process makes up.
    pub name: Option<String>,
    /// How long after its last renewal it counts as dead, where the store cannot see it die.
    pub ttl: Duration,
    /// How long its calls may go on when it is told to stop.
    pub grace: Duration,
}

impl StoreAddress {
    /// Takes an address out of a file in `base`, against which the path of a file is resolved.
    pub(super) fn beside(self, base: &Path) -> Self {
        match self {
            Self::Sqlite(path) => Self::Sqlite(base.join(path)),
            Self::Postgres(address) => Self::Postgres(address),
        }
    }

    /// Whether it holds a password.
    pub(super) fn has_password(&self) -> bool {
        let Self::Postgres(address) = self else { return false };
        let (_, rest) = address.split_once("://").unwrap_or_default();
        let (authority, _) = rest.split_once(['/', '?']).unwrap_or((rest, ""));
        let in_front = authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'));
        in_front || address.contains("password=")
    }
}

impl FromStr for StoreAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(Self::Postgres(text.to_owned()));
        }
        let Some(path) = text.strip_prefix("sqlite:") else {
            return Err(format!("it does not begin with one of the two kinds there are: {KINDS}"));
        };
        let path = path.strip_prefix("//").unwrap_or(path);
        match path {
            "" => Err("`sqlite:` is followed by the path of a file".to_owned()),
            ":memory:" => Err("a journal in memory survives nothing: name a file".to_owned()),
            path => Ok(Self::Sqlite(path.into())),
        }
    }
}

/// Without the address of a server, which may hold a password.
impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(address) => {
                let (scheme, rest) = address.split_once("://").unwrap_or(("postgres", ""));
                let (rest, _) = rest.split_once('?').unwrap_or((rest, ""));
                write!(f, "{scheme}://{}", rest.rsplit_once('@').map_or(rest, |(_, host)| host))
            }
        }
    }
}

impl fmt::Debug for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

const KINDS: &str = "`sqlite:PATH`, a file of this machine, and `postgres://HOST/DATABASE`, a server";

/// `journal` in the file: an address alone, or a table with more to say.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum JournalFile {
    Address(Address),
    Table(JournalTable),
}

/// Where runs are kept that outlive their process. Shorter: journal = "sqlite:journal.db".
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct JournalTable {
    /// "sqlite:PATH" for a file, relative to this file; "postgres://HOST/DATABASE" for a server, without
    /// a password. Without it and url_env: dauntless/journal.db in XDG_STATE_HOME or ~/.local/state.
    pub(super) url: Option<Address>,
    /// The environment variable that holds the address, for one with a password. Where the variable is
    /// not set: url.
    pub(super) url_env: Option<VariableName>,
    /// A file of certificates in PEM that the server's is checked against, relative to this file.
    /// Without it: those of the system.
    pub(super) root_certificates: Option<PathBuf>,
    /// How long a run is kept after its end.
    pub(super) keep: Length,
    /// A run whose agent was changed in this file since it began: "pin" lets it go on as it was, "adopt"
    /// takes the change, "ask" pauses the run until an operator says.
    pub(super) on_config_change: OnConfigChange,
}

impl Default for JournalTable {
    fn default() -> Self {
        Self {
            url: None,
            url_env: None,
            root_certificates: None,
            keep: Length(Duration::from_secs(30 * 24 * 3600)),
            on_config_change: OnConfigChange::default(),
        }
    }
}

impl Default for JournalFile {
    fn default() -> Self {
        Self::Table(JournalTable::default())
    }
}

impl JournalFile {
    pub(super) fn table(self) -> JournalTable {
        match self {
            Self::Table(table) => table,
            Self::Address(url) => JournalTable { url: Some(url), ..JournalTable::default() },
        }
    }
}

/// A table, or an address in its place.
impl JsonSchema for JournalFile {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "JournalFile".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = JournalTable::json_schema(generator);
        let address = Address::json_schema(generator);
        for keyword in ["title", "pattern", "patternErrorMessage"] {
            if let Some(value) = address.get(keyword) {
                schema.insert(keyword.to_owned(), value.clone());
            }
        }
        schema.insert("type".to_owned(), ["string", "object"].into());
        schema
    }
}

/// An address as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct Address(pub(super) String);

impl JsonSchema for Address {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "StoreAddress".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "title": "an address like \"sqlite:journal.db\" or \"postgres://host/database\"",
            "patternErrorMessage": "there are two kinds: sqlite:PATH and postgres://HOST/DATABASE",
            "type": "string",
            "pattern": "^(sqlite:.|postgres(ql)?://.)",
        })
    }
}

/// How a worker drives the runs of the journal.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WorkerFile {
    /// Runs that it drives at once.
    #[schemars(range(min = 1))]
    pub(super) capacity: u32,
    /// Its name, unique among the workers of the journal. Without it: made of the host and the process.
    #[schemars(extend("title" = "a name that is not blank", "pattern" = "\\S"))]
    pub(super) name: Option<String>,
    /// How long after its last sign of life its runs pass to others, where the store is a server. At
    /// least "1s".
    pub(super) ttl: Length,
    /// How long its calls may go on when it is told to stop.
    pub(super) grace: Length,
}

impl Default for WorkerFile {
    fn default() -> Self {
        Self {
            capacity: 256,
            name: None,
            ttl: Length(Duration::from_secs(15)),
            grace: Length(Duration::from_secs(30)),
        }
    }
}
