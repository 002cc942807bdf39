//! The one answer that every call gets.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{EffectState, Failure};
use dauntless_core::resilience::CallEnd;
use tokio::sync::oneshot;

/// Whether an attempt of the call may have reached the dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    Never,
    Maybe { attempts: u32 },
}

/// Where the answer of one call goes.
pub(crate) trait Caller<T>: Send + Sync + 'static {
    /// Takes the answer.
    fn take(self: Box<Self>, answer: T);
    /// Hears of a failed attempt that is followed by another after this wait. Most do not care.
    fn will_retry(&self, _attempt: u32, _failure: &Failure, _wait: Duration) {}
    /// Whether nobody is there any more to take it.
    fn is_gone(&self) -> bool;
}

impl<T: Send + 'static> Caller<T> for oneshot::Sender<T> {
    fn take(self: Box<Self>, answer: T) {
        let _ = self.send(answer);
    }

    fn is_gone(&self) -> bool {
        self.is_closed()
    }
}

/// Answers exactly once: by [`answer`](Self::answer), or by being dropped with the actor that
/// held it, which means that actor died.
pub(crate) struct ReplySlot<T: FromCrash> {
    caller: Option<Box<dyn Caller<T>>>,
    name: Arc<str>,
    reached: Reached,
}

/// An answer for a call whose actor died.
pub(crate) trait FromCrash: 'static {
    fn crashed(attempts: u32, failure: Failure) -> Self;
}

impl<R: 'static> FromCrash for CallEnd<R> {
    fn crashed(attempts: u32, failure: Failure) -> Self {
        Self { result: Err(failure), attempts, waited: Duration::ZERO, stopped_by: None, out_for: None }
    }
}

impl<T: FromCrash> ReplySlot<T> {
    /// `name` is what the answer calls the dependency, should it crash.
    pub(crate) fn new(name: &Arc<str>, caller: impl Caller<T>) -> Self {
        Self { caller: Some(Box::new(caller)), name: Arc::clone(name), reached: Reached::Never }
    }

    /// Whether nobody waits for the answer: work for it would be wasted.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.caller.as_ref().is_none_or(|caller| caller.is_gone())
    }

    /// Notes that an attempt is under way, and how many there were with it.
    pub(crate) const fn attempt_started(&mut self, attempts: u32) {
        self.reached = Reached::Maybe { attempts };
    }

    /// Tells of a failed attempt that is followed by another.
    pub(crate) fn will_retry(&self, attempt: u32, failure: &Failure, wait: Duration) {
        if let Some(caller) = &self.caller {
            caller.will_retry(attempt, failure, wait);
        }
    }

    pub(crate) fn answer(mut self, end: T) {
        if let Some(caller) = self.caller.take() {
            caller.take(end);
        }
    }
}

impl<T: FromCrash> Drop for ReplySlot<T> {
    fn drop(&mut self) {
        let Some(caller) = self.caller.take() else { return };
        let (attempts, failure) = match self.reached {
            Reached::Never => {
                let text = format!("`{}` crashed before it started on this call.", self.name);
                (0, Failure::crashed(text).effect(EffectState::None))
            }
            Reached::Maybe { attempts } => {
                let text = format!("`{}` crashed while it worked on this call.", self.name);
                (attempts, Failure::crashed(text).effect(EffectState::Unknown))
            }
        };
        caller.take(T::crashed(attempts, failure));
    }
}
