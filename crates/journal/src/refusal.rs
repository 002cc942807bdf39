//! Why a write does not fit the run as it stands: one answer for all stores.

use dauntless_contract::{AppendError, EventProblem, Fence, Seq, Timestamp};

/// What a store knows of a run that did not take an append.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub(crate) head: Seq,
    pub(crate) epoch: u64,
    /// `None` when nobody may append.
    pub(crate) token: Option<u128>,
    pub(crate) last_at: Timestamp,
}

/// What keeps the append out, if anything does. `first_at` is the time of its first event.
pub(crate) fn refusal(
    standing: Option<Standing>,
    fence: &Fence,
    expected: Seq,
    first_at: Option<Timestamp>,
) -> Result<(), AppendError> {
    let run = fence.run;
    let Some(Standing { head, epoch, token, last_at }) = standing else {
        return Err(AppendError::NoSuchRun(run));
    };
    if epoch != fence.epoch || token != Some(fence.token) {
        return Err(AppendError::Fenced { run, owner_epoch: epoch });
    }
    if head != expected {
        return Err(AppendError::Conflict { run, head, expected });
    }
    match first_at {
        Some(at) if at < last_at => {
            Err(AppendError::Invalid { index: 0, problem: EventProblem::Earlier(last_at.since(at)) })
        }
        _ => Ok(()),
    }
}
