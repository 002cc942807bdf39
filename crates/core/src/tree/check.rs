//! What is wrong with the links between agents, all of it at once, before anything is started.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Link, Links};
use crate::excerpt::shortened;
use crate::names::nearest;
use crate::plan::{Join, Problem};

/// Everything that is wrong with the links of these agents: who does not exist, who leads back to
/// itself, and what can never be met. Each problem is at the name of its agent.
pub fn check(agents: &BTreeMap<Arc<str>, Links>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (agent, links) in agents {
        let mut wrong = |problem: String| problems.push(Problem { at: agent.to_string(), problem });
        for link in links.iter() {
            if !agents.contains_key(&link.agent) {
                wrong(unknown(&link.agent, agents));
            }
            if let Some(fallback) = &link.policy.fallback {
                if links.get(fallback).is_none() {
                    wrong(format!(
                        "`{fallback}`, the fallback of `{}`, is not linked: link it too, or take it out",
                        link.agent
                    ));
                } else if let Some(way) = circle(&link.agent, |at| fallback_of(links, at)) {
                    wrong(format!("the fallbacks lead round in a circle ({way}): take one of them out"));
                }
            }
            if let Some(named) = nothing(link) {
                wrong(format!(
                    "`{}` is given no {named}, so it could never start: give it some, or leave `{named}` out",
                    link.agent
                ));
            }
        }
        // How many children a turn has, its model decides; but a quorum of nobody is none.
        if let Some(problem) =
            Some(links.join).filter(|join| *join == Join::Quorum(0)).and_then(|join| join.problem(1))
        {
            wrong(problem);
        }
        if let Some(way) = way_back(agent, agents) {
            wrong(format!(
                "its links lead back to it ({way}), so that agents could ask each other for ever: take one of them out"
            ));
        }
    }
    problems
}

fn unknown(name: &str, agents: &BTreeMap<Arc<str>, Links>) -> String {
    let near = nearest(name, agents.keys().map(|name| &**name), 1);
    let way_out = match near.first() {
        Some(near) => format!("did you mean `{near}`?"),
        None => "declare it, or take the link out".to_owned(),
    };
    format!("it links to {:?}, and there is no such agent: {way_out}", shortened(name, 64))
}

/// What a link names that is nothing.
fn nothing(link: &Link) -> Option<&'static str> {
    let allowance = &link.allowance;
    [
        ("tokens", allowance.tokens.is_some_and(|tokens| tokens.0 == 0)),
        ("cost", allowance.cost.is_some_and(|cost| cost.0 == 0)),
        ("wall_clock", allowance.wall_clock.is_some_and(|length| length.is_zero())),
    ]
    .into_iter()
    .find_map(|(name, is_nothing)| is_nothing.then_some(name))
}

fn fallback_of<'a>(links: &'a Links, at: &str) -> Option<&'a Arc<str>> {
    links.get(at)?.policy.fallback.as_ref()
}

/// The way from a name over its successors back to itself.
fn circle<'a>(start: &'a Arc<str>, next: impl Fn(&str) -> Option<&'a Arc<str>>) -> Option<String> {
    let (mut seen, mut at, mut way) = (BTreeSet::new(), start, format!("`{start}`"));
    while let Some(after) = next(at) {
        way.push_str(&format!(" → `{after}`"));
        if after == start {
            return Some(way);
        }
        if !seen.insert(after) {
            return None;
        }
        at = after;
    }
    None
}

/// The shortest way over links from an agent back to itself. A circle is told once, at the first of
/// its agents by name.
fn way_back(start: &Arc<str>, agents: &BTreeMap<Arc<str>, Links>) -> Option<String> {
    let mut ways = vec![vec![start]];
    let mut seen = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            let linked = way.last().and_then(|at| agents.get(*at)).into_iter().flat_map(Links::agents);
            for next in linked.filter(|next| *next >= start) {
                if next == start {
                    let names: Vec<String> =
                        way.iter().chain([&next]).map(|name| format!("`{name}`")).collect();
                    return Some(names.join(" → "));
                }
                if seen.insert(next) {
                    longer.push(way.iter().copied().chain([next]).collect());
                }
            }
        }
        ways = longer;
    }
    None
}

#[cfg(test)]
mod tests;
