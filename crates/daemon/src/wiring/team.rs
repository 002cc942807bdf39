//! Agents that ask others, and plans: whoever is asked is built first.

use std::collections::BTreeMap;
use std::sync::Arc;

use dauntless_core::tree::{Link, LinkKind};
use dauntless_runtime::{Agent, Delegate};
use serde_json::Value;

use super::{Cause, Parts};
use crate::config::{AgentConfig, Config};
use crate::pin;

/// The agents in an order in which each comes after those that it may ask.
pub(super) fn asked_first(config: &Config) -> Vec<(&Arc<str>, &AgentConfig)> {
    let (mut order, mut waiting): (Vec<_>, Vec<_>) = (Vec::new(), config.agents.iter().collect());
    // A configuration without mistakes has no circle, so each round finds some.
    while !waiting.is_empty() {
        let names: Vec<&Arc<str>> = waiting.iter().map(|(name, _)| *name).collect();
        let is_ready = |agent: &AgentConfig| !agent.links.agents().any(|name| names.contains(&name));
        let (ready, later): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|(_, agent)| is_ready(agent));
        if ready.is_empty() {
            return order;
        }
        order.extend(ready);
        waiting = later;
    }
    order
}

/// Says what others read of an agent and whom it may ask. Whoever did not start is not asked.
pub(super) fn linked(mut agent: Agent, config: &AgentConfig, built: &BTreeMap<Arc<str>, Agent>) -> Agent {
    if let Some(description) = &config.description {
        agent = agent.description(Arc::clone(description));
    }
    if let Some(input) = &config.input {
        agent = agent.input_schema(Value::clone(input));
    }
    for Link { agent: name, kind, hears, allowance, policy, .. } in config.links.iter() {
        let Some(other) = built.get(name) else { continue };
        let link = match kind {
            LinkKind::Delegate => Delegate::to(other),
            LinkKind::Handoff => Delegate::handoff(other),
        };
        let link = link.hears(*hears).allowance(*allowance).retries(policy.retries);
        let link = link.on_failure(policy.on_failure);
        let link = match policy.fallback.as_ref().filter(|fallback| built.contains_key(*fallback)) {
            Some(fallback) => link.fallback(Arc::clone(fallback)),
            None => link,
        };
        agent = agent.link(if config.offered.contains(name) { link } else { link.unoffered() });
    }
    agent.join(config.links.join)
}

impl Parts<'_> {
    /// The plans, as agents. One that needs an agent which did not start is left out.
    pub(super) fn plans(&mut self, built: &mut BTreeMap<Arc<str>, Agent>) {
        let config = self.config;
        for (name, plan) in &config.plans {
            let (there, gone): (Vec<_>, Vec<_>) =
                plan.agents().into_iter().partition(|name| built.contains_key(name));
            if !gone.is_empty() {
                self.broken(name, Cause::Plan { lacks: gone });
                continue;
            }
            let agents = there.iter().filter_map(|name| built.get(name));
            let plan = Agent::plan(Arc::clone(name), plan.plan.clone(), agents).limits(plan.limits.clone());
            built.insert(Arc::clone(name), pinned(plan, config));
        }
    }
}

/// Gives an agent the bytes that its runs are pinned to.
pub(super) fn pinned(agent: Agent, config: &Config) -> Agent {
    match pin::pin(config, agent.name()) {
        Some(bytes) => agent.configuration(bytes),
        None => agent,
    }
}
