//! Holds what happened against what a case says, and against what holds for every case.

use std::collections::{BTreeMap, BTreeSet};

use dauntless::prelude::*;
use dauntless::{CallKey, CallVerdict, EffectState, RunEvent, Trim};
use dauntless_testkit::{CallAccounting, ChatRequest};

use crate::case::{CallMust, Case, ChildMust, Invoked, RequestMust};
use crate::drive::{Evidence, RunEvidence, innermost};
use crate::log;
use crate::provider::MODEL;

/// Everything that is not as it must be.
#[derive(Default)]
pub(crate) struct Problems(Vec<String>);

impl Problems {
    fn add(&mut self, problem: impl Into<String>) {
        self.0.push(problem.into());
    }

    fn expect<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, is: &T, must: &T) {
        if is != must {
            self.add(format!("{what}: is {is:?}, must be {must:?}"));
        }
    }

    fn holds(&mut self, what: &str, text: &str, has: &[String], lacks: &[String]) {
        for part in has.iter().filter(|part| !text.contains(*part)) {
            self.add(format!("{what} lacks `{part}`:\n    {}", brief(text)));
        }
        for part in lacks.iter().filter(|part| text.contains(*part)) {
            self.add(format!("{what} has `{part}`:\n    {}", brief(text)));
        }
    }
}

/// Checks a case that has run.
pub(crate) fn judge(case: &Case, evidence: &Evidence) -> Result<(), String> {
    let mut problems = Problems::default();
    instruments(case, evidence, &mut problems);
    for run in &evidence.runs {
        ends(case, run, &mut problems);
    }
    tools(case, evidence, &mut problems);
    let requests = evidence.provider.recorded();
    if let Some(must) = case.must.requests {
        problems.expect("requests", &evidence.provider.requests(), &must);
    }
    if let Some(max) = case.must.requests_max.filter(|max| evidence.provider.requests() > *max) {
        problems.add(format!("{} requests, at most {max} are right", evidence.provider.requests()));
    }
    let refused = evidence.refused.as_deref().unwrap_or_default();
    problems.holds("the refusal of the agents", refused, &case.must.refused, &[]);
    if case.must.refused.is_empty() {
        problems.expect("the refusal of the agents", &refused, &"");
    }
    children(case, evidence, &mut problems);
    for must in &case.must.calls {
        call(must, evidence, &requests, &mut problems);
    }
    for must in &case.must.sent {
        request(must, &requests, &mut problems);
    }
    problems.expect("the ways of making it shorter", &trims(evidence), &case.must.trims);
    problems.holds("the log", &evidence.recording.log.text(), &case.must.logged, &[]);
    match problems.0 {
        problems if problems.is_empty() => Ok(()),
        problems => {
            let Case { title, elsewhere, here, .. } = case;
            let problems = problems.join("\n");
            Err(format!(
                "{title}\n  elsewhere: {elsewhere}\n  here: {here}\n{problems}\n{}",
                story(evidence, &requests)
            ))
        }
    }
}

/// What holds for every case.
fn instruments(case: &Case, evidence: &Evidence, problems: &mut Problems) {
    for one in evidence.provider.violations() {
        problems.add(format!("request {} was refused: {}", one.request_no, one.broken));
    }
    if evidence.unforeseen > 0 {
        problems.add(format!("the case has no reply for {} of the requests", evidence.unforeseen));
    }
    for run in &evidence.runs {
        let books = CallAccounting::of_progress(&run.progress);
        books.check().err().unwrap_or_default().into_iter().for_each(|problem| problems.add(problem));
        if matches!(run.outcome.reason, StopReason::Internal { .. }) {
            problems.add(format!("the runtime broke: {}", run.outcome.reason));
        }
    }
    for panic in log::panics() {
        problems.add(format!("something panicked that was not told to: {panic}"));
    }
    for (key, times) in evidence.workshop.ledger.repeated() {
        let repeatable = |tool: &crate::case::ToolPlan| tool.effect.repeatable();
        if !case.tools.iter().all(repeatable) {
            problems.add(format!("the effect of {key} took place {times} times"));
        }
    }
    if evidence.refused.is_none() && !evidence.recording.spans.text().contains("invoke_agent") {
        problems.add("no span was seen, so it is not known what left by them");
    }
    let exits = exits(evidence);
    for leak in evidence.canary.search(&exits) {
        problems.add(format!("the provider's key left by {} ({})", leak.exit, leak.form));
    }
    for secret in &case.secrets {
        for (exit, text) in exits.iter().filter(|(exit, _)| !secret.may_show_in.iter().any(|may| may == exit))
        {
            if text.contains(&secret.value) {
                problems.add(format!("`{}` left by {exit}", secret.value));
            }
        }
    }
}

/// Every way out of the runtime, each with all that left by it.
fn exits(evidence: &Evidence) -> Vec<(&'static str, String)> {
    let of_runs =
        |show: &dyn Fn(&RunEvidence) -> String| evidence.runs.iter().map(show).collect::<Vec<_>>().join("\n");
    let requests: Vec<String> =
        evidence.provider.recorded().iter().map(|one| one.body().into_owned()).collect();
    vec![
        ("requests", requests.join("\n")),
        ("events", of_runs(&|run| serde_json::to_string(&run.progress).unwrap())),
        ("outcome", of_runs(&|run| serde_json::to_string(&run.outcome).unwrap())),
        ("journal", of_runs(&|run| journal(run))),
        ("log", evidence.recording.log.text()),
        ("spans", evidence.recording.spans.text()),
    ]
}

fn journal(run: &RunEvidence) -> String {
    let lines =
        run.journal.iter().chain(&run.below).map(|recorded| serde_json::to_string(&recorded.event).unwrap());
    lines.collect::<Vec<_>>().join("\n")
}

fn ends(case: &Case, run: &RunEvidence, problems: &mut Problems) {
    let must = &case.runs[run.plan];
    let outcome = &run.outcome;
    let n = run.plan + 1;
    let reason = outcome.reason.to_string();
    if !is_like(&reason, &must.stop) {
        problems.add(format!("the stop reason of run {n} is {reason:?}, must be {:?}", must.stop));
    }
    if let Some(answer) = &must.answer {
        problems.expect(&format!("the answer of run {n}"), &outcome.answer(), &Some(answer.as_str()));
    }
    if !outcome.is_completed() {
        let partial = must.partial.as_deref();
        problems.expect(&format!("the partial answer of run {n}"), &outcome.partial(), &partial);
    }
    let (totals, used) = (&outcome.totals, outcome.totals.usage.total().0);
    problems.expect(&format!("tokens of run {n}"), &used, &must.tokens.unwrap_or(used));
    let below = must.children.unwrap_or(totals.children);
    problems.expect(&format!("runs below run {n}"), &totals.children, &below);
    let failed = must.failed_calls.unwrap_or(totals.failed_calls);
    problems.expect(&format!("failed calls of run {n}"), &totals.failed_calls, &failed);
    let explanation = outcome.explanation.as_deref().unwrap_or_default();
    problems.holds(&format!("the explanation of run {n}"), explanation, &must.explains, &[]);
    problems.expect(&format!("the faults in what run {n} continues"), &faults(run), &must.faults);
    if let Some(bound) = must.within_ms
        && run.elapsed.as_millis() > u128::from(bound)
    {
        problems.add(format!("run {n} took {:?}, must end within {bound} ms", run.elapsed));
    }
}

/// Whether a reason is the one that must be.
fn is_like(reason: &str, must: &str) -> bool {
    must.strip_suffix('*').map_or(reason == must, |start| reason.starts_with(start))
}

/// The ends of child runs, where a case says how they must be: then it says so of all of them.
fn children(case: &Case, evidence: &Evidence, problems: &mut Problems) {
    let events = evidence.runs.iter().flat_map(|run| &run.progress);
    let mut ended: Vec<(&str, &Outcome)> = events
        .filter_map(|event| match innermost(event) {
            Progress::ChildEnded { agent, outcome, .. } => Some((&**agent, outcome)),
            _ => None,
        })
        .collect();
    for ChildMust { agent, stop, times, text } in &case.must.children {
        let before = ended.len();
        ended.retain(|(of, outcome)| {
            let says = text.is_none() || *text == outcome.text.as_deref().map(str::to_owned);
            !(of == agent && says && is_like(&outcome.reason.to_string(), stop))
        });
        problems.expect(&format!("runs of {agent} that end with {stop}"), &(before - ended.len()), times);
    }
    if !case.must.children.is_empty() {
        for (agent, outcome) in ended {
            problems.add(format!("a run of {agent} ended with {} and {:?}", outcome.reason, outcome.text));
        }
    }
}

/// The faults that a run found in the conversation that it continues.
fn faults(run: &RunEvidence) -> Vec<String> {
    let repairs = run.progress.iter().find_map(|event| match event {
        Progress::HistoryRepaired { repairs } => Some(repairs),
        _ => None,
    });
    let name = |fault| serde_json::to_value(fault).unwrap().as_str().unwrap_or_default().to_owned();
    repairs.into_iter().flatten().map(|repair| name(repair.fault)).collect()
}

/// The ways in which conversations were made shorter, each once.
fn trims(evidence: &Evidence) -> Vec<String> {
    let mut ways = Vec::new();
    for event in evidence.runs.iter().flat_map(|run| &run.progress) {
        let Progress::ContextTrimmed { trim, .. } = event else { continue };
        let way = match trim {
            Trim::Shortened { .. } => "shortened",
            Trim::Summarised { .. } => "summarised",
            Trim::Dropped { .. } => "dropped",
        };
        if !ways.iter().any(|known| known == way) {
            ways.push(way.to_owned());
        }
    }
    ways
}

fn tools(case: &Case, evidence: &Evidence, problems: &mut Problems) {
    let mut reached: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (tool, arguments) in evidence.workshop.seen.invocations.lock().unwrap().iter() {
        reached.entry(tool.clone()).or_default().push(arguments.clone());
    }
    for (tool, must) in &case.must.invoked {
        let mut with = reached.remove(tool).unwrap_or_default();
        with.sort();
        match must {
            Invoked::Times(times) => problems.expect(&format!("invocations of {tool}"), &with.len(), times),
            Invoked::With(must) => {
                let mut must = must.clone();
                must.sort();
                problems.expect(&format!("what {tool} was given"), &with, &must);
            }
        }
    }
    for (tool, with) in reached {
        problems.add(format!("{tool} was called, with {with:?}"));
    }
    let ledger = &evidence.workshop.ledger;
    problems.expect("effects", &ledger.total(), &case.must.effects);
    if let Some(must) = case.must.effects_distinct {
        let distinct: BTreeSet<String> = ledger.keys().into_iter().collect();
        problems.expect("effects under different keys", &distinct.len(), &must);
    }
    let reasons: Vec<&str> = evidence.quarantined.iter().map(|one| one.reason.as_str()).collect();
    problems.expect("declarations refused", &reasons.len(), &case.must.quarantined.len());
    for (reason, must) in reasons.iter().zip(&case.must.quarantined) {
        problems.holds("the reason of a refusal", reason, std::slice::from_ref(must), &[]);
    }
    problems.expect("processes left", &evidence.workshop.reaper.live(), &0);
    for file in case.must.no_files.iter().filter(|file| std::path::Path::new(file).exists()) {
        problems.add(format!("{file} was written"));
    }
}

fn call(must: &CallMust, evidence: &Evidence, requests: &[ChatRequest], problems: &mut Problems) {
    let what = format!("call {}", must.id);
    let ended = evidence.runs.iter().rev().find_map(|run| {
        run.progress.iter().rev().find_map(|event| match innermost(event) {
            Progress::CallEnded { call, call_id, code, attempts, .. } if **call_id == *must.id => {
                Some((run, *call, code, attempts))
            }
            _ => None,
        })
    });
    let Some((run, key, code, attempts)) = ended else { return problems.add(format!("{what} never ended")) };
    if let Some(must) = &must.code {
        let code = code.map_or("ok", FailureCode::as_str);
        problems.expect(&what, &code, &must.as_str());
    }
    if let Some(must) = &must.attempts {
        problems.expect(&format!("attempts of {what}"), attempts, must);
    }
    if !must.repaired.is_empty() {
        problems.holds(&format!("what was put right in {what}"), &repairs(run, key), &must.repaired, &[]);
    }
    if let Some(must) = must.effect {
        problems.expect(&format!("the effect of {what}"), &effect(run, key), &Some(must));
    }
    if let Some(name) = &must.name {
        let shown = requests.iter().rev().find_map(|request| name_in(request, &must.id));
        problems.expect(&format!("the name of {what}"), &shown.as_deref(), &Some(name.as_str()));
    }
    let asks_for_text =
        !must.has.is_empty() || !must.lacks.is_empty() || must.is.is_some() || must.bytes_max.is_some();
    if !asks_for_text {
        return;
    }
    let Some(text) = requests.iter().rev().find_map(|request| answer_in(request, &must.id)) else {
        return problems.add(format!("{what} was never answered in a request"));
    };
    problems.holds(&what, &text, &must.has, &must.lacks);
    if let Some(must) = &must.is {
        problems.expect(&what, &text, must);
    }
    if must.bytes_max.is_some_and(|max| text.len() > max) {
        problems.add(format!("the observation of {what} has {} bytes", text.len()));
    }
}

/// What a watcher is told was put right in a call.
fn repairs(run: &RunEvidence, key: CallKey) -> String {
    let of = |event: &Progress| match event {
        Progress::CallRepaired { call, repairs } if *call == key => Some(repairs.join("; ")),
        _ => None,
    };
    run.progress.iter().find_map(of).unwrap_or_default()
}

/// Whether the effect of a failed call took place, by the journal.
fn effect(run: &RunEvidence, key: CallKey) -> Option<EffectState> {
    run.journal.iter().find_map(|recorded| match &recorded.event {
        RunEvent::CallEnded { call, record } if *call == key => match &record.verdict {
            CallVerdict::Failed(failure) => Some(failure.effect),
            CallVerdict::Succeeded(_) => None,
        },
        _ => None,
    })
}

/// What the tool message to a call says.
fn answer_in(request: &ChatRequest, id: &str) -> Option<String> {
    let message = request.messages().iter().rev().find(|message| message["tool_call_id"] == id)?;
    Some(message["content"].as_str()?.to_owned())
}

/// The name that a call has in the history.
fn name_in(request: &ChatRequest, id: &str) -> Option<String> {
    let calls = request.messages().iter().filter_map(|message| message["tool_calls"].as_array()).flatten();
    let call = calls.into_iter().find(|call| call["id"] == id)?;
    Some(call["function"]["name"].as_str()?.to_owned())
}

fn request(must: &RequestMust, requests: &[ChatRequest], problems: &mut Problems) {
    let what = match &must.agent {
        Some(agent) => format!("request {} of {agent}", must.n),
        None => format!("request {}", must.n),
    };
    let model = must.agent.as_deref().unwrap_or(MODEL);
    let mut its = requests.iter().filter(|request| request.model() == model);
    let Some(request) = must.n.checked_sub(1).and_then(|at| its.nth(at)) else {
        return problems.add(format!("there is no {what}"));
    };
    problems.holds(&what, &request.body(), &must.has, &must.lacks);
    if let Some(roles) = &must.roles {
        let of = |message: &serde_json::Value| message["role"].as_str().unwrap_or("?")[..1].to_owned();
        problems.expect(&format!("the roles of {what}"), &request.messages().iter().map(of).collect(), roles);
    }
    if let Some(tools) = &must.tools {
        let names: Vec<String> = request.tool_names().into_iter().map(str::to_owned).collect();
        problems.expect(&format!("the tools of {what}"), &names, tools);
    }
    if must.bytes_max.is_some_and(|max| request.body_bytes() > max) {
        problems.add(format!("{what} has {} bytes", request.body_bytes()));
    }
}

/// What happened, for whoever has to find out why it was wrong.
fn story(evidence: &Evidence, requests: &[ChatRequest]) -> String {
    let mut lines = vec!["what happened:".to_owned()];
    for run in &evidence.runs {
        lines.push(format!("  {} ({:?})", run.outcome.reason, run.outcome.explanation));
        for recorded in &run.journal {
            let text = match &recorded.event {
                RunEvent::CallEnded { call, record } => match &record.verdict {
                    CallVerdict::Failed(failure) => format!("call {call}: {failure} [{:?}]", failure.source),
                    CallVerdict::Succeeded(output) => format!("call {call}: {}", output.text),
                },
                event => format!("{event:?}"),
            };
            lines.push(format!("    {}", brief(&text)));
        }
    }
    if let Some(last) = requests.last() {
        lines.push(format!("  {} requests; the last one:", requests.len()));
        lines.extend(last.messages().iter().map(|message| format!("    {}", brief(&message.to_string()))));
    }
    lines.join("\n")
}

fn brief(text: &str) -> String {
    let mut short: String = text.chars().take(1500).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
