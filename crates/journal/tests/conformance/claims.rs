//! Who drives a run, and who may take it over.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    AppendError, CallKey, CallRecord, CallVerdict, ClaimFilter, Failure, JournalError, LateResult, ListQuery,
    NewRun, Recorded, Release, RunCounts, RunEvent, RunState, Snapshot,
};
use expect_test::expect;

use crate::cast::{LONG, append, claim, claim_within, create, event, fence, names, run};
use crate::rig::{Rig, SHORT};

const ALL: ListQuery = ListQuery { state: None, root: None, after: None, limit: 100 };

pub(crate) async fn a_run_waits_as_long_as_its_owner_asked(rig: &Rig) {
    let store = rig.worker("a").await;
    let fence = create(&store, 1).await;
    store.release(&fence, Release::Ready { after: Duration::from_millis(300) }).await.unwrap();
    assert_eq!(claim(&store, 9).await, []);
    let claimed = claim_within(&store, Duration::from_secs(30)).await.unwrap();
    assert!(claimed.since_last >= Duration::from_millis(300), "{claimed:?}");
    store.release(&claimed.fence, Release::Paused { reason: "the tool is missing".into() }).await.unwrap();
    assert_eq!(claim(&store, 9).await, []);
    assert!(store.reopen(fence.run).await.unwrap());
    assert!(!store.reopen(fence.run).await.unwrap());
    let claimed = claim(&store, 9).await.remove(0);
    store.release(&claimed.fence, Release::Ended { reason: "completed".into() }).await.unwrap();
    assert_eq!(claim(&store, 9).await, []);
    assert!(!store.reopen(fence.run).await.unwrap());
}

pub(crate) async fn a_wake_tells_of_a_new_run(rig: &Rig) {
    let store = rig.worker("a").await;
    let woken = {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.woken().await })
    };
    let fence = create(&store, 1).await;
    // A hint may come from either; none may be needed to find the run.
    store.release(&fence, Release::Ready { after: Duration::ZERO }).await.unwrap();
    tokio::time::timeout(Duration::from_secs(30), woken).await.unwrap().unwrap();
    assert_eq!(claim(&store, 1).await.len(), 1);
}

pub(crate) async fn dur_02_no_run_stays_owned_by_a_dead_worker(rig: &Rig) {
    let (dead, alive) = (rig.mortal("dead").await, rig.worker("alive").await);
    for n in 1..=40 {
        create(&dead, n).await;
        dead.renew().await.unwrap();
    }
    assert_eq!(claim(&alive, 100).await, []);
    drop(dead);
    let first = claim_within(&alive, rig.takeover_within()).await;
    assert!(first.is_some(), "not claimable within {:?}", rig.takeover_within());
    assert_eq!(claim(&alive, 100).await.len(), 39);
    let counts = alive.counts(ClaimFilter::default()).await.unwrap();
    assert_eq!(counts, RunCounts { driven: 40, ..RunCounts::default() });
}

pub(crate) async fn dur_07_a_worker_that_lives_keeps_its_run(rig: &Rig) {
    let (owner, other) = (rig.mortal("owner").await, rig.worker("other").await);
    let fence = create(&owner, 1).await;
    let mut since_renewal = std::time::Instant::now();
    let started = std::time::Instant::now();
    while started.elapsed() < SHORT * 10 {
        if since_renewal.elapsed() > SHORT / 4 {
            owner.renew().await.unwrap();
            since_renewal = std::time::Instant::now();
        }
        assert_eq!(claim(&other, 9).await, []);
        tokio::time::sleep(SHORT / 8).await;
    }
    append(&owner, &fence, 1, "the call's end").await;
}

pub(crate) async fn dur_10_a_worker_never_adopts_its_own_run(rig: &Rig) {
    let (store, enqueue) = (rig.worker("a").await, rig.open().await);
    for n in 1..=20 {
        create(&enqueue, n).await;
    }
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            let mut claimed = Vec::new();
            for _ in 0..250 {
                claimed.extend(claim(&store, 3).await);
            }
            claimed
        });
    }
    let claimed: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
    assert_eq!(claimed.len(), 20);
    assert!(claimed.iter().all(|claim| claim.attempts == 1 && claim.fence.epoch == 2));
    store.register(crate::cast::worker("a", LONG)).await.unwrap();
    assert_eq!(claim(&store, 100).await.len(), 20, "a new incarnation takes over what the old one had");
}

pub(crate) async fn dur_11_who_was_supplanted_cannot_write(rig: &Rig) {
    let (old, new) = (rig.mortal("old").await, rig.worker("new").await);
    let stale = create(&old, 1).await;
    append(&old, &stale, 1, "before").await;
    rig.supplant("old").await;
    let claimed = claim_within(&new, Duration::from_secs(30)).await.unwrap();
    assert_eq!((claimed.head, claimed.fence.epoch), (2, 2));
    // The new owner has written nothing yet, so the last event is the one that the old one knows.
    let refused = old.append(&stale, 2, vec![event("zombie")]).await;
    assert!(matches!(refused, Err(AppendError::Fenced { owner_epoch: 2, .. })), "{refused:?}");
    append(&new, &claimed.fence, 2, "after").await;
    let refused = old.append(&stale, 3, vec![event("zombie")]).await;
    assert!(matches!(refused, Err(AppendError::Fenced { .. })), "{refused:?}");
    assert_eq!(names(&new, stale.run).await, ["start", "before", "after"]);
}

pub(crate) async fn dur_12_the_list_tells_all_that_decides(rig: &Rig) {
    let (old, new) = (rig.mortal("old").await, rig.worker("new").await);
    let first = create(&old, 1).await;
    append(&old, &first, 1, "b").await;
    old.put_snapshot(&first, Snapshot { seq: 2, fold_version: 1, body: Arc::from(&b"s"[..]) }).await.unwrap();
    create(&old, 2).await;
    rig.supplant("old").await;
    let taken = claim_within(&new, Duration::from_secs(30)).await.unwrap();
    new.put_late_result(late(1)).await.unwrap();
    new.send(run(1), dauntless_contract::Letter { id: "m".into(), body: Arc::from(&b"x"[..]) })
        .await
        .unwrap();
    let claimed = claim(&new, 9).await;
    let fences: Vec<_> = [taken].into_iter().chain(claimed).map(|claim| claim.fence).collect();
    let second = fences.iter().find(|fence| fence.run == run(2)).unwrap();
    new.release(second, Release::Paused { reason: "no tool named `mail`".into() }).await.unwrap();
    let parented = NewRun { parent: Some(run(1)), ..NewRun::new(fence(3), event("start")) };
    new.create(parented).await.unwrap();
    let lines: Vec<String> = new.list(ALL).await.unwrap().iter().map(ToString::to_string).collect();
    expect![[r#"
        01900000-0000-7000-8000-000000000001 driven head 2 epoch 2 by new, claims without progress: 1, snapshot at 2, unread letters: 1, late results: 1
        01900000-0000-7000-8000-000000000002 paused head 1 epoch 2 last by new: no tool named `mail`
        01900000-0000-7000-8000-000000000003 driven head 1 epoch 1 by new"#]]
    .assert_eq(&lines.join("\n"));
    let paused = new.list(ListQuery { state: Some(RunState::Paused), ..ALL }).await.unwrap();
    assert_eq!(paused.len(), 1);
    let page = new.list(ListQuery { after: Some(run(1)), limit: 1, ..ALL }).await.unwrap();
    assert_eq!(page[0].run, run(2));
}

pub(crate) async fn dur_13_an_earlier_incarnation_has_no_rights(rig: &Rig) {
    let old = rig.mortal("a").await;
    let stale = create(&old, 1).await;
    rig.supplant("a").await;
    let new = rig.worker("a").await;
    let renewed = old.renew().await;
    assert!(matches!(renewed, Err(JournalError::LeaseLost(_))), "{renewed:?}");
    let claimed = old.claim(1, ClaimFilter::default()).await;
    assert!(matches!(claimed, Err(JournalError::LeaseLost(_))), "{claimed:?}");
    let snapshot = Snapshot { seq: 1, fold_version: 1, body: Arc::from(&b"s"[..]) };
    for refused in [
        old.append(&stale, 1, vec![event("zombie")]).await.map(drop),
        old.release(&stale, Release::Ended { reason: "zombie".into() }).await,
        old.put_snapshot(&stale, snapshot).await,
    ] {
        assert!(matches!(refused, Err(AppendError::Fenced { .. })), "{refused:?}");
    }
    let claimed = claim(&new, 9).await.remove(0);
    assert_eq!((claimed.fence.run, claimed.head), (stale.run, 1));
}

fn late(epoch: u64) -> LateResult {
    let record = CallRecord {
        verdict: CallVerdict::Failed(Failure::unavailable("Gone.")),
        attempts: 1,
        waited: Duration::ZERO,
        stopped_by: None,
        out_for: None,
        by: None,
    };
    LateResult { run: run(1), call: CallKey { turn: 1, index: 0 }, epoch, record }
}

pub(crate) async fn dur_14_a_late_result_is_kept_beside_the_run(rig: &Rig) {
    let (old, new) = (rig.mortal("old").await, rig.worker("new").await);
    let stale = create(&old, 1).await;
    rig.supplant("old").await;
    let claimed = claim_within(&new, Duration::from_secs(30)).await.unwrap();
    assert!(matches!(old.append(&stale, 1, vec![event("end")]).await, Err(AppendError::Fenced { .. })));
    old.put_late_result(late(1)).await.unwrap();
    let mut again = late(1);
    again.record.attempts = 9;
    old.put_late_result(again).await.unwrap();
    assert_eq!(new.late_results(run(1)).await.unwrap(), [late(1)], "the first one stays");
    append(&new, &claimed.fence, 1, "resolved by late").await;
    let none = LateResult { run: run(9), ..late(1) };
    assert!(matches!(new.put_late_result(none).await, Err(JournalError::NoSuchRun(_))));
}

pub(crate) async fn dur_22_runs_for_other_code_are_counted(rig: &Rig) {
    let (store, enqueue) = (rig.worker("a").await, rig.open().await);
    for (n, version) in [(1, "v1"), (2, "v1"), (3, "v2")] {
        let config: Arc<[u8]> = Arc::from(&b"[agent]"[..]);
        let new = NewRun {
            code_version: version.into(),
            config: Some(config),
            ..NewRun::new(fence(n), event("start"))
        };
        enqueue.create(new).await.unwrap();
    }
    let filter =
        ClaimFilter { code_versions: Some(vec!["v2".into(), "v3".into()]), ..ClaimFilter::default() };
    let counts = store.counts(filter.clone()).await.unwrap();
    assert_eq!((counts.ready, counts.unclaimable), (3, 2));
    let claimed = store.claim(9, filter.clone()).await.unwrap();
    assert_eq!(claimed.len(), 1);
    assert_eq!((claimed[0].fence.run, &*claimed[0].code_version), (run(3), "v2"));
    let config = store.blob(claimed[0].config.unwrap()).await.unwrap().unwrap();
    assert_eq!(&*config, b"[agent]");
    assert_eq!(store.counts(filter).await.unwrap().unclaimable, 2);
    assert_eq!(claim(&store, 9).await.len(), 2, "who names no version takes any");
}

pub(crate) async fn dur_27_a_run_that_ends_its_workers_is_put_in_quarantine(rig: &Rig) {
    create(&rig.open().await, 1).await;
    for death in 1..=5 {
        let worker = rig.worker("w").await;
        let claimed = claim(&worker, 1).await.remove(0);
        assert_eq!(claimed.attempts, death);
        // That it was taken up again is no progress.
        let again = Recorded { at: claimed.last_at, event: RunEvent::Interrupted {} };
        worker.append(&claimed.fence, claimed.head, vec![again]).await.unwrap();
    }
    let worker = rig.worker("w").await;
    create(&worker, 2).await;
    assert_eq!(claim(&worker, 9).await, [], "five claims are enough");
    let meta = worker.list(ListQuery { state: Some(RunState::Quarantined), ..ALL }).await.unwrap().remove(0);
    assert_eq!(meta.run, run(1));
    assert_eq!(
        meta.reason.as_deref(),
        Some("claimed 5 times without getting on: see what ends its workers, then reopen it")
    );
    assert_eq!(worker.counts(ClaimFilter::default()).await.unwrap().quarantined, 1);
    assert!(worker.reopen(run(1)).await.unwrap());
    let claimed = claim(&worker, 9).await.remove(0);
    assert_eq!(claimed.attempts, 1);
    append(&worker, &claimed.fence, claimed.head, "progress").await;
    assert_eq!(worker.list(ALL).await.unwrap()[0].attempts, 0);
}

pub(crate) async fn dur_28_poison_delays_no_other_run(rig: &Rig) {
    let enqueue = rig.open().await;
    let mut creations = tokio::task::JoinSet::new();
    for n in 0..1016 {
        let enqueue = Arc::clone(&enqueue);
        creations.spawn(async move { create(&enqueue, n).await });
    }
    creations.join_all().await;
    let poison = |n: u128| n.is_multiple_of(64);
    let (mut good, mut lives) = (0, 0);
    let mut worker = rig.worker("w").await;
    // A worker that meets poison dies with it, with the whole of what it had claimed.
    loop {
        let claims = claim(&worker, 32).await;
        if claims.is_empty() {
            break;
        }
        let (bad, fine): (Vec<_>, Vec<_>) =
            claims.into_iter().partition(|claim| poison(claim.fence.run.as_u128() - run(0).as_u128()));
        good += fine.len();
        let mut releases = tokio::task::JoinSet::new();
        for claim in fine {
            let worker = Arc::clone(&worker);
            releases.spawn(async move {
                worker.release(&claim.fence, Release::Ended { reason: "completed".into() }).await.unwrap();
            });
        }
        releases.join_all().await;
        if !bad.is_empty() {
            drop(worker);
            worker = rig.worker("w").await;
            lives += 1;
        }
    }
    let counts = worker.counts(ClaimFilter::default()).await.unwrap();
    assert_eq!((good, counts.quarantined), (1000, 16));
    assert!(lives <= 16 * 5, "{lives} lives");
}

pub(crate) async fn a_worker_that_was_given_up_makes_runs_for_others(rig: &Rig) {
    let (old, new) = (rig.mortal("old").await, rig.worker("new").await);
    rig.supplant("old").await;
    assert_eq!(claim(&new, 9).await, []);
    create(&old, 1).await;
    assert!(claim_within(&new, Duration::from_secs(30)).await.is_some());
}

pub(crate) async fn a_choice_of_configuration_is_the_runs_own_from_then_on(rig: &Rig) {
    let store = rig.worker("a").await;
    let fence = fence(1);
    let config = |text: &str| Some(Arc::from(text.as_bytes()));
    store.create(NewRun { config: config("old"), ..NewRun::new(fence, event("start")) }).await.unwrap();
    let old = store.meta(fence.run).await.unwrap().unwrap().config.unwrap();
    let new = store.put_blob(fence.run, config("new").unwrap()).await.unwrap();
    let (to, over) = (new.to_string().into(), old.to_string().into());
    let chosen = RunEvent::ConfigChosen { config: to, over, by: "ann".into() };
    let head = store.append(&fence, 1, vec![Recorded { event: chosen, ..event("x") }]).await.unwrap();
    append(&store, &fence, head, "more").await;
    store.release(&fence, Release::Ready { after: Duration::ZERO }).await.unwrap();
    assert_eq!(claim(&store, 1).await.remove(0).config, Some(new), "it stays so after other events");
}

pub(crate) async fn an_outage_is_told_to_every_worker_until_it_is_over(rig: &Rig) {
    let (one, other) = (rig.worker("a").await, rig.worker("b").await);
    assert_eq!(one.outages().await.unwrap(), []);
    one.tell_outage("orders".into(), Duration::from_secs(60)).await.unwrap();
    one.tell_outage("stock".into(), Duration::from_millis(1)).await.unwrap();
    one.tell_outage("mail".into(), Duration::from_secs(60)).await.unwrap();
    other.tell_outage("mail".into(), Duration::ZERO).await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let told = other.outages().await.unwrap();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(&*told[0].dependency == "orders" && told[0].lasts > Duration::from_secs(50), "{told:?}");
}
