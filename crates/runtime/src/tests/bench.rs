//! One tool behind its guards, called without a run.

use dauntless_core::resilience::CallEnd;
use tokio::sync::oneshot;
use tracing::Span;

use super::*;
use crate::guarded::{GuardedHandle, Job, JobTicket, ReplySlot};
use crate::ports::{ToolPort, ToolReply, ToolRequest, Wanted};
use crate::watch::Watch;

pub(super) type End = oneshot::Receiver<CallEnd<ToolReply>>;

/// A runtime with one tool, and the way to call it without a run.
pub(super) struct Bench {
    pub(super) runtime: Runtime,
    pub(super) tool: FaultyTool,
    pub(super) handle: GuardedHandle<ToolPort>,
    calls: u32,
}

impl Bench {
    pub(super) async fn new(tool: FaultyTool) -> Self {
        Self::of(runtime(Scripted::replies(["x"])).await, tool).await
    }

    pub(super) async fn of(runtime: Runtime, tool: FaultyTool) -> Self {
        let agent = Agent::new("a").tool(tool.clone());
        let crew = runtime.crew(&agent).await.unwrap();
        let handle = crew.tools.values().next().unwrap().clone();
        Self::on(runtime, tool, handle)
    }

    pub(super) fn on(runtime: Runtime, tool: FaultyTool, handle: GuardedHandle<ToolPort>) -> Self {
        Self { runtime, tool, handle, calls: 0 }
    }

    pub(super) fn call_of(&mut self, run: u128) -> (JobTicket, End) {
        self.ask(run, Wanted::Call, 0)
    }

    pub(super) fn ask(&mut self, run: u128, wanted: Wanted, attempts_made: u32) -> (JobTicket, End) {
        self.calls += 1;
        let (reply, end) = oneshot::channel();
        let request = ToolRequest {
            wanted,
            run: RunId::from_u128(run),
            call: CallKey { turn: 1, index: self.calls },
            arguments: Json::empty_object(),
            idempotency_key: "key".into(),
        };
        let job = Job {
            request: Arc::new(request),
            deadline: Timestamp::MAX,
            attempts_made,
            watch: Watch::default(),
            span: Span::none(),
            reply: ReplySlot::new(self.handle.name(), reply),
        };
        (self.handle.submit(self.handle.now(), job), end)
    }

    pub(super) fn call(&mut self) -> (JobTicket, End) {
        self.call_of(1)
    }

    /// The calls that reached the tool, by their numbers.
    pub(super) fn reached(&self) -> Vec<u32> {
        let mut reached: Vec<u32> = self.tool.attempts().keys().map(|(_, call)| call.index).collect();
        reached.sort_unstable();
        reached
    }
}

/// Lets every message that is under way arrive.
pub(super) async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}
