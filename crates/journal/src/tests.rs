use dauntless_contract::{
    AppendError, CreateError, Fence, Journal, NewRun, ReadError, Recorded, RunEvent, RunId, Timestamp,
};

use super::Memory;

const RUN: RunId = RunId::from_u128(7);
const FENCE: Fence = Fence { run: RUN, epoch: 1, token: 1 };

fn event(by: &str) -> Recorded {
    Recorded { at: Timestamp::ZERO, event: RunEvent::CancelRequested { by: by.into() } }
}

async fn store_with_one_run() -> Memory {
    let store = Memory::new(1);
    store.create(NewRun { fence: FENCE, first: event("a") }).await.unwrap();
    store
}

#[tokio::test]
async fn what_was_appended_is_read_in_order() {
    let store = store_with_one_run().await;
    assert_eq!(store.append(&FENCE, 1, vec![event("b"), event("c")]).await.unwrap(), 3);
    assert_eq!(store.read(RUN, 1, 1).await.unwrap(), [event("b")]);
    assert_eq!(store.read(RUN, 0, 9).await.unwrap(), [event("a"), event("b"), event("c")]);
}

#[tokio::test]
async fn another_owner_cannot_write() {
    let store = store_with_one_run().await;
    let other = Fence { token: 2, ..FENCE };
    let refused = store.append(&other, 1, vec![event("b")]).await;
    assert!(matches!(refused, Err(AppendError::Fenced { owner_epoch: 1, .. })));
    assert_eq!(store.read(RUN, 0, 9).await.unwrap().len(), 1);
}

#[tokio::test]
async fn who_has_not_seen_the_last_event_cannot_write() {
    let store = store_with_one_run().await;
    store.append(&FENCE, 1, vec![event("b")]).await.unwrap();
    let refused = store.append(&FENCE, 1, vec![event("c")]).await;
    assert!(matches!(refused, Err(AppendError::Conflict { head: 2, expected: 1, .. })));
}

#[tokio::test]
async fn one_run_is_created_once() {
    let store = store_with_one_run().await;
    let again = store.create(NewRun { fence: FENCE, first: event("a") }).await;
    assert!(matches!(again, Err(CreateError::Exists(RUN))));
}

#[tokio::test]
async fn ended_runs_beyond_the_bound_are_forgotten_oldest_first() {
    let store = store_with_one_run().await;
    let second = Fence { run: RunId::from_u128(8), ..FENCE };
    store.create(NewRun { fence: second, first: event("x") }).await.unwrap();
    store.release(&FENCE).await.unwrap();
    assert_eq!(store.read(RUN, 0, 9).await.unwrap().len(), 1, "the last ended run stays");
    store.release(&second).await.unwrap();
    assert!(matches!(store.read(RUN, 0, 9).await, Err(ReadError::NoSuchRun(RUN))));
    assert_eq!(store.read(second.run, 0, 9).await.unwrap().len(), 1);
}
