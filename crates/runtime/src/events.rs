//! What changes about tools and models, told to whoever asked: in order, each once.
//!
//! Readers take events at their own pace from a queue of bounded length. One that is slow is told
//! how much it missed; none can hold up a tool, a breaker or another reader.

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use dauntless_contract::ToolEvent;

/// Events a slow reader may be behind before it starts to lose some.
const QUEUE_EVENTS_MAX: usize = 1024;

/// The events of a runtime's tools and models, from the moment it was asked for.
pub struct ToolEvents {
    receiver: broadcast::Receiver<ToolEvent>,
}

/// So many events were lost because the reader was slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lagged {
    /// How many.
    pub lost: u64,
}

/// The sending end. Sends to nobody when nobody asked.
#[derive(Clone, Debug)]
pub(crate) struct ToolNews(broadcast::Sender<ToolEvent>);

impl ToolNews {
    pub(crate) fn new() -> Self {
        Self(broadcast::Sender::new(QUEUE_EVENTS_MAX))
    }

    pub(crate) fn tell(&self, event: ToolEvent) {
        let _ = self.0.send(event);
    }

    pub(crate) fn subscribe(&self) -> ToolEvents {
        ToolEvents { receiver: self.0.subscribe() }
    }
}

impl ToolEvents {
    /// Waits for the next event; `None` when the runtime is gone.
    ///
    /// # Errors
    /// [`Lagged`], once, when events were lost; the next call goes on with the oldest that is left.
    ///
    /// # Cancel safety
    /// Nothing is lost by dropping the future.
    pub async fn next(&mut self) -> Option<Result<ToolEvent, Lagged>> {
        match self.receiver.recv().await {
            Ok(event) => Some(Ok(event)),
            Err(RecvError::Lagged(lost)) => Some(Err(Lagged { lost })),
            Err(RecvError::Closed) => None,
        }
    }

    /// The next event if there is one already.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn try_next(&mut self) -> Option<Result<ToolEvent, Lagged>> {
        match self.receiver.try_recv() {
            Ok(event) => Some(Ok(event)),
            Err(TryRecvError::Lagged(lost)) => Some(Err(Lagged { lost })),
            Err(TryRecvError::Empty | TryRecvError::Closed) => None,
        }
    }
}
