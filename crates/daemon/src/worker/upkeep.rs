//! What a worker does on the side: it tells of runs that wait in vain and of what the journal wants
//! to be seen to, and drops runs that ended long ago.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dauntless_contract::JournalError;
use tokio::task::JoinHandle;

use super::driving::Driving;
use super::{WorkerEvent, own_code, spread};

const LOOK_EVERY: Duration = Duration::from_secs(60);
/// How long somebody else may keep a transaction open before an operator is told.
const PATIENCE: Duration = Duration::from_secs(300);
const DROP_EVERY: Duration = Duration::from_secs(600);
/// Runs dropped by one statement, so that no append waits long for it.
const DROPPED_AT_ONCE: usize = 500;

/// Goes on until it is dropped.
pub(super) struct Upkeep(JoinHandle<()>);

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(super) fn begin(driving: Arc<Driving>, kept: Option<Duration>) -> Upkeep {
    Upkeep(tokio::spawn(async move {
        let mut stranded = (0, 0);
        let mut dropped: Option<Instant> = None;
        loop {
            if let Err(error) = look(&driving, &mut stranded).await {
                tracing::warn!(%error, "the runs of the journal cannot be counted at present");
            }
            if let Some(kept) = kept
                && dropped.is_none_or(|at| at.elapsed() >= DROP_EVERY)
            {
                dropped = Some(Instant::now());
                if let Err(error) = drop_old(&driving, kept).await {
                    tracing::warn!(%error, "old runs cannot be dropped at present");
                }
            }
            tokio::time::sleep(spread(LOOK_EVERY)).await;
        }
    }))
}

/// Tells when the number of runs that nobody here can drive has changed, and what else is amiss.
async fn look(driving: &Driving, before: &mut (u64, u64)) -> Result<(), JournalError> {
    let counts = driving.journal().counts(own_code()).await?;
    let now = (counts.unclaimable, counts.quarantined);
    if now != std::mem::replace(before, now) {
        driving.tell(&WorkerEvent::Stranded { unclaimable: now.0, quarantined: now.1 });
    }
    for alarm in driving.journal().alarms(PATIENCE).await? {
        tracing::warn!(%alarm, "the journal needs to be seen to");
    }
    Ok(())
}

async fn drop_old(driving: &Driving, kept: Duration) -> Result<(), JournalError> {
    while driving.journal().drop_ended(kept, DROPPED_AT_ONCE).await? > 0 {
        tokio::task::yield_now().await;
    }
    Ok(())
}
