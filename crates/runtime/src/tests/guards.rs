//! What stands between a caller and a tool, as the actors carry it out.

use std::sync::Barrier;

use dauntless_core::resilience::CommonBudget;
use dauntless_core::run::{CancelReach, RunMachine};

use super::bench::{Bench, settle};
use super::*;
use crate::guarded::RuntimeBudget;

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

#[tokio::test(start_paused = true)]
async fn rb_10_all_tools_of_a_runtime_draw_on_one_budget() {
    let policy = BudgetPolicy { capacity_milli: 1000, per_success_milli: 0, refill_every: Duration::MAX };
    let runtime =
        Runtime::builder().model(Scripted::replies(["x"])).retry_budget(policy).build().await.unwrap();
    let down = || [Behaviour::Fail(Failure::unavailable("Down."))];
    let (first, second) = (reads("first", down()), reads("second", down()));
    let agent = Agent::new("a").tool(first.clone()).tool(second.clone());
    let record = runtime.call_tool(&agent, "first", "{}", |_| {}).await.unwrap().record;
    assert_eq!((record.attempts, record.stopped_by), (2, Some(StoppedBy::Budget)));
    let record = runtime.call_tool(&agent, "second", "{}", |_| {}).await.unwrap().record;
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

/// A tool that fails until it is told to work.
fn switchable() -> (FaultyTool, Arc<AtomicUsize>) {
    switchable_to(Failure::unavailable("Down."))
}

/// A tool that fails in this way until it is made to work.
fn switchable_to(failure: Failure) -> (FaultyTool, Arc<AtomicUsize>) {
    let works = Arc::new(AtomicUsize::new(0));
    let switch = Arc::clone(&works);
    let tool = FaultyTool::builder("find").effect(Effect::Once).behave(move |_, _| {
        match switch.load(Ordering::Relaxed) {
            0 => Behaviour::Fail(failure.clone()),
            _ => Behaviour::ok("x"),
        }
    });
    (tool, works)
}

async fn trip(bench: &mut Bench) {
    for _ in 0..5 {
        let (_, end) = bench.call();
        assert!(end.await.unwrap().result.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn cb_05_sixty_four_threads_at_the_boundary_get_one_probe() {
    let (tool, _) = switchable();
    let mut bench = Bench::new(tool).await;
    for _ in 0..20 {
        bench.handle.switch(BreakerSwitch::Reset);
        trip(&mut bench).await;
        tokio::time::sleep(Duration::from_secs(121)).await;
        let (now, barrier, handle) = (bench.handle.now(), Barrier::new(64), &bench.handle);
        let permits = std::thread::scope(|threads| {
            let racers: Vec<_> = (0..64)
                .map(|_| {
                    threads.spawn(|| {
                        barrier.wait();
                        handle.policies().breaker.acquire(now).ok()
                    })
                })
                .collect();
            racers.into_iter().filter_map(|racer| racer.join().unwrap()).count()
        });
        assert_eq!(permits, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn cb_12_what_the_breaker_did_is_told_in_order_and_once_to_everybody() {
    let (tool, works) = switchable();
    let mut bench = Bench::new(tool).await;
    let (mut slow, mut quick) = (bench.runtime.tool_events(), bench.runtime.tool_events());
    let mut breaks = bench.runtime.tool_events();
    drop(bench.runtime.tool_events());
    let broken = tokio::spawn(async move {
        breaks.next().await;
        panic!("a listener with a defect");
    });
    trip(&mut bench).await;
    assert!(matches!(
        quick.next().await.unwrap().unwrap().change,
        ToolChange::Breaker { now: BreakerStatus::Open { .. } }
    ));
    works.store(1, Ordering::Relaxed);
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_secs(7)).await;
        let (_, end) = bench.call();
        assert!(end.await.unwrap().result.is_ok());
    }
    assert!(broken.await.unwrap_err().is_panic());
    bench.handle.switch(BreakerSwitch::Open);
    let mut told = Vec::new();
    while let Some(event) = slow.try_next() {
        let ToolEvent { name, kind, change, .. } = event.unwrap();
        assert_eq!((&*name, kind), ("find", DependencyKind::Tool));
        match change {
            ToolChange::Breaker { now: BreakerStatus::Open { retry_in } } => {
                assert!(retry_in >= Duration::from_secs(4) && retry_in <= Duration::from_secs(6));
                told.push("open");
            }
            ToolChange::Breaker { now: BreakerStatus::HalfOpen } => told.push("half-open"),
            ToolChange::Breaker { now: BreakerStatus::Closed } => told.push("closed"),
            ToolChange::Breaker { now: BreakerStatus::ForcedOpen } => told.push("forced open"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(told, ["open", "half-open", "closed", "forced open"]);
}

#[tokio::test(start_paused = true)]
async fn cb_12_sixteen_operators_at_once_leave_a_true_history() {
    let bench = Bench::new(reads("find", [])).await;
    let mut events = bench.runtime.tool_events();
    let handle = &bench.handle;
    std::thread::scope(|threads| {
        for n in 0..16 {
            threads.spawn(move || {
                for _ in 0..50 {
                    let switch = [BreakerSwitch::Open, BreakerSwitch::Close, BreakerSwitch::Reset][n % 3];
                    handle.switch(switch);
                }
            });
        }
    });
    let told: Vec<ToolChange> =
        std::iter::from_fn(|| events.try_next()).map(|event| event.unwrap().change).collect();
    assert_eq!(told.len(), 16 * 50, "each once");
    assert_eq!(told.last(), Some(&ToolChange::Breaker { now: handle.picture().breaker }), "in order");
}

#[tokio::test(start_paused = true)]
async fn cb_12_a_reader_that_is_too_slow_is_told_how_much_it_missed() {
    let bench = Bench::new(reads("find", [])).await;
    let mut events = bench.runtime.tool_events();
    for _ in 0..1500 {
        bench.handle.switch(BreakerSwitch::Reset);
    }
    assert_eq!(events.next().await, Some(Err(crate::Lagged { lost: 1500 - 1024 })));
    assert!(events.next().await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn cb_13_an_operator_opens_closes_and_resets_a_tool() {
    let (tool, works) = switchable();
    let runtime = runtime(Scripted::replies(["x"])).await;
    let agent = Agent::new("a").tool(tool.clone());
    runtime.switch_breaker(&agent, "find", BreakerSwitch::Open).await.unwrap();
    let code = async || match runtime.call_tool(&agent, "find", "{}", |_| {}).await.unwrap().record.verdict {
        CallVerdict::Failed(failure) => Some(failure.code),
        CallVerdict::Succeeded(_) => None,
    };
    assert_eq!((code().await, tool.invocations()), (Some(FailureCode::ToolDown), 0));
    runtime.switch_breaker(&agent, "find", BreakerSwitch::Close).await.unwrap();
    for n in 1..=20 {
        assert_eq!((code().await, tool.invocations()), (Some(FailureCode::Unavailable), n));
    }
    runtime.switch_breaker(&agent, "find", BreakerSwitch::Reset).await.unwrap();
    works.store(1, Ordering::Relaxed);
    assert_eq!(code().await, None);
    let error = runtime.switch_breaker(&agent, "fnd", BreakerSwitch::Open).await.unwrap_err();
    assert_eq!(error.to_string(), "agent `a` has no tool `fnd`; it has: find");
}

#[tokio::test(start_paused = true)]
async fn a_status_shows_what_the_guards_hold() {
    let tool = FaultyTool::builder("find")
        .effect(Effect::Once)
        .resilience(|policy| policy.concurrency = 1)
        .behave(|ctx, _| match ctx.call.index {
            1..=3 => Behaviour::Fail(Failure::unavailable("Down.").effect(EffectState::Unknown)),
            4 => Behaviour::Fail(Failure::rate_limited("Slow down.").retry_after(Duration::from_secs(90))),
            5 => Behaviour::ok("x"),
            _ => Behaviour::Hang,
        });
    let mut bench = Bench::new(tool).await;
    for _ in 0..4 {
        let (_, end) = bench.call();
        assert!(end.await.unwrap().result.is_err());
    }
    let status = bench.handle.picture();
    assert!(status.gate_opens_in.unwrap() > Duration::from_secs(80));
    tokio::time::sleep(Duration::from_secs(100)).await;
    let (_, end) = bench.call();
    assert!(end.await.unwrap().result.is_ok());
    let (_running, _waiting) = (bench.call(), bench.call());
    settle().await;
    let status = bench.handle.picture();
    assert_eq!((status.service, status.breaker), (ServiceState::Up, BreakerStatus::Closed));
    assert_eq!((status.running, status.running_max, status.waiting, status.waiting_max), (1, 1, 1, 32));
    assert_eq!((status.budget_milli, status.budget_capacity_milli), (10_000, 10_000));
    assert_eq!((status.gate_opens_in, status.abandoned, status.restarts), (None, 0, 0));
    let Counters { calls, succeeded, attempts, retries, failed_attempts, .. } = status.counters;
    assert_eq!((calls, succeeded, attempts, retries), (7, 1, 6, 0));
    let codes: Vec<_> = failed_attempts.into_iter().collect();
    assert_eq!(codes, [(FailureCode::RateLimited, 1), (FailureCode::Unavailable, 3)]);
    let messages: Vec<&str> = status.last_failures.iter().map(|failure| &*failure.message).collect();
    assert_eq!(messages, ["Down.", "Down.", "Down.", "Slow down."]);
}

#[tokio::test(start_paused = true)]
async fn a_status_counts_what_models_were_shown_and_remembers_twenty_failures() {
    let tool = reads("find", [Behaviour::Fail(Failure::not_found("No."))]);
    let ask = || Turn::new().call("find", json!({})).raw_call("find", "[1]");
    let runtime = runtime(Scripted::new((0..30).map(|n| match n {
        29 => Turn::new().text("done"),
        _ => ask(),
    })))
    .await;
    let agent = Agent::new("a").tool(tool);
    for n in 0..25 {
        let _ = runtime.call_tool(&agent, "find", &format!("{{\"n\":{n}}}"), |_| {}).await.unwrap();
    }
    let outcome = runtime.run(&agent, "go").await;
    assert_eq!(outcome.reason.name(), "stuck");
    let status = runtime.tool_status(&agent, "find").await.unwrap();
    assert_eq!(status.last_failures.len(), 20);
    let observed = &status.counters.observed;
    assert_eq!(observed[&FailureCode::NotFound], 2);
    assert!(
        observed[&FailureCode::RepeatedFailure] > 0 && observed[&FailureCode::InvalidArguments] > 0,
        "{observed:?}"
    );
    let names: Vec<_> =
        runtime.statuses().await.into_iter().map(|status| (status.name, status.kind)).collect();
    assert_eq!(names, [("find".into(), DependencyKind::Tool), ("scripted".into(), DependencyKind::Model)]);
}

#[tokio::test(start_paused = true)]
async fn rt_19_a_fan_out_gives_one_result_each_in_order_and_stores_them_as_they_come() {
    let tool = FaultyTool::builder("find")
        .effect(Effect::Once)
        .on_exhausted(OnExhausted::Observe)
        .resilience(|policy| {
            policy.concurrency = 100;
            policy.attempt_timeout = Duration::from_secs(5);
            policy.breaker.consecutive_failures = 1000;
            policy.breaker.min_calls = 1000;
        })
        .behave(|ctx, _| match ctx.call.index % 4 {
            0 => Behaviour::ok(ctx.call.to_string())
                .after(Duration::from_millis(u64::from(100 - ctx.call.index))),
            1 => Behaviour::Fail(Failure::not_found(ctx.call.to_string())),
            2 if ctx.call.index < 20 => Behaviour::Panic("boom".into()),
            _ => Behaviour::Hang,
        });
    let calls = (0..100).fold(Turn::new(), |turn, n| turn.call("find", json!({ "n": n })));
    let journal = Memory::default();
    let runtime = Runtime::builder()
        .model(Scripted::new([calls, Turn::new().text("done")]))
        .journal(journal.handle())
        .build()
        .await
        .unwrap();
    let agent = Agent::new("a").tool(tool);
    let (outcome, _) = run_accounted(&runtime, &agent).await;
    assert!(outcome.is_completed(), "{outcome:?}");
    let facts = journal.read(outcome.run, 0, 1000).await.unwrap();
    let stored: Vec<u32> = facts
        .iter()
        .filter_map(|fact| match &fact.event {
            RunEvent::CallEnded { call, record: CallRecord { verdict: CallVerdict::Succeeded(_), .. } } => {
                Some(call.index)
            }
            _ => None,
        })
        .collect();
    assert!(
        stored.is_sorted_by(|a, b| a > b),
        "the last to be asked for was the first to answer: {stored:?}"
    );
    let mut machine =
        RunMachine::new(outcome.run, Arc::clone(runtime.crew(&agent).await.unwrap().brain.agent().unwrap()));
    for Recorded { at, event } in facts {
        let _ = machine.on(at, event);
    }
    assert_eq!(machine.outcome(), Some(&outcome), "replay equals live");
    let observed: Vec<String> = machine
        .history()
        .messages()
        .iter()
        .filter_map(|message| match message {
            Message::Tool { text, .. } => Some(text.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(observed.len(), 100);
    for (index, text) in observed.iter().enumerate() {
        let expected = match index % 4 {
            0 => format!("1.{index}"),
            1 => "not_found".to_owned(),
            2 if index < 20 => "crashed".to_owned(),
            _ => "outcome_unknown".to_owned(),
        };
        assert!(text.contains(&expected), "call {index}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn rt_20_after_a_cancel_every_call_has_one_result() {
    let tool = FaultyTool::builder("find")
        .resilience(|policy| policy.concurrency = 3)
        .behave(|ctx, _| if ctx.call.index == 0 { Behaviour::ok("x") } else { Behaviour::Hang });
    let calls = (0..10).fold(Turn::new(), |turn, n| turn.call("find", json!({ "n": n })));
    let runtime = runtime(Scripted::new([calls])).await;
    let agent = Agent::new("a").tool(tool.clone());
    let mut events = Vec::new();
    let stream = runtime.stream(&agent, "go").await.unwrap();
    let canceller = stream.canceller();
    let outcome = stream
        .watch(|event| {
            if let Progress::CallEnded { .. } = event {
                canceller.cancel("the user");
            }
            events.push(event.clone());
        })
        .await;
    assert_eq!(outcome.reason.to_string(), "cancelled by the user");
    CallAccounting::of_progress(&events).assert_balanced();
    let codes: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Progress::CallEnded { code, .. } => Some(*code),
            _ => None,
        })
        .collect();
    assert_eq!(codes.iter().filter(|code| **code == Some(FailureCode::Cancelled)).count(), 9);
    settle().await;
    assert_eq!(tool.running(), 0);
}

#[test]
fn rb_04_the_common_budget_is_exact_whoever_races_for_it() {
    let policy = BudgetPolicy { capacity_milli: 10_000, per_success_milli: 100, refill_every: Duration::MAX };
    let budget = RuntimeBudget::new(&policy);
    let (now, start) = (Timestamp::ZERO, Barrier::new(8));
    let spent: u64 = std::thread::scope(|threads| {
        let racers: Vec<_> = (0..8)
            .map(|_| {
                threads.spawn(|| {
                    let (mut budget, mut spent) = (&budget, 0);
                    start.wait();
                    for n in 0..1000 {
                        match budget.withdraw(now, 1000) {
                            Some(unused) if n % 2 == 0 => budget.refund(now, unused),
                            Some(_spent) => spent += 1000,
                            None => {}
                        }
                    }
                    spent
                })
            })
            .collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).sum()
    });
    assert_eq!(spent, 10_000, "all of it, once");
    let mut budget = &budget;
    (0..9).for_each(|_| budget.succeeded(now));
    assert_eq!(budget.withdraw(now, 901), None);
    (0..1000).for_each(|_| budget.succeeded(now));
    assert!(budget.withdraw(now, 10_000).is_some() && budget.withdraw(now, 1).is_none(), "full, and no more");
}

#[tokio::test(start_paused = true)]
async fn a_rise_of_recoverable_failures_is_told_once_and_shown() {
    let (tool, works) = switchable_to(Failure::not_found("Nothing there."));
    works.store(1, Ordering::Relaxed);
    let runtime = runtime(Scripted::replies(["x"])).await;
    let agent = Agent::new("a").tool(tool);
    let mut events = runtime.tool_events();
    for n in 0..160 {
        if n == 80 {
            works.store(0, Ordering::Relaxed);
        }
        assert!(runtime.call_tool(&agent, "find", "{}", |_| {}).await.is_ok());
        let shown = runtime.tool_status(&agent, "find").await.unwrap().error_spike.is_some();
        assert_eq!(shown, n >= 127, "answer {n}");
    }
    let ToolChange::ErrorSpike { spike } = events.try_next().unwrap().unwrap().change else {
        panic!("another event")
    };
    assert_eq!((spike.failures, spike.answers, spike.usual_milli), (48, 64, 0));
    assert!(events.try_next().is_none(), "once");
}
