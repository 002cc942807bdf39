//! What is kept beside the events, for how long, and how it is told apart from what is newer.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{AppendError, EventProblem, ListQuery, NewRun, ReadError, Release, Snapshot};

use crate::cast::{append, create, event, fence, names, noise, run};
use crate::rig::Rig;

fn ended() -> Release {
    Release::Ended { reason: "completed".into() }
}

pub(crate) async fn dur_20_ended_runs_go_and_live_ones_stay(rig: &Rig) {
    let store = rig.worker("a").await;
    for n in 1..=5 {
        create(&store, n).await;
    }
    for n in 1..=3 {
        store.release(&fence(n), ended()).await.unwrap();
    }
    assert_eq!(store.drop_ended(Duration::from_secs(3600), 10).await.unwrap(), 0, "kept long enough");
    assert_eq!(store.drop_ended(Duration::ZERO, 2).await.unwrap(), 2);
    assert_eq!(store.drop_ended(Duration::ZERO, 2).await.unwrap(), 1);
    let left = store.list(ListQuery { state: None, root: None, after: None, limit: 9 }).await.unwrap();
    assert_eq!(left.iter().map(|meta| meta.run).collect::<Vec<_>>(), [run(4), run(5)]);
    assert!(matches!(store.read(run(1), 0, 9).await, Err(ReadError::NoSuchRun(_))));
    append(&store, &fence(4), 1, "goes on").await;
}

pub(crate) async fn a_snapshot_is_found_by_its_fold(rig: &Rig) {
    let store = rig.open().await;
    let fence = create(&store, 1).await;
    let snapshot = |seq, fold_version| Snapshot { seq, fold_version, body: vec![7; 100].into() };
    assert_eq!(store.snapshot(fence.run, 1).await.unwrap(), None);
    for kept in [snapshot(1, 1), snapshot(5, 1), snapshot(9, 2)] {
        store.put_snapshot(&fence, kept).await.unwrap();
    }
    assert_eq!(store.snapshot(fence.run, 1).await.unwrap(), Some(snapshot(5, 1)));
    assert_eq!(store.snapshot(fence.run, 2).await.unwrap(), Some(snapshot(9, 2)));
    store.put_snapshot(&fence, snapshot(12, 2)).await.unwrap();
    assert_eq!(store.snapshot(fence.run, 1).await.unwrap(), None, "two are kept");
}

pub(crate) async fn equal_blobs_are_kept_once_for_as_long_as_a_run_needs_them(rig: &Rig) {
    let store = rig.worker("a").await;
    create(&store, 1).await;
    create(&store, 2).await;
    let bytes: Arc<[u8]> = vec![9; 50_000].into();
    let hash = store.put_blob(run(1), Arc::clone(&bytes)).await.unwrap();
    assert_eq!(store.put_blob(run(2), Arc::clone(&bytes)).await.unwrap(), hash);
    assert!(hash.to_string().len() == 64 && hash.to_string() != "0".repeat(64));
    for (n, left) in [(1, Some(bytes)), (2, None)] {
        store.release(&fence(n), ended()).await.unwrap();
        assert_eq!(store.drop_ended(Duration::ZERO, 9).await.unwrap(), 1);
        assert_eq!(store.blob(hash).await.unwrap(), left);
    }
}

pub(crate) async fn a_large_event_is_read_as_it_was_written(rig: &Rig) {
    let store = rig.worker("a").await;
    let large = |seed| event(&noise(200_000, seed));
    store.create(NewRun::new(fence(1), large(1))).await.unwrap();
    store.append(&fence(1), 1, vec![large(2), event("small"), large(2)]).await.unwrap();
    assert_eq!(store.read(run(1), 0, 9).await.unwrap(), [large(1), large(2), event("small"), large(2)]);
    // Of another run that has the same content, and outlives this one.
    store.create(NewRun::new(fence(2), large(1))).await.unwrap();
    store.release(&fence(1), ended()).await.unwrap();
    assert_eq!(store.drop_ended(Duration::ZERO, 9).await.unwrap(), 1);
    assert_eq!(store.read(run(2), 0, 9).await.unwrap(), [large(1)]);
    let refused = store.append(&fence(1), 4, vec![large(3)]).await;
    assert!(matches!(refused, Err(AppendError::NoSuchRun(_))), "{refused:?}");
}

pub(crate) async fn a_body_that_one_run_drops_while_another_begins_to_use_it_stays(rig: &Rig) {
    let store = rig.worker("a").await;
    let large = event(&noise(50_000, 1));
    let mut users = tokio::task::JoinSet::new();
    for user in 0..4 {
        let (store, large) = (Arc::clone(&store), large.clone());
        users.spawn(async move {
            for n in 0..40 {
                let fence = fence(1 + user * 100 + n);
                let config = Some(Arc::from(vec![b'c'; 30_000]));
                let new = NewRun { config, ..NewRun::new(fence, event("start")) };
                store.create(new).await.unwrap();
                store.append(&fence, 1, vec![large.clone()]).await.unwrap();
                assert_eq!(store.read(fence.run, 1, 9).await.unwrap(), slice::from_ref(&large));
                store.release(&fence, ended()).await.unwrap();
            }
        });
    }
    while !users.is_empty() {
        store.drop_ended(Duration::ZERO, 500).await.unwrap();
        while let Some(ended) = users.try_join_next() {
            ended.unwrap();
        }
    }
    while store.drop_ended(Duration::ZERO, 500).await.unwrap() > 0 {}
    assert_eq!(store.list(ListQuery { state: None, root: None, after: None, limit: 9 }).await.unwrap(), []);
}

pub(crate) async fn a_large_body_is_stored_once_and_beside_the_events(rig: &Rig) {
    const BLOBS: &str = "SELECT count(*) FROM blob";
    let store = rig.worker("a").await;
    for n in 1..=3 {
        create(&store, n).await;
        let bodies = [noise(200_000, 1), noise(16_000, 2), "z".repeat(200_000)];
        let events = bodies.iter().map(|body| event(body)).collect();
        store.append(&fence(n), 1, events).await.unwrap();
    }
    assert_eq!(rig.number(BLOBS).await, 1, "what is small, or small when compressed, is no blob");
    let longest = rig.number("SELECT CAST(max(length(body)) AS bigint) FROM event").await;
    assert!(longest <= 16 << 10, "the longest body among the events has {longest} bytes");
    // A refused append leaves nothing behind.
    let refused = store.append(&fence(1), 7, vec![event(&noise(200_000, 9))]).await;
    assert!(matches!(refused, Err(AppendError::Conflict { .. })), "{refused:?}");
    assert_eq!(rig.number(BLOBS).await, 1);
    for n in 1..=3 {
        assert_eq!(rig.number(BLOBS).await, 1, "a run still needs it");
        store.release(&fence(n), ended()).await.unwrap();
        assert_eq!(store.drop_ended(Duration::ZERO, 9).await.unwrap(), 1);
    }
    assert_eq!(rig.number(BLOBS).await, 0);
}

pub(crate) async fn a_snapshot_of_megabytes_is_stored_small(rig: &Rig) {
    let store = rig.open().await;
    let fence = create(&store, 1).await;
    let said = r#"{"role":"tool","content":"the same as before, once more"},"#;
    let snapshot = Snapshot { seq: 1, fold_version: 1, body: said.repeat(100_000).into_bytes().into() };
    store.put_snapshot(&fence, snapshot.clone()).await.unwrap();
    assert_eq!(store.snapshot(fence.run, 1).await.unwrap(), Some(snapshot));
    let bytes = rig.number("SELECT CAST(max(length(body)) AS bigint) FROM snapshot").await;
    assert!(bytes < 600_000, "six megabytes take {bytes} bytes");
}

pub(crate) async fn a_snapshot_is_what_its_owner_wrote(rig: &Rig) {
    let store = rig.open().await;
    let fence = create(&store, 1).await;
    let compressed_looking = [0x28, 0xb5, 0x2f, 0xfd, 1, 2, 3].repeat(900);
    for body in [Vec::new(), b"(a)".to_vec(), compressed_looking[..7].to_vec(), compressed_looking] {
        let snapshot = Snapshot { seq: 1, fold_version: 1, body: body.into() };
        store.put_snapshot(&fence, snapshot.clone()).await.unwrap();
        assert_eq!(store.snapshot(fence.run, 1).await.unwrap(), Some(snapshot));
    }
}

pub(crate) async fn dur_20_disk_space_comes_back(rig: &Rig) {
    let store = rig.worker("a").await;
    let live = create(&store, 1).await;
    let empty = rig.disk_bytes().await.unwrap();
    for n in 2..=40 {
        let fence = create(&store, n).await;
        for head in 1..=4 {
            append(&store, &fence, head, &noise(20_000, head)).await;
        }
        let n = u64::try_from(n).unwrap();
        store.put_blob(fence.run, noise(90_000, n).into_bytes().into()).await.unwrap();
        store.release(&fence, ended()).await.unwrap();
    }
    let full = rig.disk_bytes().await.unwrap();
    while store.drop_ended(Duration::ZERO, 10).await.unwrap() > 0 {}
    let after = rig.disk_bytes().await.unwrap();
    assert!(
        full > empty + 2_000_000 && after < empty + (full - empty) / 4,
        "{empty} to {full} to {after} bytes"
    );
    append(&store, &live, 1, "goes on").await;
    assert_eq!(names(&store, live.run).await, ["start", "goes on"]);
}

pub(crate) async fn dur_20_one_call_drops_no_more_than_a_slice(rig: &Rig) {
    let store = rig.open().await;
    for n in 1..=3 {
        create(&store, n).await;
        for head in 0..26 {
            store.append(&fence(n), 1 + head * 1000, vec![event("x"); 1000]).await.unwrap();
        }
        store.release(&fence(n), ended()).await.unwrap();
    }
    for dropped in [2, 1, 0] {
        assert_eq!(store.drop_ended(Duration::ZERO, 500).await.unwrap(), dropped);
    }
}

pub(crate) async fn dur_24_an_event_of_a_newer_program_is_refused_by_name(rig: &Rig) {
    let store = rig.open().await;
    let fence = create(&store, 1).await;
    store.append(&fence, 1, vec![event("b"), event("c")]).await.unwrap();
    for (kind, version) in [("run_teleported", 1), ("cancel_requested", 2)] {
        rig.rewrite(fence.run, 2, kind, version).await;
        let refused = store.read(fence.run, 0, 9).await.unwrap_err();
        let ReadError::Unreadable { seq: 2, problem, .. } = &refused else { panic!("{refused:?}") };
        match version {
            1 => assert_eq!(*problem, EventProblem::UnknownKind("run_teleported".into())),
            _ => assert!(matches!(problem, EventProblem::NewerVersion { version: 2, newest: 1, .. })),
        }
    }
    rig.rewrite(fence.run, 2, "cancel_requested", 1).await;
    assert_eq!(names(&store, fence.run).await, ["start", "b", "c"], "nothing was dropped");
}
