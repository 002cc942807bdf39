//! One run of a hundred thousand events in a file: what a turn costs late in it, against early, and
//! how soon another worker goes on with it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dauntless::{
    Agent, BoxFuture, ClaimFilter, Effect, Failure, Finish, Json, MicroUsd, Model, ModelCtx, ModelReply,
    ModelRequest, ModelSpec, Price, RawCall, RequestPurpose, ResiliencePolicy, RunId, RunLimits, Runtime,
    SharedJournal, Tokens, Tool, ToolCtx, ToolOutput, ToolSpec,
};
use dauntless_core::run::FOLD_VERSION;
use dauntless_journal::Sqlite;
use dauntless_runtime::Parting;
use serde::Deserialize;
use tokio::sync::Notify;

use crate::Options;
use crate::durable::register;
use crate::measure::cpu_of_threads;

/// Each turn is two events: the reply and the end of its call.
const TURNS: usize = 50_000;
/// The turns that are compared: from event 100 on, and from event 10,000 on.
const COMPARED: usize = 2000;
const EARLY: usize = 50;
const LATE: usize = 5000;
const LAST: usize = TURNS - 2 * COMPARED;

/// How often, and how many times, the end of a worker is looked for.
const WAIT: Duration = Duration::from_millis(10);
const WAITS_MAX: usize = 1000;

const MARKED: [usize; 6] = [EARLY, EARLY + COMPARED, LATE, LATE + COMPARED, LAST, LAST + COMPARED];

/// Looks up something else each turn, until somebody goes away.
struct Restless(Arc<ModelSpec>);

impl Model for Restless {
    fn spec(&self) -> &Arc<ModelSpec> {
        &self.0
    }

    fn call(&self, ctx: ModelCtx, request: ModelRequest) -> BoxFuture<'_, Result<ModelReply, Failure>> {
        let arguments = format!(r#"{{"n":{}}}"#, ctx.turn).into();
        let call = RawCall { id: "c".into(), name: "look".into(), arguments, garbled: None };
        Box::pin(std::future::ready(Ok(match request.purpose {
            RequestPurpose::Summary => ModelReply::text("Things were looked up; nothing stood out."),
            RequestPurpose::Turn => {
                ModelReply { calls: vec![call], finish: Finish::ToolCalls, ..ModelReply::text("Next.") }
            }
        })))
    }
}

/// Answers at once, but for the last call, which it never answers.
struct Look {
    spec: Arc<ToolSpec>,
    /// The processor time so far, at the turns that are compared.
    marks: Mutex<BTreeMap<usize, Duration>>,
    last: Notify,
}

#[derive(Deserialize)]
struct Arguments {
    n: usize,
}

/// The tool as an agent has it.
struct Shared(Arc<Look>);

impl Tool for Shared {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0.spec
    }

    fn call(&self, _: ToolCtx, arguments: Json) -> BoxFuture<'_, Result<ToolOutput, Failure>> {
        Box::pin(async move {
            let Arguments { n } = arguments.to()?;
            if MARKED.contains(&n)
                && let Ok(mut marks) = self.0.marks.lock()
            {
                marks.insert(n, cpu_of_threads());
            }
            if n >= TURNS {
                self.0.last.notify_one();
                std::future::pending::<()>().await;
            }
            Ok(ToolOutput { text: format!("The {n}th thing, {} words long. ", n % 7).repeat(4).into() })
        })
    }
}

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let dir = options.scratch("bench-resume")?;
    let file = dir.path().join("journal.db");
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    threads.map_err(text)?.block_on(measure(&file, options.rounds))
}

async fn measure(file: &Path, rounds: usize) -> Result<(), String> {
    let (look, agent) = long_agent();
    let run = long_run(file, &agent, &look).await?;
    report_turns(&look)?;
    let mut took = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        took.push(resumed(file, &agent, &look, run).await?);
    }
    took.sort_unstable();
    let (whole, events) = took.get(took.len() / 2).ok_or("no round was asked for")?;
    println!(
        "resume of {} events: {:.1} ms to its open call, from a snapshot and {events} events",
        2 * TURNS,
        whole.as_secs_f64() * 1e3
    );
    Ok(())
}

/// Goes through all turns, and leaves the run as a worker does that dies.
async fn long_run(file: &Path, agent: &Agent, look: &Look) -> Result<RunId, String> {
    let begun = Instant::now();
    let runtime = runtime(open(file).await?).await?;
    let handle = runtime.submit(agent, "Look everything up.").await.map_err(text)?;
    let (run, reins) = (handle.id(), handle.reins());
    let parting = handle.parting();
    tokio::pin!(parting);
    tokio::select! {
        parting = &mut parting => return Err(format!("the run is over: {parting:?}")),
        () = look.last.notified() => {}
    }
    println!("{TURNS} turns in {:.0} s", begun.elapsed().as_secs_f64());
    reins.abandon("its worker is to be as good as dead");
    parting.await;
    Ok(run)
}

/// How long another worker takes to come to the open call, and how many events it reads for it.
async fn resumed(file: &Path, agent: &Agent, look: &Look, run: RunId) -> Result<(Duration, u64), String> {
    let store = open(file).await?;
    let filter = ClaimFilter { only: Some(run), ..ClaimFilter::default() };
    let claim =
        store.claim(1, filter).await.map_err(text)?.pop().ok_or("the run is not there to be claimed")?;
    let snapshot = store.snapshot(run, FOLD_VERSION).await.map_err(text)?.ok_or("no snapshot was kept")?;
    let runtime = runtime(store).await?;
    let asked = Instant::now();
    let handle = runtime.drive(agent, &claim).await.map_err(text)?;
    look.last.notified().await;
    let took = asked.elapsed();
    handle.reins().abandon("its worker is to be as good as dead");
    match handle.parting().await {
        Parting::Lost(_) => Ok((took, claim.head - snapshot.seq)),
        other => Err(format!("the run is over: {other:?}")),
    }
}

fn report_turns(look: &Look) -> Result<(), String> {
    let marks = look.marks.lock().map_err(text)?;
    let turn = |from: usize| {
        let (first, last) = (marks.get(&from)?, marks.get(&(from + COMPARED))?);
        Some(last.saturating_sub(*first).as_secs_f64() * 1e6 / f64::from(u32::try_from(COMPARED).ok()?))
    };
    let figures = (turn(EARLY), turn(LATE), turn(LAST));
    let (Some(early), Some(late), Some(last)) = figures else { return Err("too few turns".to_owned()) };
    println!(
        "processor time of a turn, two events: {early:.0} us from event {}, {late:.0} us from event {}: {:.2} times \
         that; {last:.0} us from event {}",
        2 * EARLY,
        2 * LATE,
        late / early,
        2 * LAST
    );
    Ok(())
}

fn long_agent() -> (Arc<Look>, Agent) {
    let parameters = serde_json::json!({
        "type": "object",
        "properties": { "n": { "type": "integer" } },
        "required": ["n"],
    });
    let mut spec = ToolSpec::new("look", "Looks up one thing.", parameters);
    spec.effect = Effect::ReadOnly;
    let look = Arc::new(Look { spec: Arc::new(spec), marks: Mutex::default(), last: Notify::new() });
    let model = ModelSpec {
        name: "restless".into(),
        provider: "none".into(),
        price: Price::default(),
        output_tokens_max: None,
        context_window: Some(Tokens(200_000)),
        counter: None,
        resilience: ResiliencePolicy::for_model(),
    };
    let limits = RunLimits {
        turns: u32::MAX,
        tool_calls: u32::MAX,
        tokens: Tokens(u64::MAX),
        cost: MicroUsd(u64::MAX),
        wall_clock: Duration::from_secs(1 << 32),
        ..RunLimits::default()
    };
    let agent = Agent::new("long").model(Restless(Arc::new(model))).tool(Shared(Arc::clone(&look)));
    (look, agent.limits(limits))
}

async fn open(file: &Path) -> Result<Arc<dyn SharedJournal>, String> {
    let store = Arc::new(Sqlite::open(file).map_err(text)?);
    // The worker before this one may still be on its way out.
    for _ in 0..WAITS_MAX {
        match register(&*store).await {
            Ok(()) => return Ok(store),
            Err(_) => tokio::time::sleep(WAIT).await,
        }
    }
    Err("the worker before this one did not end".to_owned())
}

async fn runtime(store: Arc<dyn SharedJournal>) -> Result<Runtime, String> {
    Runtime::builder().shared_journal(store).build().await.map_err(text)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
