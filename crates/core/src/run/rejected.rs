//! The tools whose declaration the provider refused: not offered again in this run.
//!
//! A request with one bad schema is refused whole. Without that tool the others still work, so the
//! request is made again, once for each tool that is named; a refusal that names none is the end.

use std::sync::Arc;

use dauntless_contract::{Failure, Progress, Timestamp};

use super::{Purpose, RunEffect, RunMachine};

impl RunMachine {
    /// Takes the tool that this failure of the model names off the list. Answers whether there was
    /// one on it, so that the request is worth repeating.
    pub(super) fn reject_tool(
        &mut self,
        now: Timestamp,
        purpose: &Purpose,
        failure: &Failure,
        effects: &mut Vec<RunEffect>,
    ) -> bool {
        let Some(tool) = failure.rejected_tool.as_ref() else { return false };
        let offered = *purpose == Purpose::Work
            && self.spec.toolbox.get(tool).is_some()
            && !self.withdrawn.names(now).contains(tool);
        if !offered || !self.rejected.insert(Arc::clone(tool)) {
            return false;
        }
        let (tool, message) = (Arc::clone(tool), Arc::clone(&failure.message));
        effects.push(RunEffect::Report(Progress::ToolRejected { turn: self.turn, tool, message }));
        true
    }
}
