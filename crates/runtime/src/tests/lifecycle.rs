//! Crashes of a tool's own actor, going down and coming back, and attempts that do not stop.

use std::sync::atomic::AtomicBool;

use super::bench::{Bench, settle};
use super::*;
use crate::{RestartPolicy, RevivalPolicy};

fn hangs() -> FaultyTool {
    FaultyTool::builder("find")
        .effect(Effect::Keyed)
        .resilience(|policy| policy.concurrency = 1)
        .behave(|ctx, _| if ctx.call.index <= 2 { Behaviour::Hang } else { Behaviour::ok("x") })
}

/// Kills the tool's actor until its supervisor gives up.
async fn break_down(bench: &Bench) {
    for _ in 0..6 {
        tokio::time::sleep(Duration::from_secs(5)).await;
        bench.handle.kill();
        settle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn sup_17_while_a_tool_waits_for_its_restart_calls_fail_at_once() {
    let mut bench = Bench::new(reads("find", [])).await;
    bench.handle.kill();
    settle().await;
    bench.handle.kill();
    settle().await;
    let ServiceState::Restarting { retry_in } = bench.handle.picture().service else {
        panic!("{:?}", bench.handle.picture().service)
    };
    let before = bench.handle.now();
    let (_, end) = bench.call();
    let end = end.await.unwrap();
    let failure = end.result.unwrap_err();
    assert_eq!((failure.code, failure.retry_after, end.attempts), (FailureCode::ToolDown, Some(retry_in), 0));
    assert_eq!(bench.handle.now(), before, "nothing is queued");
    tokio::time::sleep(retry_in).await;
    settle().await;
    let (_, end) = bench.call();
    assert!(end.await.unwrap().result.is_ok());
    assert_eq!((bench.tool.invocations(), bench.handle.picture().restarts), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn sup_19_a_crash_of_the_actor_answers_each_call_once_and_tells_which_may_have_happened() {
    let mut bench = Bench::new(hangs()).await;
    let (_, running) = bench.call();
    let (_, queued) = bench.call();
    settle().await;
    bench.handle.kill();
    let (running, queued) = (running.await.unwrap(), queued.await.unwrap());
    let (lost, refused) = (running.result.unwrap_err(), queued.result.unwrap_err());
    assert_eq!((lost.code, lost.effect, running.attempts), (FailureCode::Crashed, EffectState::Unknown, 1));
    assert_eq!((refused.code, refused.effect, queued.attempts), (FailureCode::Crashed, EffectState::None, 0));
    assert_eq!(&*lost.message, "`find` crashed while it worked on this call.");
    assert_eq!(&*refused.message, "`find` crashed before it started on this call.");
    settle().await;
    assert_eq!((bench.reached(), bench.tool.running()), (vec![1], 0), "nothing is delivered again");
    let (_, next) = bench.call();
    assert!(next.await.unwrap().result.is_ok());
    assert_eq!(bench.handle.free_places(), 33);
}

#[tokio::test(start_paused = true)]
async fn sup_20_breaker_budget_gate_and_counters_outlive_the_actor() {
    let tool = FaultyTool::builder("find")
        .effect(Effect::ReadOnly)
        .behave(|_, _| Behaviour::Fail(Failure::unavailable("Down.")));
    let mut bench = Bench::new(tool).await;
    for _ in 0..2 {
        let (_, end) = bench.call();
        assert!(end.await.unwrap().result.is_err());
    }
    bench.handle.policies().gate.shut(bench.handle.now(), Duration::from_secs(3));
    let before = bench.handle.picture();
    assert!(matches!(before.breaker, BreakerStatus::Open { .. }) && before.budget_milli < 10_000);
    bench.handle.kill();
    settle().await;
    let after = bench.handle.picture();
    assert_eq!(after, ToolStatus { restarts: 1, ..before });
}

#[tokio::test(start_paused = true)]
async fn sup_21_a_tool_that_is_given_up_is_told_once_and_comes_back() {
    let mut bench = Bench::new(reads("find", [])).await;
    let mut events = bench.runtime.tool_events();
    break_down(&bench).await;
    let (_, end) = bench.call();
    let failure = end.await.unwrap().result.unwrap_err();
    assert_eq!(failure.code, FailureCode::ToolDown);
    assert_eq!(&*failure.message, "`find` is out of service: it broke 6 times in a short time.");
    assert!(failure.retry_after.unwrap() <= Duration::from_secs(60));
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(bench.handle.picture().service, ServiceState::Up);
    let (_, end) = bench.call();
    assert!(end.await.unwrap().result.is_ok(), "the handle survives");
    let told: Vec<ToolChange> =
        std::iter::from_fn(|| events.try_next()).map(|event| event.unwrap().change).collect();
    let downs: Vec<_> = told
        .iter()
        .filter_map(|change| match change {
            ToolChange::Down { revive_in, history, .. } => Some((revive_in.as_secs(), history.len())),
            _ => None,
        })
        .collect();
    assert_eq!(downs, [(60, 6)], "once for the incident");
    assert_eq!(told.iter().filter(|change| matches!(change, ToolChange::Restarting { .. })).count(), 5);
    assert_eq!(told.last(), Some(&ToolChange::Revived));
    break_down(&bench).await;
    let ServiceState::Down { revive_in, .. } = bench.handle.picture().service else { panic!() };
    assert!(
        revive_in.unwrap() > Duration::from_secs(100),
        "the next cool-down is twice as long: {revive_in:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn sup_22_a_tool_going_down_stops_no_run_and_the_run_uses_it_when_it_is_back() {
    let model = Scripted::new((0..20).map(|n| match n {
        19 => Turn::new().text("done"),
        n => Turn::new().call("find", json!({ "n": n })).call("wait", json!({ "n": n })),
    }));
    let find = FaultyTool::builder("find")
        .effect(Effect::Once)
        .on_exhausted(OnExhausted::Observe)
        .resilience(|policy| {
            policy.breaker.consecutive_failures = 1000;
            policy.breaker.min_calls = 1000;
        })
        .behave(
            |ctx, _| if ctx.call.turn < 9 { Behaviour::Panic("boom".into()) } else { Behaviour::ok("back") },
        );
    let wait = reads("wait", [Behaviour::ok("waited").after(Duration::from_secs(8))]);
    let runtime = runtime(model).await;
    let mut events = runtime.tool_events();
    let (outcome, _) = run_accounted(&runtime, &Agent::new("a").tool(find.clone()).tool(wait)).await;
    assert!(outcome.is_completed(), "{outcome:?}");
    assert_eq!(find.invocations(), 6 + 6, "six panics take it down, and after a minute it is back");
    let told: Vec<ToolChange> =
        std::iter::from_fn(|| events.try_next()).map(|event| event.unwrap().change).collect();
    assert!(matches!(told.as_slice(), [ToolChange::Down { .. }, ToolChange::Revived]), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn sup_24_two_runtimes_with_equal_tools_do_not_interact() {
    let (mut one, mut other) = (Bench::new(reads("find", [])).await, Bench::new(reads("find", [])).await);
    one.handle.switch(BreakerSwitch::Open);
    break_down(&one).await;
    let (_, end) = other.call();
    assert!(end.await.unwrap().result.is_ok());
    let (_, end) = one.call();
    assert!(end.await.unwrap().result.is_err());
    assert_eq!((other.handle.picture().service, other.handle.picture().restarts), (ServiceState::Up, 0));
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_stops_revives_nothing() {
    let runtime = Runtime::builder()
        .model(Scripted::replies(["x"]))
        .restarts(RestartPolicy { intensity: 0, ..RestartPolicy::default() })
        .revival(RevivalPolicy { after: Duration::from_secs(3), cap: Duration::from_secs(3) })
        .build()
        .await
        .unwrap();
    let bench = Bench::of(runtime, reads("find", [])).await;
    let mut events = bench.runtime.tool_events();
    bench.handle.kill();
    settle().await;
    bench.runtime.shutdown(Duration::from_secs(1)).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let told: Vec<_> = std::iter::from_fn(|| events.try_next()).map(|event| event.unwrap().change).collect();
    assert!(matches!(told.as_slice(), [ToolChange::Down { .. }]), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_is_no_incident() {
    let bench = Bench::new(reads("find", [])).await;
    let mut events = bench.runtime.tool_events();
    bench.runtime.shutdown(Duration::from_secs(1)).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(events.try_next(), None);
}

/// Blocks its thread until it is let go, which no abort can end.
struct Blocking {
    spec: Arc<ToolSpec>,
    go: Arc<AtomicBool>,
}

impl Tool for Blocking {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, ctx: ToolCtx, _: Json) -> BoxFuture<'_, Result<ToolOutput, Failure>> {
        Box::pin(async move {
            while ctx.run != RunId::from_u128(0) && !self.go.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(ToolOutput::text("too late"))
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn rt_15_an_attempt_that_does_not_stop_is_reported_and_too_many_take_the_tool_down() {
    let go = Arc::new(AtomicBool::new(false));
    let mut spec = ToolSpec::new("block", "Blocks.", json!({ "type": "object" }));
    spec.effect = Effect::Once;
    spec.resilience.attempt_timeout = Duration::from_millis(20);
    spec.resilience.abandoned_max = 1;
    let agent = Agent::new("a").tool(Blocking { spec: Arc::new(spec), go: Arc::clone(&go) });
    let runtime = runtime(Scripted::replies(["x"])).await;
    let mut events = runtime.tool_events();
    let call = async || runtime.call_tool(&agent, "block", "{}", |_| {}).await.unwrap().record;
    for n in 1..=2 {
        let CallVerdict::Failed(failure) = call().await.verdict else { panic!() };
        assert_eq!(failure.code, FailureCode::OutcomeUnknown);
        let event = events.next().await.unwrap().unwrap();
        assert_eq!(event.change, ToolChange::AttemptAbandoned { abandoned: n });
    }
    let refused = call().await;
    let CallVerdict::Failed(failure) = refused.verdict else { panic!() };
    assert_eq!((failure.code, refused.attempts), (FailureCode::ToolDown, 0));
    assert_eq!(
        &*failure.message,
        "`block` is out of service: 2 attempts of it were told to stop and do not. This call was not sent."
    );
    assert_eq!(runtime.tool_status(&agent, "block").await.unwrap().abandoned, 2);
    go.store(true, Ordering::Relaxed);
    for _ in 0..2 {
        assert!(matches!(events.next().await.unwrap().unwrap().change, ToolChange::AbandonedEnded { .. }));
    }
    let CallVerdict::Succeeded(_) = call().await.verdict else { panic!("it takes calls again") };
    let status = runtime.tool_status(&agent, "block").await.unwrap();
    assert_eq!(
        (status.abandoned, status.counters.stale),
        (0, 2),
        "rt_16: late results are counted and dropped"
    );
}
