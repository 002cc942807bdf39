//! Runs a case: the real runtime and the real client, against the strict provider over a socket.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use dauntless::prelude::*;
use dauntless::{
    Api, Attendance, Delegate, History, Journal, Memory, Model, OnFailure, Profile, Quarantined, Recorded,
    ResiliencePolicy, Secret, StructuredCalls, Submission, Tokens,
};
use dauntless_testkit::leak::LeakBounds;
use dauntless_testkit::{Canary, LeakCheck, StrictProvider};

use crate::case::{AgentPlan, CancelPlan, Case, LinkPlan, Mode, Moment, RunPlan, ToolPlan};
use crate::log::Recording;
use crate::provider::{MODEL, script};
use crate::tools::Workshop;

/// All that can be known of a case that has run.
pub(crate) struct Evidence {
    pub(crate) provider: StrictProvider,
    /// Requests that the case has no reply for.
    pub(crate) unforeseen: usize,
    pub(crate) workshop: Workshop,
    pub(crate) quarantined: Vec<Quarantined>,
    /// Why the agents could not be built, if they could not.
    pub(crate) refused: Option<String>,
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
    /// The journals of all runs below it.
    pub(crate) below: Vec<Recorded>,
    pub(crate) elapsed: Duration,
}

pub(crate) async fn drive(case: &Case, mode: Mode) -> Evidence {
    let (script, unforeseen) = script(case, mode);
    let provider = StrictProvider::start(script).unwrap();
    let (canary, recording, workshop) = (Canary::default(), Recording::default(), Workshop::open());
    let _listening = recording.start();
    let before = LeakCheck::snapshot().unwrap();
    let journal = Memory::new(100);
    let models = Models { case, mode, url: provider.url(), canary: &canary };
    let (agent, quarantined) = agents(&models, &workshop);
    let secrets = case.secrets.iter().filter(|secret| secret.configured);
    let nobody = case.runs.iter().all(|run| run.user.is_empty());
    let built = Runtime::builder()
        .shared_model(models.model(MODEL))
        .attendance(if nobody { Attendance::Unattended } else { Attendance::Attended })
        .journal(journal.handle())
        .secrets(secrets.map(|secret| secret.value.clone()))
        .seed(7)
        .agent(&agent)
        .build()
        .await;
    let (runtime, refused) = match built {
        Ok(runtime) => (runtime, None),
        Err(refused) => (Runtime::builder().build().await.unwrap(), Some(refused.to_string())),
    };
    assert!(refused.is_none() || case.runs.is_empty(), "{refused:?}");
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
        read_journals(&journal, run).await;
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
        refused,
        runs,
        recording,
        canary,
    }
}

/// Reads what a run and those below it have left in the journal.
async fn read_journals(journal: &Memory, run: &mut RunEvidence) {
    run.journal = journal.read(run.outcome.run, 0, 10_000).await.unwrap_or_default();
    let started = run.progress.iter().map(innermost).filter_map(|event| match event {
        Progress::ChildStarted { run, .. } => Some(*run),
        _ => None,
    });
    for child in started.collect::<BTreeSet<_>>() {
        run.below.extend(journal.read(child, 0, 10_000).await.unwrap_or_default());
    }
}

fn submission(run: &RunPlan) -> Submission {
    let goal = Submission::new(run.goal.as_deref().unwrap_or("Do it."));
    let Some(past) = &run.after else { return goal };
    let past: Vec<serde_json::Value> = serde_json::from_str(past).expect("a conversation is a list");
    goal.after(History::repair(&past))
}

/// The models of a case: one client for each agent, all of them of one provider.
struct Models<'a> {
    case: &'a Case,
    mode: Mode,
    url: String,
    canary: &'a Canary,
}

impl Models<'_> {
    fn model(&self, name: &str) -> Arc<dyn Model> {
        let plan = &self.case.model;
        let mut policy = ResiliencePolicy::for_model();
        plan.policy.apply(&mut policy);
        let responses = self.mode.is_responses();
        let mut builder = OpenAi::builder(name)
            .base_url(self.url.clone())
            .api_key(Secret::new(self.canary.key()))
            .stream(self.mode.is_streamed())
            .api(if responses { Api::Responses { keep_reasoning: false } } else { Api::Chat })
            .resilience(policy);
        if let Some(idle) = plan.idle_ms {
            builder = builder.idle_timeout(Duration::from_millis(idle));
        }
        if let Some(tokens) = plan.output_tokens_max {
            builder = builder.max_output_tokens(tokens);
        }
        if let Some(tokens) = plan.context_window {
            builder = builder.context_window(Tokens(tokens));
        }
        if let Some(name) = &plan.profile {
            builder = builder.profile(profile(name));
        }
        let model = builder.build().unwrap();
        match plan.json_calling {
            true => Arc::new(StructuredCalls::new(model)),
            false => Arc::new(model),
        }
    }
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

/// The agent that runs, and those of its tools that cannot be offered.
fn agents(models: &Models<'_>, workshop: &Workshop) -> (Agent, Vec<Quarantined>) {
    let case = models.case;
    let tools: Vec<(&ToolPlan, Arc<dyn Tool>)> =
        case.tools.iter().map(|plan| (plan, workshop.tool(plan))).collect();
    let all: Vec<String> = case.tools.iter().map(|tool| tool.name.clone()).collect();
    let crew = Crew { models, tools };
    let agent = crew.agent("case", &case.agent, &all, &[]);
    let quarantined = agent.check();
    (agent, quarantined)
}

/// Builds the agents of a case from below.
struct Crew<'a> {
    models: &'a Models<'a>,
    tools: Vec<(&'a ToolPlan, Arc<dyn Tool>)>,
}

impl Crew<'_> {
    /// An agent with all below it. One that is above itself stands there without what it links to: that
    /// is as far as a value in Rust can lead back.
    fn agent(&self, name: &str, plan: &AgentPlan, tools: &[String], above: &[&str]) -> Agent {
        let mut agent = Agent::new(name).instructions(plan.instructions.as_str()).limits(limits(plan));
        let has = plan.tools.as_deref().unwrap_or(tools);
        for (plan, tool) in self.tools.iter().filter(|(plan, _)| has.contains(&plan.name)) {
            let made = [Arc::clone(tool)];
            agent = match &plan.source {
                Some(source) => agent.source(source.as_str(), made),
                None => agent.tools(made),
            };
        }
        if let Some(schema) = &plan.answer {
            agent = agent.answer_schema("answer", serde_json::from_str(schema).expect("a schema is JSON"));
        }
        if name != "case" {
            agent = agent.shared_model(self.models.model(name));
        }
        if let Some(join) = plan.join {
            agent = agent.join(join);
        }
        let above = [above, &[name]].concat();
        for link in plan.links.iter().filter(|_| !above[..above.len() - 1].contains(&name)) {
            agent = agent.link(self.link(link, &above));
        }
        agent.ask_user(plan.ask_user).messages(plan.messages)
    }

    fn link(&self, plan: &LinkPlan, above: &[&str]) -> Delegate {
        let known = self.models.case.crew.iter().find(|one| one.name.as_ref() == Some(&plan.to));
        let to = match (known, plan.to.as_str()) {
            (_, "case") => self.agent("case", &self.models.case.agent, &[], above),
            (known, name) => self.agent(name, known.expect("the crew has everyone"), &[], above),
        };
        let mut link = if plan.handoff { Delegate::handoff(&to) } else { Delegate::to(&to) };
        link = link.retries(plan.retries).allowance(plan.allowance);
        if plan.observe {
            link = link.on_failure(OnFailure::Observe);
        }
        if let Some(agent) = &plan.fallback {
            link = link.fallback(agent.as_str());
        }
        if plan.unoffered { link.unoffered() } else { link }
    }
}

fn limits(plan: &AgentPlan) -> RunLimits {
    let mut limits = RunLimits::default();
    limits.turns = plan.turns.unwrap_or(limits.turns);
    limits.tool_calls = plan.tool_calls.unwrap_or(limits.tool_calls);
    limits.wall_clock = plan.wall_clock_ms.map_or(limits.wall_clock, Duration::from_millis);
    limits.tokens = plan.tokens.map_or(limits.tokens, Tokens);
    limits.depth = plan.depth.unwrap_or(limits.depth);
    limits.children = plan.children.unwrap_or(limits.children);
    limits.children_at_once = plan.children_at_once.unwrap_or(limits.children_at_once);
    limits
}

/// What happened in whichever run of the tree.
pub(crate) fn innermost(event: &Progress) -> &Progress {
    match event {
        Progress::InChild { progress, .. } => innermost(progress),
        event => event,
    }
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
            && is_moment(cancel.on, innermost(&event))
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
    let (journal, below) = (Vec::new(), Vec::new());
    RunEvidence { plan, progress, outcome, journal, below, elapsed: start.elapsed() }
}

const fn is_moment(moment: Moment, event: &Progress) -> bool {
    match event {
        Progress::ChildStarted { .. } => matches!(moment, Moment::Child),
        Progress::TurnStarted { .. } => matches!(moment, Moment::Turn),
        Progress::TextArrived { .. } => matches!(moment, Moment::Text),
        Progress::AttemptStarted { .. } => matches!(moment, Moment::Attempt),
        Progress::CallEnded { .. } => matches!(moment, Moment::CallEnded),
        Progress::InputRequested(_) => matches!(moment, Moment::Question),
        _ => false,
    }
}
