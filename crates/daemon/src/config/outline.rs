//! Whom agents ask, as a person reads it: the names at a link, and the parts of a plan, a line each.

use std::collections::BTreeSet;
use std::sync::Arc;

use dauntless_core::plan::{Join, Plan, Rule};
use dauntless_core::tree::{Link, LinkKind};

use super::{AgentConfig, PlanConfig};

impl AgentConfig {
    /// Whom it may ask, in words.
    pub fn asks(&self) -> Vec<String> {
        let told = |link: &Link| {
            let name = &link.agent;
            match (self.offered.contains(name), link.kind) {
                (false, _) => format!("{name} (only as a fallback)"),
                (true, LinkKind::Delegate) => name.to_string(),
                (true, LinkKind::Handoff) => format!("{name} (takes the conversation over)"),
            }
        };
        self.links.iter().map(told).collect()
    }
}

impl PlanConfig {
    /// The agents that it names.
    pub fn agents(&self) -> BTreeSet<Arc<str>> {
        let (mut open, mut names) = (vec![&self.plan], BTreeSet::new());
        while let Some(plan) = open.pop() {
            match plan {
                Plan::Agent(step) => drop(names.insert(Arc::clone(&step.name))),
                Plan::Sequence(parts) => open.extend(parts),
                Plan::Parallel(parallel) => open.extend(&parallel.of),
                Plan::Route(route) => {
                    open.extend(route.by.as_deref());
                    open.extend(route.cases.iter().map(|case| &case.then));
                    open.push(&route.otherwise);
                }
                Plan::Loop(again) => open.push(&again.body),
                Plan::Improve(improve) => open.extend([&*improve.produce, &*improve.evaluate]),
            }
        }
        names
    }

    /// Its parts, a line each, with two spaces for each level.
    pub fn outline(&self) -> Vec<String> {
        let mut lines = Vec::new();
        outline(&self.plan, "", 0, &mut lines);
        lines
    }
}

fn outline(plan: &Plan, role: &str, level: usize, lines: &mut Vec<String>) {
    let what = match plan {
        Plan::Agent(step) => format!("agent {}", step.name),
        Plan::Sequence(_) => "one after the other".to_owned(),
        Plan::Parallel(parallel) => match parallel.join {
            Join::All => "at once, all must succeed".to_owned(),
            Join::FirstSuccess => "at once, the first success is enough".to_owned(),
            Join::Quorum(needed) => format!("at once, {needed} must succeed"),
            Join::BestEffort => "at once, none has to succeed".to_owned(),
        },
        Plan::Route(route) if route.by.is_some() => "one of these, by a class".to_owned(),
        Plan::Route(_) => "one of these".to_owned(),
        Plan::Loop(again) => format!("until it {}, at most {}", told(&again.until), times(again.max)),
        Plan::Improve(improve) => {
            format!("improved until the review {}, at most {}", told(&improve.accept), times(improve.max))
        }
    };
    lines.push(format!("{:width$}{role}{what}", "", width = 2 * level));
    let mut part = |plan: &Plan, role: &str| outline(plan, role, level + 1, lines);
    match plan {
        Plan::Agent(_) => {}
        Plan::Sequence(parts) => parts.iter().for_each(|plan| part(plan, "")),
        Plan::Parallel(parallel) => parallel.of.iter().for_each(|plan| part(plan, "")),
        Plan::Route(route) => {
            route.by.iter().for_each(|by| part(by, "class: "));
            route.cases.iter().for_each(|case| part(&case.then, &format!("if it {}: ", told(&case.when))));
            part(&route.otherwise, "otherwise: ");
        }
        Plan::Loop(again) => part(&again.body, ""),
        Plan::Improve(improve) => {
            part(&improve.produce, "made by ");
            part(&improve.evaluate, "reviewed by ");
        }
    }
}

fn told(rule: &Rule) -> String {
    match rule {
        Rule::Contains(words) => format!("holds {words:?}"),
        Rule::Equals(words) => format!("is {words:?}"),
        Rule::Field { at, is } => format!("has {is} at {at:?}"),
        Rule::AtLeast { at, least } => format!("has {least} or more at {at:?}"),
    }
}

fn times(max: u32) -> String {
    if max == 1 { "once".to_owned() } else { format!("{max} times") }
}
