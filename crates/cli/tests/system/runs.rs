//! An operator and the runs of a journal that no worker drives at the moment.
//!
//! The journal is filled through the store, as a worker would have filled it.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    Attendance, CallKey, CallRecord, CallVerdict, ClaimFilter, Failure, Fence, History, Journal, LateResult,
    LetterContent, ListQuery, ModelReply, NewRun, RawCall, Recorded, Release, RunEvent, RunId, RunLimits,
    SharedJournal, Timestamp, Tokens, ToolOutput, Usage, WorkerInfo,
};
use dauntless_journal::Sqlite;
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::Folder;

const CONFIGURATION: &str = r#"
journal = "sqlite:journal.db"

[model]
provider = "openai"
name = "gpt-5-mini"
price = { input_usd_per_million = 1.0, output_usd_per_million = 2.0 }

[agents.clerk]
instructions = "Work."
tools = ["order", "stock"]
ask_user = true

[agents.typist]
instructions = "Write."

[tools.order]
description = "Looks up an order."
on_exhausted = "observe"
parameters = { type = "object", properties = { id = { type = "string" } } }
command.argv = ["true"]
command.env = { KEY = "${ORDER_KEY}" }

[tools.stock]
description = "Counts what is there."
effect = "read_only"
on_exhausted = "park"
parameters = { type = "object", properties = { id = { type = "string" } } }
command.argv = ["true"]
"#;

/// What the tools are configured with; nothing may show it.
const ORDER_KEY: &str = "orders-key-4711";

fn at(ms: u64, event: RunEvent) -> Recorded {
    Recorded { at: Timestamp::from_micros(1_800_000_000_000_000 + ms * 1000), event }
}

fn started(goal: &str) -> Recorded {
    let event = RunEvent::RunStarted {
        agent: "clerk".into(),
        goal: goal.into(),
        limits: RunLimits::default(),
        history: History::default(),
        repairs: Vec::new(),
        attendance: Attendance::Attended,
        tools: ["ask_user", "order", "stock"].map(Arc::from).into(),
        lineage: None,
    };
    at(0, event)
}

fn asks(ms: u64, turn: u32, calls: &[(&str, &str)]) -> Recorded {
    let call = |(index, (name, arguments)): (usize, &(&str, &str))| RawCall {
        id: format!("c{index}").into(),
        name: (*name).into(),
        arguments: (*arguments).into(),
        garbled: None,
    };
    let reply = ModelReply {
        usage: Some(Usage::new(Tokens(1000), Tokens(50))),
        ..ModelReply::calls(calls.iter().enumerate().map(call).collect())
    };
    at(ms, RunEvent::ModelReplied { turn, model: 0, reply, attempts: 1 })
}

fn says(ms: u64, turn: u32, text: &str) -> Recorded {
    at(ms, RunEvent::ModelReplied { turn, model: 0, reply: ModelReply::text(text), attempts: 2 })
}

fn ended(ms: u64, call: CallKey, verdict: CallVerdict, attempts: u32) -> Recorded {
    at(ms, RunEvent::CallEnded { call, record: record(verdict, attempts) })
}

fn record(verdict: CallVerdict, attempts: u32) -> CallRecord {
    let waited = Duration::from_millis(700 * u64::from(attempts - 1));
    CallRecord { verdict, attempts, waited, stopped_by: None, out_for: None, by: None }
}

fn ok(text: &str) -> CallVerdict {
    CallVerdict::Succeeded(ToolOutput { text: text.into() })
}

const fn call(turn: u32, index: u32) -> CallKey {
    CallKey { turn, index }
}

/// A run that found its order, was interrupted, and asks.
fn asking() -> Vec<Recorded> {
    vec![
        started("Find the parcel of ORD-1."),
        asks(1500, 1, &[("order", r#"{"id":"ORD-1"}"#), ("stock", r#"{"id":"red"}"#), ("nothing", "{}")]),
        ended(1700, call(1, 0), ok(&format!("on its way ({ORDER_KEY})")), 2),
        ended(2500, call(1, 1), CallVerdict::Failed(Failure::not_found("There is no red one.")), 1),
        at(2600, RunEvent::Interrupted {}),
        asks(9000, 2, &[("ask_user", r#"{"question":"Which parcel?","choices":["red","blue"]}"#)]),
    ]
}

/// A run that came to its answer.
fn whole() -> Vec<Recorded> {
    let mut events = asking();
    events.push(at(20_000, RunEvent::InputGiven { call: call(2, 0), text: "the blue one".into() }));
    events.push(says(21_500, 3, "It comes tomorrow."));
    events
}

fn worker() -> WorkerInfo {
    WorkerInfo { name: "w1".into(), host: "here".into(), ttl: Duration::from_secs(60) }
}

/// A folder with a journal in it.
struct Office {
    folder: Folder,
    journal: Sqlite,
    runtime: tokio::runtime::Runtime,
}

impl Office {
    fn new() -> Self {
        let folder = Folder::new();
        folder.write("dauntless.toml", CONFIGURATION);
        let journal = Sqlite::open(folder.0.join("journal.db")).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let office = Self { folder, journal, runtime };
        office.runtime.block_on(office.journal.register(worker())).unwrap();
        office
    }

    /// A run of these events, with a number for its id.
    fn keep(&self, number: u128, events: Vec<Recorded>, next: Release) -> RunId {
        self.keep_for(number, "1", events, next)
    }

    fn keep_for(&self, number: u128, code: &str, events: Vec<Recorded>, next: Release) -> RunId {
        let run = RunId::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0000 + (number << 100) + number);
        let fence = Fence { run, epoch: 1, token: 7 };
        let mut events = events.into_iter();
        let new = NewRun {
            agent: "clerk".into(),
            code_version: code.into(),
            ..NewRun::new(fence, events.next().unwrap())
        };
        self.runtime.block_on(async {
            self.journal.create(new).await.unwrap();
            self.journal.append(&fence, 1, events.collect()).await.unwrap();
            self.journal.release(&fence, next).await.unwrap();
        });
        run
    }

    fn ready(&self, number: u128, events: Vec<Recorded>) -> RunId {
        self.keep(number, events, Release::Ready { after: Duration::ZERO })
    }

    fn run(&self, arguments: &[&str]) -> super::Ran {
        let mut command = self.folder.command(arguments);
        command.env("ORDER_KEY", ORDER_KEY);
        let ran = super::Ran::of(command);
        assert!(!ran.out.contains(ORDER_KEY) && !ran.err.contains(ORDER_KEY), "{ran:?}");
        ran
    }

    /// What a command prints when it does what it was asked.
    fn prints(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!((ran.code, &*ran.err), (Some(0), ""), "{ran:?}");
        ran.out
    }

    fn events(&self, run: RunId) -> Vec<Recorded> {
        self.runtime.block_on(self.journal.read(run, 0, 100)).unwrap()
    }
}

/// How long something has been waited for is up to this machine: a moment.
fn check(text: &str, expected: Expect) {
    let calm = |line: &str| {
        let waited =
            line.rsplit_once(", for ").filter(|(_, rest)| rest.ends_with(" s") || rest.ends_with(" ms"));
        waited.map_or_else(|| line.to_owned(), |(what, _)| format!("{what}, for a moment"))
    };
    let lines: String = text.lines().map(|line| calm(line) + "\n").collect();
    expected.assert_eq(&lines);
}

#[test]
fn all_runs_are_listed_and_none_is_stranded_in_silence() {
    let office = Office::new();
    office.prints(&["runs"]);
    office.keep(1, whole(), Release::Ended { reason: "completed".into() });
    office.ready(2, asking());
    let reason = "run called `order` in event 2, and its agent no longer has that tool";
    office.keep(3, asking(), Release::Paused { reason: reason.into() });
    office.keep_for(4, "0", asking(), Release::Ready { after: Duration::ZERO });
    let deadly = office.ready(5, asking());
    office.runtime.block_on(async {
        for _ in 0..6 {
            // The worker before this one is dead, and its run with it.
            office.journal.register(worker()).await.unwrap();
            let filter = ClaimFilter { only: Some(deadly), ..ClaimFilter::default() };
            office.journal.claim(1, filter).await.unwrap();
        }
    });
    check(
        &office.prints(&["runs"]),
        expect![[r#"
            5 runs: 2 waiting for a worker, 1 paused, 1 in quarantine, 1 ended; 1 for workers of other code
              01900030-0000-7000-8000-000000000003 is paused: run called `order` in event 2, and its agent no longer has that tool
              01900040-0000-7000-8000-000000000004 needs a worker with code 0; this program has 1
              01900050-0000-7000-8000-000000000005 is in quarantine: claimed 5 times without getting on: see what ends its workers, then reopen it

            RUN                                   STATE        AGENT  AGE      USED                             WAITS FOR
            01900050-0000-7000-8000-000000000005  quarantined  clerk  < 1 min  2 turns, 2100 tokens, $0.002200  an operator, to see what ends its workers and resume it
            01900040-0000-7000-8000-000000000004  ready        clerk  < 1 min  2 turns, 2100 tokens, $0.002200  a worker; the user's answer to 2.0: Which parcel? (red / blue), for a moment
            01900030-0000-7000-8000-000000000003  paused       clerk  < 1 min  2 turns, 2100 tokens, $0.002200  an operator, to resume it
            01900020-0000-7000-8000-000000000002  ready        clerk  < 1 min  2 turns, 2100 tokens, $0.002200  a worker; the user's answer to 2.0: Which parcel? (red / blue), for a moment
            01900010-0000-7000-8000-000000000001  ended        clerk  < 1 min  3 turns, 2100 tokens, $0.002200  (ended: completed)
        "#]],
    );
    check(
        &office.prints(&["runs", "--state", "ended"]),
        expect![[r#"
            5 runs: 2 waiting for a worker, 1 paused, 1 in quarantine, 1 ended; 1 for workers of other code
              01900030-0000-7000-8000-000000000003 is paused: run called `order` in event 2, and its agent no longer has that tool
              01900040-0000-7000-8000-000000000004 needs a worker with code 0; this program has 1
              01900050-0000-7000-8000-000000000005 is in quarantine: claimed 5 times without getting on: see what ends its workers, then reopen it

            RUN                                   STATE  AGENT  AGE      USED                             WAITS FOR
            01900010-0000-7000-8000-000000000001  ended  clerk  < 1 min  3 turns, 2100 tokens, $0.002200  (ended: completed)
        "#]],
    );
    check(
        &office.prints(&["runs", "--agent", "typist", "--limit", "1"]),
        expect![[r#"
            5 runs: 2 waiting for a worker, 1 paused, 1 in quarantine, 1 ended; 1 for workers of other code
              01900030-0000-7000-8000-000000000003 is paused: run called `order` in event 2, and its agent no longer has that tool
              01900040-0000-7000-8000-000000000004 needs a worker with code 0; this program has 1
              01900050-0000-7000-8000-000000000005 is in quarantine: claimed 5 times without getting on: see what ends its workers, then reopen it
        "#]],
    );
    let json: Value = serde_json::from_str(&office.prints(&["runs", "--json", "--limit", "2"])).unwrap();
    assert_eq!(json["counts"]["quarantined"], 1);
    assert_eq!((json["stuck"].as_array().unwrap().len(), json["runs_more"].as_u64()), (3, Some(3)));
    assert_eq!(json["runs"][1]["headline"]["waits"][0]["for"]["answer"]["question"], "Which parcel?");
}

#[test]
fn a_run_is_shown_event_by_event_with_what_it_waits_for() {
    let office = Office::new();
    let run = office.ready(2, asking());
    office.runtime.block_on(async {
        let letter = LetterContent::LateResult { call: call(1, 1), epoch: 1 }.letter("late-1.1");
        office.journal.send(run, letter).await.unwrap();
        let record = record(ok("three red ones"), 1);
        let late = LateResult { run, call: call(1, 1), epoch: 1, record };
        office.journal.put_late_result(late).await.unwrap();
    });
    let id = run.to_string();
    check(
        &office.prints(&["show", &id[30..]]),
        expect![[r#"
            run 01900020-0000-7000-8000-000000000002
              agent    clerk
              goal     Find the parcel of ORD-1.
              state    ready, last driven by w1; 6 events, the first < 1 min ago
              used     2 turns, 4 calls, 3 attempts, 2100 tokens, $0.002200, 1 interruption
              waits for a worker
              waits for the user's answer to 2.0: Which parcel? (red / blue), for a moment
              to answer dauntless answer 01900020-0000-7000-8000-000000000002 2.0 TEXT

                 1         0 ms  started for clerk with ask_user, order, stock; somebody can be asked
                 2        1.5 s  turn 1: the model asks for 3 calls (1050 tokens)
                                   1.0 order {"id":"ORD-1"}
                                   1.1 stock {"id":"red"}
                                   1.2 nothing {}
                 3        1.7 s  1.0 order: ok after 2 attempts: on its way ([redacted]); 0.7 s of waiting
                 4        2.5 s  1.1 stock: not_found: There is no red one.
                 5        2.6 s  interrupted: the process that drove the run came to its end, and another goes on
                 6          9 s  turn 2: the model asks for 1 call (1050 tokens)
                                   2.0 ask_user {"question":"Which parcel?","choices":["red","blue"]}

            letters that the run has not read
              1.1, begun under epoch 1, has come to its end

            results that came after the run had been taken over
              1.1, begun under epoch 1: ok: three red ones
        "#]],
    );
    let json: Value = serde_json::from_str(&office.prints(&["show", &id, "--json"])).unwrap();
    assert_eq!((json["meta"]["events"].as_u64(), json["timeline"].as_array().unwrap().len()), (Some(6), 6));
    assert_eq!(json["headline"]["cost"], 2200);
    let over = office.keep(1, whole(), Release::Ended { reason: "completed".into() });
    check(
        &office.prints(&["show", &over.to_string()]),
        expect![[r#"
        run 01900010-0000-7000-8000-000000000001
          agent    clerk
          goal     Find the parcel of ORD-1.
          state    ended, last driven by w1; 8 events, the first < 1 min ago
          used     3 turns, 4 calls, 3 attempts, 2100 tokens, $0.002200, 1 interruption
          ended    completed

             1         0 ms  started for clerk with ask_user, order, stock; somebody can be asked
             2        1.5 s  turn 1: the model asks for 3 calls (1050 tokens)
                               1.0 order {"id":"ORD-1"}
                               1.1 stock {"id":"red"}
                               1.2 nothing {}
             3        1.7 s  1.0 order: ok after 2 attempts: on its way ([redacted]); 0.7 s of waiting
             4        2.5 s  1.1 stock: not_found: There is no red one.
             5        2.6 s  interrupted: the process that drove the run came to its end, and another goes on
             6          9 s  turn 2: the model asks for 1 call (1050 tokens)
                               2.0 ask_user {"question":"Which parcel?","choices":["red","blue"]}
             7         20 s  2.0: the user answered: the blue one
             8       21.5 s  turn 3: the model says: It comes tomorrow. (after 2 attempts)
    "#]],
    );
}

#[test]
fn a_part_of_an_id_is_enough_where_it_is_the_part_of_one() {
    let office = Office::new();
    let one = office.ready(1, asking()).to_string();
    let two = office.ready(2, asking()).to_string();
    assert!(office.prints(&["show", &one[..9]]).starts_with(&format!("run {one}\n")));
    assert!(office.prints(&["show", &two[34..]]).starts_with(&format!("run {two}\n")));
    let shared = format!("dauntless: `01` stands for several runs: {one}, {two}; write more of the id\n");
    office.run(&["show", "01"]).assert(67, "", &shared);
    let nobody = "dauntless: no run of this journal has an id that begins or ends with `zz`; `dauntless runs` lists them\n";
    office.run(&["show", "zz"]).assert(67, "", nobody);
}

#[test]
fn a_goal_is_left_to_the_workers_once_for_each_key() {
    let office = Office::new();
    let submit = |more: &[&str]| {
        let all = [&["submit", "Find ORD-1."], more].concat();
        office.prints(&all).trim().parse::<RunId>().unwrap()
    };
    let run = submit(&["--agent", "clerk"]);
    let events = office.events(run);
    let RunEvent::RunStarted { agent, goal, attendance, tools, .. } = &events[0].event else { panic!() };
    assert_eq!(
        (events.len(), &**agent, &**goal, *attendance),
        (1, "clerk", "Find ORD-1.", Attendance::Attended)
    );
    assert_eq!(tools.iter().map(|tool| &**tool).collect::<Vec<_>>(), ["ask_user", "order", "stock"]);
    let keyed = ["first", "second", "first"].map(|key| submit(&["--agent", "typist", "--key", key]));
    assert_eq!(keyed[0], keyed[2]);
    assert_ne!(keyed[0], keyed[1]);
    let claimed = office.runtime.block_on(office.journal.claim(9, ClaimFilter::default())).unwrap();
    assert_eq!(claimed.len(), 3);
    assert_eq!((claimed[0].fence.run, &*claimed[0].code_version), (run, "1"));
    let pinned = office.runtime.block_on(office.journal.blob(claimed[0].config.unwrap())).unwrap().unwrap();
    let pinned: Value = serde_json::from_slice(&pinned).unwrap();
    assert_eq!(pinned["agents"].as_object().unwrap().keys().collect::<Vec<_>>(), ["clerk"]);
    let which =
        "dauntless: say which agent is meant; the configuration has: clerk, typist (name it with --agent)\n";
    office.run(&["submit", "Work."]).assert(2, "", which);
}

#[test]
fn words_reach_a_run_once() {
    let office = Office::new();
    let run = office.ready(2, asking());
    let id = run.to_string();
    let told = |arguments: &[&str]| office.prints(arguments).replace(&id, "RUN");
    assert_eq!(told(&["answer", &id, "2.0", "the blue one"]), "Run RUN is given the answer to 2.0.\n");
    assert_eq!(
        told(&["answer", &id, "2.0", "the blue one"]),
        "Run RUN was given this answer to 2.0 before.\n"
    );
    let other =
        format!("dauntless: call 2.0 of run {id} was given another answer before; the first one counts\n");
    office.run(&["answer", &id, "2.0", "the red one"]).assert(33, "", &other);
    let none = format!("dauntless: call 1.0 of run {id} is no open question; open: 2.0\n");
    office.run(&["answer", &id, "1.0", "x"]).assert(33, "", &none);
    let cancel = "Run RUN is asked to end, and waits for a worker that ends it.\n";
    assert_eq!(told(&["cancel", &id]), cancel);
    assert_eq!(told(&["cancel", &id]), "Run RUN was asked to end before.\n");
    let letters = office.runtime.block_on(office.journal.letters(run)).unwrap();
    let said: Vec<_> = letters.iter().map(|letter| LetterContent::read(letter).unwrap()).collect();
    let answer = LetterContent::Answer { call: call(2, 0), text: "the blue one".into() };
    assert_eq!(said, [answer, LetterContent::Cancel { by: "the operator".into() }]);
    check(
        &told(&["show", &id]),
        expect![[r#"
            run RUN
              agent    clerk
              goal     Find the parcel of ORD-1.
              state    ready, last driven by w1; 6 events, the first < 1 min ago
              used     2 turns, 4 calls, 3 attempts, 2100 tokens, $0.002200, 1 interruption
              waits for a worker
              waits for the user's answer to 2.0: Which parcel? (red / blue), for a moment
              to answer dauntless answer RUN 2.0 TEXT

                 1         0 ms  started for clerk with ask_user, order, stock; somebody can be asked
                 2        1.5 s  turn 1: the model asks for 3 calls (1050 tokens)
                                   1.0 order {"id":"ORD-1"}
                                   1.1 stock {"id":"red"}
                                   1.2 nothing {}
                 3        1.7 s  1.0 order: ok after 2 attempts: on its way ([redacted]); 0.7 s of waiting
                 4        2.5 s  1.1 stock: not_found: There is no red one.
                 5        2.6 s  interrupted: the process that drove the run came to its end, and another goes on
                 6          9 s  turn 2: the model asks for 1 call (1050 tokens)
                                   2.0 ask_user {"question":"Which parcel?","choices":["red","blue"]}

            letters that the run has not read
              the answer to 2.0: the blue one
              the operator wants it to end
        "#]],
    );
    let over = office.keep(1, whole(), Release::Ended { reason: "completed".into() });
    let too_late = format!("dauntless: run {over} is over already: completed\n");
    office.run(&["cancel", &over.to_string()]).assert(33, "", &too_late);
}

#[test]
fn a_run_that_waits_for_an_operator_is_resumed_or_ended() {
    let office = Office::new();
    let paused = |number| office.keep(number, asking(), Release::Paused { reason: "a tool is gone".into() });
    let (one, two) = (paused(1).to_string(), paused(2).to_string());
    let waits = format!("Run {one} waits for a worker.\n");
    assert_eq!(office.prints(&["resume", &one, "--leave"]), waits);
    assert_eq!(office.prints(&["resume", &one, "--leave"]), waits);
    let ended = format!("Run {two} is asked to end, and waits for a worker that ends it.\n");
    assert_eq!(office.prints(&["cancel", &two]), ended);
    let claimed = office.runtime.block_on(office.journal.claim(9, ClaimFilter::default())).unwrap();
    assert_eq!(claimed.len(), 2);
}

#[test]
fn a_fork_goes_on_from_an_event_and_leaves_its_origin_alone() {
    let office = Office::new();
    let origin = office.keep(1, whole(), Release::Ended { reason: "completed".into() });
    let id = origin.to_string();
    let forks =
        ["6", "6", "1"].map(|at| office.prints(&["fork", &id, "--at", at]).trim().parse::<RunId>().unwrap());
    assert_eq!(office.events(forks[0]), &whole()[..6]);
    assert_eq!(office.events(forks[2]), &whole()[..1]);
    // One of two goes on; nothing of it shows in the other, or in the run that both are of.
    let claimed = office.runtime.block_on(office.journal.claim(9, ClaimFilter::default())).unwrap();
    assert_eq!(claimed.len(), 3);
    let fence = claimed.iter().find(|claim| claim.fence.run == forks[0]).unwrap().fence;
    let answered = at(30_000, RunEvent::InputGiven { call: call(2, 0), text: "none".into() });
    office.runtime.block_on(office.journal.append(&fence, 6, vec![answered])).unwrap();
    assert_eq!((office.events(forks[0]).len(), office.events(forks[1]).len()), (7, 6));
    assert_eq!(office.events(origin), whole());
    for at in ["0", "9"] {
        let range = format!(
            "dauntless: run {id} has events 1 to 8; a fork begins after one of them, not after {at}\n"
        );
        office.run(&["fork", &id, "--at", at]).assert(2, "", &range);
    }
    let query = ListQuery { state: None, root: None, after: None, limit: 9 };
    assert_eq!(office.runtime.block_on(office.journal.list(query)).unwrap().len(), 4);
}

#[test]
fn a_replay_tells_where_an_agent_would_do_otherwise() {
    let office = Office::new();
    let run = office.keep(1, whole(), Release::Ended { reason: "completed".into() }).to_string();
    assert_eq!(office.prints(&["replay", &run]), "8 events, no difference\n");
    let exported = office.prints(&["export", &run]);
    assert_eq!(exported.lines().count(), 9);
    office.folder.write("run.jsonl", &exported);
    assert_eq!(office.prints(&["replay", "--file", "run.jsonl"]), "8 events, no difference\n");
    let mut told = String::new();
    let changes = [
        ("tools = [\"order\", \"stock\"]", "tools = [\"stock\"]"),
        ("id = { type = \"string\" }", "id = { type = \"integer\" }"),
        ("ask_user = true", "ask_user = true\nlimits = { turns = 2 }"),
        ("ask_user = true", "ask_user = true\nanswer = { type = \"object\" }"),
    ];
    for (was, is) in changes {
        office.folder.write("dauntless.toml", &CONFIGURATION.replacen(was, is, 1));
        for arguments in [&["replay", &run], &["replay", "--file=run.jsonl"]] {
            let ran = office.run(arguments);
            assert!(ran.err.is_empty(), "{ran:?}");
            told.push_str(&format!("{:?} {}", ran.code, ran.out));
        }
    }
    expect![[r#"
        Some(32) event 2 differs
          recorded: turn 1: the model asks for 3 calls (1050 tokens)
          today:    the agent has no tool `order`
        Some(32) event 2 differs
          recorded: turn 1: the model asks for 3 calls (1050 tokens)
          today:    the agent has no tool `order`
        Some(32) event 3 differs
          recorded: 1.0 order: ok after 2 attempts: on its way ([redacted]); 0.7 s of waiting
          today:    the run waits for call 1.1 of stock
        Some(32) event 3 differs
          recorded: 1.0 order: ok after 2 attempts: on its way ([redacted]); 0.7 s of waiting
          today:    the run waits for call 1.1 of stock
        Some(0) 8 events, no difference
        Some(0) 8 events, no difference
        Some(32) the end differs
          recorded: the run ended: completed
          today:    the run waits for the model, turn 4
        Some(32) the end differs
          recorded: the run ended: completed
          today:    the run waits for the model, turn 4
    "#]]
    .assert_eq(&told);
    let broken = exported.replace("input_given", "input_taken");
    office.folder.write("run.jsonl", &broken);
    let ran = office.run(&["replay", "--file", "run.jsonl"]);
    assert_eq!(ran.code, Some(66));
    assert!(
        ran.err.starts_with("dauntless: --file run.jsonl: line 8 is no event that this version knows: "),
        "{ran:?}"
    );
}

#[test]
fn an_export_has_all_but_the_secrets() {
    let office = Office::new();
    let run = office.keep(1, whole(), Release::Ended { reason: "completed".into() });
    let exported = office.prints(&["export", &run.to_string()[..9]]);
    let lines: Vec<Value> = exported.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let header = json!({
        "run": run, "agent": "clerk", "state": "ended", "reason": "completed", "code_version": "1", "events": 8,
    });
    assert_eq!((lines.len(), &lines[0]), (9, &header));
    let answered = json!({ "input_given": { "call": { "turn": 2, "index": 0 }, "text": "the blue one" } });
    assert_eq!(lines[7], json!({ "seq": 7, "at": 1_800_000_020_000_000_u64, "event": answered }));
    assert!(exported.contains("on its way ([redacted])"));
}

#[test]
fn a_journal_that_cannot_be_used_is_named() {
    let office = Office::new();
    let gone = CONFIGURATION.replace("sqlite:journal.db", "sqlite:gone/journal.db");
    office.folder.write("dauntless.toml", &gone);
    let ran = office.run(&["runs"]);
    assert_eq!((ran.code, &*ran.out), (Some(75), ""));
    assert!(ran.err.starts_with("dauntless: the journal cannot be opened: "), "{ran:?}");
    let by_variable =
        CONFIGURATION.replace("journal = \"sqlite:journal.db\"", "journal.url_env = \"JOURNAL\"");
    office.folder.write("dauntless.toml", &by_variable);
    let unset = "dauntless: the journal's address is in the environment variable JOURNAL, which is not set\n";
    office.run(&["runs"]).assert(75, "", unset);
}
