use super::*;

#[tokio::test(start_paused = true)]
async fn otp_sup_stop_infinity() {
    let lab = Lab::new();
    let child = lab.slow_child("child1", SEC * 3600).shutdown(Shutdown::Infinite);
    let supervisor = Supervisor::builder().child(child).start().await.unwrap();
    let from = Instant::now();
    supervisor.shutdown().await;
    assert_eq!((from.elapsed(), lab.alive()), (SEC * 3600, 0));
}

#[tokio::test(start_paused = true)]
async fn otp_sup_stop_timeout() {
    let lab = Lab::new();
    let supervisor = Supervisor::builder()
        .child(lab.child("child1").stops_within(SEC))
        .child(lab.child("child2").stops_within(SEC))
        .start()
        .await
        .unwrap();
    tell(&supervisor, "child2", Do::Sleep(SEC * 200)).await;
    tokio::time::sleep(MS).await;
    let from = Instant::now();
    supervisor.shutdown().await;
    assert_eq!(from.elapsed(), SEC);
    assert_eq!(lab.seen(), "child1 up, child2 up, child2 gone, child1 stopped, child1 gone");
}

#[tokio::test(start_paused = true)]
async fn otp_sup_stop_brutal_kill() {
    let lab = Lab::new();
    let supervisor = Supervisor::builder()
        .child(lab.child("child1"))
        .child(lab.child("child2").shutdown(Shutdown::Brutal))
        .start()
        .await
        .unwrap();
    supervisor.shutdown().await;
    assert_eq!(lab.seen(), "child1 up, child2 up, child2 gone, child1 stopped, child1 gone");
}

#[tokio::test(start_paused = true)]
async fn otp_simple_one_for_one_shutdown() {
    let lab = Lab::new();
    let supervisor = Supervisor::builder().strategy(Strategy::Dynamic).start().await.unwrap();
    for (id, stopping) in [("1", 1), ("2", 1), ("3", 5)] {
        let child = lab.slow_child(id, SEC * stopping).stops_within(SEC * 2);
        supervisor.start_child(child).await.unwrap();
    }
    let from = Instant::now();
    supervisor.shutdown().await;
    assert_eq!((from.elapsed(), lab.alive()), (SEC * 2, 0));
}

#[tokio::test(start_paused = true)]
async fn otp_child_unlink() {
    let lab = Lab::new();
    let supervisor = Supervisor::builder().child(lab.child("naughty")).start().await.unwrap();
    tell(&supervisor, "naughty", Do::Unlink(supervisor.cell())).await;
    supervisor.terminate_child("naughty").await.unwrap();
    assert_eq!(lab.alive(), 0);
    supervisor.restart_child("naughty").await.unwrap();
    supervisor.shutdown().await;
    assert_eq!(lab.alive(), 0);
}

#[tokio::test(start_paused = true)]
async fn otp_tree() {
    let lab = Lab::new();
    let in_lab = Arc::clone(&lab);
    let sup1 = move || Supervisor::builder().child(in_lab.child("child1")).child(in_lab.child("child2"));
    let top = Supervisor::builder()
        .strategy(Strategy::OneForAll)
        .child(ChildSpec::supervisor("sup1", sup1))
        .child(ChildSpec::supervisor("sup2", || Supervisor::builder().intensity(1, SEC * 3600)))
        .child(ChildSpec::supervisor("sup3", Supervisor::builder).restart(Restart::Transient))
        .start()
        .await
        .unwrap();
    top.terminate_child("sup3").await.unwrap();
    assert_eq!(
        top.count_children().await.unwrap(),
        Counts { specs: 3, active: 2, supervisors: 3, workers: 0 }
    );

    let sup2 = info(&top, "sup2").await.supervisor.unwrap();
    sup2.start_child(lab.child("child4")).await.unwrap();
    tell(&sup2, "child4", Do::Fail).await;
    started(&sup2, "child4", 2).await;
    assert_eq!(info(&top, "sup2").await.starts, 1, "only the child that died is restarted");

    tell(&sup2, "child4", Do::Fail).await;
    for id in ["sup1", "sup2"] {
        started(&top, id, 2).await;
    }
    started(&top, "sup3", 2).await;
    let sup1 = info(&top, "sup1").await.supervisor.unwrap();
    let sup2 = info(&top, "sup2").await.supervisor.unwrap();
    assert_eq!(sup1.count_children().await.unwrap().active, 2);
    assert_eq!(sup2.count_children().await.unwrap().specs, 0, "children that were added do not come back");
    top.shutdown().await;
    assert_eq!(lab.alive(), 0);
}

#[tokio::test(start_paused = true)]
async fn otp_hanging_restart_loop() {
    let lab = Lab::new();
    let builder = Supervisor::builder().intensity(8, SEC * 60).child(lab.child("child1"));
    let supervisor = builder.start().await.unwrap();
    lab.broken("child1", true);
    tell(&supervisor, "child1", Do::Panic).await;
    while !matches!(info(&supervisor, "child1").await.state, ChildState::Restarting { at: Some(_) }) {
        tokio::task::yield_now().await;
    }
    let refused = supervisor.restart_child("child1").await.unwrap_err();
    assert_eq!(refused, RequestError::Restarting("child1".into()));
    supervisor.start_child(lab.child("child2")).await.unwrap();
    supervisor.terminate_child("child1").await.unwrap();
    lab.broken("child1", false);
    tokio::time::sleep(SEC * 60).await;
    assert_eq!(info(&supervisor, "child1").await.state, ChildState::Down);
    supervisor.delete_child("child1").await.unwrap();
    supervisor.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn otp_temporary_bystander() {
    for strategy in [Strategy::OneForAll, Strategy::RestForOne] {
        let lab = Lab::new();
        let builder = Supervisor::builder().strategy(strategy).child(lab.child("child1"));
        let supervisor =
            builder.child(lab.child("child2").restart(Restart::Temporary)).start().await.unwrap();
        cell(&supervisor, "child1").await.stop(None);
        started(&supervisor, "child1", 2).await;
        assert_eq!(supervisor.count_children().await.unwrap().specs, 1);
        supervisor.shutdown().await;
        let seen = lab.seen();
        assert_eq!(
            seen,
            "child1 up, child2 up, child1 stopped, child1 gone, child2 stopped, child2 gone, child1 up, \
             child1 stopped, child1 gone"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn otp_transient_shutdown() {
    // A supervisor that gave up in order is not restarted if it is transient.
    let lab = Lab::new();
    let in_lab = Arc::clone(&lab);
    let below = move || Supervisor::builder().intensity(0, SEC).child(in_lab.child("leaf"));
    let branch = ChildSpec::supervisor("branch", below).restart(Restart::Transient);
    let top = Supervisor::builder().child(branch).start().await.unwrap();
    let branch = info(&top, "branch").await.supervisor.unwrap();
    tell(&branch, "leaf", Do::Panic).await;
    down(&top, "branch").await;
    top.shutdown().await;
}
