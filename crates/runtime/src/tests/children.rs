//! Runs that start other runs.

use super::*;
use crate::{Delegate, Join, OnFailure, Plan, Rule};

fn text(text: &str) -> Scripted {
    Scripted::new([Turn::new().text(text)])
}

fn fails() -> Scripted {
    Scripted::new([Turn::new().fail(Failure::unauthenticated("The key is wrong."))])
}

fn asks(agents: &[&str]) -> Scripted {
    let ask =
        |turn: Turn, agent: &&str| turn.call(*agent, json!({ "goal": format!("Do your part, {agent}.") }));
    Scripted::new([agents.iter().fold(Turn::new(), ask), Turn::new().text("all done")])
}

fn boss(agents: &[&Agent]) -> Agent {
    let names: Vec<&str> = agents.iter().map(|agent| &**agent.name()).collect();
    agents.iter().fold(Agent::new("boss").model(asks(&names)), |boss, agent| boss.delegate(agent))
}

fn contents(event: &Progress) -> Option<(Arc<str>, String)> {
    let Progress::InChild { agent, progress, .. } = event else { return None };
    Some((Arc::clone(agent), format!("{progress:?}")))
}

async fn none() -> Runtime {
    Runtime::builder().seed(7).build().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_child_answers_its_call_and_its_usage_is_its_parents() {
    let worker = Agent::new("worker").model(text("42"));
    let (outcome, events) = run_accounted(&none().await, &boss(&[&worker])).await;
    assert_eq!((outcome.answer(), outcome.totals.children), (Some("all done"), 1), "{outcome:?}");
    assert_eq!(outcome.totals.model_attempts, 3, "two of its own and one below");
    let ended = events.iter().find_map(|event| match event {
        Progress::ChildEnded { agent, outcome, .. } => Some((Arc::clone(agent), outcome.clone())),
        _ => None,
    });
    let (agent, child) = ended.unwrap();
    assert_eq!((&*agent, child.answer()), ("worker", Some("42")));
    assert!(
        events.iter().filter_map(contents).any(|(agent, _)| &*agent == "worker"),
        "the child is seen as well"
    );
}

#[tokio::test(start_paused = true)]
async fn what_nobody_below_can_fix_ends_the_parent_with_the_childs_name() {
    let worker = Agent::new("worker").model(fails());
    let escalated = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&escalated);
    let runtime = Runtime::builder()
        .on_escalation(move |escalation| seen.lock().unwrap().push(escalation.reason.clone()))
        .build()
        .await
        .unwrap();
    let outcome = runtime.run(&boss(&[&worker]), "go").await;
    let StopReason::ChildFailed { agent, reason, .. } = &outcome.reason else { panic!("{outcome:?}") };
    assert_eq!((&**agent, reason.name()), ("worker", "model_failed"));
    runtime.shutdown(Duration::from_secs(1)).await;
    assert_eq!(escalated.lock().unwrap().as_slice(), [outcome.reason]);

    let boss = Agent::new("boss")
        .model(asks(&["worker"]))
        .link(Delegate::to(&worker).on_failure(OnFailure::Observe));
    let outcome = none().await.run(&boss, "go").await;
    assert_eq!((outcome.answer(), outcome.totals.failed_calls), (Some("all done"), 1), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn a_fallback_agent_takes_over_and_losers_are_cancelled() {
    let (broken, spare) = (Agent::new("broken").model(fails()), Agent::new("spare").model(text("spared")));
    let boss = Agent::new("boss")
        .model(asks(&["broken"]))
        .link(Delegate::to(&broken).fallback("spare"))
        .link(Delegate::to(&spare).unoffered());
    let outcome = none().await.run(&boss, "go").await;
    assert_eq!((outcome.answer(), outcome.totals.children), (Some("all done"), 2), "{outcome:?}");

    let slow = reads("find", [Behaviour::Hang]);
    let sleeper = Agent::new("sleeper").model(calls_then_done(&["find"])).tool(slow.clone());
    let quick = Agent::new("quick").model(text("first"));
    let boss = self::boss(&[&sleeper, &quick]).join(Join::FirstSuccess);
    let (outcome, events) = run_accounted(&none().await, &boss).await;
    assert_eq!(outcome.answer(), Some("all done"));
    assert_eq!(ended_code(&events, "sleeper"), Some(FailureCode::Cancelled));
    assert!(outcome.elapsed < Duration::from_secs(5), "{:?}", outcome.elapsed);
    assert_eq!(slow.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_goes_down_and_no_orphan_goes_on() {
    let hangs = reads("find", [Behaviour::Hang]);
    let leaf = Agent::new("leaf").model(calls_then_done(&["find"])).tool(hangs.clone());
    let middle = Agent::new("middle").model(asks(&["leaf"])).delegate(&leaf);
    let runtime = none().await;
    let handle = runtime.submit(&boss(&[&middle]), "go").await.unwrap();
    while hangs.invocations() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    handle.cancel("ann");
    let outcome = handle.outcome().await;
    assert_eq!(outcome.reason, StopReason::Cancelled { by: "ann".into() });
    assert_eq!((hangs.running(), outcome.totals.children), (0, 2), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn a_handoff_is_the_end_of_both() {
    let support = Agent::new("support").model(text("Solved."));
    let front = Agent::new("front").model(asks(&["support"])).handoff(&support);
    let outcome = none().await.run(&front, "Help me.").await;
    assert_eq!((outcome.answer(), outcome.totals.children), (Some("Solved."), 1), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn a_plan_is_a_run_like_any_other() {
    let (poet, critic) =
        (Agent::new("poet").model(text("a poem")), Agent::new("critic").model(text("ACCEPT")));
    let plan = Plan::agent("poet").improved_by(Plan::agent("critic"), Rule::Contains("ACCEPT".into()), 3);
    let report = Agent::plan("report", plan, [&poet, &critic]);
    let outcome = none().await.run(&report, "Write.").await;
    assert_eq!((outcome.answer(), outcome.totals.children), (Some("a poem"), 2), "{outcome:?}");

    let boss = boss(&[&report]);
    let outcome = none().await.run(&boss, "go").await;
    assert_eq!(
        (outcome.answer(), outcome.totals.children),
        (Some("all done"), 3),
        "a plan can be asked, too"
    );
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_together_is_refused_at_the_start_by_name() {
    let worker = Agent::new("worker").model(text("42"));
    let boss = Agent::new("boss").model(text("x")).link(Delegate::to(&worker).fallback("nobody"));
    let refused = none().await.submit(&boss, "go").await.err().unwrap().to_string();
    assert!(refused.contains("`nobody`") && refused.contains("`boss`"), "{refused}");
    let plan = Agent::plan("p", Plan::sequence([Plan::agent("worker"), Plan::agent("ghost")]), [&worker]);
    let refused = none().await.submit(&plan, "go").await.err().unwrap().to_string();
    assert!(refused.contains("ghost") && refused.contains("sequence[1]"), "{refused}");
}

mod durable {
    use super::*;

    async fn worker(store: &Memory, name: &str) -> (Arc<Memory>, Runtime) {
        let handle = Arc::new(store.handle());
        let info = WorkerInfo { name: name.into(), host: "here".into(), ttl: Duration::from_secs(3600) };
        handle.register(info).await.unwrap();
        let journal: Arc<dyn SharedJournal> = Arc::clone(&handle) as _;
        (handle, Runtime::builder().shared_journal(journal).seed(7).build().await.unwrap())
    }

    async fn claim(handle: &Memory, run: RunId) -> Claim {
        loop {
            let filter = ClaimFilter { only: Some(run), ..ClaimFilter::default() };
            if let Some(claim) = handle.claim(1, filter).await.unwrap().pop() {
                return claim;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn metas(store: &Memory) -> Vec<RunMeta> {
        store.list(ListQuery { state: None, root: None, after: None, limit: 100 }).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_child_has_a_journal_of_its_own_that_names_its_parent() {
        let store = Memory::default();
        let (_, runtime) = worker(&store, "w").await;
        let outcome = runtime.run(&boss(&[&Agent::new("worker").model(text("42"))]), "go").await;
        let all = metas(&store).await;
        let child = all.iter().find(|meta| meta.parent.is_some()).unwrap();
        assert_eq!((child.parent, child.root), (Some(outcome.run), Some(outcome.run)));
        assert!(all.iter().all(|meta| meta.state == RunState::Ended), "{all:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_tree_that_is_let_go_of_goes_on_elsewhere_and_starts_nobody_twice() {
        let store = Memory::default();
        let (_, first) = worker(&store, "first").await;
        let (second_handle, second) = worker(&store, "second").await;
        let pay = FaultyTool::builder("pay")
            .effect(Effect::Once)
            .attempts([Behaviour::ok("paid").after(Duration::from_millis(200))]);
        let clerk = Agent::new("clerk").model(calls_then_done(&["pay"])).tool(pay.clone());
        let boss = boss(&[&clerk]);
        let handle = first.submit(&boss, "go").await.unwrap();
        let run = handle.id();
        while pay.invocations() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        handle.reins().hand_over(false);
        assert_eq!(handle.parting().await, crate::Parting::HandedOver);
        assert!(metas(&store).await.iter().all(|meta| meta.state == RunState::Ready), "parent and child");
        let claimed = claim(&second_handle, run).await;
        let outcome = second.drive(&boss, &claimed).await.unwrap().outcome().await;
        assert_eq!((outcome.answer(), pay.invocations()), (Some("all done"), 1), "{outcome:?}");
        assert_eq!((metas(&store).await.len(), outcome.totals.children), (2, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_child_that_cannot_be_driven_on_waits_for_an_operator_and_is_no_answer() {
        let store = Memory::default();
        let (_, first) = worker(&store, "first").await;
        let (second_handle, second) = worker(&store, "second").await;
        let pay = FaultyTool::builder("pay").effect(Effect::Once).attempts([Behaviour::Hang]);
        let clerk = Agent::new("clerk").model(calls_then_done(&["pay"]));
        let handle = first.submit(&boss(&[&clerk.clone().tool(pay.clone())]), "go").await.unwrap();
        let run = handle.id();
        while pay.invocations() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        handle.reins().hand_over(true);
        assert_eq!(handle.parting().await, crate::Parting::HandedOver);
        let claimed = claim(&second_handle, run).await;
        let outcome = second.drive(&boss(&[&clerk]), &claimed).await.unwrap().outcome().await;
        let StopReason::ChildFailed { agent, .. } = &outcome.reason else { panic!("{outcome:?}") };
        assert_eq!(&**agent, "clerk");
        let child = metas(&store).await.into_iter().find(|meta| meta.parent.is_some()).unwrap();
        assert_eq!(child.state, RunState::Paused, "{child}");
        assert!(child.reason.unwrap().contains("no longer has that tool"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_child_whose_orchestrator_crashed_is_driven_on_from_its_journal() {
        let store = Memory::default();
        let (_, runtime) = worker(&store, "w").await;
        let find = reads("find", [Behaviour::ok("found").after(Duration::from_millis(300))]);
        let clerk = Agent::new("clerk").model(calls_then_done(&["find"])).tool(find.clone());
        let handle = runtime.submit(&boss(&[&clerk]), "go").await.unwrap();
        while find.invocations() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let child = handle.actor.get_cell().get_children().pop().unwrap();
        child.kill();
        let outcome = handle.outcome().await;
        assert_eq!((outcome.answer(), outcome.totals.children), (Some("all done"), 1), "{outcome:?}");
        assert_eq!(find.invocations(), 2, "what it read is read again");
    }
}
