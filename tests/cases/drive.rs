//! Runs a case: the real runtime and the real client, against the strict provider over a socket.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use dauntless::prelude::*;
use dauntless::{
    Api, Attendance, History, Journal, Memory, Profile, Quarantined, Recorded, ResiliencePolicy, Secret,
    StructuredCalls, Submission, Tokens,
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
    /// Requests that the case has no reply for.
    pub(crate) unforeseen: usize,
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

pub(crate) async fn drive(case: &Case, mode: Mode) -> Evidence {
    let (script, unforeseen) = script(case, mode);
    let provider = StrictProvider::start(script).unwrap();
    let (canary, recording, workshop) = (Canary::default(), Recording::default(), Workshop::open());
    let _listening = recording.start();
    let before = LeakCheck::snapshot().unwrap();
    let journal = Memory::new(100);
    let (agent, quarantined) = agent(case, &workshop);
    let secrets = case.secrets.iter().filter(|secret| secret.configured);
    let model = model(case, mode, &provider, &canary);
    let builder = match case.model.json_calling {
        true => Runtime::builder().model(StructuredCalls::new(model)),
        false => Runtime::builder().model(model),
    };
    let nobody = case.runs.iter().all(|run| run.user.is_empty());
    let runtime = builder
        .attendance(if nobody { Attendance::Unattended } else { Attendance::Attended })
        .journal(journal.handle())
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
            let asked = (submission(run), run.cancel.clone(), run.user.clone());
            underway.push(tokio::spawn(drive_run(runtime.clone(), agent.clone(), plan, asked)));
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
    Evidence {
        provider,
        unforeseen: unforeseen.load(Ordering::Relaxed),
        workshop,
        quarantined,
        runs,
        recording,
        canary,
    }
}

fn submission(run: &RunPlan) -> Submission {
    let goal = Submission::new(run.goal.as_deref().unwrap_or("Do it."));
    let Some(past) = &run.after else { return goal };
    let past: Vec<serde_json::Value> = serde_json::from_str(past).expect("a conversation is a list");
    goal.after(History::repair(&past))
}

fn model(case: &Case, mode: Mode, provider: &StrictProvider, canary: &Canary) -> OpenAi {
    let mut policy = ResiliencePolicy::for_model();
    case.model.policy.apply(&mut policy);
    let mut builder = OpenAi::builder("m")
        .base_url(provider.url())
        .api_key(Secret::new(canary.key()))
        .stream(mode.is_streamed())
        .api(if mode.is_responses() { Api::Responses { keep_reasoning: false } } else { Api::Chat })
        .resilience(policy);
    if let Some(idle) = case.model.idle_ms {
        builder = builder.idle_timeout(Duration::from_millis(idle));
    }
    if let Some(tokens) = case.model.output_tokens_max {
        builder = builder.max_output_tokens(tokens);
    }
    if let Some(tokens) = case.model.context_window {
        builder = builder.context_window(Tokens(tokens));
    }
    if let Some(name) = &case.model.profile {
        builder = builder.profile(profile(name));
    }
    builder.build().unwrap()
}

fn profile(name: &str) -> Profile {
    match name {
        "openai" => Profile::openai(),
        "mistral" => Profile::mistral(),
        "groq" => Profile::groq(),
        "deepseek" => Profile::deepseek(),
        "gemini" => Profile::gemini(),
        "cloudflare" => Profile::cloudflare(),
        _ => panic!("there is no profile `{name}`"),
    }
}

/// The agent, and those of its tools that cannot be offered.
fn agent(case: &Case, workshop: &Workshop) -> (Agent, Vec<Quarantined>) {
    let plan = &case.agent;
    let mut limits = RunLimits::default();
    limits.turns = plan.turns.unwrap_or(limits.turns);
    limits.tool_calls = plan.tool_calls.unwrap_or(limits.tool_calls);
    limits.wall_clock = plan.wall_clock_ms.map_or(limits.wall_clock, Duration::from_millis);
    limits.tokens = plan.tokens.map_or(limits.tokens, Tokens);
    let mut agent = Agent::new("case").instructions(plan.instructions.as_str()).limits(limits);
    for tool in &case.tools {
        let made = [workshop.tool(tool)];
        agent = match &tool.source {
            Some(source) => agent.source(source.as_str(), made),
            None => agent.tools(made),
        };
    }
    if let Some(schema) = &plan.answer {
        agent = agent.answer_schema("answer", serde_json::from_str(schema).expect("a schema is JSON"));
    }
    agent = agent.ask_user(plan.ask_user);
    let quarantined = agent.check();
    (agent, quarantined)
}

async fn drive_run(
    runtime: Runtime,
    agent: Agent,
    plan: usize,
    (submission, cancel, user): (Submission, Option<CancelPlan>, Vec<String>),
) -> RunEvidence {
    let start = Instant::now();
    let mut stream = runtime.stream(&agent, submission).await.unwrap();
    let (canceller, answerer) = (stream.canceller(), stream.answerer());
    let mut user = user.into_iter();
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
        if let Progress::InputRequested(question) = &event
            && let Some(words) = user.next()
        {
            answerer.answer(question.call, words).await.unwrap();
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
        Progress::InputRequested(_) => matches!(moment, Moment::Question),
        _ => false,
    }
}
