//! Where the progress of a run goes: a bounded queue that never holds a run up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dauntless_contract::{Progress, RunId};
use tokio::sync::mpsc;

/// Events a slow watcher may be behind before it starts to lose some.
const QUEUE_EVENTS_MAX: usize = 4096;

/// The runtime's end. Cheap to clone; sends to nobody when nobody watches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    queue: Option<Arc<Queue>>,
    /// The run that it is of; none for the one that is watched.
    child: Option<Arc<WatchedChild>>,
}

/// A run below the one that is watched.
#[derive(Debug)]
pub(crate) struct WatchedChild {
    pub(crate) run: RunId,
    pub(crate) parent: RunId,
    pub(crate) root: RunId,
    pub(crate) agent: Arc<str>,
}

#[derive(Debug)]
struct Queue {
    sender: mpsc::Sender<Progress>,
    lost: Arc<AtomicU64>,
}

/// The reading end.
pub(crate) struct Watched {
    receiver: mpsc::Receiver<Progress>,
    lost: Arc<AtomicU64>,
}

impl Watched {
    /// The next event. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Progress> {
        self.receiver.recv().await
    }

    /// What is there already; at the end of it, how much was lost since the last event.
    pub(crate) fn rest(&mut self) -> Option<Progress> {
        let lost = || Some(self.lost.swap(0, Ordering::Relaxed)).filter(|lost| *lost > 0);
        match self.receiver.try_recv() {
            Ok(progress) => Some(progress),
            Err(_) => lost().map(|lost| Progress::Lagged { lost }),
        }
    }
}

impl Watch {
    /// A queue and its reading end.
    pub(crate) fn open() -> (Self, Watched) {
        let (sender, receiver) = mpsc::channel(QUEUE_EVENTS_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let queue = Queue { sender, lost: Arc::clone(&lost) };
        (Self { queue: Some(Arc::new(queue)), child: None }, Watched { receiver, lost })
    }

    /// For a run below.
    pub(crate) fn of_child(&self, child: WatchedChild) -> Self {
        Self { queue: self.queue.clone(), child: self.queue.as_ref().map(|_| Arc::new(child)) }
    }

    /// Whether anybody would see an event.
    pub(crate) const fn is_watched(&self) -> bool {
        self.queue.is_some()
    }

    /// Sends the event that `make` builds, or counts it as lost when the watcher is too slow.
    pub(crate) fn tell(&self, make: impl FnOnce() -> Progress) {
        let Some(queue) = &self.queue else { return };
        let lost = queue.lost.swap(0, Ordering::Relaxed);
        if lost > 0 && queue.sender.try_send(Progress::Lagged { lost }).is_err() {
            queue.lost.fetch_add(lost + 1, Ordering::Relaxed);
            return;
        }
        let progress = match &self.child {
            None => make(),
            Some(child) => Progress::InChild {
                run: child.run,
                parent: child.parent,
                root: child.root,
                agent: Arc::clone(&child.agent),
                progress: Box::new(make()),
            },
        };
        if queue.sender.try_send(progress).is_err() {
            queue.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}
