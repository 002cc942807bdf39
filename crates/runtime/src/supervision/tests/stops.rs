use expect_test::expect;

use super::*;

async fn time<T>(future: impl Future<Output = T>) -> Duration {
    let from = Instant::now();
    future.await;
    from.elapsed()
}

#[tokio::test(start_paused = true)]
async fn sup_06_a_child_is_asked_then_waited_for_then_killed() {
    let lab = Lab::new();
    let supervisor = Supervisor::builder()
        .child(lab.slow_child("prompt", SEC))
        .child(lab.slow_child("late", SEC * 9))
        .child(lab.slow_child("doomed", SEC).shutdown(Shutdown::Brutal))
        .start()
        .await
        .unwrap();
    lab.seen();
    assert_eq!(time(supervisor.terminate_child("prompt")).await, SEC);
    assert_eq!(time(supervisor.terminate_child("late")).await, SEC * 5);
    assert_eq!(time(supervisor.terminate_child("doomed")).await, Duration::ZERO);
    expect!["prompt stopped, prompt gone, late gone, doomed gone"].assert_eq(&lab.seen());
    supervisor.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn sup_06_it_holds_when_somebody_else_stopped_or_drained_the_child_before() {
    for drain in [false, true] {
        let lab = Lab::new();
        let supervisor = Supervisor::builder().child(lab.slow_child("a", SEC * 60)).start().await.unwrap();
        let child = cell(&supervisor, "a").await;
        if drain {
            child.send_message(Do::Sleep(SEC * 60)).unwrap();
            child.drain().unwrap();
        } else {
            child.stop(None);
        }
        tokio::time::sleep(MS).await;
        assert_eq!(time(supervisor.terminate_child("a")).await, SEC * 5);
        assert_eq!(lab.alive(), 0);
        supervisor.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn sup_06_a_supervisor_gets_the_time_of_its_own_children() {
    let lab = Lab::new();
    let in_lab = Arc::clone(&lab);
    let below = move || {
        let child = in_lab.slow_child("leaf", SEC * 60).stops_within(SEC * 40);
        Supervisor::builder().child(child)
    };
    let top = Supervisor::builder().child(ChildSpec::supervisor("branch", below)).start().await.unwrap();
    assert_eq!(time(top.shutdown()).await, SEC * 40);
    assert_eq!(lab.alive(), 0);
}

/// A tree of two levels, with a leaf that takes ten seconds to stop.
async fn tree(lab: &Arc<Lab>) -> SupervisorHandle {
    let in_lab = Arc::clone(lab);
    let below = move || {
        let slow = in_lab.slow_child("slow", SEC * 10).stops_within(SEC * 20);
        Supervisor::builder().child(in_lab.child("leaf")).child(slow)
    };
    let branch = ChildSpec::supervisor("branch", below);
    Supervisor::builder().child(lab.child("top")).child(branch).start().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn sup_08_a_stop_from_outside_stops_everything_in_order() {
    let lab = Lab::new();
    let top = tree(&lab).await;
    lab.seen();
    top.cell().stop(None);
    assert_eq!(time(top.ended()).await, SEC * 10);
    assert!(matches!(top.ended().await, Ended::Shutdown));
    let stopped: Vec<_> =
        lab.seen().split(", ").filter(|line| line.ends_with("stopped")).map(String::from).collect();
    assert_eq!(stopped, ["slow stopped", "leaf stopped", "top stopped"]);
    assert_eq!(lab.alive(), 0);
}

#[tokio::test(start_paused = true)]
async fn sup_08_a_kill_leaves_no_orphan_and_the_end_waits_for_the_last_one() {
    let lab = Lab::new();
    let top = tree(&lab).await;
    top.cell().kill();
    assert!(matches!(top.ended().await, Ended::Killed));
    assert_eq!(lab.alive(), 0);

    // A leaf on its way down is not killed by ractor; it has to be all the same.
    let top = tree(&lab).await;
    let branch = info(&top, "branch").await.supervisor.unwrap();
    cell(&branch, "slow").await.stop(None);
    tokio::time::sleep(MS).await;
    top.cell().kill();
    assert_eq!(time(top.ended()).await, Duration::ZERO);
    assert_eq!(lab.alive(), 0);
}

#[tokio::test(start_paused = true)]
async fn sup_08_a_killed_branch_is_restarted_only_when_nothing_of_it_is_left() {
    let lab = Lab::new();
    let top = tree(&lab).await;
    let branch = info(&top, "branch").await.supervisor.unwrap();
    branch.cell().kill();
    started(&top, "branch", 2).await;
    // `Alive` would have panicked in the second start.
    assert_eq!((lab.alive(), lab.seen().matches("leaf gone").count()), (3, 1));
    top.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn sup_08_a_start_that_nobody_waits_for_any_more_is_taken_back() {
    let lab = Lab::new();
    let hangs = ChildSpec::new("hangs", |_| std::future::pending::<Result<Started, ActorProcessingErr>>());
    let start = Supervisor::builder().child(lab.child("a")).child(hangs).start();
    assert!(tokio::time::timeout(SEC, start).await.is_err());
    lab.lines(3).await;
    assert_eq!(lab.seen(), "a up, a stopped, a gone");
}

#[tokio::test(start_paused = true)]
async fn sup_09_a_start_that_hangs_can_be_terminated_and_tried_again() {
    let lab = Lab::new();
    let tries = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let in_lab = Arc::clone(&lab);
    let child = ChildSpec::new("a", move |supervisor| {
        let first = tries.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0;
        let args = ProbeArgs { id: "a".into(), stopping: Duration::ZERO, lab: Arc::clone(&in_lab) };
        async move {
            if first {
                std::future::pending::<()>().await;
            }
            Actor::spawn_linked(None, Probe, args, supervisor).await
        }
    });
    let supervisor = Supervisor::builder().start().await.unwrap();
    let asking = tokio::spawn({
        let supervisor = supervisor.clone();
        async move { supervisor.start_child(child.restart(Restart::Transient)).await }
    });
    tokio::time::sleep(SEC).await;
    assert_eq!(info(&supervisor, "a").await.state, ChildState::Starting);
    supervisor.terminate_child("a").await.unwrap();
    assert_eq!(asking.await.unwrap().unwrap_err(), RequestError::Terminated("a".into()));
    supervisor.restart_child("a").await.unwrap();
    supervisor.shutdown().await;
    assert_eq!(lab.seen(), "a up, a stopped, a gone");
}

#[tokio::test(start_paused = true)]
async fn sup_18_it_answers_at_once_while_children_crash_hang_and_stop() {
    let lab = Lab::new();
    let supervisor = Supervisor::builder()
        .intensity(10, SEC * 60)
        .child(lab.slow_child("stops", SEC * 60).stops_within(SEC * 30))
        .child(lab.child("crashes"))
        .child(lab.child("hangs"))
        .start()
        .await
        .unwrap();
    tell(&supervisor, "hangs", Do::Sleep(SEC * 600)).await;
    lab.broken("crashes", true);
    tell(&supervisor, "crashes", Do::Panic).await;
    let stopping = tokio::spawn({
        let supervisor = supervisor.clone();
        async move { supervisor.terminate_child("stops").await }
    });
    let starting = tokio::spawn({
        let supervisor = supervisor.clone();
        let never =
            ChildSpec::new("never", |_| std::future::pending::<Result<Started, ActorProcessingErr>>());
        async move { supervisor.start_child(never).await }
    });
    for _ in 0..100 {
        tokio::time::sleep(10 * MS).await;
        assert_eq!(time(supervisor.count_children()).await, Duration::ZERO);
    }
    assert_eq!(info(&supervisor, "stops").await.state, ChildState::Stopping);
    assert!(time(supervisor.shutdown()).await <= SEC * 40);
    assert_eq!((stopping.await.unwrap(), lab.alive()), (Ok(()), 0));
    assert_eq!(starting.await.unwrap().unwrap_err(), RequestError::ShuttingDown);
}

/// The slowest answer of a supervisor while it stops a child that blocks its thread.
async fn slowest_answer_while_a_child_blocks() -> Duration {
    let lab = Lab::new();
    let child = lab.child("blocks").stops_within(10 * MS);
    let supervisor = Supervisor::builder().child(child).start().await.unwrap();
    tell(&supervisor, "blocks", Do::Block(300 * MS)).await;
    let stopping = tokio::spawn({
        let supervisor = supervisor.clone();
        async move { supervisor.terminate_child("blocks").await }
    });
    let mut slowest = Duration::ZERO;
    while !stopping.is_finished() {
        slowest = slowest.max(time(supervisor.count_children()).await);
        tokio::time::sleep(5 * MS).await;
    }
    assert_eq!(lab.alive(), 0, "not even a blocked child counts as gone before it is");
    supervisor.shutdown().await;
    slowest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sup_18_it_answers_while_a_child_blocks_its_thread() {
    // A thread that blocks also holds up the one task that waits in its own slot, which no other
    // thread may take; now and then that is the supervisor. One that waited for its child would
    // be slow every time.
    for _ in 0..5 {
        if slowest_answer_while_a_child_blocks().await < 50 * MS {
            return;
        }
    }
    panic!("five times in a row the supervisor was as slow as its child");
}

#[tokio::test(start_paused = true)]
async fn sup_23_a_restart_of_one_child_does_not_delay_another() {
    let lab = Lab::new();
    let builder = Supervisor::builder().intensity(20, SEC * 600);
    let supervisor = builder.child(lab.child("a")).child(lab.child("b")).start().await.unwrap();
    let b = cell(&supervisor, "b").await;
    for starts in 1..=10 {
        started(&supervisor, "a", starts).await;
        tell(&supervisor, "a", Do::Fail).await;
        let (reply, answer) = tokio::sync::oneshot::channel();
        b.send_message(Do::Nothing(reply)).unwrap();
        assert_eq!(time(answer).await, Duration::ZERO);
    }
    supervisor.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_state_that_panics_when_it_is_dropped_harms_nobody() {
    struct Bomb;
    struct Bomber;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in drop");
        }
    }
    impl Actor for Bomber {
        type Msg = ();
        type State = Bomb;
        type Arguments = ();
        async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<Bomb, ActorProcessingErr> {
            Ok(Bomb)
        }
    }
    let child = ChildSpec::new("bomb", |supervisor| Actor::spawn_linked(None, Bomber, (), supervisor));
    let supervisor = Supervisor::builder().child(child).start().await.unwrap();
    cell(&supervisor, "bomb").await.stop(None);
    started(&supervisor, "bomb", 2).await;
    cell(&supervisor, "bomb").await.kill();
    started(&supervisor, "bomb", 3).await;
    supervisor.shutdown().await;
}
