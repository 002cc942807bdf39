//! The lease of this process, as those see it who begin something: attempts and orchestrators.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dauntless_contract::{Clock, Failure, Timestamp};
use dauntless_core::lease::LeaseClock;

/// The right of this process to begin new effects for the runs that it owns. Clones are one lease.
///
/// Whoever keeps the worker's registration alive tells it of each renewal. Between two of them it
/// judges by this process's monotonic clock alone: a process that was stopped, or cannot reach the
/// journal, begins nothing that another may have begun since.
#[derive(Clone)]
pub struct Lease {
    clock: Arc<dyn Clock>,
    state: Arc<Mutex<LeaseClock>>,
}

impl Lease {
    /// A lease of this length whose request was sent at `sent`.
    pub fn new(clock: Arc<dyn Clock>, ttl: Duration, sent: Timestamp) -> Self {
        Self { clock, state: Arc::new(Mutex::new(LeaseClock::new(ttl, sent))) }
    }

    /// The journal granted a renewal that was sent at `sent`.
    pub fn renewed(&self, sent: Timestamp) {
        self.state().renewed(sent);
    }

    /// How long until the next renewal is due; zero when it is.
    pub fn renew_in(&self) -> Duration {
        self.state().renew_at().since(self.clock.now())
    }

    /// How long something new may still begin; zero when nothing may.
    pub fn lasts(&self) -> Duration {
        self.state().stops_at().since(self.clock.now())
    }

    /// Whether a new effect may begin.
    pub fn may_begin(&self) -> bool {
        self.state().may_begin(self.clock.now())
    }

    /// The refusal of an attempt, where none may begin.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.may_begin() {
            return Ok(());
        }
        Err(Failure::cancelled("This process has lost its right to drive the run; nothing was begun."))
    }

    fn state(&self) -> MutexGuard<'_, LeaseClock> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
