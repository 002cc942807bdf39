//! Each rule about trees can be broken, and says so.

use std::time::Duration;

use dauntless_contract::{
    Attendance, Finish, History, ModelReply, RawCall, RunLimits, RunTotals, Seq, StopReason, Tokens, Usage,
};

use super::super::{Blow, Strike, judge};
use super::*;
use crate::kill::ledger::{Class, Point};

const TOP: u64 = 100;
const CLERK: u64 = 101;
const LEAD: u64 = 110;
const IDLER: u64 = 120;
const OF_TURN: u64 = 10;

fn id(number: u64, attempt: u64) -> RunId {
    RunId::from_u128(u128::from(number * 10 + attempt))
}

fn started(number: u64) -> RunEvent {
    RunEvent::RunStarted {
        agent: "clerk".into(),
        goal: format!("Do all of run {number}.").into(),
        limits: RunLimits::default(),
        history: History::default(),
        repairs: Vec::new(),
        attendance: Attendance::default(),
        tools: Vec::new(),
        lineage: None,
    }
}

fn replied(turn: u32, tools: &[&str]) -> RunEvent {
    let call = |name: &&str| RawCall {
        id: (*name).into(),
        name: (*name).into(),
        arguments: "{}".into(),
        garbled: None,
    };
    let reply = ModelReply {
        calls: tools.iter().map(call).collect(),
        finish: if tools.is_empty() { Finish::Stop } else { Finish::ToolCalls },
        usage: Some(Usage::new(Tokens(OF_TURN), Tokens::ZERO)),
        ..ModelReply::text("All is done.")
    };
    RunEvent::ModelReplied { turn, model: 0, reply, attempts: 1 }
}

fn told(call: (u32, u32), attempt: u32, run: RunId, reason: StopReason, used: Shown) -> RunEvent {
    let count = |used: u64| u32::try_from(used).unwrap();
    let totals = RunTotals {
        turns: count(used.turns),
        tool_calls: count(used.calls),
        children: count(used.children),
        usage: Usage::new(Tokens(used.tokens), Tokens::ZERO),
        ..RunTotals::default()
    };
    let outcome = Outcome { run, reason, text: None, explanation: None, totals, elapsed: Duration::ZERO };
    RunEvent::ChildEnded {
        call: CallKey { turn: call.0, index: call.1 },
        attempt,
        outcome: Box::new(outcome),
    }
}

fn turns(turns: u64) -> Shown {
    Shown { turns, tokens: turns * OF_TURN, ..Shown::default() }
}

fn record(number: u64, attempt: u64, parent: Option<u64>, end: &str, events: Vec<RunEvent>) -> Record {
    Record {
        number,
        run: id(number, attempt),
        parent: parent.map(|parent| id(parent, 1)),
        shown: None,
        end: Some(end.into()),
        line: format!("run {number}"),
        head: events.len() as Seq,
        epoch: 1,
        late_results: 0,
        events,
    }
}

fn asks(number: u64, turn: u32) -> Request {
    Request::Model { worker: 1, run: number, turn }
}

/// A run that asked a clerk, which used a tool, and an agent that asked another clerk; then one that gave
/// nothing twice.
fn good() -> Evidence {
    let lead = Shown { calls: 1, children: 1, ..turns(3) };
    let of_clerk = Shown { calls: 1, ..turns(2) };
    let bad = || StopReason::MalformedOutput;
    let top = vec![
        started(TOP),
        replied(1, &["clerk", "lead"]),
        told((1, 1), 1, id(LEAD, 1), StopReason::Completed, lead),
        told((1, 0), 1, id(CLERK, 1), StopReason::Completed, of_clerk),
        replied(2, &["idler"]),
        told((2, 0), 1, id(IDLER, 1), bad(), turns(1)),
        told((2, 0), 2, id(IDLER, 2), bad(), turns(1)),
        replied(3, &[]),
    ];
    let top = Record {
        shown: Some(Shown { calls: 5, children: 5, ..turns(10) }),
        ..record(TOP, 1, None, "completed", top)
    };
    let intent = Intent { run: CLERK, turn: 1, index: 0 };
    let done = dauntless_contract::CallRecord {
        verdict: dauntless_contract::CallVerdict::Succeeded(dauntless_contract::ToolOutput::text("done")),
        attempts: 1,
        waited: Duration::ZERO,
        stopped_by: None,
        out_for: None,
        by: None,
    };
    let done = RunEvent::CallEnded { call: CallKey { turn: 1, index: 0 }, record: done };
    let clerk = vec![started(CLERK), replied(1, &["once"]), done, replied(2, &[])];
    let below = told((1, 0), 1, id(LEAD + 1, 1), StopReason::Completed, turns(1));
    let lead = vec![started(LEAD), replied(1, &["clerk"]), below, replied(2, &[])];
    let short = |number| vec![started(number), replied(1, &[])];
    let sent = Request::Tool { worker: 1, intent, class: Class::Once, key: None, executed: true };
    Evidence {
        requests: vec![
            asks(TOP, 1),
            asks(CLERK, 1),
            asks(LEAD, 1),
            sent,
            asks(LEAD + 1, 1),
            asks(CLERK, 2),
            asks(LEAD, 2),
            asks(TOP, 2),
            asks(IDLER, 1),
            asks(IDLER, 1),
            asks(TOP, 3),
            Request::Over { run: TOP },
        ],
        records: vec![
            top,
            record(CLERK, 1, Some(TOP), "completed", clerk),
            record(LEAD, 1, Some(TOP), "completed", lead),
            record(LEAD + 1, 1, Some(LEAD), "completed", short(LEAD + 1)),
            record(IDLER, 1, Some(TOP), "malformed_output", short(IDLER)),
            record(IDLER, 2, Some(TOP), "malformed_output", short(IDLER)),
        ],
        ..Evidence::default()
    }
}

/// Breaks the good tree and names the rules that do not hold, each once.
fn broken(change: impl FnOnce(&mut Evidence)) -> Vec<&'static str> {
    let mut evidence = good();
    change(&mut evidence);
    for record in &mut evidence.records {
        record.head = record.events.len() as Seq;
    }
    let mut rules: Vec<&str> = judge(&evidence).iter().map(|broken| broken.rule).collect();
    rules.dedup();
    rules
}

fn limit(evidence: &mut Evidence, at: usize, set: fn(&mut RunLimits)) {
    if let RunEvent::RunStarted { limits, .. } = &mut evidence.records[at].events[0] {
        set(limits);
    }
}

#[test]
fn a_good_tree_breaks_none() {
    assert_eq!(judge(&good()), []);
}

#[test]
fn a_child_that_does_not_end_as_it_should_is_found() {
    let rule = ["every run ends, and as it should"];
    assert_eq!(broken(|evidence| evidence.records[1].end = Some("cancelled by nobody".into())), rule);
    assert_eq!(broken(|evidence| evidence.records[4].end = Some("completed".into())), rule);
}

#[test]
fn an_orphan_is_found() {
    let rule = "no run outlives its parent";
    let open = broken(|evidence| evidence.records[1].end = None);
    assert_eq!(open, ["every run ends, and as it should", rule]);
    assert_eq!(broken(|evidence| evidence.records[3].parent = None), [rule]);
    assert_eq!(broken(|evidence| evidence.records[3].parent = Some(id(TOP, 1))), [rule]);
    let unheard = broken(|evidence| drop(evidence.records[2].events.remove(2)));
    assert_eq!(unheard, [rule, "what a run used is the sum over its tree"]);
}

#[test]
fn work_for_a_run_that_has_gone_on_is_found() {
    let rule = ["nothing is done for a run that has gone on"];
    assert_eq!(broken(|evidence| evidence.requests.insert(8, asks(LEAD, 2))), rule);
    assert_eq!(broken(|evidence| evidence.requests.insert(8, asks(LEAD + 1, 1))), rule);
    assert_eq!(broken(|evidence| evidence.requests.push(asks(IDLER, 1))), rule);
    let woken = broken(|evidence| {
        evidence.requests.push(asks(IDLER, 1));
        evidence.strikes.push(Strike { point: Point::Random, blow: Blow::Stop, worker: 1, intent: None });
    });
    assert_eq!(woken, [""; 0]);
}

#[test]
fn a_child_that_is_started_twice_is_found() {
    let rule = ["no child is started twice"];
    let again = broken(|evidence| {
        let again = Record { run: id(LEAD + 1, 2), ..evidence.records[3].clone() };
        evidence.records.push(again);
    });
    // Nor did its parent hear of it.
    assert_eq!(again, ["no run outlives its parent", rule[0]]);
    let swapped = broken(|evidence| evidence.records[0].events.swap(5, 6));
    assert_eq!(swapped, rule);
}

#[test]
fn a_limit_that_a_tree_passed_is_found() {
    let rule = ["the limits of a run hold for all below it"];
    assert_eq!(broken(|evidence| limit(evidence, 0, |limits| limits.tool_calls = 5)), [""; 0]);
    assert_eq!(broken(|evidence| limit(evidence, 0, |limits| limits.children = 4)), rule);
    assert_eq!(broken(|evidence| limit(evidence, 0, |limits| limits.depth = 2)), rule);
    assert_eq!(broken(|evidence| limit(evidence, 2, |limits| limits.children = 0)), rule);
    let calls = broken(|evidence| {
        evidence.records.drain(..1);
        evidence.records.truncate(1);
        limit(evidence, 0, |limits| limits.tool_calls = 0);
    });
    assert!(calls.contains(&rule[0]), "{calls:?}");
}

#[test]
fn totals_that_do_not_add_up_are_found() {
    let rule = ["what a run used is the sum over its tree"];
    let shown =
        |change: fn(&mut Shown)| broken(|evidence| evidence.records[0].shown.iter_mut().for_each(change));
    assert_eq!(shown(|shown| shown.tokens += 1), rule);
    assert_eq!(shown(|shown| shown.children -= 1), rule);
    assert_eq!(shown(|shown| shown.calls -= 1), rule);
    let forgotten = broken(|evidence| drop(evidence.records[1].events.pop()));
    assert_eq!(forgotten, rule);
}

#[test]
fn a_call_beyond_the_limit_is_answered_at_once() {
    let mut run =
        record(CLERK, 1, None, "limit_reached", vec![started(CLERK), replied(1, &["once", "once"])]);
    if let RunEvent::RunStarted { limits, .. } = &mut run.events[0] {
        limits.tool_calls = 1;
    }
    assert_eq!(refused(&run), BTreeSet::from([CallKey { turn: 1, index: 1 }]));
}
