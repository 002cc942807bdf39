use std::time::Duration;

use dauntless_contract::{FailureCode, Progress};

use super::*;
use crate::tally::Tally;

async fn rehearse(scenario: Scenario) -> (dauntless_contract::Outcome, Tally, Vec<Progress>, usize) {
    let rehearsal = Rehearsal::set_up(scenario, None, None, &|name| std::env::var(name).ok()).await.unwrap();
    assert!(rehearsal.app().broken().is_empty(), "{:?}", rehearsal.app().broken());
    let (mut tally, mut events) = (Tally::default(), Vec::new());
    let outcome = rehearsal
        .start()
        .await
        .unwrap()
        .watch(|event| {
            tally.see(event);
            events.push(event.clone());
        })
        .await;
    let refunds = rehearsal.refunds();
    rehearsal.app().shutdown(Duration::from_secs(2)).await;
    (outcome, tally, events, refunds)
}

fn codes_of(events: &[Progress], name: &str) -> Vec<Option<FailureCode>> {
    let code = |event: &Progress| match event {
        Progress::CallEnded { tool, code, .. } if &**tool == name => Some(*code),
        _ => None,
    };
    events.iter().filter_map(code).collect()
}

#[tokio::test]
async fn the_main_rehearsal_completes_through_every_kind_of_trouble() {
    let (outcome, tally, events, refunds) = rehearse(Scenario::Main).await;
    assert_eq!(outcome.reason.name(), "completed", "{outcome:?}");
    assert_eq!((outcome.totals.turns, outcome.totals.tool_calls), (8, 20));
    assert_eq!(refunds, 1, "two attempts, one key, one refund");
    assert_eq!(tally.breaker_trips(), 1);
    assert!(tally.wasted_turns() >= 5, "{}", tally.table(&outcome, refunds));
    let mut orders = codes_of(&events, "order");
    orders.sort();
    assert_eq!(orders, [None, Some(FailureCode::NotFound)]);
    assert_eq!(codes_of(&events, "stock"), [None; 8]);
    let reviews = codes_of(&events, "reviews");
    assert_eq!(reviews.last(), Some(&Some(FailureCode::ToolDown)), "the breaker is open: {reviews:?}");
    assert_eq!(codes_of(&events, "refnd"), [Some(FailureCode::UnknownTool)]);
    assert_eq!(codes_of(&events, "refund"), [Some(FailureCode::InvalidArguments), None]);
    let mut labels = codes_of(&events, "label");
    labels.sort();
    assert_eq!(labels, [None, None, Some(FailureCode::TruncatedCall)]);
    assert!(outcome.elapsed < Duration::from_secs(20), "{:?}", outcome.elapsed);
}

#[tokio::test]
async fn the_second_rehearsal_ends_with_tool_call_code_and_attempts() {
    let (outcome, ..) = rehearse(Scenario::Terminal).await;
    let reason = outcome.reason.to_string();
    assert_eq!(reason, "tool_terminal: loyalty (call_2_1) failed with unauthenticated after 1 attempt");
}
