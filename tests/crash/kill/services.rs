//! The model and the tools of the runs, outside of every worker. What the model says follows from
//! the run and the turn alone, so that a request that is made again gets the same answer.

use std::sync::Arc;
use std::time::Duration;

use dauntless_testkit::counter::SeenRequest;
use dauntless_testkit::{Answer, Call, ChatRequest, Reply, RequestCounter, Script, StrictProvider};
use serde_json::{Value, json};

use super::ledger::{Class, Intent, Ledger, WorkerNo};
use crate::chance::Chance;
use crate::store::Error;

/// How long the model takes to think.
pub(super) const THINKS: Duration = Duration::from_millis(60);
/// How long a tool works.
const WORKS: Duration = Duration::from_millis(15);
/// The header that says which worker calls, put in from its environment.
pub(super) const WORKER_HEADER: &str = "x-worker";
/// The variable, and how its value begins.
pub(super) const WORKER_VARIABLE: &str = "CRASH_WORKER";
/// How the name of a worker begins.
pub(super) const WORKER_PREFIX: &str = "crash-worker-";
/// Where one asks whether a call happened; the intent follows.
pub(super) const QUESTION: &str = "/happened/";
const GOAL: &str = "Do all of run ";

/// The goal of a run.
pub(super) fn goal(run: u64) -> String {
    format!("{GOAL}{run}.")
}

/// What the model asks for in a turn: two to four calls, at random.
pub(super) fn calls(seed: u64, run: u64, turn: u32) -> Vec<Class> {
    let mut chance = Chance::new(seed ^ (run << 20) ^ u64::from(turn));
    let count = 2 + chance.below(3);
    (0..count).filter_map(|_| chance.pick(&Class::ALL)).collect()
}

/// The model as one worker sees it.
pub(super) fn model(
    ledger: &Arc<Ledger>,
    worker: WorkerNo,
    seed: u64,
    turns: u32,
) -> Result<StrictProvider, Error> {
    let ledger = Arc::clone(ledger);
    let script = Script::from_fn(move |request| reply(&ledger, worker, seed, turns, request));
    Ok(StrictProvider::builder().record(0).start(script)?)
}

fn reply(ledger: &Ledger, worker: WorkerNo, seed: u64, turns: u32, request: &ChatRequest) -> Reply {
    let Some(run) = run_of(request) else { return Reply::error(400, "no_run", "The goal names no run.") };
    let turn = u32::try_from(request.assistant_messages()).unwrap_or(u32::MAX).saturating_add(1);
    let hold = ledger.model(worker, run, turn, &request.tool_texts());
    let reply = if turn > turns {
        Reply::text("All is done.")
    } else {
        Reply::calls((0..).zip(calls(seed, run, turn)).map(|(index, class)| {
            let intent = Intent { run, turn, index };
            Call::new(class.as_str(), &json!({ "intent": intent.to_string() }))
                .id(format!("call_{turn}_{index}"))
        }))
    };
    reply.after(THINKS.max(hold))
}

fn run_of(request: &ChatRequest) -> Option<u64> {
    let is_user = |message: &&Value| message.get("role").and_then(Value::as_str) == Some("user");
    let goal = request.messages().iter().find(is_user)?.get("content")?.as_str()?;
    goal.strip_prefix(GOAL)?.strip_suffix('.')?.parse().ok()
}

/// The tools of all workers.
pub(super) fn tools(ledger: &Arc<Ledger>) -> Result<RequestCounter, Error> {
    let ledger = Arc::clone(ledger);
    Ok(RequestCounter::answering(move |request| {
        if let Some((worker, class, intent)) = called(request) {
            let key = request.header("idempotency-key").map(str::to_owned);
            let (said, hold) = ledger.tool(worker, class, intent, key);
            let answer = said.map_or_else(|| Answer::status(409), Answer::ok);
            return answer.after(WORKS.max(hold));
        }
        match asked(request) {
            Some((worker, intent)) => {
                ledger.verify(worker, intent).map_or_else(|| Answer::status(404), Answer::ok)
            }
            None => Answer::status(400),
        }
    })?)
}

fn called(request: &SeenRequest) -> Option<(WorkerNo, Class, Intent)> {
    let class =
        Class::ALL.into_iter().find(|class| request.path.strip_prefix('/') == Some(class.as_str()))?;
    let body: Value = serde_json::from_str(&request.body).ok()?;
    Some((worker_of(request)?, class, body.get("intent")?.as_str()?.parse().ok()?))
}

/// The call that somebody asks about.
fn asked(request: &SeenRequest) -> Option<(WorkerNo, Intent)> {
    let intent = request.path.strip_prefix(QUESTION)?.replace("%2F", "/").parse().ok()?;
    Some((worker_of(request)?, intent))
}

fn worker_of(request: &SeenRequest) -> Option<WorkerNo> {
    request.header(WORKER_HEADER)?.strip_prefix(WORKER_PREFIX)?.parse().ok()
}
