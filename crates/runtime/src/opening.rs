//! How a run begins, for whoever drives it at once and for whoever leaves it to a worker.

use std::sync::Arc;

use dauntless_contract::{AgentSpec, Attendance, Fence, RepairedHistory, RunEvent, RunLimits};
use dauntless_core::toolbox::Toolbox;

use crate::id;
use crate::submission::Submission;

/// The first event of a run of this agent.
pub fn start_event(
    agent: &AgentSpec,
    toolbox: &Toolbox,
    submission: Submission,
    limits: RunLimits,
    attendance: Attendance,
) -> RunEvent {
    let Submission { goal, past: RepairedHistory { history, repairs } } = submission;
    RunEvent::RunStarted {
        agent: Arc::clone(&agent.name),
        goal,
        limits,
        history,
        repairs,
        attendance,
        tools: toolbox.names().map(Arc::from).collect(),
        lineage: None,
    }
}

/// A run id that no other run has, with the right to write its first event.
pub fn new_fence() -> Fence {
    Fence { run: id::run_id(), epoch: 1, token: id::token() }
}
