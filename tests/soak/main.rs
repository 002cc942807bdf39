//! The soak: one process under ten times its capacity for minutes, and then as if nothing had been.
//!
//! Agents run against a real provider on loopback that fails on purpose, with tools that fail,
//! hang, panic and answer late. What is measured is what stays behind: memory, tasks, descriptors,
//! threads and places.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "its output is what it is for")]

mod provider;
mod tools;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use dauntless::prelude::*;
use dauntless::{ResiliencePolicy, RestartPolicy, Secret};
use dauntless_testkit::LeakCheck;
use dauntless_testkit::leak::LeakBounds;

/// Ten times what the tools take at once, over all of them.
const RUNS_AT_ONCE: usize = 400;

type Error = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["provider"] => provider::serve(),
        [] => soak(Duration::from_secs(600)),
        ["--seconds", seconds] => match seconds.parse() {
            Ok(seconds) => soak(Duration::from_secs(seconds)),
            Err(_) => Err(format!("`{seconds}` is not a number of seconds").into()),
        },
        _ => Err("usage: soak [--seconds N]".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("soak: {error}");
            ExitCode::FAILURE
        }
    }
}

fn soak(length: Duration) -> Result<(), Error> {
    // A panic of a tool is part of the programme here, and thousands of traces are no report.
    std::panic::set_hook(Box::new(|_| {}));
    let (_provider, url) = provider::start()?;
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(async {
        let (runtime, agent) = assemble(&url).await?;
        // The first load pays for connections, threads and the allocator's arenas.
        load(&runtime, &agent, Duration::from_secs(5)).await?;
        quiet(&runtime, &agent).await?;
        let before = LeakCheck::snapshot()?;
        println!("before: {} KiB resident", resident_kib());
        let start = Instant::now();
        let ends = load(&runtime, &agent, length).await?;
        println!("after {:.0} s of load: {} KiB resident", start.elapsed().as_secs_f64(), resident_kib());
        quiet(&runtime, &agent).await?;
        println!("at rest: {} KiB resident", resident_kib());
        let runs: u64 = ends.values().sum();
        for (reason, count) in &ends {
            println!("{count:>9} {reason}");
        }
        println!("{runs:>9} runs, {:.0} a second", count(runs) / start.elapsed().as_secs_f64());
        // The pool keeps idle connections, each with its task; how many is the last moment's affair.
        let pool = RUNS_AT_ONCE;
        let bounds = LeakBounds {
            descriptors: pool,
            tasks: pool,
            patience: Duration::from_secs(30),
            ..LeakBounds::default()
        };
        before.check(bounds).await.map_err(|report| report.to_string())?;
        println!("nothing is left behind");
        runtime.shutdown(Duration::from_secs(5)).await;
        Ok(())
    })
}

#[expect(clippy::cast_precision_loss, reason = "a count of runs fits a double")]
const fn count(n: u64) -> f64 {
    n as f64
}

async fn assemble(url: &str) -> Result<(Runtime, Agent), Error> {
    let patient =
        ResiliencePolicy { attempt_timeout: Duration::from_secs(3), ..ResiliencePolicy::for_model() };
    let model = OpenAi::builder("soak")
        .base_url(url.to_owned())
        .api_key(Secret::new("none"))
        .idle_timeout(Duration::from_secs(1))
        .resilience(patient)
        .build()?;
    let agent = Agent::new("soak").instructions("Work.").tools(tools::all());
    let restarts =
        RestartPolicy { intensity: 1000, backoff_cap: Duration::from_millis(1), ..RestartPolicy::default() };
    let runtime = Runtime::builder().model(model).restarts(restarts).agent(&agent).build().await?;
    Ok((runtime, agent))
}

/// Keeps the number of runs up until time is over; answers how they ended.
async fn load(runtime: &Runtime, agent: &Agent, length: Duration) -> Result<BTreeMap<String, u64>, Error> {
    let ends: Arc<Mutex<BTreeMap<String, u64>>> = Arc::default();
    let over = Instant::now() + length;
    let workers: Vec<_> = (0..RUNS_AT_ONCE)
        .map(|n| {
            let (runtime, agent, ends) = (runtime.clone(), agent.clone(), Arc::clone(&ends));
            tokio::spawn(async move {
                for round in 0_u64.. {
                    if Instant::now() >= over {
                        break;
                    }
                    let goal = format!("Worker {n}, round {round}.");
                    // One run in fifty is dropped by its caller half-way.
                    let run = runtime.run(&agent, goal);
                    let end = match (n as u64 + round) % 50 {
                        0 => match tokio::time::timeout(Duration::from_millis(20), run).await {
                            Ok(outcome) => end_of(&outcome),
                            Err(_) => "dropped by its caller".to_owned(),
                        },
                        _ => end_of(&run.await),
                    };
                    *ends
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .entry(end.to_owned())
                        .or_default() += 1;
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await?;
    }
    let ends = ends.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(ends)
}

/// The reason of an end, with the code of a model that failed.
fn end_of(outcome: &Outcome) -> String {
    match &outcome.reason {
        StopReason::ModelFailed { code, .. } => format!("model_failed: {code}"),
        reason => reason.name().to_owned(),
    }
}

/// Waits until every tool serves again, which also shows that every place is free.
async fn quiet(runtime: &Runtime, agent: &Agent) -> Result<(), Error> {
    let patience = Instant::now() + Duration::from_secs(300);
    for tool in tools::NAMES {
        loop {
            let call = runtime.call_tool(agent, tool, r#"{"n": 0, "healthy": true}"#, |_| {}).await?;
            match &call.record.verdict {
                dauntless::CallVerdict::Succeeded(_) => break,
                dauntless::CallVerdict::Failed(failure) if Instant::now() > patience => {
                    return Err(format!("`{tool}` does not serve again: {failure}").into());
                }
                dauntless::CallVerdict::Failed(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    }
    Ok(())
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    line.and_then(|line| line.split_whitespace().nth(1)).and_then(|n| n.parse().ok()).unwrap_or(0)
}
