//! A run that goes on from an event of another.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{NewRun, Release, RunId, RunMeta, Seq, WorkerInfo};
use dauntless_runtime::new_fence;

use super::{Runs, RunsError};

/// Events in one append.
const BATCH: usize = 200;
/// How long the half-made fork of a process that died is nobody's, where the store cannot see it die.
const TTL: Duration = Duration::from_secs(15);

impl Runs<'_> {
    /// Makes a run of the first `at` events of another, which is not touched. Any worker may claim it;
    /// what was under way at that event is begun again as after an interruption.
    ///
    /// # Errors
    /// [`RunsError::OutOfRange`], naming the events there are.
    pub async fn fork(&self, meta: &RunMeta, at: Seq) -> Result<RunId, RunsError> {
        if at == 0 || at > meta.head {
            return Err(RunsError::OutOfRange { run: meta.run, at, head: meta.head });
        }
        let mut events = self.events(meta.run, at).await?.into_iter();
        let Some(first) = events.next() else {
            return Err(RunsError::OutOfRange { run: meta.run, at, head: 0 });
        };
        let config = match meta.config {
            Some(hash) => self.journal.blob(hash).await?,
            None => None,
        };
        let fence = new_fence();
        // As its owner, so that no worker drives it before it is whole.
        let name: Arc<str> = format!("fork {}", fence.run).into();
        let worker = WorkerInfo { host: Arc::clone(&name), name, ttl: TTL };
        self.journal.register(worker).await?;
        self.journal
            .create(NewRun {
                agent: Arc::clone(&meta.agent),
                code_version: Arc::clone(&meta.code_version),
                config,
                ..NewRun::new(fence, first)
            })
            .await?;
        let mut head = 1;
        loop {
            let batch: Vec<_> = events.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                break;
            }
            head = self.journal.append(&fence, head, batch).await?;
        }
        self.journal.release(&fence, Release::Ready { after: Duration::ZERO }).await?;
        Ok(fence.run)
    }
}
