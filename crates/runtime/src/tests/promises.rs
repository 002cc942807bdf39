//! Promises about attempts that only the whole runtime can keep.

use std::collections::BTreeSet;

use super::*;

/// A model whose stream breaks off once, after it has shown some text.
struct BreaksOff(Arc<ModelSpec>);

impl Model for BreaksOff {
    fn spec(&self) -> &Arc<ModelSpec> {
        &self.0
    }

    fn call(&self, ctx: ModelCtx, _: ModelRequest) -> BoxFuture<'_, Result<ModelReply, Failure>> {
        Box::pin(async move {
            let show = ctx.on_text.expect("somebody watches");
            show("The answer ");
            if ctx.attempt == 1 {
                return Err(Failure::connection_failed("The stream broke off.").effect(EffectState::Unknown));
            }
            show("is 4.");
            Ok(ModelReply::text("The answer is 4."))
        })
    }
}

#[tokio::test(start_paused = true)]
async fn rt_17_a_reply_that_starts_over_tells_its_attempt() {
    let model = BreaksOff(Arc::clone(Scripted::replies(["x"]).spec()));
    let runtime = Runtime::builder().model(model).build().await.unwrap();
    let mut seen = Vec::new();
    let stream = runtime.stream(&Agent::new("a"), "2 + 2").await.unwrap();
    let outcome = stream
        .watch(|event| match event {
            Progress::TextArrived { attempt, text, .. } => seen.push(format!("{attempt}: {text}")),
            Progress::ModelRetried { attempt, code, .. } => seen.push(format!("{attempt} failed: {code}")),
            _ => {}
        })
        .await;
    assert_eq!(seen, ["1: The answer ", "1 failed: connection_failed", "2: The answer ", "2: is 4."]);
    assert_eq!(outcome.answer(), Some("The answer is 4."), "nothing of the first attempt is in it");
}

#[tokio::test(start_paused = true)]
async fn rt_18_every_attempt_can_be_seen_with_its_wait_and_why_there_was_no_other() {
    let tool = reads(
        "find",
        [
            Behaviour::Fail(Failure::unavailable("Down.")),
            Behaviour::Fail(Failure::rate_limited("Slow down.").retry_after(Duration::from_secs(3))),
            Behaviour::Fail(Failure::unavailable("Still down.")),
        ],
    );
    let runtime = runtime(calls_then_done(&["find"])).await;
    let (_, events) = run_accounted(&runtime, &Agent::new("a").tool(tool)).await;
    let mut waits = Vec::new();
    let lines: Vec<String> = events
        .iter()
        .filter_map(|event| match event {
            Progress::AttemptStarted { attempt, .. } => Some(format!("attempt {attempt}")),
            Progress::AttemptFailed { code, wait, .. } => {
                waits.push(*wait);
                Some(format!("failed {code}"))
            }
            Progress::CallEnded { code: Some(code), attempts, stopped_by, .. } => {
                Some(format!("ended {code} after {attempts}, {stopped_by:?}"))
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        lines,
        [
            "attempt 1",
            "failed unavailable",
            "attempt 2",
            "failed rate_limited",
            "attempt 3",
            "ended unavailable after 3, Some(MaxAttempts)",
        ]
    );
    assert!(waits[0] <= Duration::from_millis(250) && waits[1] >= Duration::from_secs(3), "{waits:?}");
}

#[tokio::test(start_paused = true)]
async fn rt_21_one_call_has_one_attempt_at_a_time() {
    let slow =
        |_: &ToolCtx, _: &Json| Behaviour::Fail(Failure::unavailable("Down.")).after(Duration::from_secs(9));
    let tool = FaultyTool::builder("find").effect(Effect::ReadOnly).behave(slow);
    let runtime = runtime(calls_then_done(&["find"])).await;
    run_accounted(&runtime, &Agent::new("a").tool(tool.clone())).await;
    assert_eq!((tool.invocations(), tool.max_running()), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn rt_13_another_call_has_another_key() {
    let keys: Arc<std::sync::Mutex<Vec<Arc<str>>>> = Arc::default();
    let seen = Arc::clone(&keys);
    let tool = FaultyTool::builder("pay").effect(Effect::Keyed).behave(move |ctx, _| {
        seen.lock().unwrap().push(Arc::clone(&ctx.idempotency_key));
        Behaviour::ok("paid")
    });
    let runtime = runtime(calls_then_done(&["pay", "pay", "pay"])).await;
    let agent = Agent::new("a").tool(tool);
    runtime.run(&agent, "go").await;
    runtime.run(&agent, "again").await;
    let keys = keys.lock().unwrap();
    assert_eq!((keys.len(), keys.iter().collect::<BTreeSet<_>>().len()), (6, 6));
}

#[tokio::test(start_paused = true)]
async fn rb_08_the_retry_budget_is_really_asked() {
    let tool = FaultyTool::builder("find")
        .effect(Effect::ReadOnly)
        .on_exhausted(OnExhausted::Observe)
        .resilience(|policy| {
            policy.breaker.consecutive_failures = u32::MAX;
            policy.breaker.min_calls = u32::MAX;
            policy.concurrency = 1000;
        })
        .behave(|_, _| Behaviour::Fail(Failure::unavailable("Down.")));
    let runtime = runtime(calls_then_done(&["find"])).await;
    let agent = Agent::new("a").tool(tool.clone());
    let start = tokio::time::Instant::now();
    let runs: Vec<_> = (0..200)
        .map(|_| {
            let (runtime, agent) = (runtime.clone(), agent.clone());
            tokio::spawn(async move { runtime.run(&agent, "go").await })
        })
        .collect();
    for run in runs {
        assert!(run.await.unwrap().is_completed());
    }
    let earned = usize::try_from(start.elapsed().as_secs() / 5).unwrap();
    assert!(tool.invocations() <= 200 + 10 + earned, "{} attempts", tool.invocations());
    assert!(tool.invocations() >= 205, "some retries are granted: {} attempts", tool.invocations());
}

#[test]
fn sup_15_restarts_along_a_path_stay_few() {
    let tool = crate::RestartPolicy::default().intensity;
    let root = crate::supervisor::ROOT_INTENSITY;
    assert!(tool != root && tool * root <= 150, "{tool} × {root}");
}

#[test]
fn tst_04_the_suite_runs_against_the_pinned_ractor() {
    let lock = include_str!("../../../../Cargo.lock");
    let version =
        lock.split("name = \"ractor\"\nversion = \"").nth(1).and_then(|rest| rest.split('"').next());
    assert!(
        version.is_some_and(|version| version.starts_with("0.16.")),
        "ractor {version:?}: read its changes"
    );
}
