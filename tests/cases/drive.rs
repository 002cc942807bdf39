//! Runs a case: the real runtime and the real client, against the strict provider over a socket.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dauntless::prelude::*;
use dauntless::{
    AppendError, BoxFuture, CreateError, Fence, Journal, Memory, NewRun, Quarantined, ReadError, Recorded,
    ResiliencePolicy, RunId, Secret, Seq,
};
use dauntless_testkit::leak::LeakBounds;
use dauntless_testkit::{Canary, LeakCheck, StrictProvider};

use crate::case::{CancelPlan, Case, Mode, Moment, RunPlan};
use crate::log::Recording;
use crate::provider::script;
use crate::tools::Workshop;

/// All that can be known of a case that has run.
pub(crate) struct Evidence {
    pub(crate) provider: StrictProvider,
    pub(crate) workshop: Workshop,
    pub(crate) quarantined: Vec<Quarantined>,
    /// In the order of the case; a run with copies has several.
    pub(crate) runs: Vec<RunEvidence>,
    pub(crate) recording: Recording,
    /// The key that the client was given.
    pub(crate) canary: Canary,
}

pub(crate) struct RunEvidence {
    /// Which run of the case it is.
    pub(crate) plan: usize,
    pub(crate) progress: Vec<Progress>,
    pub(crate) outcome: Outcome,
    pub(crate) journal: Vec<Recorded>,
    pub(crate) elapsed: Duration,
}

/// A journal that can still be read when the runtime is gone.
#[derive(Clone)]
struct Kept(Arc<Memory>);

impl Journal for Kept {
    fn create(&self, run: NewRun) -> BoxFuture<'_, Result<(), CreateError>> {
        self.0.create(run)
    }
    fn append<'a>(
        &'a self,
        fence: &'a Fence,
        expected: Seq,
        events: Vec<Recorded>,
    ) -> BoxFuture<'a, Result<Seq, AppendError>> {
        self.0.append(fence, expected, events)
    }
    fn read(&self, run: RunId, after: Seq, limit: usize) -> BoxFuture<'_, Result<Vec<Recorded>, ReadError>> {
        self.0.read(run, after, limit)
    }
    fn release<'a>(&'a self, fence: &'a Fence) -> BoxFuture<'a, Result<(), AppendError>> {
        self.0.release(fence)
    }
}

pub(crate) async fn drive(case: &Case, mode: Mode) -> Evidence {
    let provider = StrictProvider::start(script(case, mode)).unwrap();
    let (canary, recording, workshop) = (Canary::default(), Recording::default(), Workshop::open());
    let _listening = recording.start();
    let before = LeakCheck::snapshot().unwrap();
    let journal = Kept(Arc::new(Memory::new(100)));
    let (agent, quarantined) = agent(case, &workshop);
    let secrets = case.secrets.iter().filter(|secret| secret.configured);
    let runtime = Runtime::builder()
        .model(model(case, mode, &provider, &canary))
        .journal(journal.clone())
        .secrets(secrets.map(|secret| secret.value.clone()))
        .seed(7)
        .agent(&agent)
        .build()
        .await
        .unwrap();
    let mut runs = Vec::new();
    let mut underway = Vec::new();
    for (plan, run) in case.runs.iter().enumerate() {
        tokio::time::sleep(Duration::from_millis(run.wait_ms)).await;
        for _ in 0..run.copies.unwrap_or(1) {
            underway.push(tokio::spawn(drive_run(
                runtime.clone(),
                agent.clone(),
                plan,
                goal_of(run),
                run.cancel.clone(),
            )));
        }
        if !case.together {
            for run in underway.drain(..) {
                runs.push(run.await.unwrap());
            }
        }
    }
    for run in underway {
        runs.push(run.await.unwrap());
    }
    runtime.shutdown(Duration::from_secs(2)).await;
    drop((runtime, agent));
    for run in &mut runs {
        run.journal = journal.read(run.outcome.run, 0, 10_000).await.unwrap_or_default();
    }
    workshop.reaper.drain(Duration::from_secs(2)).await;
    // Descriptors and processes are only ours alone where each test has its own process.
    let alone = std::env::var_os("NEXTEST").is_some();
    let bound = if alone { 0 } else { 10_000 };
    let bounds = LeakBounds { descriptors: bound, processes: bound, threads: 64, ..LeakBounds::default() };
    before.check(bounds).await.unwrap_or_else(|report| panic!("something was left behind:\n{report}"));
    tokio::time::sleep(Duration::from_millis(case.must.settle_ms)).await;
    Evidence { provider, workshop, quarantined, runs, recording, canary }
}

fn goal_of(run: &RunPlan) -> String {
    run.goal.clone().unwrap_or_else(|| "Do it.".to_owned())
}

fn model(case: &Case, mode: Mode, provider: &StrictProvider, canary: &Canary) -> OpenAi {
    let mut policy = ResiliencePolicy::for_model();
    case.model.policy.apply(&mut policy);
    let mut builder = OpenAi::builder("m")
        .base_url(provider.url())
        .api_key(Secret::new(canary.key()))
        .stream(mode == Mode::Streamed)
        .resilience(policy);
    if let Some(idle) = case.model.idle_ms {
        builder = builder.idle_timeout(Duration::from_millis(idle));
    }
    if let Some(tokens) = case.model.output_tokens_max {
        builder = builder.max_output_tokens(tokens);
    }
    builder.build().unwrap()
}

/// The agent with the tools that can be offered, and those that cannot.
fn agent(case: &Case, workshop: &Workshop) -> (Agent, Vec<Quarantined>) {
    let plan = &case.agent;
    let mut limits = RunLimits::default();
    limits.turns = plan.turns.unwrap_or(limits.turns);
    limits.tool_calls = plan.tool_calls.unwrap_or(limits.tool_calls);
    limits.wall_clock = plan.wall_clock_ms.map_or(limits.wall_clock, Duration::from_millis);
    let bare = Agent::new("case").instructions(plan.instructions.as_str()).limits(limits);
    let tools: Vec<Arc<dyn Tool>> = case.tools.iter().map(|tool| workshop.tool(tool)).collect();
    let quarantined = bare.clone().tools(tools.clone()).check();
    // What an embedder does with tools of others: those that are refused are left out.
    let mut refused: Vec<&str> = quarantined.iter().map(|one| &*one.name).collect();
    let mut offered = Vec::new();
    for tool in tools.into_iter().rev() {
        match refused.iter().position(|name| *name == &*tool.spec().name) {
            Some(place) => drop(refused.swap_remove(place)),
            None => offered.push(tool),
        }
    }
    offered.reverse();
    (bare.tools(offered), quarantined)
}

async fn drive_run(
    runtime: Runtime,
    agent: Agent,
    plan: usize,
    goal: String,
    cancel: Option<CancelPlan>,
) -> RunEvidence {
    let start = Instant::now();
    let mut stream = runtime.stream(&agent, goal).await.unwrap();
    let canceller = stream.canceller();
    let mut progress = Vec::new();
    let mut seen = 0;
    while let Some(event) = stream.next().await {
        if let Some(cancel) = &cancel
            && is_moment(cancel.on, &event)
        {
            seen += 1;
            if seen == cancel.nth {
                let (canceller, wait) = (canceller.clone(), Duration::from_millis(cancel.after_ms));
                tokio::spawn(async move {
                    tokio::time::sleep(wait).await;
                    canceller.cancel("the user");
                });
            }
        }
        progress.push(event);
    }
    let outcome = progress.iter().rev().find_map(|event| match event {
        Progress::RunEnded { outcome } => Some(outcome.clone()),
        _ => None,
    });
    let outcome = outcome.expect("a run ends with an outcome");
    RunEvidence { plan, progress, outcome, journal: Vec::new(), elapsed: start.elapsed() }
}

const fn is_moment(moment: Moment, event: &Progress) -> bool {
    match event {
        Progress::TurnStarted { .. } => matches!(moment, Moment::Turn),
        Progress::TextArrived { .. } => matches!(moment, Moment::Text),
        Progress::AttemptStarted { .. } => matches!(moment, Moment::Attempt),
        Progress::CallEnded { .. } => matches!(moment, Moment::CallEnded),
        _ => false,
    }
}
