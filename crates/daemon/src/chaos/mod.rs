//! Chaos in a running system: which tools fail on purpose, and what the agents made of it.
//!
//! Whoever left it on must not overlook it, so it says in words what it does; and whoever switched
//! it on wants to know what came of it, so it counts. It decides nothing: the plan comes from the
//! configuration, and the faults come from the tools' own wrapper.

mod report;

use std::collections::BTreeMap;
use std::sync::Arc;

use dauntless_contract::Tool;
use dauntless_tools::{Chaos, ChaosPlan};

pub use report::ChaosReport;

/// The tools that fail on purpose while chaos is on.
#[derive(Debug)]
pub struct ChaosTools {
    seed: u64,
    tools: BTreeMap<Arc<str>, Arc<Chaos>>,
}

impl ChaosTools {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { seed, tools: BTreeMap::new() }
    }

    /// Puts a plan before a tool, and says so in the log.
    pub(crate) fn wrap(&mut self, tool: Arc<dyn Tool>, plan: ChaosPlan) -> Arc<dyn Tool> {
        let name = Arc::clone(&tool.spec().name);
        tracing::warn!(tool = &*name, seed = self.seed, "chaos is on: {}", effects(&plan));
        let wrapped = Arc::new(Chaos::wrap(tool, plan, self.seed));
        self.tools.insert(name, Arc::clone(&wrapped));
        wrapped
    }

    /// What everybody should know before it begins, in one line.
    pub fn banner(&self) -> String {
        let mut alike: Vec<(String, Vec<String>)> = Vec::new();
        for (name, chaos) in &self.tools {
            let (effects, name) = (effects(chaos.plan()), format!("`{name}`"));
            match alike.iter_mut().find(|(known, _)| *known == effects) {
                Some((_, names)) => names.push(name),
                None => alike.push((effects, vec![name])),
            }
        }
        let told: Vec<String> =
            alike.into_iter().map(|(effects, names)| format!("{}: {effects}", names.join(", "))).collect();
        match told.is_empty() {
            true => format!("chaos is on (seed {}), and no tool is affected", self.seed),
            false => format!("chaos is on (seed {}): {}", self.seed, told.join("; ")),
        }
    }
}

/// What a plan does to a tool, in words.
fn effects(plan: &ChaosPlan) -> String {
    let fails = plan.breaks().then(|| format!("{} of the attempts fail on purpose", percent(plan.rate)));
    let (from, to) = (plan.latency.start(), plan.latency.end());
    let slow = plan.slows().then(|| format!("each attempt waits {from:?} to {to:?} first"));
    fails.into_iter().chain(slow).collect::<Vec<_>>().join(", and ")
}

fn percent(ratio: f64) -> String {
    format!("{} %", (ratio * 10_000.0).round() / 100.0)
}

#[cfg(test)]
mod tests;
