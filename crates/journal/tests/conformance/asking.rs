//! What a worker asks for beside any run at all: its runs with letters, children, one run.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{ClaimFilter, JournalError, Letter, ListQuery, NewRun, Release, RunId, RunState};

use crate::cast::{claim, create, event, fence, run};
use crate::rig::Rig;

fn letter(id: &str) -> Letter {
    Letter { id: id.into(), body: Arc::from(&b"x"[..]) }
}

fn child_of(parent: RunId, n: u128) -> NewRun {
    NewRun { parent: Some(parent), ..NewRun::new(fence(n), event("start")) }
}

pub(crate) async fn a_worker_is_told_which_of_its_runs_have_unread_letters(rig: &Rig) {
    let (mine, other) = (rig.worker("mine").await, rig.worker("other").await);
    assert!(matches!(rig.open().await.with_news().await, Err(JournalError::NotRegistered)));
    for n in 1..=3 {
        create(&mine, n).await;
    }
    create(&other, 4).await;
    assert_eq!(mine.with_news().await.unwrap(), []);
    for (n, id) in [(3, "a"), (4, "b"), (1, "c"), (3, "d")] {
        assert!(other.send(run(n), letter(id)).await.unwrap());
    }
    assert_eq!(mine.with_news().await.unwrap(), [run(3), run(1)], "the longest waiting first");
    assert_eq!(other.with_news().await.unwrap(), [run(4)]);
    mine.append_taking(&fence(3), 1, vec![event("b")], vec!["a".into()]).await.unwrap();
    assert_eq!(mine.with_news().await.unwrap(), [run(1), run(3)], "one letter is left");
    mine.append_taking(&fence(3), 2, vec![event("c")], vec!["d".into()]).await.unwrap();
    mine.release(&fence(1), Release::Paused { reason: "later".into() }).await.unwrap();
    assert_eq!(mine.with_news().await.unwrap(), [], "a run that was let go is nobody's");
    other.reopen(run(1)).await.unwrap();
    assert_eq!(claim(&other, 1).await[0].fence.run, run(1));
    assert_eq!(other.with_news().await.unwrap(), [run(4), run(1)], "letters come with the run");
}

pub(crate) async fn a_full_worker_takes_only_children(rig: &Rig) {
    let (worker, enqueue) = (rig.worker("a").await, rig.open().await);
    for n in 1..=3 {
        create(&enqueue, n).await;
    }
    let children = || ClaimFilter { children_only: true, ..ClaimFilter::default() };
    assert_eq!(worker.claim(9, children()).await.unwrap(), []);
    for n in 4..=5 {
        enqueue.create(child_of(run(1), n)).await.unwrap();
    }
    let claimed = worker.claim(1, children()).await.unwrap();
    assert_eq!((claimed.len(), claimed[0].fence.run), (1, run(4)), "the longest waiting first");
    let other_code = ClaimFilter { code_versions: Some(vec!["v9".into()]), ..children() };
    assert_eq!(worker.claim(9, other_code).await.unwrap(), []);
    assert_eq!(worker.claim(9, children()).await.unwrap().len(), 1);
    assert_eq!(claim(&worker, 9).await.len(), 3);
}

pub(crate) async fn one_run_can_be_claimed_past_all_others(rig: &Rig) {
    let (worker, enqueue) = (rig.worker("a").await, rig.open().await);
    for n in 1..=3 {
        create(&enqueue, n).await;
    }
    let only = |n| ClaimFilter { only: Some(run(n)), ..ClaimFilter::default() };
    let claimed = worker.claim(9, only(2)).await.unwrap();
    assert_eq!((claimed.len(), claimed[0].fence.run), (1, run(2)));
    assert_eq!(worker.claim(9, only(2)).await.unwrap(), [], "it is driven");
    assert_eq!(worker.claim(9, only(7)).await.unwrap(), [], "there is none");
    assert_eq!(claim(&worker, 9).await.len(), 2);
}

pub(crate) async fn the_list_tells_whose_run_it_is_and_how_old(rig: &Rig) {
    let store = rig.worker("a").await;
    let top = NewRun { agent: "clerk".into(), ..NewRun::new(fence(1), event("start")) };
    let child = NewRun { agent: "reader".into(), root: Some(run(1)), ..child_of(run(1), 2) };
    store.create(top).await.unwrap();
    store.create(child).await.unwrap();
    tokio::time::sleep(Duration::from_millis(80)).await;
    store.append(&fence(1), 1, vec![event("b")]).await.unwrap();
    store.release(&fence(2), Release::Ready { after: Duration::ZERO }).await.unwrap();
    let listed = store.list(ListQuery { state: None, root: None, after: None, limit: 9 }).await.unwrap();
    let [top, child] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!((&*top.agent, top.root, &*child.agent, child.root), ("clerk", None, "reader", Some(run(1))));
    let waited = Duration::from_millis(80);
    assert!(top.age >= waited && child.age >= waited && child.since_last >= waited, "{listed:?}");
    assert!(top.since_last < top.age, "{listed:?}");
    assert!(top.age < Duration::from_secs(60), "{listed:?}");
}

pub(crate) async fn the_runs_below_a_root_are_listed_alone(rig: &Rig) {
    let store = rig.worker("a").await;
    for n in [1, 5] {
        create(&store, n).await;
    }
    for (parent, n) in [(1, 2), (2, 3), (1, 4), (5, 6)] {
        let root = Some(run(if n == 6 { 5 } else { 1 }));
        store.create(NewRun { root, ..child_of(run(parent), n) }).await.unwrap();
    }
    store.release(&fence(4), Release::Paused { reason: "later".into() }).await.unwrap();
    let below = ListQuery { state: None, root: Some(run(1)), after: None, limit: 9 };
    let found = async |query| -> Vec<RunId> {
        store.list(query).await.unwrap().into_iter().map(|meta| meta.run).collect()
    };
    assert_eq!(found(below).await, [run(2), run(3), run(4)]);
    assert_eq!(found(ListQuery { limit: 2, ..below }).await, [run(2), run(3)]);
    assert_eq!(found(ListQuery { after: Some(run(2)), ..below }).await, [run(3), run(4)]);
    assert_eq!(found(ListQuery { state: Some(RunState::Paused), ..below }).await, [run(4)]);
    assert_eq!(found(ListQuery { root: Some(run(2)), ..below }).await, []);
}
