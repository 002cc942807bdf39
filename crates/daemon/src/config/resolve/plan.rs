//! Plans: parts of one kind each, with agents that are there and give what the next one takes.

use std::collections::BTreeMap;
use std::sync::Arc;

use dauntless_contract::RunLimits;
use dauntless_core::plan::{Case, Face, Improve, Loop, Parallel, Plan, Problem, Route, Rule, Step};

use super::Resolver;
use super::agent::run_limits;
use super::links::below;
use crate::config::document::join;
use crate::config::file::LimitsFile;
use crate::config::team::{
    CaseFile, ImproveFile, LoopFile, ParallelFile, PartFile, PlanFile, RouteFile, RuleFile, StepFile,
};
use crate::config::{AgentConfig, ModelConfig, PlanConfig};

/// The kinds of parts.
const PARTS: [&str; 6] = ["agent", "sequence", "parallel", "route", "loop", "improve"];
/// The kinds of rules.
const RULES: [&str; 4] = ["contains", "equals", "field", "at_least"];

impl Resolver<'_, '_> {
    pub(super) fn plans(
        &mut self,
        plans: BTreeMap<String, PlanFile>,
        defaults: &LimitsFile,
        agents: &BTreeMap<Arc<str>, AgentConfig>,
        models: &BTreeMap<Arc<str>, ModelConfig>,
    ) -> BTreeMap<Arc<str>, PlanConfig> {
        let known = self.document.names("/agents");
        for name in self.document.names("/plans").into_iter().filter(|name| known.contains(name)) {
            let expected = "another name than that of an agent, for both are run by their name";
            self.document.wrong_name(&join("/plans", &name), expected, &format!("{name:?}"), None);
        }
        let faces = agents.iter().map(|(name, agent)| (Arc::clone(name), agent.face())).collect();
        // Turns are each agent's own.
        let defaults = LimitsFile { turns: None, ..defaults.clone() };
        let mut resolved = BTreeMap::new();
        for (name, PlanFile { limits, part }) in plans {
            let pointer = join("/plans", &name);
            self.own_limits(&pointer, &limits);
            let limits = run_limits(&limits, &defaults);
            self.can_have_children(&pointer, "a plan asks agents", &limits);
            let Some(plan) = self.part(&pointer, part) else { continue };
            let plan = PlanConfig { plan, limits };
            self.fitting(&pointer, &plan, &faces);
            for agent in below(agents, plan.agents().iter()) {
                self.priced(&pointer, &agent.model, models);
            }
            resolved.insert(name.into(), plan);
        }
        resolved
    }

    /// What would limit nothing.
    fn own_limits(&mut self, pointer: &str, limits: &LimitsFile) {
        if limits.turns.is_some() {
            let words = "a plan asks no model itself, so this would limit nothing: set it on its agents";
            self.document.rule(&format!("{pointer}/limits/turns"), words.to_owned());
        }
    }

    /// Notes limits under which no child run could ever start.
    pub(super) fn can_have_children(&mut self, pointer: &str, whose: &str, limits: &RunLimits) {
        let none = [("depth", limits.depth <= 1, 2), ("children", limits.children == 0, 1)];
        for (key, _, least) in none.into_iter().filter(|(_, is_none, _)| *is_none) {
            let own = format!("{pointer}/limits/{key}");
            let at = if self.document.get(&own).is_some() { own } else { format!("/limits/{key}") };
            self.document
                .rule(&at, format!("{whose}, and with this none could ever start: use {least} or more"));
        }
    }

    /// What the plan itself says is wrong with it, at its places.
    fn fitting(&mut self, pointer: &str, plan: &PlanConfig, faces: &BTreeMap<Arc<str>, Face>) {
        // An agent that is not there is noted where it is named.
        let mut faces = faces.clone();
        for name in plan.agents() {
            faces.entry(name).or_default();
        }
        let mut wrong: BTreeMap<String, String> = BTreeMap::new();
        for Problem { at, problem } in plan.plan.check(&faces) {
            let inside = at.replace(']', "").replace(['.', '['], "/");
            let at = if inside.is_empty() { pointer.to_owned() } else { format!("{pointer}/{inside}") };
            let step = join(&at, "agent");
            let at = if self.document.get(&step).is_some() { step } else { at };
            wrong.entry(at).and_modify(|words| *words += &format!("; {problem}")).or_insert(problem);
        }
        for (at, words) in wrong {
            self.document.rule(&at, words);
        }
    }

    /// The part at a pointer; none where it is not whole.
    fn part(&mut self, at: &str, file: PartFile) -> Option<Plan> {
        self.exactly_one(at, &PARTS);
        let PartFile { agent, sequence, parallel, route, again, improve } = file;
        let inside = |key| join(at, key);
        match (agent, sequence, parallel, route, again, improve) {
            (Some(step), None, None, None, None, None) => Some(self.step(&inside("agent"), step)),
            (None, Some(parts), None, None, None, None) => {
                self.parts(&inside("sequence"), parts).map(Plan::Sequence)
            }
            (None, None, Some(parallel), None, None, None) => {
                let ParallelFile { of, join: joined, at_once } = parallel;
                let of = self.parts(&join(&inside("parallel"), "of"), of)?;
                let Plan::Parallel(parallel) = Plan::parallel(joined.unwrap_or_default(), of) else {
                    return None;
                };
                let at_once = at_once.unwrap_or(parallel.at_once);
                Some(Plan::Parallel(Parallel { at_once, ..parallel }))
            }
            (None, None, None, Some(route), None, None) => self.route(&inside("route"), route),
            (None, None, None, None, Some(LoopFile { body, until, max }), None) => {
                let at = inside("loop");
                let body = self.part(&join(&at, "body"), *body);
                let until = self.rule(&join(&at, "until"), until);
                Some(Plan::Loop(Loop { body: body?.into(), until: until?, max }))
            }
            (None, None, None, None, None, Some(improve)) => self.improve(&inside("improve"), improve),
            _ => None,
        }
    }

    /// All of them, or none where one is not whole.
    fn parts(&mut self, at: &str, files: Vec<PartFile>) -> Option<Vec<Plan>> {
        let parts: Vec<_> = files
            .into_iter()
            .enumerate()
            .map(|(index, file)| self.part(&format!("{at}/{index}"), file))
            .collect();
        parts.into_iter().collect()
    }

    fn step(&mut self, at: &str, StepFile { name, input }: StepFile) -> Plan {
        let known = self.document.names("/agents");
        if !known.contains(&name) {
            self.unknown_name(&join(at, "name"), "an agent", &name, &known);
        }
        match (input, Plan::agent(name)) {
            (Some(input), Plan::Agent(step)) => Plan::Agent(Step { input, ..step }),
            (_, step) => step,
        }
    }

    fn route(&mut self, at: &str, RouteFile { by, cases, otherwise }: RouteFile) -> Option<Plan> {
        let by = by.map(|by| self.part(&join(at, "by"), *by));
        let mut ways = Vec::new();
        for (index, CaseFile { when, then }) in cases.into_iter().enumerate() {
            let at = format!("{at}/cases/{index}");
            let when = self.rule(&join(&at, "when"), when);
            let then = self.part(&join(&at, "then"), then);
            ways.push(when.zip(then).map(|(when, then)| Case { when, then }));
        }
        let otherwise = self.part(&join(at, "otherwise"), *otherwise);
        let by = match by {
            Some(by) => Some(by?.into()),
            None => None,
        };
        let cases = ways.into_iter().collect::<Option<Vec<_>>>()?;
        Some(Plan::Route(Route { by, cases, otherwise: otherwise?.into() }))
    }

    fn improve(&mut self, at: &str, file: ImproveFile) -> Option<Plan> {
        let ImproveFile { produce, evaluate, accept, max } = file;
        let produce = self.part(&join(at, "produce"), *produce);
        let evaluate = self.part(&join(at, "evaluate"), *evaluate);
        let accept = self.rule(&join(at, "accept"), accept);
        Some(Plan::Improve(Improve {
            produce: produce?.into(),
            evaluate: evaluate?.into(),
            accept: accept?,
            max,
        }))
    }

    fn rule(&mut self, at: &str, file: RuleFile) -> Option<Rule> {
        self.exactly_one(at, &RULES);
        file.rule()
    }

    /// Notes a table that has none or several of the keys of which it must have one.
    fn exactly_one(&mut self, at: &str, keys: &[&str]) {
        let written: Vec<&str> =
            keys.iter().copied().filter(|key| self.document.get(&join(at, key)).is_some()).collect();
        let misspelt = self.document.names(at).iter().any(|key| self.document.is_noted(&join(at, key)));
        if written.len() != 1 && !misspelt {
            let found = if written.is_empty() { "none".to_owned() } else { written.join(" and ") };
            let expected = format!("exactly one of the keys {}", keys.join(", "));
            self.document.wrong_found(at, expected, found, None);
        }
    }
}
