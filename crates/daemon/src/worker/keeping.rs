//! The signs of life of a worker.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{Clock, JournalError, SharedJournal, WorkerInfo};
use dauntless_runtime::{Lease, SystemClock};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::WorkerOptions;

/// How long after a renewal that failed the next is tried.
const RENEW_AGAIN_AFTER: Duration = Duration::from_millis(250);

/// Keeps one worker's registration alive until it is dropped.
pub(super) struct Keeping {
    clock: Arc<SystemClock>,
    lease: Lease,
    losses: watch::Sender<u64>,
    task: JoinHandle<()>,
}

impl Drop for Keeping {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Keeping {
    pub(super) async fn register(
        journal: &Arc<dyn SharedJournal>,
        options: &WorkerOptions,
    ) -> Result<Self, JournalError> {
        let clock = Arc::new(SystemClock::new());
        let sent = clock.now();
        journal.register(info(options)).await?;
        let lease = Lease::new(clock.clone(), options.ttl, sent);
        let losses = watch::Sender::new(0);
        let task =
            tokio::spawn(renew(Arc::clone(journal), Arc::clone(&clock), lease.clone(), losses.clone()));
        Ok(Self { clock, lease, losses, task })
    }

    pub(super) const fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Changes each time the lease is lost.
    pub(super) fn losses(&self) -> watch::Receiver<u64> {
        self.losses.subscribe()
    }

    pub(super) async fn register_again(
        &mut self,
        journal: &Arc<dyn SharedJournal>,
        options: &WorkerOptions,
    ) -> Result<(), JournalError> {
        let sent = self.clock.now();
        journal.register(info(options)).await?;
        self.lease.renewed(sent);
        self.task.abort();
        let (clock, lease) = (Arc::clone(&self.clock), self.lease.clone());
        self.task = tokio::spawn(renew(Arc::clone(journal), clock, lease, self.losses.clone()));
        Ok(())
    }
}

fn info(options: &WorkerOptions) -> WorkerInfo {
    WorkerInfo { name: Arc::clone(&options.name), host: Arc::clone(&options.host), ttl: options.ttl }
}

/// Ends when the lease is lost, and says so.
async fn renew(
    journal: Arc<dyn SharedJournal>,
    clock: Arc<SystemClock>,
    lease: Lease,
    losses: watch::Sender<u64>,
) {
    tokio::time::sleep(lease.renew_in()).await;
    loop {
        let sent = clock.now();
        // An answer that comes after the lease has lapsed is worth nothing.
        match tokio::time::timeout(lease.lasts(), journal.renew()).await {
            Ok(Ok(())) => {
                lease.renewed(sent);
                tokio::time::sleep(lease.renew_in()).await;
            }
            Ok(Err(JournalError::LeaseLost(_) | JournalError::NotRegistered)) => break,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the worker's lease was not renewed");
                tokio::time::sleep(RENEW_AGAIN_AFTER).await;
            }
            Err(_) => {}
        }
        if !lease.may_begin() {
            break;
        }
    }
    losses.send_modify(|losses| *losses += 1);
}
