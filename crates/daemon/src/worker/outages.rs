//! What workers tell each other of tools and models that take no calls, so that one which starts does
//! not try once more what the others know. Best effort: a breaker finds out by itself as well.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{BreakerStatus, SharedJournal, ToolChange};
use dauntless_runtime::Runtime;

/// Opens the breakers that others found open, and tells of the runtime's own for as long as it lives.
pub(super) async fn share(journal: &Arc<dyn SharedJournal>, runtime: &Runtime) {
    let mut events = runtime.tool_events();
    match journal.outages().await {
        Ok(outages) => {
            for outage in outages {
                runtime.expect_outage(&outage.dependency, outage.lasts).await;
            }
        }
        Err(error) => tracing::warn!(%error, "what other workers know of tools cannot be read"),
    }
    let journal = Arc::clone(journal);
    tokio::spawn(async move {
        while let Some(event) = events.next().await {
            let Ok(event) = event else { continue };
            let lasts = match event.change {
                ToolChange::Breaker { now: BreakerStatus::Open { retry_in } } => retry_in,
                ToolChange::Breaker { now: BreakerStatus::Closed } => Duration::ZERO,
                _ => continue,
            };
            if let Err(error) = journal.tell_outage(event.name, lasts).await {
                tracing::debug!(%error, "other workers were not told of a breaker");
            }
        }
    });
}
