//! The runs, events and workers that the statements speak of.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    Claim, ClaimFilter, Fence, NewRun, Recorded, RunEvent, RunId, Seq, SharedJournal, Timestamp, WorkerInfo,
};

/// Any store.
pub(crate) type Store = Arc<dyn SharedJournal>;

/// Longer than any test takes.
pub(crate) const LONG: Duration = Duration::from_secs(600);

pub(crate) fn run(n: u128) -> RunId {
    // Of the form of a version 7 id, so that stores that look at the time in it find one.
    RunId::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0000 + n)
}

pub(crate) fn fence(n: u128) -> Fence {
    Fence { run: run(n), epoch: 1, token: 7 + n }
}

pub(crate) fn event(by: &str) -> Recorded {
    at(1_000_000, by)
}

pub(crate) fn at(us: u64, by: &str) -> Recorded {
    Recorded { at: Timestamp::from_micros(us), event: RunEvent::CancelRequested { by: by.into() } }
}

pub(crate) fn worker(name: &str, ttl: Duration) -> WorkerInfo {
    WorkerInfo { name: name.into(), host: "here".into(), ttl }
}

pub(crate) async fn create(store: &Store, n: u128) -> Fence {
    store.create(NewRun::new(fence(n), event("start"))).await.unwrap();
    fence(n)
}

pub(crate) async fn append(store: &Store, fence: &Fence, expected: Seq, by: &str) -> Seq {
    store.append(fence, expected, vec![event(by)]).await.unwrap()
}

pub(crate) async fn claim(store: &Store, want: usize) -> Vec<Claim> {
    store.claim(want, ClaimFilter::default()).await.unwrap()
}

/// Claims until there is one, for at most `within`.
pub(crate) async fn claim_within(store: &Store, within: Duration) -> Option<Claim> {
    let started = std::time::Instant::now();
    loop {
        if let Some(claim) = claim(store, 1).await.pop() {
            return Some(claim);
        }
        if started.elapsed() > within {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Who is named in the events, in order.
pub(crate) async fn names(store: &Store, run: RunId) -> Vec<String> {
    let mut names = Vec::new();
    loop {
        let page = store.read(run, names.len() as Seq, 1000).await.unwrap();
        if page.is_empty() {
            return names;
        }
        names.extend(page.into_iter().map(|recorded| match recorded.event {
            RunEvent::CancelRequested { by } => by.to_string(),
            other => format!("{other:?}"),
        }));
    }
}

/// Text that does not compress well.
pub(crate) fn noise(bytes: usize, seed: u64) -> String {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'0' + (state >> 58) as u8)
    };
    std::iter::repeat_with(next).filter(|c| *c != '\\').take(bytes).collect()
}
