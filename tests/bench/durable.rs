//! Whole runs that are kept in a journal against the same runs in memory alone.

use std::path::Path;
use std::sync::Arc;

use dauntless::{SharedJournal, WorkerInfo};
use dauntless_journal::{Postgres, PostgresConfig, Sqlite};

use crate::Options;
use crate::ours::HOUR;
use crate::report::{Pair, compare};

/// What a run in a journal may take of the processor, against one without.
const RATIO_MAX: f64 = 1.5;

/// Compares each store there is with none.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let dir = options.scratch("bench-durable")?;
    let place = dir.path().to_string_lossy();
    let pair = |with, place| Pair { scenario: "durable", without: "ours", with, place, ratio_max: RATIO_MAX };
    compare(options.rounds, &pair("sqlite", &place))?;
    match &options.postgres {
        Some(url) => compare(options.rounds, &pair("postgres", url)),
        None => Ok(()),
    }
}

/// The journal of one contender, with this process as its worker; none of one that has none.
pub(crate) async fn journal(contender: &str, place: &str) -> Result<Option<Arc<dyn SharedJournal>>, String> {
    let store: Arc<dyn SharedJournal> = match contender {
        "postgres" => {
            let config = PostgresConfig::new(place);
            Arc::new(Postgres::connect(config).await.map_err(|error| error.to_string())?)
        }
        "sqlite" => {
            let file = Path::new(place).join("journal.db");
            Arc::new(Sqlite::open(file).map_err(|error| error.to_string())?)
        }
        _ => return Ok(None),
    };
    register(&*store).await?;
    Ok(Some(store))
}

pub(crate) async fn register(store: &dyn SharedJournal) -> Result<(), String> {
    let (name, host) = ("bench".into(), "here".into());
    let registered = store.register(WorkerInfo { name, host, ttl: HOUR }).await;
    registered.map_err(|error| error.to_string())
}
