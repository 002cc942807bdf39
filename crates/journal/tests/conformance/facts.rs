//! What every store does with the events of one run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dauntless_contract::{
    AppendError, CreateError, EventProblem, JournalError, Letter, NewRun, Recorded, RunEvent, Snapshot,
    Timestamp,
};

use crate::cast::{Store, append, at, claim, create, event, fence, names, noise, run};
use crate::rig::Rig;

pub(crate) async fn what_was_appended_is_read_in_order(rig: &Rig) {
    let store = rig.open().await;
    let fence = create(&store, 1).await;
    assert_eq!(store.append(&fence, 1, vec![event("b"), event("c")]).await.unwrap(), 3);
    assert_eq!(store.read(fence.run, 1, 1).await.unwrap(), [event("b")]);
    assert_eq!(names(&store, fence.run).await, ["start", "b", "c"]);
    let again = rig.open().await;
    assert_eq!(names(&again, fence.run).await, ["start", "b", "c"]);
}

pub(crate) async fn who_has_not_seen_the_last_event_cannot_write(rig: &Rig) {
    let store = rig.open().await;
    let fence = create(&store, 1).await;
    append(&store, &fence, 1, "b").await;
    let refused = store.append(&fence, 1, vec![event("c")]).await;
    assert!(matches!(refused, Err(AppendError::Conflict { head: 2, expected: 1, .. })), "{refused:?}");
    let unknown = store.append(&crate::cast::fence(9), 1, vec![event("c")]).await;
    assert!(matches!(unknown, Err(AppendError::NoSuchRun(_))), "{unknown:?}");
    assert_eq!(names(&store, fence.run).await, ["start", "b"]);
}

pub(crate) async fn one_run_is_created_once(rig: &Rig) {
    let store = rig.open().await;
    create(&store, 1).await;
    let again = store.create(NewRun::new(fence(1), event("start"))).await;
    assert!(matches!(again, Err(CreateError::Exists(id)) if id == run(1)), "{again:?}");
}

pub(crate) async fn one_client_key_starts_one_run(rig: &Rig) {
    let store = rig.open().await;
    let keyed = |n| NewRun { client_key: Some("order-7".into()), ..NewRun::new(fence(n), event("start")) };
    store.create(keyed(1)).await.unwrap();
    let again = store.create(keyed(2)).await;
    assert!(matches!(again, Err(CreateError::Exists(id)) if id == run(1)), "{again:?}");
    create(&store, 3).await;
}

pub(crate) async fn time_goes_on_from_the_last_event(rig: &Rig) {
    let store = rig.worker("a").await;
    create(&rig.open().await, 1).await;
    let last = Timestamp::from_micros(9_000_000_000_000_000);
    let first = claim(&store, 1).await.remove(0);
    store.append(&first.fence, 1, vec![Recorded { at: last, ..event("b") }]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(60)).await;
    store.release(&first.fence, dauntless_contract::Release::Ready { after: Duration::ZERO }).await.unwrap();
    let second = claim(&store, 1).await.remove(0);
    assert_eq!(second.last_at, last);
    assert!(second.resumes_at() >= last + second.since_last && second.since_last < Duration::from_secs(30));
}

pub(crate) async fn dur_06_two_forks_share_nothing_that_changes(rig: &Rig) {
    let store = rig.open().await;
    let (a, b) = (create(&store, 1).await, fence(2));
    append(&store, &a, 1, "shared past").await;
    let past = store.read(a.run, 0, 100).await.unwrap();
    let fork = NewRun { parent: Some(a.run), ..NewRun::new(b, past[0].clone()) };
    store.create(fork).await.unwrap();
    store.append(&b, 1, past[1..].to_vec()).await.unwrap();
    append(&store, &a, 2, "only a").await;
    append(&store, &b, 2, "only b").await;
    let letter = Letter { id: "l".into(), body: Arc::from(&b"x"[..]) };
    assert!(store.send(a.run, letter.clone()).await.unwrap());
    assert!(store.send(b.run, letter).await.unwrap());
    store.put_snapshot(&a, Snapshot { seq: 3, fold_version: 1, body: Arc::from(&b"a"[..]) }).await.unwrap();
    assert_eq!(store.snapshot(b.run, 1).await.unwrap(), None);
    assert_eq!(names(&store, a.run).await, ["start", "shared past", "only a"]);
    assert_eq!(names(&store, b.run).await, ["start", "shared past", "only b"]);
}

pub(crate) async fn dur_17_a_journal_grows_by_what_is_new(rig: &Rig) {
    let store = rig.open().await;
    let fence = create(&store, 1).await;
    let before = rig.disk_bytes().await;
    let mut content = 0;
    for head in 1..=200 {
        // 4 bytes for a token: 200 000 tokens in 100 calls, each a request and a result.
        let text = noise(4000, head);
        content += text.len() as u64;
        append(&store, &fence, head, &text).await;
    }
    assert_eq!(
        names(&store, fence.run).await.iter().skip(1).map(|text| text.len() as u64).sum::<u64>(),
        content
    );
    if let (Some(before), Some(after)) = (before, rig.disk_bytes().await) {
        assert!(after - before < 2 * content, "{content} bytes of content take {}", after - before);
    }
}

pub(crate) async fn dur_18_a_long_run_is_as_quick_as_a_short_one(rig: &Rig) {
    let store = rig.open().await;
    let (short, long) = (create(&store, 1).await, create(&store, 2).await);
    let (mut short_head, mut long_head) = (1, 1);
    while long_head < 10_000 {
        long_head = store.append(&long, long_head, vec![event("x"); 1000]).await.unwrap();
    }
    // Rounds, because the disk is shared with whatever else the machine does.
    let mut rounds = Vec::new();
    for _ in 0..10 {
        let (mut short_us, mut long_us) = (Vec::new(), Vec::new());
        for _ in 0..20 {
            short_us.push(timed(&store, &short, &mut short_head).await);
            long_us.push(timed(&store, &long, &mut long_head).await);
        }
        let (at_100, at_10_000) = (median(short_us), median(long_us));
        rounds.push((at_100, at_10_000));
        if at_10_000 <= at_100 * 6 / 5 {
            break;
        }
    }
    let quick = rounds.last().is_some_and(|(short, long)| *long <= *short * 6 / 5);
    assert!(quick, "at 100 and at 10 000 events: {rounds:?}");
    while long_head < 100_000 {
        long_head = store.append(&long, long_head, vec![event("x"); 1000]).await.unwrap();
    }
    let body: Arc<[u8]> = vec![7; 100_000].into();
    let snapshot = Snapshot { seq: long_head - 200, fold_version: 1, body };
    store.put_snapshot(&long, snapshot.clone()).await.unwrap();
    let mut fastest = Duration::MAX;
    for _ in 0..5 {
        let started = Instant::now();
        let found = store.snapshot(long.run, 1).await.unwrap().unwrap();
        let tail = store.read(long.run, found.seq, 1000).await.unwrap();
        fastest = fastest.min(started.elapsed());
        assert_eq!((found.seq, tail.len()), (snapshot.seq, 200));
    }
    assert!(fastest < Duration::from_millis(100), "resuming read for {fastest:?}");
}

async fn timed(store: &Store, fence: &dauntless_contract::Fence, head: &mut u64) -> Duration {
    let started = Instant::now();
    *head = append(store, fence, *head, "x").await;
    started.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

pub(crate) async fn dur_21_what_is_too_large_is_refused_and_the_run_goes_on(rig: &Rig) {
    let store = rig.open().await;
    let fence = create(&store, 1).await;
    let large = "x".repeat(1 << 20);
    let batches = [vec![event(&large)], vec![event("x"); 1025], vec![event(&large[..900_000]); 5]];
    for batch in batches {
        let refused = store.append(&fence, 1, batch).await;
        assert!(matches!(refused, Err(AppendError::TooLarge(_))), "{refused:?}");
    }
    let huge: Arc<[u8]> = vec![0; (64 << 20) + 1].into();
    let refused = store.put_blob(fence.run, Arc::clone(&huge)).await;
    assert!(matches!(refused, Err(JournalError::TooLarge(_))), "{refused:?}");
    let refused = store.put_snapshot(&fence, Snapshot { seq: 1, fold_version: 1, body: huge }).await;
    assert!(matches!(refused, Err(AppendError::TooLarge(_))), "{refused:?}");
    let refused = store.send(fence.run, Letter { id: "l".into(), body: vec![0; (1 << 20) + 1].into() }).await;
    assert!(matches!(refused, Err(JournalError::TooLarge(_))), "{refused:?}");
    append(&store, &fence, 1, &large[..1_000_000]).await;
    assert_eq!(store.read(fence.run, 1, 9).await.unwrap(), [event(&large[..1_000_000])]);
}

pub(crate) async fn dur_26_an_event_that_is_out_of_order_is_refused(rig: &Rig) {
    let store = rig.open().await;
    let fence = create(&store, 1).await;
    for batch in [vec![at(3_000_000, "b"), at(2_000_000, "c")], vec![at(999_999, "b")]] {
        let refused = store.append(&fence, 1, batch).await;
        let problem = |error: &AppendError| {
            matches!(error, AppendError::Invalid { problem: EventProblem::Earlier(_), .. })
        };
        assert!(refused.as_ref().is_err_and(problem), "{refused:?}");
    }
    append(&store, &fence, 1, "b").await;
    assert_eq!(names(&store, fence.run).await, ["start", "b"]);
}

pub(crate) async fn dur_38_a_letter_sent_twice_is_one(rig: &Rig) {
    let store = rig.open().await;
    let fence = create(&store, 1).await;
    let letter = |id: &str, body: &str| Letter { id: id.into(), body: body.as_bytes().into() };
    assert!(store.send(fence.run, letter("m1", "stop")).await.unwrap());
    assert!(!store.send(fence.run, letter("m1", "stop")).await.unwrap());
    assert!(store.send(fence.run, letter("m2", "go")).await.unwrap());
    assert_eq!(store.letters(fence.run).await.unwrap(), [letter("m1", "stop"), letter("m2", "go")]);
    let taken: Vec<Arc<str>> = vec!["m1".into()];
    let stale = store.append_taking(&fence, 7, vec![event("input")], taken.clone()).await;
    assert!(matches!(stale, Err(AppendError::Conflict { .. })));
    assert_eq!(store.letters(fence.run).await.unwrap().len(), 2, "a refused append takes no letter");
    store.append_taking(&fence, 1, vec![event("input")], taken).await.unwrap();
    assert!(!store.send(fence.run, letter("m1", "stop")).await.unwrap(), "a taken letter is known");
    assert_eq!(store.letters(fence.run).await.unwrap(), [letter("m2", "go")]);
    assert!(matches!(store.send(run(9), letter("m", "x")).await, Err(JournalError::NoSuchRun(_))));
    assert!(matches!(
        &store.read(fence.run, 1, 9).await.unwrap()[..],
        [Recorded { event: RunEvent::CancelRequested { .. }, .. }]
    ));
}
