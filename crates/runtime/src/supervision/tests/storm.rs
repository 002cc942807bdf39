use std::sync::atomic::{AtomicBool, Ordering};

use dauntless_core::resilience::Rng;

use super::*;

fn any_of<'a, T>(rng: &mut Rng, items: &'a [T]) -> Option<&'a T> {
    let index = usize::try_from(rng.draw()).unwrap_or(0) % items.len().max(1);
    items.get(index)
}

/// Crashes, kills, stops, drains, aborts and blocks children at random, from the seed.
async fn storm(strategy: Strategy, seed: u64, steps: u32) {
    let lab = Lab::new();
    let policy = RestartPolicy {
        intensity: u32::MAX,
        period: SEC * 3600,
        backoff_base: Duration::ZERO,
        backoff_cap: Duration::ZERO,
    };
    let in_lab = Arc::clone(&lab);
    let policy_below = policy.clone();
    let below = move || {
        let builder = Supervisor::builder().restarts(policy_below.clone());
        builder.child(in_lab.slow_child("leaf", MS)).child(in_lab.child("leaf2").stops_within(MS))
    };
    let builder = Supervisor::builder().strategy(strategy).restarts(policy).seed(seed);
    let supervisor = builder
        .child(lab.child("a").stops_within(MS))
        .child(lab.slow_child("b", 2 * MS).stops_within(MS))
        .child(ChildSpec::supervisor("branch", below))
        .child(lab.child("c").shutdown(Shutdown::Brutal))
        .start()
        .await
        .unwrap();
    let mut rng = Rng::new(seed);
    for _ in 0..steps {
        let mut children = supervisor.which_children().await.unwrap();
        let below = children.iter().find_map(|child| child.supervisor.clone());
        if let Some(below) = below
            && let Ok(more) = below.which_children().await
        {
            children.extend(more);
        }
        let Some(child) = any_of(&mut rng, &children) else { continue };
        match (rng.draw() % 10, &child.cell) {
            (0, Some(cell)) => cell.kill(),
            (1, Some(cell)) => cell.stop(None),
            (2, Some(cell)) => drop(cell.drain()),
            (3, Some(cell)) => drop(cell.send_message(Do::Panic)),
            (4, Some(cell)) => drop(cell.send_message(Do::Fail)),
            (5, Some(cell)) => drop(cell.send_message(Do::Block(MS / 4))),
            (6, Some(cell)) => drop(cell.send_message(Do::Sleep(MS))),
            (7, Some(cell)) => cell.unlink(supervisor.cell()),
            (8, _) => drop(supervisor.terminate_child(&child.id).await),
            (9, _) => drop(supervisor.restart_child(&child.id).await),
            _ => tokio::task::yield_now().await,
        }
        lab.seen();
    }
    supervisor.shutdown().await;
    assert_eq!(lab.alive(), 0);
    assert!(matches!(supervisor.ended().await, Ended::Shutdown), "{:?}", supervisor.ended().await);
}

/// `Alive` panics inside `pre_start` when two incarnations meet; the hook makes that fail the test.
static MET: AtomicBool = AtomicBool::new(false);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sup_07_no_two_incarnations_of_a_child_ever_meet() {
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.to_string();
        if text.contains("two incarnations") {
            MET.store(true, Ordering::Relaxed);
        }
        if !text.contains("boom") {
            quiet(panic);
        }
    }));
    let strategies = [Strategy::OneForOne, Strategy::OneForAll, Strategy::RestForOne];
    let storms = (0..12).map(|seed| {
        let strategy = strategies[usize::try_from(seed % 3).unwrap()];
        tokio::spawn(storm(strategy, seed, 1_000))
    });
    for storm in storms.collect::<Vec<_>>() {
        storm.await.unwrap();
    }
    assert!(!MET.load(Ordering::Relaxed));
}

#[tokio::test(start_paused = true)]
async fn sup_14_children_that_came_and_went_leave_no_task_and_no_entry() {
    let lab = Lab::new();
    let supervisor = Supervisor::builder().strategy(Strategy::Dynamic).start().await.unwrap();
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for _ in 0..1_000 {
        let actor = supervisor.start_child(lab.child("t").restart(Restart::Temporary)).await.unwrap();
        actor.stop(None);
        while supervisor.count_children().await.unwrap().specs > 0 {
            tokio::task::yield_now().await;
        }
        lab.seen();
    }
    assert_eq!(tasks(), before);
    assert_eq!(supervisor.cell().get_children().len(), 1, "the herald");
    supervisor.shutdown().await;
}
