//! The task of one attempt, and what becomes of it when it is stopped.

use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{GuardedHandle, Port};

/// How long stopped code may take to reach its next await, where it ends.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// An attempt under way. Dropping it stops it: an actor that is killed leaves none behind.
pub(super) struct Running<P: Port> {
    pub(super) attempt: u32,
    handle: GuardedHandle<P>,
    cancel: CancellationToken,
    task: Option<JoinHandle<()>>,
    _timeout: Timer,
}

impl<P: Port> Running<P> {
    pub(super) const fn new(
        attempt: u32,
        handle: GuardedHandle<P>,
        cancel: CancellationToken,
        task: JoinHandle<()>,
        timeout: Timer,
    ) -> Self {
        Self { attempt, handle, cancel, task: Some(task), _timeout: timeout }
    }

    /// The attempt has told its result; its task has nothing left to do.
    pub(super) fn has_ended(mut self) {
        self.task = None;
    }
}

impl<P: Port> Drop for Running<P> {
    fn drop(&mut self) {
        let Some(task) = self.task.take() else { return };
        self.cancel.cancel();
        task.abort();
        if !task.is_finished()
            && let Ok(tokio) = Handle::try_current()
        {
            tokio.spawn(see_off(self.handle.clone(), task));
        }
    }
}

/// Code that blocks its thread does not hear that it was stopped. It is counted until it ends.
async fn see_off<P: Port>(handle: GuardedHandle<P>, mut task: JoinHandle<()>) {
    if tokio::time::timeout(STOP_GRACE, &mut task).await.is_err() {
        handle.attempt_abandoned();
        let _ = task.await;
        handle.abandoned_ended();
    }
}

/// A sleeping task that is stopped when it is no longer wanted.
pub(super) struct Timer(pub(super) AbortHandle);

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}
