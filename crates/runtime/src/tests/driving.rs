//! Runs that a journal hands from one owner to another.

use super::*;
use crate::{DriveError, Lease, Parting, SystemClock};

const HOUR: Duration = Duration::from_secs(3600);

fn run_id(n: u128) -> RunId {
    RunId::from_u128(n)
}

fn info(name: &str, ttl: Duration) -> WorkerInfo {
    WorkerInfo { name: name.into(), host: "here".into(), ttl }
}

/// A handle that is a worker for an hour.
async fn worker(store: &Memory, name: &str) -> Arc<Memory> {
    let handle = Arc::new(store.handle());
    handle.register(info(name, HOUR)).await.unwrap();
    handle
}

/// A run that waits for a worker, as if it had been submitted elsewhere.
async fn waiting_run(store: &Memory, attendance: Attendance) -> RunId {
    let started = RunEvent::RunStarted {
        agent: "a".into(),
        goal: "go".into(),
        limits: RunLimits::default(),
        history: History::default(),
        repairs: Vec::new(),
        attendance,
        tools: vec!["pay".into(), "find".into()],
        lineage: None,
    };
    let fence = Fence { run: run_id(7), epoch: 1, token: 1 };
    let first = Recorded { at: Timestamp::from_micros(1_000_000), event: started };
    store.handle().create(NewRun::new(fence, first)).await.unwrap();
    fence.run
}

async fn claim(handle: &Memory) -> Claim {
    handle.claim(1, ClaimFilter::default()).await.unwrap().pop().expect("there is a run to claim")
}

async fn driver(handle: &Arc<Memory>, model: Scripted) -> Runtime {
    let journal: Arc<dyn SharedJournal> = Arc::clone(handle) as _;
    Runtime::builder().model(model).shared_journal(journal).seed(7).build().await.unwrap()
}

async fn events(store: &Memory, run: RunId) -> Vec<RunEvent> {
    store.read(run, 0, 1000).await.unwrap().into_iter().map(|recorded| recorded.event).collect()
}

async fn state(store: &Memory, run: RunId) -> (RunState, Option<Arc<str>>) {
    let all = store.list(ListQuery { state: None, root: None, after: None, limit: 100 }).await.unwrap();
    let meta = all.into_iter().find(|meta| meta.run == run).unwrap();
    (meta.state, meta.reason)
}

async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    while !is_so().await {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn pays(behaviour: Behaviour) -> (Agent, FaultyTool) {
    let pay = FaultyTool::builder("pay").effect(Effect::Once).attempts([behaviour]);
    (Agent::new("a").tool(pay.clone()).tool(reads("find", [Behaviour::ok("found")])), pay)
}

fn done() -> Scripted {
    calls_then_done(&["pay"])
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waited_for_its_first_worker_starts_when_it_has_one() {
    let store = Memory::default();
    let run = waiting_run(&store, Attendance::Unattended).await;
    let handle = worker(&store, "w").await;
    let runtime = driver(&handle, calls_then_done(&["find"])).await;
    let (agent, _) = pays(Behaviour::ok("paid"));
    let Parting::Ended(outcome) = runtime.drive(&agent, &claim(&handle).await).await.unwrap().parting().await
    else {
        panic!("it did not end")
    };
    assert_eq!((outcome.answer(), outcome.totals.model_attempts), (Some("done"), 2));
    assert!(outcome.elapsed < Duration::from_secs(1), "the wait for a worker is no part of the run");
    assert!(!events(&store, run).await.contains(&RunEvent::Interrupted {}));
    assert_eq!(state(&store, run).await, (RunState::Ended, Some("completed".into())));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_let_go_of_in_good_order_goes_on_as_if_nothing_had_happened() {
    let store = Memory::default();
    let run = waiting_run(&store, Attendance::Unattended).await;
    let (first, second) = (worker(&store, "first").await, worker(&store, "second").await);
    let (agent, pay) = pays(Behaviour::ok("paid").after(Duration::from_secs(5)));
    let runtime = driver(&first, calls_then_done(&["pay"])).await;
    let handle = runtime.drive(&agent, &claim(&first).await).await.unwrap();
    let reins = handle.reins();
    until(async || pay.invocations() == 1).await;
    reins.hand_over(false);
    assert_eq!(handle.parting().await, Parting::HandedOver, "the call was waited for");
    assert_eq!(state(&store, run).await.0, RunState::Ready);

    let runtime = driver(&second, done()).await;
    let outcome = runtime.drive(&agent, &claim(&second).await).await.unwrap().outcome().await;
    assert_eq!((outcome.answer(), pay.invocations()), (Some("done"), 1), "{outcome:?}");
    assert_eq!((outcome.totals.failed_calls, outcome.totals.model_attempts), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn what_does_not_end_in_time_is_left_as_its_effect_allows() {
    let store = Memory::default();
    let run = waiting_run(&store, Attendance::Unattended).await;
    let (first, second) = (worker(&store, "first").await, worker(&store, "second").await);
    let (agent, pay) = pays(Behaviour::Hang.after_effect());
    let runtime = driver(&first, calls_then_done(&["pay"])).await;
    let handle = runtime.drive(&agent, &claim(&first).await).await.unwrap();
    until(async || pay.invocations() == 1).await;
    handle.reins().hand_over(true);
    assert_eq!(handle.parting().await, Parting::HandedOver);
    let runtime = driver(&second, done()).await;
    let outcome = runtime.drive(&agent, &claim(&second).await).await.unwrap().outcome().await;
    assert_eq!((outcome.answer(), pay.invocations()), (Some("done"), 1), "{outcome:?}");
    let unknown = |event: &RunEvent| matches!(event, RunEvent::CallEnded { .. });
    assert!(!events(&store, run).await.iter().any(unknown), "the machine says it, no event does");
    assert_eq!(outcome.totals.failed_calls, 1);
}

#[tokio::test]
async fn dur_14_an_owner_that_was_replaced_decides_nothing_and_tells_what_its_call_came_to() {
    let store = Memory::default();
    let run = waiting_run(&store, Attendance::Unattended).await;
    let first = Arc::new(store.handle());
    first.register(info("first", Duration::from_millis(200))).await.unwrap();
    let (agent, pay) = pays(Behaviour::ok("paid").after(Duration::from_millis(500)));
    let runtime = driver(&first, calls_then_done(&["pay"])).await;
    let old = runtime.drive(&agent, &claim(&first).await).await.unwrap();
    until(async || pay.invocations() == 1).await;

    let second = worker(&store, "second").await;
    let mut taken = None;
    until(async || {
        taken = second.claim(1, ClaimFilter::default()).await.unwrap().pop();
        taken.is_some()
    })
    .await;
    let ask = |tool: &str| Turn::new().call(tool, json!({}));
    let asks_again = Scripted::new([ask("pay"), ask("find"), Turn::new().text("done")]);
    let runtime = driver(&second, asks_again).await;
    let outcome = runtime.drive(&agent, &taken.unwrap()).await.unwrap().outcome().await;
    assert_eq!((outcome.answer(), pay.invocations()), (Some("done"), 1), "{outcome:?}");
    assert!(matches!(old.parting().await, Parting::Lost(why) if why.contains("another owner")));
    until(async || !store.late_results(run).await.unwrap().is_empty()).await;
    let late = store.late_results(run).await.unwrap().remove(0);
    assert_eq!((late.call, late.epoch), (CallKey { turn: 1, index: 0 }, 2));
    assert!(matches!(late.record.verdict, CallVerdict::Succeeded(_)));
}

#[tokio::test(start_paused = true)]
async fn dur_03_an_error_of_the_provider_after_a_result_loses_neither_the_result_nor_the_run() {
    let store = Memory::default();
    waiting_run(&store, Attendance::Unattended).await;
    let (first, second) = (worker(&store, "first").await, worker(&store, "second").await);
    let (agent, pay) = pays(Behaviour::ok("paid"));
    let pays_once = Turn::new().call("pay", json!({}));
    let soon = Failure::unavailable("Down.").retry_after(Duration::from_secs(3));
    let down = Turn::new().fail_times(soon, 100);
    let runtime = driver(&first, Scripted::new([pays_once, down])).await;
    let handle = runtime.drive(&agent, &claim(&first).await).await.unwrap();
    until(async || pay.invocations() == 1).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    handle.reins().hand_over(true);
    assert_eq!(handle.parting().await, Parting::HandedOver, "its model is tried again and again");
    let runtime = driver(&second, calls_then_done(&["pay"])).await;
    let outcome = runtime.drive(&agent, &claim(&second).await).await.unwrap().outcome().await;
    assert_eq!((outcome.answer(), pay.invocations()), (Some("done"), 1), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn dur_15_nothing_begins_once_the_lease_has_lapsed() {
    let store = Memory::default();
    waiting_run(&store, Attendance::Unattended).await;
    let handle = worker(&store, "w").await;
    let clock = Arc::new(SystemClock::new());
    let lease = Lease::new(Arc::clone(&clock) as _, Duration::from_secs(10), clock.now());
    let find = reads("find", [Behaviour::ok("found").after(Duration::from_secs(20)), Behaviour::ok("found")]);
    let journal: Arc<dyn SharedJournal> = Arc::clone(&handle) as _;
    let runtime = Runtime::builder()
        .model(calls_then_done(&["find"]))
        .clock(SystemClock::new())
        .shared_journal(journal)
        .lease(lease.clone())
        .build()
        .await
        .unwrap();
    let handle = runtime.drive(&Agent::new("a").tool(find.clone()), &claim(&handle).await).await.unwrap();
    assert!(lease.may_begin());
    assert!(matches!(handle.parting().await, Parting::Lost(why) if why.contains("lease")));
    assert!(!lease.may_begin());
    assert_eq!(find.invocations(), 1, "the call that was under way ended, and no request followed it");
}

#[tokio::test(start_paused = true)]
async fn dur_38_letters_are_taken_in_once_and_what_leads_nowhere_is_set_aside() {
    let store = Memory::default();
    let run = waiting_run(&store, Attendance::Attended).await;
    let handle = worker(&store, "w").await;
    let asks = Scripted::new([
        Turn::new().call("ask_user", json!({ "question": "Which?" })),
        Turn::new().text("done"),
    ]);
    let agent = Agent::new("a").ask_user(true);
    let runtime = driver(&handle, asks).await;
    let driven = runtime.drive(&agent, &claim(&handle).await).await.unwrap();
    until(async || !driven.questions().await.is_empty()).await;
    let call = CallKey { turn: 1, index: 0 };
    let answer = LetterContent::Answer { call, text: "red".into() }.letter("m2");
    let early = LetterContent::Answer { call: CallKey { turn: 9, index: 0 }, text: "x".into() }.letter("m1");
    let odd = Letter { id: "m0".into(), body: Arc::from(&b"?"[..]) };
    for letter in [odd, early, answer] {
        store.send(run, letter.clone()).await.unwrap();
        driven.reins().deliver(letter.clone());
        driven.reins().deliver(letter);
    }
    assert_eq!(driven.outcome().await.answer(), Some("done"));
    let of_letters: Vec<RunEvent> = events(&store, run).await;
    let aside = of_letters.iter().filter(|event| matches!(event, RunEvent::LetterSetAside { .. })).count();
    let given = of_letters.iter().filter(|event| matches!(event, RunEvent::InputGiven { .. })).count();
    assert_eq!((aside, given), (2, 1));
    assert_eq!(store.letters(run).await.unwrap(), [], "all of them are taken in");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_reaches_a_run_by_letter() {
    let store = Memory::default();
    waiting_run(&store, Attendance::Unattended).await;
    let handle = worker(&store, "w").await;
    let runtime = driver(&handle, calls_then_done(&["find"])).await;
    let agent = Agent::new("a").tool(reads("find", [Behaviour::Hang]));
    let driven = runtime.drive(&agent, &claim(&handle).await).await.unwrap();
    driven.reins().deliver(LetterContent::Cancel { by: "ann".into() }.letter("c"));
    assert_eq!(driven.outcome().await.reason, StopReason::Cancelled { by: "ann".into() });
}

#[tokio::test(start_paused = true)]
async fn dur_24_a_run_whose_tool_is_gone_is_not_driven() {
    let store = Memory::default();
    waiting_run(&store, Attendance::Unattended).await;
    let (first, second) = (worker(&store, "first").await, worker(&store, "second").await);
    let (agent, pay) = pays(Behaviour::Hang);
    let runtime = driver(&first, calls_then_done(&["pay"])).await;
    let handle = runtime.drive(&agent, &claim(&first).await).await.unwrap();
    until(async || pay.invocations() == 1).await;
    handle.reins().hand_over(true);
    handle.parting().await;
    let claimed = claim(&second).await;
    let refused = driver(&second, done()).await.drive(&Agent::new("a"), &claimed).await.err();
    assert!(matches!(refused, Some(DriveError::Recover(_))), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_goes_on_in_its_own_time_whatever_the_clocks_of_machines_say() {
    let store = Memory::default();
    let run = waiting_run(&store, Attendance::Unattended).await;
    let (first, second) = (worker(&store, "first").await, worker(&store, "second").await);
    let (agent, pay) = pays(Behaviour::ok("paid").after(Duration::from_secs(5)));
    let runtime = driver(&first, calls_then_done(&["pay"])).await;
    let handle = runtime.drive(&agent, &claim(&first).await).await.unwrap();
    until(async || pay.invocations() == 1).await;
    handle.reins().hand_over(false);
    handle.parting().await;
    let runtime = driver(&second, done()).await;
    runtime.drive(&agent, &claim(&second).await).await.unwrap().outcome().await;
    let times = store.read(run, 0, 100).await.unwrap();
    let ordered = times.windows(2).all(|pair| pair[0].at <= pair[1].at);
    assert!(ordered && times.last().unwrap().at < Timestamp::from_micros(60_000_000), "{times:?}");
}
