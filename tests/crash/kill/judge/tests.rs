//! Each rule can be broken, and says so.

use dauntless_contract::{
    Attendance, CallRecord, Failure, Finish, History, ModelReply, RawCall, RunLimits, ToolOutput,
};

use super::*;

const RUN: RunId = RunId::from_u128(7);
/// Of a run that works alone.
const NUMBER: u64 = 500;
const UNKNOWN: &str = r#"{"error":"outcome_unknown"}"#;

fn intent(index: u32) -> Intent {
    Intent { run: NUMBER, turn: 1, index }
}

fn sent(index: u32, class: Class, key: Option<&str>) -> Request {
    let key = key.map(str::to_owned);
    Request::Tool { worker: 1, intent: intent(index), class, key, executed: true }
}

fn ended(index: u32, verdict: CallVerdict) -> RunEvent {
    let (waited, stopped_by) = (std::time::Duration::ZERO, None);
    let record = CallRecord { verdict, attempts: 1, waited, stopped_by, out_for: None, by: None };
    RunEvent::CallEnded { call: CallKey { turn: 1, index }, record }
}

fn worked(index: u32) -> RunEvent {
    ended(index, CallVerdict::Succeeded(ToolOutput::text("done")))
}

fn replied(turn: u32, tools: &[&str]) -> RunEvent {
    let call = |(index, name): (usize, &&str)| RawCall {
        id: format!("c{index}").into(),
        name: (*name).into(),
        arguments: "{}".into(),
        garbled: None,
    };
    let calls = tools.iter().enumerate().map(call).collect();
    let finish = if tools.is_empty() { Finish::Stop } else { Finish::ToolCalls };
    let reply = ModelReply { calls, finish, ..ModelReply::text("All is done.") };
    RunEvent::ModelReplied { turn, model: 0, reply, attempts: 1 }
}

/// A run whose worker was killed in its once call, and in which all is as it should be.
fn good() -> Evidence {
    let events = vec![
        RunEvent::RunStarted {
            agent: "clerk".into(),
            goal: "Do all of run 500.".into(),
            limits: RunLimits::default(),
            history: History::default(),
            repairs: Vec::new(),
            attendance: Attendance::default(),
            tools: Vec::new(),
            lineage: None,
        },
        replied(1, &["keyed", "once", "read_only"]),
        worked(0),
        RunEvent::Interrupted {},
        worked(2),
        replied(2, &[]),
    ];
    let record = Record {
        number: NUMBER,
        run: RUN,
        parent: None,
        shown: None,
        end: Some("completed".into()),
        line: "run 500".into(),
        head: events.len() as Seq,
        epoch: 2,
        late_results: 0,
        events,
    };
    Evidence {
        requests: vec![
            Request::Model { worker: 1, run: NUMBER, turn: 1 },
            sent(0, Class::Keyed, Some("k")),
            sent(1, Class::Once, None),
            sent(2, Class::ReadOnly, None),
            sent(2, Class::ReadOnly, None),
            Request::Model { worker: 1, run: NUMBER, turn: 2 },
        ],
        observed: BTreeMap::from([(intent(1), vec![UNKNOWN.to_owned()])]),
        strikes: vec![Strike {
            point: Point::AfterEffect,
            blow: Blow::Kill,
            worker: 1,
            intent: Some(intent(1)),
        }],
        records: vec![record],
        incidents: Vec::new(),
    }
}

/// Breaks the good run and names the rules that do not hold.
fn broken(change: impl FnOnce(&mut Evidence)) -> Vec<&'static str> {
    let mut evidence = good();
    change(&mut evidence);
    judge(&evidence).iter().map(|broken| broken.rule).collect()
}

#[test]
fn a_good_run_breaks_none() {
    assert_eq!(judge(&good()), []);
}

#[test]
fn a_run_that_is_lost_is_found() {
    let lost = |end: Option<Arc<str>>| broken(|evidence| evidence.records[0].end = end);
    assert_eq!(lost(None), ["every run ends, and as it should"]);
    assert_eq!(lost(Some("internal".into())), ["every run ends, and as it should"]);
}

#[test]
fn a_gap_is_found() {
    assert_eq!(broken(|evidence| evidence.records[0].head += 1), ["no place is skipped"]);
}

#[test]
fn a_once_call_that_was_sent_again_is_found() {
    let again = broken(|evidence| evidence.requests.insert(3, sent(1, Class::Once, None)));
    assert_eq!(again, ["a once call is sent once", "what must not take place twice takes place once"]);
}

#[test]
fn a_key_that_changes_is_found_and_so_is_the_double_effect() {
    let again = broken(|evidence| evidence.requests.insert(3, sent(0, Class::Keyed, Some("other"))));
    assert_eq!(again, ["one intent has one key", "what must not take place twice takes place once"]);
    let shared = broken(|evidence| evidence.requests.insert(3, sent(9, Class::Keyed, Some("k"))));
    assert_eq!(shared, ["one intent has one key"]);
    let none = broken(|evidence| evidence.requests[1] = sent(0, Class::Keyed, None));
    assert_eq!(none, ["one intent has one key"]);
}

#[test]
fn a_success_without_an_effect_is_found() {
    let invented = broken(|evidence| drop(evidence.requests.remove(1)));
    assert_eq!(invented, ["a success took place"]);
}

#[test]
fn a_call_that_ends_twice_or_never_is_found() {
    let change = |change: fn(&mut Vec<RunEvent>)| {
        broken(|evidence| {
            let record = &mut evidence.records[0];
            change(&mut record.events);
            record.head = record.events.len() as Seq;
        })
    };
    assert_eq!(change(|events| events.insert(5, worked(2))), ["a call ends once"]);
    assert_eq!(change(|events| drop(events.remove(4))), ["a call ends once"]);
    // The interruption was the end of the once call.
    let late = ended(1, CallVerdict::Failed(Failure::outcome_unknown("It is not known.")));
    assert_eq!(
        broken(|evidence| {
            evidence.records[0].events.insert(4, late);
            evidence.records[0].head += 1;
        }),
        ["a call ends once"]
    );
    assert_eq!(change(|events| drop(events.remove(3))), ["a call ends once"]);
}

#[test]
fn what_arrives_after_its_record_is_found() {
    let again = broken(|evidence| evidence.requests.push(sent(2, Class::ReadOnly, None)));
    assert_eq!(again, ["what was recorded is not done again"]);
    let woken = broken(|evidence| {
        evidence.requests.push(sent(2, Class::ReadOnly, None));
        evidence.strikes.push(Strike { point: Point::Random, blow: Blow::Stop, worker: 1, intent: None });
    });
    assert_eq!(woken, [""; 0]);
}

#[test]
fn an_interrupted_call_that_the_model_is_not_told_of_is_found() {
    let rule = ["an interrupted once call is unknown to the model"];
    assert_eq!(broken(|evidence| evidence.observed.clear()), rule);
    let told = vec!["500/1.1 is done".to_owned()];
    assert_eq!(broken(|evidence| drop(evidence.observed.insert(intent(1), told))), rule);
}

/// A run that was cancelled, where one call had no end and another was answered by its tool.
fn cancelled(rest: impl IntoIterator<Item = RunEvent>) -> Vec<&'static str> {
    broken(|evidence| {
        // Of the shape that is cancelled on its way.
        let number = 400;
        evidence.requests.clear();
        evidence.strikes.clear();
        let record = &mut evidence.records[0];
        (record.number, record.end) = (number, Some("cancelled by an operator".into()));
        record.events.truncate(1);
        record.events.extend([replied(1, &["once", "clerk"]), RunEvent::CancelRequested { by: "me".into() }]);
        record.events.extend(rest);
        record.head = record.events.len() as Seq;
    })
}

#[test]
fn a_run_that_winds_down_ends_its_calls_too() {
    assert_eq!(cancelled([]), ["a call ends once"]);
    let patience = RunEvent::TimerFired { timer: RunTimer::Settle };
    assert_eq!(cancelled([patience]), [""; 0]);
    assert_eq!(cancelled([RunEvent::Interrupted {}]), [""; 0]);
    let failed = ended(0, CallVerdict::Failed(Failure::cancelled("The run was stopped.")));
    assert_eq!(cancelled([failed.clone()]), [""; 0]);
    assert_eq!(cancelled([failed.clone(), failed]), ["a call ends once"]);
}

#[test]
fn what_the_harness_met_is_told() {
    let met = broken(|evidence| evidence.incidents.push("worker 1 ended by itself".to_owned()));
    assert_eq!(met, ["the harness met nothing else"]);
}
