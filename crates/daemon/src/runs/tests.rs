use std::path::PathBuf;

use dauntless_contract::{
    Attendance, CallRecord, CallVerdict, Failure, History, ModelReply, NewRun, RawCall, Release, RunLimits,
    Timestamp, WorkerInfo,
};
use dauntless_runtime::Submission;
use std::time::Duration;

use super::*;
use crate::config::{self, Config};

const FILE: &str = r#"
journal = "sqlite:journal.db"
[model]
provider = "openai"
name = "m"
[agents.clerk]
instructions = "Work."
tools = ["stock"]
[tools.stock]
description = "Counts."
parameters = { type = "object", properties = { n = { type = "integer" } } }
effect = "read_only"
on_exhausted = "park"
command.argv = ["dauntless-no-such-program"]
"#;

/// A folder with a journal; gone after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("dauntless-runs-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn config(&self, text: &str) -> Config {
        config::parse(text, "dauntless.toml", &self.0).unwrap_or_else(|report| panic!("{report}"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn nothing_set(_: &str) -> Option<String> {
    None
}

fn at(second: u64, event: RunEvent) -> Recorded {
    Recorded { at: Timestamp::from_micros(second * 1_000_000), event }
}

fn asks(second: u64, turn: u32) -> Recorded {
    let call = RawCall {
        id: "c".into(),
        name: "stock".into(),
        arguments: format!("{{\"n\":{turn}}}").into(),
        garbled: None,
    };
    at(second, RunEvent::ModelReplied { turn, model: 0, reply: ModelReply::calls(vec![call]), attempts: 1 })
}

fn fails(second: u64, turn: u32, failure: Failure, out_for: Option<Duration>) -> Recorded {
    let record = CallRecord {
        verdict: CallVerdict::Failed(failure),
        attempts: 1,
        waited: Duration::ZERO,
        stopped_by: None,
        out_for,
        by: None,
    };
    at(second, RunEvent::CallEnded { call: CallKey { turn, index: 0 }, record })
}

/// The start of a run, as it is journaled.
fn start() -> Recorded {
    let event = RunEvent::RunStarted {
        agent: "clerk".into(),
        goal: "Count.".into(),
        limits: RunLimits { turns: 1000, ..RunLimits::default() },
        history: History::default(),
        repairs: Vec::new(),
        attendance: Attendance::Unattended,
        tools: vec!["stock".into()],
        lineage: None,
    };
    at(1, event)
}

async fn kept(runs: &Runs<'_>, events: Vec<Recorded>) -> RunMeta {
    let run = dauntless_runtime::new_fence();
    let worker = WorkerInfo { name: "w".into(), host: "h".into(), ttl: Duration::from_secs(60) };
    runs.journal.register(worker).await.unwrap();
    let mut events = events.into_iter();
    let new = NewRun {
        agent: "clerk".into(),
        code_version: "1".into(),
        ..NewRun::new(run, events.next().unwrap())
    };
    runs.journal.create(new).await.unwrap();
    let rest: Vec<_> = events.collect();
    let mut head = 1;
    for batch in rest.chunks(500) {
        head = runs.journal.append(&run, head, batch.to_vec()).await.unwrap();
    }
    runs.journal.release(&run, Release::Ready { after: Duration::ZERO }).await.unwrap();
    runs.meta(run.run).await.unwrap()
}

#[tokio::test]
async fn a_long_run_is_read_shown_and_forked_whole() {
    let folder = Folder::new("long");
    let config = folder.config(FILE);
    let runs = Runs::open(&config, &nothing_set).await.unwrap();
    let mut events = vec![start()];
    for turn in 1..=600 {
        events.push(asks(u64::from(2 * turn), turn));
        events.push(fails(
            u64::from(2 * turn + 1),
            turn,
            Failure::not_found(format!("Nothing in {turn}.")),
            None,
        ));
    }
    let meta = kept(&runs, events.clone()).await;
    let look = runs.look(meta.clone()).await.unwrap();
    assert_eq!((look.timeline.len(), look.headline.turns, look.unrecoverable), (1201, 600, None));
    let fork = runs.fork(&meta, 1100).await.unwrap();
    assert_eq!(runs.events(fork, 2000).await.unwrap(), &events[..1100]);
    assert_eq!(runs.replay(&meta).await.unwrap(), Replayed::Same { events: 1201 });
}

#[tokio::test]
async fn what_a_run_waits_for_is_told_by_the_agent_it_is_pinned_to() {
    let folder = Folder::new("pinned");
    let config = folder.config(FILE);
    let runs = Runs::open(&config, &nothing_set).await.unwrap();
    let new = NewSubmission { agent: None, submission: Submission::new("Count."), key: None };
    let run = runs.submit(new).await.unwrap().run();
    let worker = WorkerInfo { name: "w".into(), host: "h".into(), ttl: Duration::from_secs(60) };
    runs.journal.register(worker).await.unwrap();
    let claim = runs.journal.claim(1, Default::default()).await.unwrap().pop().unwrap();
    let now = claim.last_at.as_micros() / 1_000_000 + 1;
    let down = fails(now + 1, 1, Failure::unavailable("Closed."), Some(Duration::from_secs(3600)));
    runs.journal.append(&claim.fence, 1, vec![asks(now, 1), down]).await.unwrap();
    let parked = |look: &Look| match &look.headline.waits[0].awaited {
        Awaited::Tool { tool, .. } => tool.to_string(),
        other => other.to_string(),
    };
    let look = runs.look(runs.meta(run).await.unwrap()).await.unwrap();
    assert_eq!(parked(&look), "stock");
    drop(runs);
    // The same run, where the agent is another one today.
    let today = folder.config(&FILE.replace("[\"stock\"]", "[]"));
    let runs = Runs::open(&today, &nothing_set).await.unwrap();
    let look = runs.look(runs.meta(run).await.unwrap()).await.unwrap();
    assert_eq!((parked(&look).as_str(), look.unrecoverable), ("stock", None));
}

#[tokio::test]
async fn a_run_is_told_without_its_agent_as_far_as_events_tell() {
    let folder = Folder::new("gone");
    let config = folder.config(FILE);
    let runs = Runs::open(&config, &nothing_set).await.unwrap();
    let meta = kept(&runs, vec![start(), asks(2, 1)]).await;
    drop(runs);
    let told = async |text: &str| {
        let config = folder.config(text);
        let runs = Runs::open(&config, &nothing_set).await.unwrap();
        let look = runs.look(runs.meta(meta.run).await.unwrap()).await.unwrap();
        let replay = runs.replay(&meta).await.map_err(|error| error.to_string());
        (look.headline.waits[0].awaited.to_string(), look.unrecoverable, replay)
    };
    let call = "call 1.0 of stock".to_owned();
    let (waits, trouble, replay) = told(&FILE.replace("agents.clerk", "agents.typist")).await;
    assert_eq!((waits, trouble), (call.clone(), None));
    assert_eq!(replay, Err("there is no agent or plan `clerk`; the configuration has: typist".to_owned()));
    let (waits, trouble, replay) = told(&FILE.replace("[\"stock\"]", "[]")).await;
    let why = format!(
        "run {} called `stock` in event 2, and its agent no longer has that tool: give the agent the tool back, or \
         cancel the run",
        meta.run
    );
    assert_eq!((waits, trouble), (call, Some(why)));
    let Ok(Replayed::Differs(Difference { seq, today, .. })) = replay else { panic!("{replay:?}") };
    assert_eq!((seq, today.as_str()), (Some(2), "the agent has no tool `stock`"));
}

#[test]
fn a_text_that_is_no_exported_run_is_refused_by_line() {
    assert!(matches!(import(""), Err(ExportError::NoHeader)));
    assert!(matches!(import("{\"seq\":1}"), Err(ExportError::NoHeader)));
    let header = format!(
        "{{\"run\":\"{}\",\"agent\":\"clerk\",\"state\":\"ready\",\"events\":1}}",
        RunId::from_u128(1)
    );
    assert_eq!(import(&header).unwrap().events, []);
    assert!(matches!(import(&format!("{header}\n\n{{}}")), Err(ExportError::NoEvent { line: 3, .. })));
}
