//! The model and the tools of the runs, outside of every worker. What the model says follows from
//! the run and the turn alone, so that a request that is made again gets the same answer.

use std::sync::Arc;
use std::time::Duration;

use dauntless_testkit::counter::SeenRequest;
use dauntless_testkit::{Answer, Call, ChatRequest, Reply, RequestCounter, Script, StrictProvider};
use serde_json::{Value, json};

use super::ledger::{Asked, Class, Intent, Ledger, WorkerNo};
use super::trees::{Step, steps};
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

/// The number of the run that has this goal.
pub(super) fn number(goal: &str) -> Option<u64> {
    goal.strip_prefix(GOAL)?.strip_suffix('.')?.parse().ok()
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
    // Where a limit is reached, the last words are asked for and no tool is offered.
    let steps = if request.tools().is_empty() { Vec::new() } else { steps(seed, turns, run, turn) };
    let ends = steps.is_empty();
    let hold = ledger.model(Asked { worker, run, turn, shown: &request.tool_texts(), ends });
    let reply = if ends {
        Reply::text("All is done.")
    } else {
        Reply::calls((0..).zip(steps).map(|(index, step)| {
            let call = match step {
                Step::Use(class) => {
                    let intent = Intent { run, turn, index };
                    Call::new(class.as_str(), &json!({ "intent": intent.to_string() }))
                }
                Step::Ask { agent, number } => Call::new(agent, &json!({ "goal": goal(number) })),
            };
            call.id(format!("call_{turn}_{index}"))
        }))
    };
    reply.after(THINKS.max(hold))
}

fn run_of(request: &ChatRequest) -> Option<u64> {
    let is_user = |message: &&Value| message.get("role").and_then(Value::as_str) == Some("user");
    number(request.messages().iter().find(is_user)?.get("content")?.as_str()?)
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
