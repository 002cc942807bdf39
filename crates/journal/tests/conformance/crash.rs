//! What is left when a worker's process is killed, or stopped and woken, at any point.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::cast::{Store, append, claim, claim_within, names, run};
use crate::child::Process;
use crate::rig::{Rig, SHORT};

fn appending(pause_ms: u32) -> String {
    format!("append {} {pause_ms}", SHORT.as_millis())
}

/// Listens until `acks` places were acknowledged; the last of each run.
fn listen(process: &mut Process, acks: usize) -> BTreeMap<u128, u64> {
    let mut last = BTreeMap::new();
    for _ in 0..acks {
        let said = process.says().expect("the worker ended by itself");
        match said.split(' ').collect::<Vec<_>>().as_slice() {
            ["ack", n, head] => last.insert(n.parse().unwrap(), head.parse().unwrap()),
            _ => panic!("{said}"),
        };
    }
    last
}

/// All that was acknowledged is there, without a gap and without a double.
async fn assert_kept(store: &Store, acked: &BTreeMap<u128, u64>) {
    for (n, head) in acked {
        let names = names(store, run(*n)).await;
        assert!(names.len() as u64 >= *head, "run {n}: {head} acknowledged, {} there", names.len());
        let expected: Vec<String> = std::iter::once("start".to_owned())
            .chain((1..names.len()).map(|head| head.to_string()))
            .collect();
        assert_eq!(names, expected);
    }
}

pub(crate) async fn dur_01_a_created_run_survives_its_process(rig: &Rig) {
    let store = rig.worker("heir").await;
    let mut process = Process::start(&rig.address(), &appending(1));
    let acked = listen(&mut process, 4);
    process.kill();
    assert_kept(&store, &acked).await;
    for _ in &acked {
        assert!(claim_within(&store, rig.takeover_within()).await.is_some());
    }
}

pub(crate) async fn dur_02_a_killed_process_leaves_claimable_runs(rig: &Rig) {
    let store = rig.worker("heir").await;
    for (round, acks) in [40, 113, 204].into_iter().enumerate() {
        let mut process = Process::start(&rig.address(), &appending(1));
        let acked = listen(&mut process, acks);
        process.kill();
        let killed = Instant::now();
        assert_kept(&store, &acked).await;
        let mut claims = Vec::new();
        while claims.len() < 4 {
            claims.push(claim_within(&store, rig.takeover_within()).await.expect("claimable in time"));
        }
        assert!(killed.elapsed() < rig.takeover_within() + Duration::from_secs(2), "round {round}");
        for claim in claims {
            let reason = dauntless_contract::Release::Ended { reason: "done".into() };
            append(&store, &claim.fence, claim.head, &claim.head.to_string()).await;
            store.release(&claim.fence, reason).await.unwrap();
        }
        while store.drop_ended(Duration::ZERO, 100).await.unwrap() > 0 {}
    }
}

pub(crate) async fn dur_11_a_stopped_process_is_fenced_when_it_goes_on(rig: &Rig) {
    let store = rig.worker("heir").await;
    // It is stopped in a pause: a process that is stopped while it writes keeps the baton.
    let mut process = Process::start(&rig.address(), &appending(400));
    listen(&mut process, 8);
    process.signal("-STOP");
    if matches!(rig, Rig::Sqlite(_)) {
        tokio::time::sleep(SHORT + SHORT).await;
        assert_eq!(claim(&store, 9).await, [], "a stopped process is alive to the system");
    }
    rig.supplant("victim").await;
    let mut claims = Vec::new();
    while claims.len() < 4 {
        claims.push(claim_within(&store, Duration::from_secs(30)).await.expect("claimable"));
    }
    process.signal("-CONT");
    let mut fenced = 0;
    while let Some(said) = process.says()
        && said != "end"
    {
        assert!(!said.starts_with("error"), "{said}");
        fenced += usize::from(said.starts_with("fenced"));
    }
    assert_eq!(fenced, 4);
    for claim in claims {
        append(&store, &claim.fence, claim.head, &claim.head.to_string()).await;
        let names = names(&store, claim.fence.run).await;
        assert_eq!(names.len() as u64, claim.head + 1, "nothing came between");
    }
}

pub(crate) async fn dur_34_a_child_of_the_worker_keeps_nobody_alive(rig: &Rig) {
    let store = rig.worker("heir").await;
    let mut process = Process::start(&rig.address(), &format!("parent {}", SHORT.as_millis()));
    let said = process.says().unwrap();
    let child = said.strip_prefix("child ").unwrap().to_owned();
    listen(&mut process, 8);
    process.kill();
    assert!(claim_within(&store, rig.takeover_within()).await.is_some());
    let alive = Command::new("kill").args(["-0", &child]).status().unwrap().success();
    Command::new("kill").args(["-9", &child]).status().unwrap();
    assert!(alive, "the child outlived its parent");
}
