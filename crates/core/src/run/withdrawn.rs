//! The optional tools that are out of service: not shown to the model until they may work again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{Bucket, Failure, FailureCode, Timestamp};
use serde::{Deserialize, Serialize};

use crate::resilience::plain;

/// Which tools are off the list, and until when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Withdrawn(BTreeMap<Arc<str>, Timestamp>);

impl Withdrawn {
    /// Takes a tool off the list and says so in the failure, once, however often it fails meanwhile.
    pub(super) fn take_out(
        &mut self,
        now: Timestamp,
        tool: &Arc<str>,
        out_for: Duration,
        failure: Failure,
    ) -> Failure {
        let before = self.0.insert(Arc::clone(tool), now + out_for);
        if before.is_some_and(|until| until > now) {
            return failure;
        }
        let told = format!("`{tool}` is off your list of tools for the next {}.", plain(out_for));
        let hint = match &failure.hint {
            Some(hint) => format!("{hint} {told}"),
            None => format!("Go on without it. {told}"),
        };
        failure.hint(hint)
    }

    /// The tools that are off the list at `now`, by name. Those whose time is over come back.
    pub(super) fn names(&mut self, now: Timestamp) -> Vec<Arc<str>> {
        self.0.retain(|_, until| *until > now);
        self.0.keys().cloned().collect()
    }
}

/// Whether a failure says that its tool does not work, rather than that the call was no good.
pub(super) const fn is_outage(code: FailureCode) -> bool {
    matches!(code.bucket(), Bucket::Transient | Bucket::Defect | Bucket::Unknown)
        || matches!(code, FailureCode::ToolDown)
}

/// Whether all tries were used up or there was none.
pub(super) const fn is_exhausted(code: FailureCode) -> bool {
    matches!(code.bucket(), Bucket::Transient)
        || matches!(code, FailureCode::ToolDown | FailureCode::Overloaded)
}
