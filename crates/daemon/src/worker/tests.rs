use std::path::Path;
use std::sync::Mutex;

use dauntless_contract::{BreakerStatus, History, ListQuery, RunState};
use dauntless_journal::Memory;
use dauntless_runtime::Submission;

use super::*;
use crate::config;
use crate::runs::{NewSubmission, Runs};

const FILE: &str = r#"
journal = "sqlite:unused.db"
worker = { capacity = 2, grace = "1s", ttl = "2s" }

[model]
provider = "scripted"
name = "m"
script = "SCRIPT"

[agents.clerk]
instructions = "Work."
tools = ["orders"]

[tools.orders]
description = "Looks up an order."
effect = "read_only"
parameters = { type = "object", properties = {} }
command.argv = ["true"]
"#;

/// A configuration whose model answers at once.
fn config() -> (Config, std::path::PathBuf) {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let script = std::env::temp_dir().join(format!("dauntless-worker-{}-{number}.toml", std::process::id()));
    std::fs::write(&script, "[[turns]]\ntext = \"done\"\n").unwrap();
    let text = FILE.replace("SCRIPT", script.to_str().unwrap());
    (config::parse(&text, "test.toml", Path::new("")).unwrap_or_else(|report| panic!("{report}")), script)
}

fn environment(name: &str) -> Option<String> {
    (name == "PATH").then(|| std::env::var("PATH").ok()).flatten()
}

async fn submit(store: &Memory, config: &Config, goal: &str) -> RunId {
    let runs = Runs::on(Arc::new(store.handle()), config, &environment).unwrap();
    let submission = Submission::new(goal).after(History::default());
    runs.submit(NewSubmission { agent: None, submission, key: None }).await.unwrap().run()
}

type Told = Arc<Mutex<Vec<WorkerEvent>>>;

async fn worker(store: &Memory, config: &Config) -> (Worker, Crews, Told) {
    let told = Told::default();
    let tell = Arc::clone(&told);
    let tell: OnWorkerEvent = Arc::new(move |event| tell.lock().unwrap().push(event.clone()));
    let worker = Worker::register(Arc::new(store.handle()), WorkerOptions::of(config), tell).await.unwrap();
    let crews = Crews::of_config(worker.durable(), config, environment).await.unwrap();
    (worker, crews, told)
}

async fn ended(store: &Memory) -> usize {
    let query = ListQuery { state: Some(RunState::Ended), root: None, after: None, limit: 100 };
    store.list(query).await.unwrap().len()
}

#[tokio::test]
async fn a_worker_drives_more_runs_than_it_has_places_for_one_after_another() {
    let (config, script) = config();
    let store = Memory::default();
    for n in 0..7 {
        submit(&store, &config, &format!("goal {n}")).await;
    }
    let (worker, crews, told) = worker(&store, &config).await;
    let all_ended = async {
        while ended(&store).await < 7 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    worker.run(crews, all_ended).await.unwrap();
    let ends = told.lock().unwrap().iter().filter(|event| matches!(event, WorkerEvent::Ended { .. })).count();
    assert_eq!(ends, 7);
    std::fs::remove_file(script).unwrap();
}

#[tokio::test]
async fn a_run_that_is_driven_elsewhere_cannot_be_driven_here() {
    let (config, script) = config();
    let store = Memory::default();
    let run = submit(&store, &config, "go").await;
    let (owner, _, _) = worker(&store, &config).await;
    let filter = ClaimFilter { only: Some(run), ..ClaimFilter::default() };
    assert_eq!(owner.durable().journal.claim(1, filter).await.unwrap().len(), 1);
    let (other, crews, _) = worker(&store, &config).await;
    let refused = other.run_one(crews, run, std::future::pending()).await.unwrap_err();
    assert!(refused.to_string().contains("driven elsewhere"), "{refused}");
    std::fs::remove_file(script).unwrap();
}

#[tokio::test]
async fn what_one_worker_knows_of_a_dead_service_spares_the_next_one_the_try() {
    let (config, script) = config();
    let store = Memory::default();
    store.handle().tell_outage("orders".into(), Duration::from_secs(60)).await.unwrap();
    let (_worker, crews, _) = worker(&store, &config).await;
    let runtime = crews.app().runtime();
    let agent = crews.app().agent(None).unwrap();
    let status = runtime.tool_status(agent, "orders").await.unwrap();
    assert!(matches!(status.breaker, BreakerStatus::Open { retry_in } if retry_in > Duration::from_secs(50)));
    runtime.switch_breaker(agent, "orders", dauntless_contract::BreakerSwitch::Reset).await.unwrap();
    let start = std::time::Instant::now();
    while !store.outages().await.unwrap().is_empty() {
        assert!(start.elapsed() < Duration::from_secs(10), "that it works again is not told");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    std::fs::remove_file(script).unwrap();
}
