//! A run as the one who waits for the answers of models and tools.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{CallKey, Failure, ModelReply, RequestPurpose};
use dauntless_core::resilience::CallEnd;
use ractor::{ActorRef, ActorStatus};

use super::RunMsg;
use crate::guarded::Caller;
use crate::ports::{ToolReply, Wanted};

/// The run, as the one who waits for an answer.
pub(super) struct Asker<K> {
    pub(super) me: ActorRef<RunMsg>,
    pub(super) asked: K,
}

impl<K> Asker<K> {
    fn is_gone(&self) -> bool {
        matches!(self.me.get_status(), ActorStatus::Stopping | ActorStatus::Stopped)
    }
}

/// Which model call of a run.
#[derive(Clone, Copy)]
pub(crate) struct ModelAsked {
    pub(super) turn: u32,
    pub(super) model: u32,
    pub(super) purpose: RequestPurpose,
}

/// Which tool call of a run, and the fallback it went to, if it did.
#[derive(Clone)]
pub(crate) struct CallAsked {
    pub(super) call: CallKey,
    pub(super) by: Option<Arc<str>>,
    pub(super) wanted: Wanted,
    pub(super) notes: Notes,
}

/// Whether a failed attempt is worth a note before the call ends. It is only where a journal keeps it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Notes {
    Kept,
    Dropped,
}

impl Caller<CallEnd<ModelReply>> for Asker<ModelAsked> {
    fn take(self: Box<Self>, end: CallEnd<ModelReply>) {
        let _ = self.me.send_message(RunMsg::ModelEnded { asked: self.asked, end });
    }

    fn is_gone(&self) -> bool {
        self.is_gone()
    }
}

impl Caller<CallEnd<ToolReply>> for Asker<CallAsked> {
    fn take(self: Box<Self>, end: CallEnd<ToolReply>) {
        let _ = self.me.send_message(RunMsg::CallEnded { asked: self.asked, end });
    }

    fn will_retry(&self, attempt: u32, failure: &Failure, wait: Duration) {
        if (self.asked.wanted, self.asked.notes) == (Wanted::Call, Notes::Kept) {
            let (asked, failure) = (self.asked.clone(), failure.clone());
            let _ = self.me.send_message(RunMsg::AttemptFailed { asked, attempt, failure, wait });
        }
    }

    fn is_gone(&self) -> bool {
        self.is_gone()
    }
}
