use dauntless_contract::{Fence, Recorded, Timestamp};
use dauntless_contract::{Journal, NewRun, ReadError, Release, RunEvent, RunId, SharedJournal};

use super::Memory;

fn new_run(n: u128) -> (Fence, NewRun) {
    let fence = Fence { run: RunId::from_u128(n), epoch: 1, token: n };
    let event = RunEvent::CancelRequested { by: "a".into() };
    (fence, NewRun::new(fence, Recorded { at: Timestamp::ZERO, event }))
}

#[tokio::test]
async fn ended_runs_beyond_the_bound_are_forgotten_oldest_first() {
    let store = Memory::new(1);
    let ended = || Release::Ended { reason: "completed".into() };
    let ((first, one), (second, two)) = (new_run(7), new_run(8));
    store.create(one).await.unwrap();
    store.create(two).await.unwrap();
    store.release(&first, ended()).await.unwrap();
    assert_eq!(store.read(first.run, 0, 9).await.unwrap().len(), 1, "the last ended run stays");
    store.release(&second, ended()).await.unwrap();
    assert!(matches!(store.read(first.run, 0, 9).await, Err(ReadError::NoSuchRun(_))));
    assert_eq!(store.read(second.run, 0, 9).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_handle_that_is_dropped_leaves_its_runs_to_the_others() {
    let store = Memory::default();
    let other = store.handle();
    assert!(store.renew().await.is_err(), "a handle is no worker before it is registered");
    drop(store);
    assert_eq!(other.counts(Default::default()).await.unwrap().ready, 0);
}
