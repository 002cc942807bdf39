//! The rules about runs that other runs asked for.

use std::collections::{BTreeMap, BTreeSet};

use dauntless_contract::{CallKey, Outcome, RunEvent, RunId};

use super::{Evidence, Record, Shown, calls, stopped};
use crate::kill::ledger::{Intent, Request};
use crate::kill::trees::{above, is_below, tries};

type Found = Vec<(Option<u64>, String)>;

/// The ends of its children that a run has taken in.
fn ends(run: &Record) -> impl Iterator<Item = (CallKey, u32, &Outcome)> {
    run.events.iter().filter_map(|event| match event {
        RunEvent::ChildEnded { call, attempt, outcome } => Some((*call, *attempt, &**outcome)),
        _ => None,
    })
}

/// Whoever completes has heard of all of its children; any other has told them to stop.
pub(super) fn no_run_outlives_its_parent(evidence: &Evidence) -> Found {
    let mut found = Vec::new();
    for run in evidence.records.iter().filter(|run| is_below(run.number)) {
        let mut tell = |text: &str| found.push((Some(run.number), format!("{}: {text}", run.line)));
        let Some(parent) = evidence.records.iter().find(|parent| Some(parent.run) == run.parent) else {
            tell("it has no parent");
            continue;
        };
        if above(run.number).next().map(|(number, _)| number) != Some(parent.number) {
            tell("another run asked for it");
        }
        if parent.end.is_some() && run.end.is_none() {
            tell("its parent is over, and it is not");
        }
        let heard = ends(parent).any(|(.., outcome)| outcome.run == run.run);
        if !heard && parent.end.as_deref() == Some("completed") {
            tell("its parent never heard of its end");
        }
    }
    found
}

/// Who asks for the next turn, or is over, has the ends of all runs that it asked for. Requests of a worker
/// that was stopped in the moment before it sent them are left to the rules about effects.
pub(super) fn nothing_is_done_for_who_has_gone_on(evidence: &Evidence) -> Found {
    let stopped = stopped(evidence);
    let mut newest: BTreeMap<u64, u32> = BTreeMap::new();
    let mut found = Vec::new();
    for request in &evidence.requests {
        let (worker, run) = match request {
            Request::Model { worker, run, .. } => (*worker, *run),
            Request::Tool { worker, intent, .. } | Request::Question { worker, intent } => {
                (*worker, intent.run)
            }
            Request::Over { run } => {
                newest.insert(*run, u32::MAX);
                continue;
            }
        };
        let late = |(parent, turn): &(u64, u32)| newest.get(parent).is_some_and(|newest| newest > turn);
        let late = above(run).find(late).filter(|_| !stopped.contains(&worker));
        if let Some((parent, turn)) = late {
            found.push((Some(run), format!("{request:?} came after {parent} had gone on from turn {turn}")));
        }
        if let Request::Model { turn, .. } = request {
            let newest = newest.entry(run).or_default();
            *newest = (*newest).max(*turn);
        }
    }
    found
}

/// For each call and try there is one run, and its end is taken in once.
pub(super) fn no_child_is_started_twice(evidence: &Evidence) -> Found {
    let mut runs: BTreeMap<u64, usize> = BTreeMap::new();
    let mut found = Vec::new();
    for run in &evidence.records {
        *runs.entry(run.number).or_default() += 1;
        let mut known: BTreeMap<CallKey, (u32, BTreeSet<RunId>)> = BTreeMap::new();
        for (call, attempt, outcome) in ends(run) {
            let (newest, ended) = known.entry(call).or_default();
            if attempt != *newest + 1 || !ended.insert(outcome.run) {
                found.push((
                    Some(run.number),
                    format!("try {attempt} of call {call} ended after try {newest}"),
                ));
            }
            *newest = attempt;
        }
    }
    let often = runs.into_iter().filter(|(number, runs)| *runs > tries(*number));
    found.extend(often.map(|(number, runs)| (Some(number), format!("{runs} runs are for number {number}"))));
    found
}

/// What was done by a run and all below it is within what it was given.
pub(super) fn limits_hold(evidence: &Evidence) -> Found {
    let sent: BTreeSet<Intent> = calls(evidence).map(|(intent, ..)| intent).collect();
    let mut found = Vec::new();
    for run in &evidence.records {
        let Some(RunEvent::RunStarted { limits, .. }) = run.events.first() else { continue };
        let level = |number: u64| above(number).position(|(parent, _)| parent == run.number);
        let below: Vec<(u64, usize)> =
            evidence.records.iter().filter_map(|below| Some((below.number, level(below.number)?))).collect();
        // A fresh try is no call of its own.
        let asked: BTreeSet<u64> = below.iter().map(|(number, _)| *number).collect();
        let used = sent.iter().filter(|intent| intent.run == run.number || asked.contains(&intent.run));
        let depth = below.iter().map(|(_, level)| level + 2).max().unwrap_or(1);
        let used = [
            ("calls", used.count() + asked.len(), limits.tool_calls),
            ("children", below.len(), limits.children),
            ("levels", depth, limits.depth),
        ];
        let beyond = used.into_iter().filter(|(_, used, limit)| *used as u64 > u64::from(*limit));
        found.extend(
            beyond.map(|(what, used, limit)| {
                (Some(run.number), format!("{used} {what} with a limit of {limit}"))
            }),
        );
    }
    found
}

/// What a run used is its own and what its children used. For turns, where it was not cancelled: one that
/// was asked for and never came counts as well.
pub(super) fn totals_add_up(evidence: &Evidence) -> Found {
    let mut found = Vec::new();
    for run in &evidence.records {
        let sum = sum(run);
        let told = evidence
            .records
            .iter()
            .filter(|parent| Some(parent.run) == run.parent)
            .flat_map(ends)
            .filter(|(.., outcome)| outcome.run == run.run)
            .map(|(.., outcome)| of_outcome(outcome))
            .chain(run.shown);
        for told in told {
            let cancelled = run.end.as_deref().is_some_and(|end| end.starts_with("cancelled"));
            let sum = if cancelled { Shown { turns: told.turns, ..sum } } else { sum };
            if told != sum {
                found.push((Some(run.number), format!("{told:?} was used, and its events make {sum:?}")));
            }
        }
    }
    found
}

fn of_outcome(outcome: &Outcome) -> Shown {
    let totals = &outcome.totals;
    Shown {
        turns: totals.turns.into(),
        calls: totals.tool_calls.into(),
        tokens: totals.usage.total().0,
        children: totals.children.into(),
    }
}

fn sum(run: &Record) -> Shown {
    let mut sum = Shown::default();
    for event in &run.events {
        let used = match event {
            RunEvent::ModelReplied { reply, .. } => Shown {
                turns: 1,
                calls: reply.calls.len() as u64,
                tokens: reply.usage.unwrap_or_default().total().0,
                children: 0,
            },
            RunEvent::ChildEnded { outcome, .. } => {
                let used = of_outcome(outcome);
                Shown { children: used.children + 1, ..used }
            }
            _ => continue,
        };
        sum.turns += used.turns;
        sum.calls += used.calls;
        sum.tokens += used.tokens;
        sum.children += used.children;
    }
    sum
}

/// The calls that a run made beyond its limit, which are answered at once.
pub(super) fn refused(run: &Record) -> BTreeSet<CallKey> {
    let limit = match run.events.first() {
        Some(RunEvent::RunStarted { limits, .. }) => limits.tool_calls,
        _ => u32::MAX,
    };
    let (mut made, mut refused) = (0, BTreeSet::new());
    for event in &run.events {
        match event {
            RunEvent::ModelReplied { turn, reply, .. } => {
                for (index, _) in (0..).zip(&reply.calls) {
                    made += 1;
                    if made > limit {
                        refused.insert(CallKey { turn: *turn, index });
                    }
                }
            }
            RunEvent::ChildEnded { outcome, .. } => made += outcome.totals.tool_calls,
            _ => {}
        }
    }
    refused
}

#[cfg(test)]
mod tests;
