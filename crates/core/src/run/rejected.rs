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
        let tool = failure.rejected_tool().and_then(|name| self.spec.toolbox.get(name));
        let Some(tool) = tool.map(|spec| Arc::clone(&spec.name)) else { return false };
        let is_offered = *purpose == Purpose::Work && !self.withdrawn.names(now).contains(&tool);
        if !is_offered || !self.rejected.insert(Arc::clone(&tool)) {
            return false;
        }
        let message = Arc::clone(&failure.message);
        effects.push(RunEffect::Report(Progress::ToolRejected { turn: self.turn, tool, message }));
        true
    }
}
