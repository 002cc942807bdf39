//! Links: whom an agent may ask. Each leads to an agent that is there, and none back to its own.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;

use dauntless_core::plan::Join;
use dauntless_core::tree::{self, Link, LinkKind, Links};

use super::Resolver;
use super::agent::meant;
use crate::config::document::join;
use crate::config::file::AgentFile;
use crate::config::team::LinkFile;
use crate::config::{AgentConfig, ModelConfig};

/// What the table of an agent says of others.
pub(super) struct Asks {
    agents: Vec<String>,
    links: BTreeMap<String, LinkFile>,
    join: Option<Join>,
    /// The names that its model knows something else by.
    taken: Vec<String>,
}

impl Asks {
    /// Takes it out of the table.
    pub(super) fn of(file: &mut AgentFile) -> Self {
        let mut taken = file.tools.clone();
        taken.extend(file.ask_user.then(|| "ask_user".to_owned()));
        Self {
            agents: mem::take(&mut file.agents),
            links: mem::take(&mut file.links),
            join: file.join,
            taken,
        }
    }

    /// Whether the model is offered this one.
    fn offers(&self, name: &str) -> bool {
        self.links.get(name).is_none_or(|link| link.offered)
    }

    fn names(&self) -> BTreeSet<&String> {
        self.agents.iter().chain(self.links.keys()).collect()
    }
}

impl Resolver<'_, '_> {
    /// Links the agents to one another.
    pub(super) fn links(
        &mut self,
        asks: BTreeMap<String, Asks>,
        agents: &mut BTreeMap<Arc<str>, AgentConfig>,
        models: &BTreeMap<Arc<str>, ModelConfig>,
    ) {
        let mut all: BTreeMap<Arc<str>, Links> = BTreeMap::new();
        for (name, asks) in &asks {
            let pointer = join("/agents", name);
            self.asked(&pointer, asks);
            self.link_fallbacks(&pointer, asks);
            self.can_ask(&pointer, asks, agents.get(name.as_str()));
            all.insert(name.as_str().into(), linked(asks, agents));
        }
        // What else could be wrong was said above, at its own place.
        for problem in tree::check(&all) {
            let list = format!("/agents/{}/agents", problem.at);
            let at = if self.document.get(&list).is_some() {
                list
            } else {
                format!("/agents/{}/links", problem.at)
            };
            self.document.rule(&at, problem.problem);
        }
        for (name, links) in all {
            if let (Some(agent), Some(asks)) = (agents.get_mut(&name), asks.get(&*name)) {
                let offered = links.agents().filter(|name| asks.offers(name));
                agent.offered = offered.cloned().collect();
                agent.links = links;
            }
        }
        for (name, agent) in agents.iter() {
            for below in below(agents, agent.links.agents()) {
                self.priced(&join("/agents", name), &below.model, models);
            }
        }
    }

    /// The names of those that an agent may ask.
    fn asked(&mut self, pointer: &str, asks: &Asks) {
        let known = self.document.names("/agents");
        let mut seen = BTreeSet::new();
        for (index, name) in asks.agents.iter().enumerate() {
            let at = format!("{pointer}/agents/{index}");
            if !known.contains(name) {
                self.unknown_name(&at, "an agent", name, &known);
            } else if !seen.insert(name) {
                self.document.wrong_found(&at, "each agent once", format!("{name:?} again"), None);
            } else if asks.taken.contains(name) {
                self.document.rule(&at, one_name(name));
            }
        }
        for (name, link) in &asks.links {
            let at = join(&join(pointer, "links"), name);
            if !known.contains(name) {
                let hint = Some(meant(name, &known));
                let expected = "the name of an agent in this file";
                self.document.wrong_name(&at, expected, &format!("{name:?}"), hint);
            } else if asks.taken.contains(name) && !seen.contains(name) {
                self.document.rule(&at, one_name(name));
            }
            let is_fallback = asks.links.values().any(|other| other.fallback.as_deref() == Some(&**name));
            if !link.offered && !is_fallback {
                let words =
                    "nobody would ever ask it: name it as the `fallback` of another, or leave this out";
                self.document.rule(&join(&at, "offered"), words.to_owned());
            }
            let hears = join(&at, "hears");
            if link.kind == LinkKind::Handoff && self.document.get(&hears).is_some() {
                let words = "an agent that takes the conversation over hears all of it: leave this out";
                self.document.rule(&hears, words.to_owned());
            }
        }
        let at = join(pointer, "join");
        if asks.join.is_some() && asks.names().is_empty() {
            let words = "it has no effect on an agent that may ask no other: set `agents`, or leave this out";
            self.document.rule(&at, words.to_owned());
        }
    }

    /// Each fallback is linked itself, and none leads round in a circle.
    fn link_fallbacks(&mut self, pointer: &str, asks: &Asks) {
        let known = self.document.names("/agents");
        let linked: Vec<String> = asks.names().into_iter().cloned().collect();
        let table = join(pointer, "links");
        for (name, link) in &asks.links {
            let Some(fallback) = link.fallback.as_ref().filter(|fallback| !linked.contains(fallback)) else {
                continue;
            };
            let at = join(&join(&table, name), "fallback");
            match known.contains(fallback) {
                true => self.document.rule(
                    &at,
                    format!("`{fallback}` is not linked: add it to `agents`, or take the fallback out"),
                ),
                false => self.unknown_name(&at, "an agent", fallback, &known),
            }
        }
        self.fallbacks_of("an agent", &linked, |name, _| join(&table, name));
    }

    /// An agent that can have no child must not have a link.
    fn can_ask(&mut self, pointer: &str, asks: &Asks, agent: Option<&AgentConfig>) {
        let Some(agent) = agent.filter(|_| !asks.names().is_empty()) else { return };
        self.can_have_children(pointer, "it may ask other agents", &agent.limits);
    }
}

fn one_name(name: &str) -> String {
    format!("the agent `{name}` and the tool `{name}` would be one name to its model: rename one of the two")
}

/// The links of an agent, without what leads nowhere.
fn linked(asks: &Asks, agents: &BTreeMap<Arc<str>, AgentConfig>) -> Links {
    let names = asks.names();
    let link = |name: &&String| {
        let (name, agent) = agents.get_key_value(name.as_str())?;
        let link =
            Link { shaped: agent.spec.answer.is_some(), ..Link::new(Arc::clone(name), agent.limits.clone()) };
        let Some(file) = asks.links.get(&**name) else { return Some(link) };
        let policy = file.policy();
        let fallback = policy.fallback.filter(|fallback| names.iter().any(|name| **name == **fallback));
        let policy = tree::LinkPolicy { fallback, ..policy };
        Some(Link { kind: file.kind, hears: file.hears, allowance: (&file.allowance).into(), policy, ..link })
    };
    let mut links = Links::new(names.iter().filter_map(link));
    links.join = asks.join.unwrap_or(links.join);
    links
}

/// These agents, and all that they may ask in turn.
pub(super) fn below<'a>(
    agents: &'a BTreeMap<Arc<str>, AgentConfig>,
    names: impl Iterator<Item = &'a Arc<str>>,
) -> Vec<&'a AgentConfig> {
    let (mut open, mut seen, mut found): (Vec<_>, _, _) = (names.collect(), BTreeSet::new(), Vec::new());
    while let Some(name) = open.pop() {
        if let Some(agent) = agents.get(name)
            && seen.insert(name)
        {
            open.extend(agent.links.agents());
            found.push(agent);
        }
    }
    found
}
