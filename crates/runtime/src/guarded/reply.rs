//! The one answer that every call gets.

use dauntless_contract::{EffectState, Failure};
use dauntless_core::resilience::CallEnd;

/// Whether an attempt of the call may have reached the dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    Never,
    Maybe { attempts: u32 },
}

/// Answers exactly once: by [`answer`](Self::answer), or by being dropped with the actor that
/// held it, which means that actor died.
pub(crate) struct ReplySlot<T: FromCrash> {
    send: Option<Box<dyn FnOnce(T) + Send + Sync>>,
    reached: Reached,
}

/// An answer for a call whose actor died.
pub(crate) trait FromCrash {
    fn crashed(attempts: u32, failure: Failure) -> Self;
}

impl<R> FromCrash for CallEnd<R> {
    fn crashed(attempts: u32, failure: Failure) -> Self {
        Self { result: Err(failure), attempts, waited: std::time::Duration::ZERO, stopped_by: None }
    }
}

impl<T: FromCrash> ReplySlot<T> {
    pub(crate) fn new(send: impl FnOnce(T) + Send + Sync + 'static) -> Self {
        Self { send: Some(Box::new(send)), reached: Reached::Never }
    }

    /// Notes that an attempt is under way.
    pub(crate) const fn attempt_started(&mut self, attempt: u32) {
        self.reached = Reached::Maybe { attempts: attempt };
    }

    pub(crate) fn answer(mut self, end: T) {
        if let Some(send) = self.send.take() {
            send(end);
        }
    }
}

impl<T: FromCrash> Drop for ReplySlot<T> {
    fn drop(&mut self) {
        let Some(send) = self.send.take() else { return };
        let (attempts, failure) = match self.reached {
            Reached::Never => {
                let text = "The tool was restarted before it started on this call.";
                (0, Failure::crashed(text).effect(EffectState::None))
            }
            Reached::Maybe { attempts } => {
                let text = "The tool was restarted while it worked on this call.";
                (attempts, Failure::crashed(text).effect(EffectState::Unknown))
            }
        };
        send(T::crashed(attempts, failure));
    }
}
