//! What stands between a caller and a tool, as the actors carry it out.

use dauntless_core::resilience::CallEnd;
use dauntless_core::run::CancelReach;
use tokio::sync::oneshot;
use tracing::Span;

use super::*;
use crate::guarded::{GuardedHandle, Job, JobTicket, ReplySlot};
use crate::ports::{ToolPort, ToolRequest};
use crate::watch::Watch;

type End = oneshot::Receiver<CallEnd<ToolOutput>>;

/// A runtime with one tool, and the way to call it without a run.
struct Bench {
    runtime: Runtime,
    tool: FaultyTool,
    handle: GuardedHandle<ToolPort>,
    calls: u32,
}

impl Bench {
    async fn new(tool: FaultyTool) -> Self {
        let runtime = runtime(Scripted::replies(["x"])).await;
        let agent = Agent::new("a").tool(tool.clone());
        let crew = runtime.crew(&agent).await.unwrap();
        let handle = crew.tools.values().next().unwrap().clone();
        Self { runtime, tool, handle, calls: 0 }
    }

    fn call_of(&mut self, run: u128) -> (JobTicket, End) {
        self.calls += 1;
        let (reply, end) = oneshot::channel();
        let request = ToolRequest {
            run: RunId::from_u128(run),
            call: CallKey { turn: 1, index: self.calls },
            arguments: Json::empty_object(),
            idempotency_key: "key".into(),
        };
        let job = Job {
            request: Arc::new(request),
            deadline: Timestamp::MAX,
            watch: Watch::default(),
            span: Span::none(),
            reply: ReplySlot::new(reply),
        };
        (self.handle.submit(self.runtime.clock().now(), job), end)
    }

    fn call(&mut self) -> (JobTicket, End) {
        self.call_of(1)
    }

    /// The calls that reached the tool, by their numbers.
    fn reached(&self) -> Vec<u32> {
        let mut reached: Vec<u32> = self.tool.attempts().keys().map(|(_, call)| call.index).collect();
        reached.sort_unstable();
        reached
    }
}

fn one_at_a_time(attempts: impl IntoIterator<Item = Behaviour>) -> FaultyTool {
    FaultyTool::builder("find")
        .effect(Effect::ReadOnly)
        .resilience(|policy| {
            policy.concurrency = 1;
            policy.waiting = 10;
        })
        .attempts(attempts)
}

fn slow() -> Behaviour {
    Behaviour::ok("x").after(Duration::from_millis(10))
}

async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn rb_10_all_tools_of_a_runtime_draw_on_one_budget() {
    let policy = BudgetPolicy { capacity_milli: 1000, per_success_milli: 0, refill_every: Duration::MAX };
    let runtime =
        Runtime::builder().model(Scripted::replies(["x"])).retry_budget(policy).build().await.unwrap();
    let down = || [Behaviour::Fail(Failure::unavailable("Down."))];
    let (first, second) = (reads("first", down()), reads("second", down()));
    let agent = Agent::new("a").tool(first.clone()).tool(second.clone());
    let record = runtime.call_tool(&agent, "first", "{}", |_| {}).await.unwrap();
    assert_eq!((record.attempts, record.stopped_by), (2, Some(StoppedBy::Budget)));
    let record = runtime.call_tool(&agent, "second", "{}", |_| {}).await.unwrap();
    assert_eq!((record.attempts, record.stopped_by), (1, Some(StoppedBy::Budget)));
    assert_eq!((first.invocations(), second.invocations()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn lim_02_a_call_whose_caller_went_away_is_skipped() {
    let mut bench = Bench::new(one_at_a_time([slow()])).await;
    let (_, first) = bench.call();
    let (_, second) = bench.call();
    let (_, third) = bench.call();
    settle().await;
    drop(second);
    assert!(first.await.unwrap().result.is_ok());
    assert!(third.await.unwrap().result.is_ok());
    assert_eq!(bench.reached(), [1, 3]);
}

#[tokio::test(start_paused = true)]
async fn lim_02_a_thousand_abandoned_calls_are_skipped_at_once() {
    let tool = FaultyTool::builder("find")
        .resilience(|policy| {
            policy.concurrency = 1;
            policy.waiting = 1000;
        })
        .attempts([slow()]);
    let mut bench = Bench::new(tool).await;
    let (_, first) = bench.call();
    for _ in 0..900 {
        drop(bench.call());
    }
    let (_, last) = bench.call();
    assert!(first.await.unwrap().result.is_ok());
    assert!(last.await.unwrap().result.is_ok());
    assert_eq!(bench.reached(), [1, 902]);
    settle().await;
    assert_eq!(bench.handle.free_places(), 1001);
}

#[tokio::test(start_paused = true)]
async fn lim_02_runs_take_turns_at_a_tool() {
    let mut bench = Bench::new(one_at_a_time([slow()])).await;
    let many: Vec<_> = (0..5).map(|_| bench.call_of(1)).collect();
    let (_, one) = bench.call_of(2);
    assert!(one.await.unwrap().result.is_ok());
    assert!(!bench.reached().contains(&4), "one call of the first run goes before: {:?}", bench.reached());
    for (_, end) in many {
        assert!(end.await.unwrap().result.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn lim_03_every_way_a_call_can_end_frees_its_place() {
    let tool = FaultyTool::builder("find")
        .effect(Effect::Once)
        .resilience(|policy| {
            policy.concurrency = 2;
            policy.waiting = 6;
        })
        .behave(|ctx, _| match ctx.call.index % 5 {
            0 => Behaviour::Panic("boom".into()),
            1 => Behaviour::ok("x"),
            2 => Behaviour::Fail(Failure::not_found("No.")),
            3 => Behaviour::Fail(Failure::unavailable("Down.").effect(EffectState::None)),
            _ => Behaviour::Hang,
        });
    let mut bench = Bench::new(tool).await;
    for round in 0..200 {
        let calls: Vec<_> = (0..8).map(|_| bench.call()).collect();
        settle().await;
        for (ticket, end) in calls {
            match round % 3 {
                0 => bench.handle.cancel(ticket, CancelReach::Running),
                1 => drop(end),
                _ => {}
            }
        }
        if round % 50 == 49 {
            bench.handle.kill();
        }
        tokio::time::sleep(Duration::from_secs(130)).await;
        assert_eq!(bench.handle.free_places(), 8, "round {round}");
    }
}

#[tokio::test(start_paused = true)]
async fn lim_04_a_watcher_that_never_reads_is_told_how_much_it_missed_and_never_misses_the_end() {
    let turns = (0..20).map(|_| (0..100).fold(Turn::new(), |turn, n| turn.call("find", json!({ "n": n }))));
    let model = Scripted::new(turns.chain([Turn::new().text("done")]));
    let limits = RunLimits { tool_calls: 10_000, ..RunLimits::default() };
    let runtime = Runtime::builder().model(model).limits(limits).build().await.unwrap();
    let tool = FaultyTool::builder("find")
        .effect(Effect::ReadOnly)
        .polling()
        .resilience(|policy| policy.concurrency = 100)
        .behave(|ctx, _| Behaviour::ok(format!("{:?}", ctx.call)));
    let agent = Agent::new("a").tool(tool.clone());
    let mut stream = runtime.stream(&agent, "go").await.unwrap();
    while tool.invocations() < 2000 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_millis(10)).await;
    let (mut seen, mut lost, mut ended) = (0, 0, None);
    while let Some(event) = stream.next().await {
        match event {
            Progress::Lagged { lost: n } => lost += n,
            Progress::RunEnded { outcome } => ended = Some(outcome),
            _ => seen += 1,
        }
    }
    assert!(ended.unwrap().is_completed());
    assert!(seen <= 4096, "the queue is bounded: {seen}");
    assert!(lost > 0, "{seen} seen");
}
