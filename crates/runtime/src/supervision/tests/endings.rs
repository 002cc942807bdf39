use expect_test::expect;

use super::*;

/// What one ending of a child leads to.
async fn outcome(restart: Restart, end: impl AsyncFnOnce(&SupervisorHandle)) -> &'static str {
    let lab = Lab::new();
    let supervisor = Supervisor::builder().child(lab.child("a").restart(restart)).start().await.unwrap();
    end(&supervisor).await;
    let settled = async {
        loop {
            let Ok(children) = supervisor.which_children().await else { return "escalated" };
            match children.first().map(|child| (child.state, child.starts)) {
                None => return "forgotten",
                Some((ChildState::Running, 2)) => return "restarted",
                Some((ChildState::Down, _)) => return "down",
                Some(_) => tokio::time::sleep(MS).await,
            }
        }
    };
    let settled = settled.await;
    supervisor.shutdown().await;
    assert_eq!(lab.alive(), 0);
    settled
}

#[tokio::test(start_paused = true)]
async fn sup_04_every_real_ending_is_told_apart_as_far_as_it_matters() {
    let mut table = String::new();
    for restart in [Restart::Permanent, Restart::Transient, Restart::Temporary] {
        let stop = outcome(restart, async |sup| cell(sup, "a").await.stop(Some("enough".into()))).await;
        let kill = outcome(restart, async |sup| cell(sup, "a").await.kill()).await;
        let panic = outcome(restart, async |sup| tell(sup, "a", Do::Panic).await).await;
        let error = outcome(restart, async |sup| tell(sup, "a", Do::Fail).await).await;
        let terminal = outcome(restart, async |sup| tell(sup, "a", Do::GiveUp).await).await;
        let asked = outcome(restart, async |sup| sup.terminate_child("a").await.unwrap()).await;
        let silent = outcome(restart, async |sup| {
            tell(sup, "a", Do::Unlink(sup.cell())).await;
            tell(sup, "a", Do::Panic).await;
        })
        .await;
        table += &format!("{restart:?}: stop {stop}, kill {kill}, panic {panic}, error {error}, ");
        table += &format!("terminal {terminal}, terminated {asked}, unlinked {silent}\n");
    }
    expect![[r#"
        Permanent: stop restarted, kill restarted, panic restarted, error restarted, terminal escalated, terminated down, unlinked restarted
        Transient: stop down, kill restarted, panic restarted, error restarted, terminal escalated, terminated down, unlinked restarted
        Temporary: stop forgotten, kill forgotten, panic forgotten, error forgotten, terminal forgotten, terminated forgotten, unlinked forgotten
    "#]]
    .assert_eq(&table);
}

#[tokio::test(start_paused = true)]
async fn sup_04_a_cancelled_task_is_a_failure() {
    let lab = Lab::new();
    let task = Arc::new(Mutex::new(None));
    let (slot, in_lab) = (Arc::clone(&task), Arc::clone(&lab));
    let child = ChildSpec::new("a", move |supervisor| {
        let args = ProbeArgs { id: "a".into(), stopping: Duration::ZERO, lab: Arc::clone(&in_lab) };
        let slot = Arc::clone(&slot);
        async move {
            let (actor, running) = Actor::spawn_linked(None, Probe, args, supervisor).await?;
            *slot.lock().unwrap() = Some(running.abort_handle());
            Ok::<_, ractor::SpawnErr>((actor, running))
        }
    });
    let child = child.restart(Restart::Transient);
    let supervisor = Supervisor::builder().child(child).start().await.unwrap();
    task.lock().unwrap().take().unwrap().abort();
    started(&supervisor, "a", 2).await;
    supervisor.shutdown().await;
    assert_eq!(lab.seen(), "a up, a gone, a up, a stopped, a gone");
}

#[tokio::test(start_paused = true)]
async fn sup_21_the_typed_error_reaches_the_top_through_every_supervisor() {
    let lab = Lab::new();
    let in_lab = Arc::clone(&lab);
    let below = move || Supervisor::builder().intensity(1, SEC * 60).child(in_lab.child("leaf"));
    let top = Supervisor::builder()
        .intensity(0, SEC * 60)
        .child(ChildSpec::supervisor("branch", below))
        .start()
        .await
        .unwrap();
    let branch = info(&top, "branch").await.supervisor.unwrap();
    for starts in 1..=2 {
        started(&branch, "leaf", starts).await;
        tell(&branch, "leaf", Do::Fail).await;
    }
    let Ended::GaveUp(gave_up) = top.ended().await else { panic!("it ended otherwise") };
    expect!["gave up after 1 failures within 60s, the last of child `branch`: gave up after 2 failures within 60s, the last of child `leaf`: quota of 1 used up"]
        .assert_eq(&gave_up.to_string());
    assert_eq!(gave_up.downcast_ref(), Some(&QuotaUsedUp(1)));
    let below: &GaveUp = std::error::Error::source(&gave_up).unwrap().downcast_ref().unwrap();
    assert_eq!((&*below.child, below.history.len()), ("leaf", 2));
    assert!(matches!(branch.ended().await, Ended::GaveUp(_)));
    assert_eq!(lab.alive(), 0);
}

/// An actor of an embedder, that writes down what it hears of its children.
struct Embedder(Arc<Lab>);

impl Actor for Embedder {
    type Msg = ();
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<()>,
        event: ractor::SupervisionEvent,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        if let ractor::SupervisionEvent::ActorFailed(_, error) = event {
            let gave_up = error.downcast_ref::<GaveUp>().expect("its type");
            let quota: Option<&QuotaUsedUp> = gave_up.downcast_ref();
            self.0.note(format!("heard of {} {quota:?}", gave_up.child));
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn sup_21_an_embedders_actor_hears_of_each_incident_once_and_typed() {
    let lab = Lab::new();
    let (embedder, task) = Actor::spawn(None, Embedder(Arc::clone(&lab)), ()).await.unwrap();
    let supervisor =
        Supervisor::builder().child(lab.child("a")).start_linked(embedder.get_cell()).await.unwrap();
    tell(&supervisor, "a", Do::GiveUp).await;
    assert!(matches!(supervisor.ended().await, Ended::GaveUp(GaveUp { why: GaveUpWhy::Terminal, .. })));
    embedder.stop(None);
    task.await.unwrap();
    assert_eq!(lab.seen(), "a up, a gone, heard of a Some(QuotaUsedUp(2))");
}

#[tokio::test(start_paused = true)]
async fn sup_11_the_error_of_the_start_names_the_child_and_keeps_its_type() {
    let lab = Lab::new();
    lab.broken("c", true);
    let children = ["a", "b", "c", "d"].map(|id| lab.child(id));
    let builder = children.into_iter().fold(Supervisor::builder(), SupervisorBuilder::child);
    let Err(StartError::Child { child, error }) = builder.start().await else { panic!("it started") };
    assert_eq!((&*child, error.downcast_ref()), ("c", Some(&QuotaUsedUp(7))));
    expect!["a up, b up, c broken, c gone, b stopped, b gone, a stopped, a gone"].assert_eq(&lab.seen());
}

#[tokio::test(start_paused = true)]
async fn sup_12_an_actor_that_is_no_child_is_ignored() {
    let lab = Lab::new();
    let supervisor = Supervisor::builder().child(lab.child("a")).start().await.unwrap();
    let stranger = ProbeArgs { id: "stranger".into(), stopping: Duration::ZERO, lab: Arc::clone(&lab) };
    let (stranger, task) = Actor::spawn_linked(None, Probe, stranger, supervisor.cell()).await.unwrap();
    stranger.send_message(Do::Panic).unwrap();
    let _ = task.await;
    assert_eq!(
        supervisor.count_children().await.unwrap(),
        Counts { specs: 1, active: 1, supervisors: 0, workers: 1 }
    );
    supervisor.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn sup_17_a_query_tells_when_a_child_comes_back() {
    let lab = Lab::new();
    let policy = RestartPolicy { backoff_base: SEC * 5, period: SEC * 600, ..RestartPolicy::default() };
    let builder = Supervisor::builder().seed(1).restarts(policy).child(lab.child("a"));
    let supervisor = builder.start().await.unwrap();
    tell(&supervisor, "a", Do::Fail).await;
    started(&supervisor, "a", 2).await;
    tell(&supervisor, "a", Do::Fail).await;
    lab.lines(4).await;
    let waits = loop {
        match info(&supervisor, "a").await {
            ChildInfo { state: ChildState::Restarting { .. }, retry_in, .. } => break retry_in.unwrap(),
            _ => tokio::task::yield_now().await,
        }
    };
    let from = Instant::now();
    started(&supervisor, "a", 3).await;
    assert!(from.elapsed().abs_diff(waits) <= 2 * MS, "{waits:?}, was {:?}", from.elapsed());
    supervisor.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn sup_24_two_supervisors_with_the_same_ids_do_not_know_of_each_other() {
    let labs = [Lab::new(), Lab::new()];
    let one = Supervisor::builder().child(labs[0].child("a")).start().await.unwrap();
    let two = Supervisor::builder().child(labs[1].child("a")).start().await.unwrap();
    tell(&one, "a", Do::Fail).await;
    one.shutdown().await;
    started(&two, "a", 1).await;
    assert_eq!(labs[1].seen(), "a up");
    two.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn requests_to_a_supervisor_that_has_ended_are_refused() {
    let supervisor = Supervisor::builder().start().await.unwrap();
    supervisor.shutdown().await;
    supervisor.shutdown().await;
    assert!(matches!(supervisor.ended().await, Ended::Shutdown));
    assert_eq!(supervisor.terminate_child("a").await.unwrap_err(), RequestError::ShuttingDown);
}
