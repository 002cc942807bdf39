//! What the runs of one tree share: a pad under the root, and letters while there is room for them.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{JournalError, Letter, NewRun, Pad, Posted, Release};

use crate::cast::{Store, create, event, fence, names, run};
use crate::rig::Rig;

fn ended() -> Release {
    Release::Ended { reason: "completed".into() }
}

fn body(text: &str) -> Arc<[u8]> {
    text.as_bytes().into()
}

fn letter(id: &str) -> Letter {
    Letter { id: id.into(), body: body("x") }
}

pub(crate) async fn a_pad_is_written_only_by_who_has_seen_it(rig: &Rig) {
    let store = rig.worker("a").await;
    create(&store, 1).await;
    create(&store, 2).await;
    let pad = async |n| store.pad(run(n)).await.unwrap();
    assert_eq!(pad(1).await, None);
    assert!(!store.put_pad(run(1), 3, body("early")).await.unwrap());
    assert!(store.put_pad(run(1), 0, body("one")).await.unwrap());
    assert!(!store.put_pad(run(1), 0, body("late")).await.unwrap());
    assert!(store.put_pad(run(1), 1, body("two")).await.unwrap());
    assert_eq!(pad(1).await, Some(Pad { version: 2, body: body("two") }));
    assert_eq!(pad(2).await, None, "each tree has its own");
    let refused = store.put_pad(run(1), 2, vec![0; 2 << 20].into()).await;
    assert!(matches!(refused, Err(JournalError::TooLarge(_))), "{refused:?}");
    assert!(matches!(store.pad(run(9)).await, Err(JournalError::NoSuchRun(_))));
    assert!(matches!(store.put_pad(run(9), 0, body("x")).await, Err(JournalError::NoSuchRun(_))));
}

pub(crate) async fn of_many_who_write_a_pad_at_once_each_is_counted(rig: &Rig) {
    let stores = [rig.worker("a").await, rig.worker("b").await];
    create(&stores[0], 1).await;
    let mut writers = tokio::task::JoinSet::new();
    for n in 0..6 {
        let store: Store = Arc::clone(&stores[n % 2]);
        writers.spawn(async move {
            let mut left = 10;
            while left > 0 {
                let (version, text) = match store.pad(run(1)).await.unwrap() {
                    None => (0, String::new()),
                    Some(pad) => (pad.version, String::from_utf8(pad.body.to_vec()).unwrap()),
                };
                let written = store.put_pad(run(1), version, body(&format!("{text}{n}"))).await.unwrap();
                left -= usize::from(written);
            }
        });
    }
    writers.join_all().await;
    let pad = stores[0].pad(run(1)).await.unwrap().unwrap();
    let of = |n: u8| pad.body.iter().filter(|byte| **byte == b'0' + n).count();
    assert_eq!((pad.version, (0..6).map(of).collect::<Vec<_>>()), (60, vec![10; 6]));
}

pub(crate) async fn a_pad_goes_with_its_root(rig: &Rig) {
    let store = rig.worker("a").await;
    create(&store, 1).await;
    assert!(store.put_pad(run(1), 0, body("one")).await.unwrap());
    store.release(&fence(1), ended()).await.unwrap();
    assert_eq!(store.pad(run(1)).await.unwrap().unwrap().version, 1, "kept as long as the run");
    assert_eq!(store.drop_ended(Duration::ZERO, 9).await.unwrap(), 1);
    assert!(matches!(store.pad(run(1)).await, Err(JournalError::NoSuchRun(_))));
    create(&store, 1).await;
    assert_eq!(store.pad(run(1)).await.unwrap(), None, "nothing is left of it");
}

pub(crate) async fn a_letter_is_posted_while_there_is_room(rig: &Rig) {
    let store = rig.worker("a").await;
    create(&store, 1).await;
    let post = async |n, id| store.post(run(n), letter(id), 2).await;
    for (id, posted) in [("a", Posted::New), ("a", Posted::Again), ("b", Posted::New), ("c", Posted::Full)] {
        assert_eq!(post(1, id).await.unwrap(), posted, "{id}");
    }
    assert_eq!(post(1, "b").await.unwrap(), Posted::Again, "a full box knows what is in it");
    store.append_taking(&fence(1), 1, vec![event("b")], vec!["a".into()]).await.unwrap();
    assert_eq!(post(1, "c").await.unwrap(), Posted::New);
    assert_eq!(post(1, "a").await.unwrap(), Posted::Again, "what was taken in is not forgotten");
    let unread: Vec<_> = store.letters(run(1)).await.unwrap().into_iter().map(|letter| letter.id).collect();
    assert_eq!(unread, ["b".into(), "c".into()] as [Arc<str>; 2]);
    store.release(&fence(1), ended()).await.unwrap();
    assert_eq!(post(1, "d").await.unwrap(), Posted::Ended);
    assert_eq!(post(1, "c").await.unwrap(), Posted::Again);
    assert!(matches!(post(9, "a").await, Err(JournalError::NoSuchRun(_))));
    assert_eq!(names(&store, run(1)).await, ["start", "b"]);
}

pub(crate) async fn children_are_listed_in_the_order_of_their_creation(rig: &Rig) {
    let store = rig.worker("a").await;
    for n in [1, 9] {
        create(&store, n).await;
    }
    for (n, parent) in [(5, 1), (3, 1), (4, 9), (2, 1)] {
        let parent = Some(run(parent));
        let new =
            NewRun { parent, agent: format!("agent {n}").into(), ..NewRun::new(fence(n), event("start")) };
        store.create(new).await.unwrap();
    }
    store.release(&fence(3), ended()).await.unwrap();
    let children = store.children(run(1)).await.unwrap();
    let seen: Vec<_> =
        children.iter().map(|child| (child.run, &*child.agent, child.state.as_str())).collect();
    let expected = [(5, "agent 5", "driven"), (3, "agent 3", "ended"), (2, "agent 2", "driven")];
    assert_eq!(seen, expected.map(|(n, agent, state)| (run(n), agent, state)));
    assert_eq!(store.children(run(2)).await.unwrap(), []);
}
