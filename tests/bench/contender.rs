//! One scenario, run by one contender in this process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::measure::{Figures, cpu, resident_bytes};
use crate::tree::Grove;
use crate::{durable, floor, ours};

/// What one scenario asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Runs at once.
    pub(crate) runs: usize,
    /// Turns that ask for calls; one more gives the answer.
    pub(crate) turns: usize,
    /// Calls on each of these turns.
    pub(crate) calls: usize,
    /// How long each call sleeps.
    pub(crate) call_ms: u64,
    /// How long the model thinks.
    pub(crate) model_ms: u64,
}

impl Plan {
    pub(crate) fn of(scenario: &str) -> Result<Self, String> {
        let plan = |runs, turns, calls, call_ms, model_ms| Self { runs, turns, calls, call_ms, model_ms };
        Ok(match scenario {
            "turns" => plan(1, 50, 1, 0, 0),
            "fanout64" => plan(1, 1, 64, 50, 0),
            "fanout1000" => plan(1, 1, 1000, 10, 0),
            "concurrent" => plan(1000, 5, 1, 20, 50),
            "waiting" => plan(2000, 0, 0, 0, 60_000),
            "tree" => plan(1, 3, 1, 0, 0),
            "durable" => plan(1000, 3, 1, 20, 50),
            other => return Err(format!("no scenario `{other}`")),
        })
    }

    pub(crate) fn model(&self) -> String {
        format!("{}-{}-{}", self.turns, self.calls, self.model_ms)
    }

    pub(crate) fn from_model(name: &str) -> Self {
        let mut parts = name.split('-').map(|part| part.parse().unwrap_or(0));
        let mut next = || parts.next().unwrap_or(0);
        let (turns, calls, model_ms) = (next(), next(), next());
        Self { runs: 0, turns: count(turns), calls: count(calls), call_ms: 0, model_ms }
    }

    pub(crate) const fn call_time(&self) -> Duration {
        Duration::from_millis(self.call_ms)
    }
}

fn count(n: u64) -> usize {
    usize::try_from(n).unwrap_or(0)
}

/// Every scenario, in the order of the report.
pub(crate) const SCENARIOS: [&str; 6] = ["turns", "fanout64", "fanout1000", "concurrent", "waiting", "tree"];

/// Who is compared in a scenario: the loop by hand and this runtime, or as many runs and a tree of them.
pub(crate) fn contenders(scenario: &str) -> [&'static str; 2] {
    if scenario == "tree" { ["apart", "tree"] } else { ["floor", "ours"] }
}

/// Runs it and prints the figures as one line of JSON.
///
/// `place` is where the journal of a durable contender is: a folder, or the address of a server.
pub(crate) fn run_one(scenario: &str, contender: &str, url: &str, place: &str) -> Result<(), String> {
    let plan = Plan::of(scenario)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let figures = runtime.block_on(async {
        match contender {
            "floor" => {
                let agent = Arc::new(floor::Loop::new(plan, url));
                measure(scenario, plan, move || {
                    let agent = Arc::clone(&agent);
                    async move { agent.run().await }
                })
                .await
            }
            "ours" | "sqlite" | "postgres" => {
                let journal = durable::journal(contender, place).await?;
                let team = Arc::new(ours::Team::new(plan, url, journal).await?);
                measure(scenario, plan, move || {
                    let team = Arc::clone(&team);
                    async move { team.run().await }
                })
                .await
            }
            "apart" | "tree" => Grove::new(plan, url).await?.measure(contender).await,
            other => Err(format!(
                "no contender `{other}`; there are floor, ours, sqlite, postgres, apart and tree"
            )),
        }
    })?;
    println!("{}", serde_json::to_string(&figures).map_err(|error| error.to_string())?);
    // Waiting runs are left waiting: the process ends with them.
    std::process::exit(0);
}

async fn measure<F>(scenario: &str, plan: Plan, run: impl Fn() -> F) -> Result<Figures, String>
where
    F: Future<Output = Result<(), String>> + Send + 'static,
{
    if scenario == "waiting" {
        return waiting(plan, run).await;
    }
    // The first run pays for the connection and the caches of both contenders.
    if plan.runs == 1 {
        run().await?;
    }
    let (cpu_before, start) = (cpu(), Instant::now());
    let tasks: Vec<_> = (0..plan.runs).map(|_| tokio::spawn(run())).collect();
    for task in tasks {
        task.await.map_err(|error| error.to_string())??;
    }
    Ok(Figures { wall: start.elapsed(), cpu: cpu() - cpu_before, bytes_per_run: 0.0 })
}

/// Memory that each run holds while it waits for the model.
#[expect(clippy::cast_precision_loss, reason = "bytes of one process fit a double")]
async fn waiting<F>(plan: Plan, run: impl Fn() -> F) -> Result<Figures, String>
where
    F: Future<Output = Result<(), String>> + Send + 'static,
{
    let before = resident_bytes();
    let start = Instant::now();
    let tasks: Vec<_> = (0..plan.runs).map(|_| tokio::spawn(run())).collect();
    tokio::time::sleep(Duration::from_secs(4)).await;
    let grown = resident_bytes().saturating_sub(before);
    if tasks.iter().any(tokio::task::JoinHandle::is_finished) {
        return Err("a run ended while it should have waited".to_owned());
    }
    Ok(Figures { wall: start.elapsed(), cpu: cpu(), bytes_per_run: grown as f64 / plan.runs as f64 })
}
