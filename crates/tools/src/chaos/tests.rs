use std::future::Future;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use dauntless_contract::{Effect, EffectState, FailureCode};
use expect_test::expect;
use futures_util::FutureExt;
use tokio::time::Instant;

use super::*;
use crate::tests::{ctx, spec};

/// Works, and counts how often.
struct Counted {
    spec: Arc<ToolSpec>,
    calls: AtomicU32,
}

impl Tool for Counted {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, _: ToolCtx, _: Json) -> BoxFuture<'_, Result<ToolOutput, Failure>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Ok(ToolOutput::text("done")) })
    }
}

fn counted() -> Arc<Counted> {
    Arc::new(Counted { spec: spec(Effect::Once, &[]), calls: AtomicU32::new(0) })
}

fn plan(rate: f64, kinds: &[&str]) -> ChaosPlan {
    let kinds = kinds.iter().map(|kind| kind.parse().unwrap()).collect();
    ChaosPlan { rate, kinds, after_effect_ratio: 0.0, ..ChaosPlan::default() }
}

fn at(turn: u32, index: u32, attempt: u32) -> ToolCtx {
    ToolCtx { call: CallKey { turn, index }, attempt, ..ctx() }
}

fn call(chaos: &Chaos, ctx: ToolCtx) -> impl Future<Output = Result<ToolOutput, Failure>> + '_ {
    chaos.call(ctx, Json::empty_object())
}

/// How the attempts end that a run of so many turns makes, one a turn.
async fn run(chaos: &Chaos, turns: u32) -> Vec<String> {
    let mut ends = Vec::new();
    for turn in 1..=turns {
        let end = std::panic::AssertUnwindSafe(call(chaos, at(turn, 0, 1))).catch_unwind().await;
        ends.push(match end {
            Ok(Ok(output)) => output.text.to_string(),
            Ok(Err(failure)) => failure.code.to_string(),
            Err(panic) => panic.downcast_ref::<String>().unwrap().clone(),
        });
    }
    ends
}

#[tokio::test]
async fn the_same_seed_injects_the_same_sequence_and_another_seed_another() {
    let ends = async |seed| {
        let chaos = Chaos::wrap(counted(), plan(0.5, &["unavailable", "rate_limited", "panic"]), seed);
        let mut ends = run(&chaos, 20).await;
        ends.extend(run(&chaos, 20).await);
        ends
    };
    assert_eq!(ends(7).await, ends(7).await);
    assert_ne!(ends(7).await, ends(8).await);
    let both = ends(7).await;
    assert_ne!(both[..20], both[20..], "the second run meets faults of its own");
}

#[tokio::test]
async fn what_strikes_a_call_does_not_depend_on_the_order_of_arrival() {
    let ends = async |order: &[u32]| {
        let chaos = Chaos::wrap(counted(), plan(0.5, &["unavailable", "not_found"]), 7);
        let mut ends = Vec::new();
        for index in order {
            ends.push((*index, call(&chaos, at(1, *index, 1)).await.map_err(|failure| failure.code)));
        }
        ends.sort_by_key(|(index, _)| *index);
        ends
    };
    assert_eq!(ends(&[0, 1, 2, 3, 4, 5, 6, 7]).await, ends(&[5, 2, 7, 0, 1, 6, 3, 4]).await);
}

#[test]
fn faults_come_as_often_as_the_rate_says_and_each_kind_equally() {
    let plan = ChaosPlan { after_effect_ratio: 0.25, ..plan(0.3, &["unavailable", "timeout", "hang"]) };
    let (mut struck, mut late) = (BTreeMap::<FaultKind, u32>::new(), 0);
    for (seed, turn) in (0..100).flat_map(|seed| (0..100).map(move |turn| (seed, turn))) {
        if let Some((kind, moment)) = Draw::of(&plan, seed, "order", [turn, 0, 1, 1]).fault {
            *struck.entry(kind).or_default() += 1;
            late += u32::from(moment == Moment::After);
        }
    }
    let total: u32 = struck.values().sum();
    assert!((2850..3150).contains(&total), "{total}");
    assert!(struck.len() == 3 && struck.values().all(|count| (900..1100).contains(count)), "{struck:?}");
    assert!((650..850).contains(&late), "{late}");
}

#[test]
fn a_higher_rate_strikes_wherever_a_lower_one_did() {
    let strikes = |rate, turn| Draw::of(&plan(rate, &["hang"]), 3, "order", [turn, 0, 1, 1]).fault.is_some();
    assert!((0..1000).all(|turn| !strikes(0.1, turn) || strikes(0.4, turn)));
    assert!((0..1000).all(|turn| strikes(1.0, turn) && !strikes(0.0, turn)));
}

#[tokio::test(start_paused = true)]
async fn every_attempt_is_slower_by_a_length_out_of_the_range() {
    let range: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_millis(500);
    let chaos = Chaos::wrap(counted(), ChaosPlan { latency: range.clone(), ..plan(0.0, &[]) }, 1);
    let mut lengths = Vec::new();
    for turn in 1..=100 {
        let start = Instant::now();
        assert!(call(&chaos, at(turn, 0, 1)).await.is_ok());
        lengths.push(start.elapsed());
    }
    // Tokio's timer rounds up to whole milliseconds.
    let rounded = *range.start()..=*range.end() + Duration::from_millis(1);
    assert!(lengths.iter().all(|length| rounded.contains(length)), "{lengths:?}");
    assert!(lengths.iter().max().unwrap() > &Duration::from_millis(400), "{lengths:?}");
    assert!(lengths.iter().min().unwrap() < &Duration::from_millis(200), "{lengths:?}");
}

#[tokio::test]
async fn a_tool_is_left_alone_before_a_fault_and_called_once_when_its_answer_is_lost() {
    for (ratio, calls) in [(0.0, 0), (1.0, 1)] {
        let tool = counted();
        let plan = ChaosPlan { after_effect_ratio: ratio, ..plan(1.0, &["unavailable"]) };
        let failure = call(&Chaos::wrap(tool.clone(), plan, 1), at(1, 0, 1)).await.unwrap_err();
        assert_eq!((failure.code, failure.effect), (FailureCode::Unavailable, EffectState::Unknown));
        assert_eq!(tool.calls.load(Ordering::Relaxed), calls);
    }
}

#[tokio::test]
async fn no_fault_denies_an_effect_that_took_place() {
    for kind in FaultKind::all().filter(|kind| !matches!(kind, FaultKind::Panic | FaultKind::Hang)) {
        let tool = counted();
        let plan = ChaosPlan { after_effect_ratio: 1.0, ..plan(1.0, &[kind.as_str()]) };
        let failure = call(&Chaos::wrap(tool.clone(), plan, 1), at(1, 0, 1)).await.unwrap_err();
        let was_called = tool.calls.load(Ordering::Relaxed) == 1;
        assert_eq!(was_called, failure.effect != EffectState::None, "{kind}: {failure:?}");
        assert_eq!(Some(kind), Some(FaultKind::Failure(failure.code)));
    }
}

#[tokio::test]
async fn only_the_source_of_a_failure_says_that_it_was_injected() {
    let mut told = String::new();
    for kind in FaultKind::all().filter(|kind| !matches!(kind, FaultKind::Panic | FaultKind::Hang)) {
        let chaos = Chaos::wrap(counted(), plan(1.0, &[kind.as_str()]), 1);
        let failure = call(&chaos, at(1, 0, 1)).await.unwrap_err();
        let source = failure.source.clone().unwrap();
        assert_eq!(*source, *format!("injected by chaos: {kind}, in place of the call"));
        told.push_str(&format!("{failure}\n"));
    }
    expect![[r#"
        rate_limited: `test` is being asked too often.
        unavailable: `test` cannot work now.
        timeout: `test` did not answer in time.
        connection_failed: `test` could not be reached.
        unauthenticated: `test` did not accept the credentials.
        permission_denied: `test` may not be used for this with these credentials.
        quota_exhausted: `test` has no quota left.
        gone: `test` no longer exists at its service.
        not_found: `test` has nothing under these arguments.
        no_results: `test` found nothing that matches these arguments.
        ambiguous: `test` found several things that these arguments could mean.
        conflict: `test` was refused by the present state of things.
        tool_error: `test` failed.
        partial: `test` did only a part of this.
        invalid_arguments: `test` did not accept the arguments.
        too_large: `test` finds the request too large.
        outcome_unknown: `test` does not know whether this was done.
    "#]]
    .assert_eq(&told);
}

#[tokio::test]
async fn a_rate_limit_says_when_to_come_back() {
    let chaos = Chaos::wrap(counted(), plan(1.0, &["rate_limited"]), 1);
    assert_eq!(call(&chaos, at(1, 0, 1)).await.unwrap_err().retry_after, Some(Duration::from_secs(1)));
}

#[tokio::test(start_paused = true)]
async fn what_has_struck_is_counted_by_kind() {
    let chaos = Chaos::wrap(counted(), plan(1.0, &["panic"]), 1);
    assert_eq!(run(&chaos, 2).await, ["injected by chaos: a panic, in place of the call"; 2]);
    assert_eq!(chaos.injected(), BTreeMap::from([(FaultKind::Panic, 2)]));

    let chaos = Chaos::wrap(counted(), plan(1.0, &["hang"]), 1);
    assert!(tokio::time::timeout(Duration::from_secs(60), call(&chaos, at(1, 0, 1))).await.is_err());
    assert_eq!(chaos.injected(), BTreeMap::from([(FaultKind::Hang, 1)]));
}

#[test]
fn a_fault_has_the_name_of_its_code_and_a_code_of_the_harness_is_none() {
    assert_eq!("timeout".parse(), Ok(FaultKind::Failure(FailureCode::Timeout)));
    assert_eq!("hang".parse(), Ok(FaultKind::Hang));
    let told = "tool_down".parse::<FaultKind>().unwrap_err().to_string();
    expect!["`tool_down` is no fault: use `panic`, `hang`, or a failure code that a tool can give"]
        .assert_eq(&told);
}
