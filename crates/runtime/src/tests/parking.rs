//! Runs that wait for a tool that is out of service.

use super::*;

/// Down until it has been asked so often, then well.
fn recovers_after(name: &str, failures: usize) -> FaultyTool {
    let asked = AtomicUsize::new(0);
    FaultyTool::builder(name)
        .effect(Effect::ReadOnly)
        .on_exhausted(OnExhausted::Park)
        .max_park(Duration::from_secs(600))
        .behave(move |_, _| match asked.fetch_add(1, Ordering::Relaxed) < failures {
            true => Behaviour::Fail(Failure::connection_failed("Refused.")),
            false => Behaviour::ok("back"),
        })
}

fn parks(events: &[Progress]) -> usize {
    events.iter().filter(|event| matches!(event, Progress::CallParked { .. })).count()
}

#[tokio::test(start_paused = true)]
async fn a_run_waits_for_its_tool_and_completes() {
    let runtime = runtime(calls_then_done(&["stock"])).await;
    let tool = recovers_after("stock", 7);
    let (outcome, events) = run_accounted(&runtime, &Agent::new("a").tool(tool.clone())).await;
    assert!(outcome.is_completed(), "{outcome:?}");
    assert_eq!((outcome.totals.failed_calls, ended_code(&events, "stock")), (0, None));
    assert_eq!(tool.invocations(), 8);
    assert!(parks(&events) >= 2, "{events:?}");
    assert!((10..300).contains(&outcome.elapsed.as_secs()), "{:?}", outcome.elapsed);
}

#[tokio::test(start_paused = true)]
async fn parked_runs_do_not_hammer_a_tool_and_come_back_one_by_one() {
    let runtime = runtime(calls_then_done(&["stock"])).await;
    let tool = recovers_after("stock", 12);
    let agent = Agent::new("a").tool(tool.clone());
    let runs = (0..200).map(|_| async {
        let (outcome, events) = run_accounted(&runtime, &agent).await;
        (outcome, parks(&events))
    });
    let ends = futures_util::future::join_all(runs).await;
    let failed = ends.iter().find(|(outcome, _)| !outcome.is_completed());
    assert!(failed.is_none(), "{failed:?}");
    assert!(ends.iter().filter(|(_, parks)| *parks > 0).count() > 150, "most had to wait");
    let times: std::collections::BTreeSet<_> = ends.iter().map(|(outcome, _)| outcome.elapsed).collect();
    assert!(times.len() > 100, "they came back at {} different times", times.len());
    let asked = tool.invocations();
    assert!(asked <= 200 + 12, "{asked} attempts for 200 answers and 12 failures");
}

#[tokio::test(start_paused = true)]
async fn a_breaker_that_an_operator_closes_wakes_the_calls_that_wait() {
    let runtime = runtime(calls_then_done(&["stock"])).await;
    let tool = FaultyTool::builder("stock")
        .effect(Effect::ReadOnly)
        .on_exhausted(OnExhausted::Park)
        .attempts([Behaviour::ok("back")]);
    let agent = Agent::new("a").tool(tool.clone());
    runtime.switch_breaker(&agent, "stock", BreakerSwitch::Open).await.unwrap();
    let handle = runtime.submit(&agent, "go").await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(tool.invocations(), 0);
    runtime.switch_breaker(&agent, "stock", BreakerSwitch::Reset).await.unwrap();
    let outcome = handle.outcome().await;
    assert_eq!((outcome.reason.name(), tool.invocations()), ("completed", 1));
    assert!(outcome.elapsed.as_secs() <= 16, "{:?}: it waited on", outcome.elapsed);
}

#[tokio::test(start_paused = true)]
async fn a_parked_run_can_be_cancelled_at_once() {
    let runtime = runtime(calls_then_done(&["stock"])).await;
    let agent = Agent::new("a").tool(recovers_after("stock", usize::MAX));
    let handle = runtime.submit(&agent, "go").await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    handle.cancel("a person");
    let outcome = handle.outcome().await;
    assert_eq!((outcome.reason.name(), outcome.elapsed.as_secs()), ("cancelled", 60));
}

#[tokio::test(start_paused = true)]
async fn a_run_does_not_wait_beyond_its_own_time() {
    let limits = RunLimits { wall_clock: Duration::from_secs(90), ..RunLimits::default() };
    let runtime = runtime(calls_then_done(&["stock"])).await;
    let agent = Agent::new("a").tool(recovers_after("stock", usize::MAX)).limits(limits);
    let outcome = runtime.run(&agent, "go").await;
    assert_eq!(outcome.reason, StopReason::LimitReached(LimitKind::WallClock));
    assert_eq!(outcome.elapsed.as_secs(), 90);
}
