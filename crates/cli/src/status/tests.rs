use dauntless_contract::{Counters, ErrorSpike};
use expect_test::expect;

use super::*;

const AT: Timestamp = Timestamp::from_micros(1_000_000_000);

fn tool(name: &str) -> ToolStatus {
    ToolStatus {
        name: name.into(),
        kind: DependencyKind::Tool,
        service: ServiceState::Up,
        breaker: BreakerStatus::Closed,
        window_calls: 0,
        window_failures: 0,
        budget_milli: 10_000,
        budget_capacity_milli: 10_000,
        gate_opens_in: None,
        running: 0,
        running_max: 8,
        waiting: 0,
        waiting_max: 32,
        abandoned: 0,
        restarts: 0,
        counters: Counters::default(),
        last_failures: Vec::new(),
        error_spike: None,
    }
}

fn broken() -> ToolStatus {
    let failure = |ago: u64, message: &str| PastFailure {
        at: Timestamp::from_micros(AT.as_micros() - ago * 1000),
        code: FailureCode::Unavailable,
        message: message.into(),
    };
    ToolStatus {
        breaker: BreakerStatus::Open { retry_in: Duration::from_millis(4200) },
        window_calls: 6,
        window_failures: 5,
        budget_milli: 7_250,
        gate_opens_in: Some(Duration::from_secs(30)),
        waiting: 2,
        abandoned: 1,
        restarts: 3,
        counters: Counters {
            calls: 4,
            succeeded: 1,
            success_time: Duration::from_millis(120),
            attempts: 6,
            retries: 2,
            stale: 1,
            failed_attempts: [(FailureCode::Unavailable, 5)].into(),
            observed: [(FailureCode::Unavailable, 1), (FailureCode::InvalidArguments, 2)].into(),
        },
        last_failures: vec![failure(90_000, "The service is down."), failure(300, "\u{1b}[2JStill\ndown.")],
        ..tool("stock")
    }
}

fn process(tools: Vec<ToolStatus>) -> ProcessStatus {
    ProcessStatus { pid: 4711, version: "0.1.0".to_owned(), at: AT, up: Duration::from_secs(200), tools }
}

#[test]
fn a_table_has_a_line_for_each_and_says_what_nobody_should_miss() {
    let why = "it broke 6 times within 60 s.".into();
    let down = ToolStatus {
        service: ServiceState::Down { why, revive_in: Some(Duration::from_secs(42)) },
        ..tool("label")
    };
    let spiking = ToolStatus {
        breaker: BreakerStatus::ForcedClosed,
        error_spike: Some(ErrorSpike { failures: 24, answers: 64, usual_milli: 12 }),
        ..tool("reviews")
    };
    let model = ToolStatus {
        kind: DependencyKind::Model,
        window_calls: 12,
        running: 1,
        running_max: 1024,
        waiting_max: 8192,
        ..tool("gpt-5-mini")
    };
    let process = process(vec![broken(), down, spiking, model]);
    expect![[r#"
        process 4711, Dauntless 0.1.0, up 3 min 20 s
        NAME        KIND   SERVICE             BREAKER               FAILED   BUDGET  GATE           RUNNING  WAITING  RESTARTS  ABANDONED
        stock       tool   up                  open, probe in 4.2 s  5 of 6   7.2/10  opens in 30 s  0/8      2/32     3         1
        label       tool   down, back in 42 s  closed                0 of 0   10/10   open           0/8      0/32     0         0
        reviews     tool   up                  forced closed         0 of 0   10/10   open           0/8      0/32     0         0
        gpt-5-mini  model  up                  closed                0 of 12  10/10   open           1/1024   0/8192   0         0
        label: down: it broke 6 times within 60 s.
        reviews: error_spike: 24 of its last 64 answers were failures, before those 1.2 %; look at its schema and at the service behind it
    "#]].assert_eq(&shown(&process, Detail::Table));
}

#[test]
fn the_details_tell_the_counters_and_the_latest_failures_and_obey_none() {
    let process = process(vec![broken(), tool("label")]);
    expect![[r#"
        process 4711, Dauntless 0.1.0, up 3 min 20 s
        NAME   KIND  SERVICE  BREAKER               FAILED  BUDGET  GATE           RUNNING  WAITING  RESTARTS  ABANDONED
        stock  tool  up       open, probe in 4.2 s  5 of 6  7.2/10  opens in 30 s  0/8      2/32     3         1
        label  tool  up       closed                0 of 0  10/10   open           0/8      0/32     0         0

        stock
          calls             4, 1 worked, in 0.12 s on average
          attempts          6, 2 of them retries
          failed attempts   unavailable ×5
          shown to a model  unavailable ×1, invalid_arguments ×2
          late answers      1, dropped
          latest failures   0.3 s ago       unavailable: \u{1b}[2JStill down.
                            90 s ago        unavailable: The service is down.

        label
          calls             none yet
    "#]].assert_eq(&shown(&process, Detail::All));
}

#[test]
fn every_state_of_a_breaker_has_its_words() {
    let states = [
        BreakerStatus::Closed,
        BreakerStatus::Open { retry_in: Duration::from_secs(5) },
        BreakerStatus::Open { retry_in: Duration::ZERO },
        BreakerStatus::HalfOpen,
        BreakerStatus::ForcedOpen,
        BreakerStatus::ForcedClosed,
    ];
    let words = states.map(breaker).join(" / ");
    assert_eq!(
        words,
        "closed / open, probe in 5 s / open, probe due / half-open / forced open / forced closed"
    );
}
