use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dauntless_contract::*;
use dauntless_journal::Memory;
use dauntless_models::{Scripted, Turn};
use dauntless_testkit::leak::LeakBounds;
use dauntless_testkit::{Behaviour, CallAccounting, Canary, EffectLedger, FaultyTool, LeakCheck};
use serde_json::json;

use crate::{Agent, BuildError, Runtime};

mod bench;
mod children;
mod context;
mod driving;
mod fallbacks;
mod guards;
mod input;
mod lifecycle;
mod parking;
mod promises;
mod sharing;
mod spans;
mod survival;
mod tree;

/// One turn that calls each named tool once, then the answer.
fn calls_then_done(tools: &[&str]) -> Scripted {
    let ask = tools.iter().fold(Turn::new(), |turn, tool| turn.call(*tool, json!({})));
    Scripted::new([ask, Turn::new().text("done")])
}

async fn runtime(model: Scripted) -> Runtime {
    Runtime::builder().model(model).seed(7).build().await.unwrap()
}

/// Runs the agent, and holds the accounts of every event against the outcome.
async fn run_accounted(runtime: &Runtime, agent: &Agent) -> (Outcome, Vec<Progress>) {
    let mut events = Vec::new();
    let stream = runtime.stream(agent, "go").await.unwrap();
    let outcome = stream.watch(|event| events.push(event.clone())).await;
    CallAccounting::of_progress(&events).assert_balanced();
    (outcome, events)
}

fn ended_code(events: &[Progress], name: &str) -> Option<FailureCode> {
    events
        .iter()
        .find_map(|event| match event {
            Progress::CallEnded { tool, code, .. } if &**tool == name => Some(*code),
            _ => None,
        })
        .expect("the call ended")
}

fn reads(name: &str, attempts: impl IntoIterator<Item = Behaviour>) -> FaultyTool {
    FaultyTool::builder(name).effect(Effect::ReadOnly).attempts(attempts)
}

#[tokio::test(start_paused = true)]
async fn an_agent_without_tools_answers() {
    let runtime = runtime(Scripted::replies(["4"])).await;
    let outcome = runtime.run(&Agent::new("a"), "2 + 2").await;
    assert_eq!((outcome.reason.clone(), outcome.answer()), (StopReason::Completed, Some("4")));
}

#[tokio::test(start_paused = true)]
async fn a_transient_failure_is_retried_and_the_model_never_sees_it() {
    let tool = reads("find", [Behaviour::Fail(Failure::unavailable("Down.")), Behaviour::ok("found")]);
    let runtime = runtime(calls_then_done(&["find"])).await;
    let (outcome, events) = run_accounted(&runtime, &Agent::new("a").tool(tool.clone())).await;
    assert_eq!((outcome.reason.name(), tool.invocations()), ("completed", 2));
    assert_eq!((outcome.totals.turns, outcome.totals.failed_calls), (2, 0));
    assert_eq!(ended_code(&events, "find"), None);
}

#[tokio::test(start_paused = true)]
async fn a_fan_out_keeps_every_result_whatever_becomes_of_a_sibling() {
    let agent = Agent::new("a")
        .tool(reads("fine", [Behaviour::ok("1").after(Duration::from_millis(50))]))
        .tool(reads("wrong", [Behaviour::Fail(Failure::not_found("No such thing."))]))
        .tool(reads("slow", [Behaviour::ok("3").after(Duration::from_secs(2))]))
        .tool(FaultyTool::builder("broken").attempts([Behaviour::Panic("boom".into())]));
    let runtime = runtime(calls_then_done(&["fine", "wrong", "slow", "broken"])).await;
    let (outcome, events) = run_accounted(&runtime, &agent).await;
    assert_eq!(outcome.reason, StopReason::Completed);
    let codes = ["fine", "wrong", "slow", "broken"].map(|name| ended_code(&events, name));
    assert_eq!(codes, [None, Some(FailureCode::NotFound), None, Some(FailureCode::Crashed)]);
    assert_eq!(runtime.run(&agent, "again").await.reason, StopReason::Completed, "the process goes on");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_hangs_is_not_repeated_and_is_told_as_unknown() {
    let ledger = EffectLedger::in_memory();
    let tool = FaultyTool::builder("pay")
        .effect(Effect::Once)
        .ledger(ledger.clone())
        .attempts([Behaviour::Hang.after_effect(), Behaviour::ok("paid").after_effect()]);
    let runtime = runtime(calls_then_done(&["pay"])).await;
    let (outcome, events) = run_accounted(&runtime, &Agent::new("a").tool(tool)).await;
    assert_eq!(outcome.reason, StopReason::Completed);
    assert_eq!(ended_code(&events, "pay"), Some(FailureCode::OutcomeUnknown));
    ledger.assert_at_most_once();
    assert_eq!(ledger.total(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_write_beside_a_terminal_failure_is_awaited_and_not_tried_again() {
    let denied = Failure::unauthenticated("The key is wrong.");
    let pay = FaultyTool::builder("pay").effect(Effect::Keyed).attempts([
        Behaviour::Fail(Failure::unavailable("Down.").retry_after(Duration::from_secs(50)))
            .after(Duration::from_secs(2)),
        Behaviour::ok("paid"),
    ]);
    let agent = Agent::new("a").tool(pay.clone()).tool(reads("find", [Behaviour::Fail(denied)]));
    let (outcome, events) = run_accounted(&runtime(calls_then_done(&["find", "pay"])).await, &agent).await;
    assert_eq!((outcome.reason.name(), pay.invocations()), ("tool_terminal", 1));
    assert_eq!(ended_code(&events, "pay"), Some(FailureCode::Unavailable));
    assert_eq!(outcome.elapsed.as_secs(), 2, "the run waited for a retry");
}

#[tokio::test(start_paused = true)]
async fn the_tools_of_an_agent_can_be_wrapped() {
    struct Renamed(Arc<ToolSpec>, Arc<dyn Tool>);
    impl Tool for Renamed {
        fn spec(&self) -> &Arc<ToolSpec> {
            &self.0
        }
        fn call(&self, ctx: ToolCtx, arguments: Json) -> BoxFuture<'_, Result<ToolOutput, Failure>> {
            self.1.call(ctx, arguments)
        }
    }
    let tool = reads("find", [Behaviour::ok("found")]);
    let agent = Agent::new("a").tool(tool.clone()).map_tools(|inner| {
        let spec = ToolSpec { name: "search".into(), ..(**inner.spec()).clone() };
        Arc::new(Renamed(Arc::new(spec), inner))
    });
    let outcome = runtime(calls_then_done(&["search"])).await.run(&agent, "go").await;
    assert_eq!((outcome.totals.failed_calls, tool.invocations()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_tool_that_two_sources_have_reaches_the_one_that_was_meant() {
    let [north, mail] = ["north", "mail"].map(|answer| reads("order.find", [Behaviour::ok(answer)]));
    let south = FaultyTool::builder("order.find").fallback("order.last").attempts([Behaviour::ok("south")]);
    let last = reads("order.last", [Behaviour::ok("last")]);
    let agent = Agent::new("a")
        .source("north", [Arc::new(north.clone()) as Arc<dyn Tool>])
        .source("south", [Arc::new(south.clone()) as Arc<dyn Tool>, Arc::new(last)])
        .source("mail", [Arc::new(mail.clone()) as Arc<dyn Tool>]);
    assert_eq!(agent.check(), []);
    let runtime = runtime(calls_then_done(&["south__order_find", "order.last"])).await;
    let (outcome, events) = run_accounted(&runtime, &agent).await;
    assert!(outcome.is_completed(), "{outcome:?}");
    assert_eq!((north.invocations(), south.invocations(), mail.invocations()), (0, 1, 0));
    assert_eq!(ended_code(&events, "order_last"), None);
    assert!(events.iter().any(|event| matches!(event, Progress::CallRepaired { .. })));
}

#[tokio::test(start_paused = true)]
async fn of_two_tools_of_one_source_with_one_name_the_one_that_is_offered_is_called() {
    let [first, second] = ["first", "second"].map(|answer| reads("find", [Behaviour::ok(answer)]));
    let both = [first.clone(), second.clone()].map(|tool| Arc::new(tool) as Arc<dyn Tool>);
    let agent = Agent::new("a").source("outside", both);
    assert_eq!(agent.check().len(), 1);
    let (outcome, _) = run_accounted(&runtime(calls_then_done(&["find"])).await, &agent).await;
    assert_eq!(outcome.reason, StopReason::Completed);
    assert_eq!((first.invocations(), second.invocations()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_tool_from_outside_that_cannot_be_offered_is_left_out_and_the_others_work() {
    struct Odd(Arc<ToolSpec>);
    impl Tool for Odd {
        fn spec(&self) -> &Arc<ToolSpec> {
            &self.0
        }
        fn call(&self, _: ToolCtx, _: Json) -> BoxFuture<'_, Result<ToolOutput, Failure>> {
            Box::pin(async { Ok(ToolOutput::text("never")) })
        }
    }
    let odd = || Arc::new(Odd(Arc::new(ToolSpec::new("odd", "Odd.", json!({ "type": "string" })))));
    let find = reads("find", [Behaviour::ok("found")]);
    let agent = Agent::new("a").source("outside", [odd() as Arc<dyn Tool>, Arc::new(find.clone())]);
    assert_eq!(&*agent.check()[0].name, "odd");
    let (outcome, _) = run_accounted(&runtime(calls_then_done(&["find"])).await, &agent).await;
    assert_eq!((outcome.reason.name(), find.invocations()), ("completed", 1));
    let own = Agent::new("a").tools([odd() as Arc<dyn Tool>]);
    let refused = runtime(calls_then_done(&["find"])).await.submit(&own, "go").await;
    assert!(refused.err().unwrap().to_string().contains("`odd`"), "a mistake of the program is no tool");
}

#[tokio::test(start_paused = true)]
async fn dur_21_a_result_that_the_journal_does_not_take_is_a_failure_of_its_call() {
    let journal = Memory::default();
    let model = calls_then_done(&["export"]);
    let runtime = Runtime::builder().model(model).journal(journal.handle());
    let runtime = runtime.build().await.unwrap();
    let export = FaultyTool::builder("export").attempts([Behaviour::ok("x".repeat(5_000_000))]);
    let (outcome, events) = run_accounted(&runtime, &Agent::new("a").tool(export)).await;
    assert_eq!(outcome.reason, StopReason::Completed, "{outcome:?}");
    assert_eq!(ended_code(&events, "export"), Some(FailureCode::TooLarge));
}

#[tokio::test(start_paused = true)]
async fn rt_13_a_keyed_write_is_repeated_with_one_key() {
    let ledger = EffectLedger::in_memory();
    let tool = FaultyTool::builder("pay")
        .effect(Effect::Keyed)
        .ledger(ledger.clone())
        .attempts([Behaviour::Hang.after_effect(), Behaviour::ok("paid").after_effect()]);
    let runtime = runtime(calls_then_done(&["pay"])).await;
    let (outcome, _) = run_accounted(&runtime, &Agent::new("a").tool(tool)).await;
    assert_eq!(outcome.reason, StopReason::Completed);
    assert_eq!(ledger.repeated().len(), 1, "both attempts carried one key");
    assert_eq!(ledger.total(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_hanging_call_times_out_and_its_sibling_is_kept() {
    let agent = Agent::new("a")
        .tool(
            FaultyTool::builder("stuck")
                .effect(Effect::ReadOnly)
                .on_exhausted(OnExhausted::Observe)
                .attempts([Behaviour::Hang, Behaviour::Hang, Behaviour::Hang]),
        )
        .tool(reads("fine", [Behaviour::ok("1")]));
    let runtime = runtime(calls_then_done(&["stuck", "fine"])).await;
    let (outcome, events) = run_accounted(&runtime, &agent).await;
    assert_eq!(outcome.reason, StopReason::Completed);
    assert_eq!(ended_code(&events, "stuck"), Some(FailureCode::Timeout));
    assert_eq!(ended_code(&events, "fine"), None);
    assert!(outcome.elapsed <= Duration::from_millis(60_010), "{:?}", outcome.elapsed);
}

#[tokio::test(start_paused = true)]
async fn a_terminal_failure_escalates_typed_and_names_its_tool() {
    let tool = reads("find", [Behaviour::Fail(Failure::unauthenticated("The key was refused."))]);
    let (told, heard) = std::sync::mpsc::channel();
    let runtime = Runtime::builder()
        .model(calls_then_done(&["find"]))
        .on_escalation(move |escalation| told.send(escalation.clone()).unwrap())
        .build()
        .await
        .unwrap();
    let outcome = runtime.run(&Agent::new("a").tool(tool.clone()), "go").await;
    assert_eq!(
        outcome.reason.to_string(),
        "tool_terminal: find (call_1_1) failed with unauthenticated after 1 attempt"
    );
    assert_eq!(tool.invocations(), 1);
    runtime.shutdown(Duration::from_secs(1)).await;
    let escalation = heard.try_recv().expect("the supervisor was told");
    assert_eq!((escalation.run, escalation.reason), (outcome.run, outcome.reason));
    assert!(heard.try_recv().is_err(), "once");
}

#[tokio::test(start_paused = true)]
async fn cancel_ends_the_run_within_a_bound_and_stops_the_tool() {
    let tool = reads("stuck", [Behaviour::Hang]);
    let runtime = runtime(calls_then_done(&["stuck"])).await;
    let agent = Agent::new("a").tool(tool.clone());
    let mut stream = runtime.stream(&agent, "go").await.unwrap();
    while let Some(event) = stream.next().await {
        if let Progress::AttemptStarted { .. } = event {
            stream.canceller().cancel("the user");
            break;
        }
    }
    let outcome = stream.watch(|_| {}).await;
    assert_eq!(outcome.reason.to_string(), "cancelled by the user");
    assert!(outcome.elapsed < Duration::from_secs(1));
    runtime.shutdown(Duration::from_secs(1)).await;
    assert_eq!(tool.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_caller_cancels_the_run() {
    let tool = reads("stuck", [Behaviour::Hang]);
    let runtime = runtime(calls_then_done(&["stuck"])).await;
    let agent = Agent::new("a").tool(tool.clone());
    tokio::select! {
        _ = runtime.run(&agent, "go") => panic!("it hangs"),
        () = async { while tool.running() == 0 { tokio::task::yield_now().await } } => {}
    }
    while tool.running() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_bulkhead_bounds_what_runs_at_once_over_all_runs() {
    let tool = FaultyTool::builder("find")
        .effect(Effect::ReadOnly)
        .resilience(|policy| {
            policy.concurrency = 3;
            policy.waiting = 100;
        })
        .behave(|_, _| Behaviour::ok("x").after(Duration::from_millis(10)));
    let runtime = runtime(calls_then_done(&["find", "find"])).await;
    let agent = Agent::new("a").tool(tool.clone());
    let runs: Vec<_> = (0..20)
        .map(|_| {
            let (runtime, agent) = (runtime.clone(), agent.clone());
            tokio::spawn(async move { runtime.run(&agent, "go").await })
        })
        .collect();
    for run in runs {
        assert_eq!(run.await.unwrap().reason, StopReason::Completed);
    }
    assert_eq!((tool.invocations(), tool.max_running()), (40, 3));
}

#[tokio::test(start_paused = true)]
async fn beyond_the_bulkhead_a_call_is_refused_at_once() {
    let tool = FaultyTool::builder("find")
        .effect(Effect::ReadOnly)
        .on_exhausted(OnExhausted::Observe)
        .resilience(|policy| {
            policy.concurrency = 1;
            policy.waiting = 0;
        })
        .behave(|_, _| Behaviour::ok("x").after(Duration::from_millis(10)));
    let runtime = runtime(calls_then_done(&["find", "find"])).await;
    let (outcome, events) = run_accounted(&runtime, &Agent::new("a").tool(tool.clone())).await;
    assert_eq!((outcome.reason, tool.invocations()), (StopReason::Completed, 1));
    assert_eq!(ended_code(&events, "find"), Some(FailureCode::Overloaded));
}

#[tokio::test(start_paused = true)]
async fn one_breaker_serves_all_runs_of_a_tool() {
    let tool = FaultyTool::builder("find")
        .effect(Effect::ReadOnly)
        .on_exhausted(OnExhausted::Observe)
        .behave(|_, _| Behaviour::Fail(Failure::connection_failed("Refused.")));
    let runtime = runtime(calls_then_done(&["find"])).await;
    let agent = Agent::new("a").tool(tool.clone());
    let mut codes = Vec::new();
    for _ in 0..3 {
        let (_, events) = run_accounted(&runtime, &agent).await;
        codes.push(ended_code(&events, "find"));
    }
    assert_eq!(tool.invocations(), 5, "five failures in a row open it");
    assert_eq!(codes.last(), Some(&Some(FailureCode::ToolDown)));
    tokio::time::sleep(Duration::from_secs(7)).await;
    run_accounted(&runtime, &agent).await;
    assert_eq!(tool.invocations(), 6, "after the wait one probe goes through");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_keeps_panicking_is_taken_out_of_service() {
    let tool = FaultyTool::builder("find")
        .effect(Effect::Once)
        .on_exhausted(OnExhausted::Observe)
        .resilience(|policy| policy.breaker.consecutive_failures = 100)
        .resilience(|policy| policy.breaker.min_calls = 100)
        .behave(|_, _| Behaviour::Panic("boom".into()));
    let runtime = runtime(calls_then_done(&["find"])).await;
    let agent = Agent::new("a").tool(tool.clone());
    for _ in 0..8 {
        let (outcome, _) = run_accounted(&runtime, &agent).await;
        assert_eq!(outcome.reason, StopReason::Completed);
    }
    assert_eq!(tool.invocations(), 6, "five are put up with, the sixth is one too many");
    let (_, events) = run_accounted(&runtime, &agent).await;
    assert_eq!(ended_code(&events, "find"), Some(FailureCode::ToolDown));
}

#[tokio::test(start_paused = true)]
async fn a_model_is_retried_with_its_own_budget_and_ends_the_run_when_it_stays_down() {
    let fails = |times| Turn::new().fail_times(Failure::unavailable("Down."), times).text("back");
    let runtime_ok = runtime(Scripted::new([fails(2)])).await;
    let outcome = runtime_ok.run(&Agent::new("a"), "go").await;
    assert_eq!((outcome.answer(), outcome.totals.model_attempts, outcome.totals.turns), (Some("back"), 3, 1));
    let runtime_down = runtime(Scripted::new([fails(9)])).await;
    let outcome = runtime_down.run(&Agent::new("a"), "go").await;
    assert_eq!(outcome.reason.to_string(), "model_failed: unavailable after 3 attempts");
}

#[tokio::test(start_paused = true)]
async fn a_secret_leaves_by_no_exit() {
    let canary = Canary::default();
    let leak = format!("refused https://api.example/v1?key={}", canary.key());
    let tool = FaultyTool::builder("find").effect(Effect::ReadOnly).attempts([
        Behaviour::Fail(Failure::unavailable(leak.clone()).source(leak.clone())),
        Behaviour::ok(leak.clone()),
    ]);
    let journal = Memory::default();
    let model = Scripted::new([Turn::new().call("find", json!({})), Turn::new().text("{{last}}")]);
    let runtime = Runtime::builder()
        .model(model)
        .secrets([canary.key().to_owned()])
        .journal(journal.handle())
        .build()
        .await
        .unwrap();
    let (outcome, events) = run_accounted(&runtime, &Agent::new("a").tool(tool)).await;
    let facts = journal.read(outcome.run, 0, 100).await.unwrap();
    let exits = [
        ("progress", serde_json::to_string(&events).unwrap()),
        ("journal", facts.iter().map(|fact| serde_json::to_string(&fact.event).unwrap()).collect()),
        ("outcome", serde_json::to_string(&outcome).unwrap()),
    ];
    assert!(exits[1].1.contains("refused"), "the rest of the text is kept: {}", exits[1].1);
    let exits: Vec<(&str, &str)> = exits.iter().map(|(name, text)| (*name, text.as_str())).collect();
    canary.assert_kept(&exits);
}

#[tokio::test(start_paused = true)]
async fn the_journal_holds_every_fact_and_balances() {
    let journal = Memory::default();
    let runtime = Runtime::builder()
        .model(calls_then_done(&["find", "find"]))
        .journal(journal.handle())
        .build()
        .await
        .unwrap();
    let agent = Agent::new("a").tool(reads("find", [Behaviour::ok("x"), Behaviour::ok("y")]));
    let outcome = runtime.run(&agent, "go").await;
    let facts = journal.read(outcome.run, 0, 100).await.unwrap();
    let kinds: Vec<&str> = facts
        .iter()
        .map(|fact| match fact.event {
            RunEvent::RunStarted { .. } => "started",
            RunEvent::ModelReplied { .. } => "replied",
            RunEvent::CallEnded { .. } => "ended",
            _ => "other",
        })
        .collect();
    assert_eq!(kinds, ["started", "replied", "ended", "ended", "replied"]);
}

/// A journal that goes away while runs are under way.
struct Failing(AtomicUsize);

impl Journal for Failing {
    fn create(&self, _: NewRun) -> BoxFuture<'_, Result<(), CreateError>> {
        Box::pin(std::future::ready(Ok(())))
    }
    fn append<'a>(
        &'a self,
        _: &'a Fence,
        _: Seq,
        _: Vec<Recorded>,
    ) -> BoxFuture<'a, Result<Seq, AppendError>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(Err(AppendError::Unavailable("disk full".into()))))
    }
    fn read(&self, run: RunId, _: Seq, _: usize) -> BoxFuture<'_, Result<Vec<Recorded>, ReadError>> {
        Box::pin(std::future::ready(Err(ReadError::NoSuchRun(run))))
    }
    fn release<'a>(&'a self, _: &'a Fence, _: Release) -> BoxFuture<'a, Result<(), AppendError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

#[tokio::test(start_paused = true)]
async fn a_fact_that_is_not_stored_is_not_acted_upon() {
    let tool = reads("find", [Behaviour::ok("x")]);
    let runtime = Runtime::builder()
        .model(calls_then_done(&["find"]))
        .journal(Failing(AtomicUsize::new(0)))
        .build()
        .await
        .unwrap();
    let outcome = runtime.run(&Agent::new("a").tool(tool.clone()), "go").await;
    assert_eq!(outcome.reason.to_string(), "internal: journal_refused");
    assert_eq!(tool.invocations(), 0);
    assert_eq!(outcome.explanation.as_deref(), Some("the journal is unavailable: disk full"));
}

#[tokio::test(start_paused = true)]
async fn a_mistake_in_an_agent_fails_the_build_and_names_it() {
    let twice = || reads("find", []);
    let agent = Agent::new("a").tool(twice()).tool(twice());
    let built = Runtime::builder().model(Scripted::replies(["x"])).agent(&agent).build().await;
    let error = built.err().expect("a duplicate name does not build").to_string();
    assert!(error.contains("agent `a` cannot run") && error.contains("`find`"), "{error}");
    let runtime = runtime(Scripted::replies(["x"])).await;
    let outcome = runtime.run(&agent, "go").await;
    assert_eq!(outcome.reason.to_string(), "internal: invalid_agent");
    let built = Runtime::builder().agent(&Agent::new("b")).build().await;
    assert!(matches!(built, Err(BuildError::NoModel { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_call_by_hand_has_the_whole_resilience() {
    let tool = reads("find", [Behaviour::Fail(Failure::unavailable("Down.")), Behaviour::ok("found")]);
    let runtime = runtime(Scripted::replies(["x"])).await;
    let agent = Agent::new("a").tool(tool);
    let mut seen = 0;
    let call = runtime.call_tool(&agent, "find", "{}", |_| seen += 1).await.unwrap();
    assert_eq!((call.record.attempts, seen), (2, 3));
    assert_eq!(call.record.verdict, CallVerdict::Succeeded(ToolOutput::text("found")));
    let call = runtime.call_tool(&agent, "find", "[1]", |_| {}).await.unwrap();
    let seen: serde_json::Value = serde_json::from_str(&call.observation.text).unwrap();
    assert_eq!((&seen["error"], &seen["attempts"]), (&json!("invalid_arguments"), &json!(null)));
    let error = runtime.call_tool(&agent, "fnd", "{}", |_| {}).await.unwrap_err();
    assert_eq!(error.to_string(), "agent `a` has no tool `fnd`; it has: find");
}

#[tokio::test(start_paused = true)]
async fn after_shutdown_runs_are_refused_and_those_under_way_end_cancelled() {
    let runtime = runtime(calls_then_done(&["stuck"])).await;
    let tool = reads("stuck", [Behaviour::Hang]);
    let agent = Agent::new("a").tool(tool.clone());
    let handle = runtime.submit(&agent, "go").await.unwrap();
    while tool.running() == 0 {
        tokio::task::yield_now().await;
    }
    runtime.shutdown(Duration::from_secs(5)).await;
    assert_eq!(handle.outcome().await.reason.to_string(), "cancelled by shutdown");
    assert_eq!(runtime.run(&agent, "more").await.reason.to_string(), "internal: runtime_stopped");
}

#[tokio::test(start_paused = true)]
async fn a_run_more_than_may_be_under_way_waits_for_a_place() {
    let tool = FaultyTool::builder("find")
        .effect(Effect::ReadOnly)
        .resilience(|policy| policy.retry.max_attempts = 1)
        .behave(|_, _| Behaviour::Fail(Failure::gone("Closed.")).after(Duration::from_secs(5)));
    let runtime = Runtime::builder()
        .model(calls_then_done(&["find"]))
        .runs_at_once(2.try_into().unwrap())
        .build()
        .await
        .unwrap();
    let agent = Agent::new("a").tool(tool.clone());
    let runs: Vec<_> = (0..6)
        .map(|_| {
            let (runtime, agent) = (runtime.clone(), agent.clone());
            tokio::spawn(async move { runtime.run(&agent, "go").await })
        })
        .collect();
    for run in runs {
        assert_eq!(
            run.await.unwrap().reason.name(),
            "tool_terminal",
            "a place comes back from a failed run too"
        );
    }
    assert_eq!((tool.invocations(), tool.max_running()), (6, 2));
}

#[tokio::test]
async fn nothing_is_left_behind() {
    let before = LeakCheck::snapshot().unwrap();
    {
        let agent = Agent::new("a").tool(FaultyTool::builder("find").behave(|_, _| Behaviour::ok("x")));
        let runtime = runtime(calls_then_done(&["find", "find"])).await;
        for _ in 0..50 {
            assert!(runtime.run(&agent, "go").await.is_completed());
        }
        runtime.shutdown(Duration::from_secs(5)).await;
    }
    before.check(LeakBounds::default()).await.unwrap();
}
