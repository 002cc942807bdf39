//! What is wrong with a plan, all of it at once, each by its place: before anything is started.

use std::collections::BTreeMap;
use std::sync::Arc;

use dauntless_contract::RunLimits;
use serde_json::Value;

use super::{Plan, Route, WHOLE_INPUT};
use crate::excerpt::{listed, shortened};
use crate::names::nearest;

/// What a plan must know of an agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Face {
    /// The limits that it has itself.
    pub limits: RunLimits,
    /// The schema of its input, if it has one.
    pub input: Option<Arc<Value>>,
    /// The schema of its answers, if they have a shape.
    pub output: Option<Arc<Value>>,
}

/// One thing that is wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where, like `sequence[1].parallel.of[0]`; empty for the plan itself.
    pub at: String,
    /// What, and the way out.
    pub problem: String,
}

/// Plans are walked by recursion; no plan of a person comes near.
const DEPTH_MAX: usize = 32;

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.at.is_empty() {
            true => f.write_str(&self.problem),
            false => write!(f, "{}: {}", self.at, self.problem),
        }
    }
}

impl Plan {
    /// Everything that is wrong with it, given the agents that there are.
    pub fn check(&self, agents: &BTreeMap<Arc<str>, Face>) -> Vec<Problem> {
        let mut check = Check { agents, problems: Vec::new() };
        check.part(self, String::new(), 0);
        check.problems
    }
}

/// The name of a part inside another, or alone.
pub(super) fn within(place: &str, part: &str) -> String {
    if place.is_empty() { part.to_owned() } else { format!("{place}.{part}") }
}

struct Check<'a> {
    agents: &'a BTreeMap<Arc<str>, Face>,
    problems: Vec<Problem>,
}

impl Check<'_> {
    fn wrong(&mut self, at: &str, problem: impl Into<String>) {
        self.problems.push(Problem { at: at.to_owned(), problem: problem.into() });
    }

    fn part(&mut self, plan: &Plan, at: String, depth: usize) {
        if depth > DEPTH_MAX {
            return self.wrong(&at, format!("the plan is nested deeper than {DEPTH_MAX} levels: flatten it"));
        }
        let deeper = depth + 1;
        match plan {
            Plan::Agent(step) => {
                self.agent(&at, &step.name);
                self.template(&at, &step.input);
            }
            Plan::Sequence(parts) => {
                if parts.is_empty() {
                    self.wrong(&at, "a sequence of nothing does nothing: name at least one part");
                }
                for (index, part) in parts.iter().enumerate() {
                    self.part(part, within(&at, &format!("sequence[{index}]")), deeper);
                }
                for (index, pair) in parts.windows(2).enumerate() {
                    if let [before, after] = pair {
                        self.fit(before, after, &within(&at, &format!("sequence[{}]", index + 1)));
                    }
                }
            }
            Plan::Parallel(parallel) => {
                if let Some(problem) = parallel.join.problem(parallel.of.len()) {
                    self.wrong(&within(&at, "parallel"), problem);
                }
                if parallel.at_once == 0 {
                    self.wrong(
                        &within(&at, "parallel"),
                        "`at_once` is 0, so nothing would ever start: use 1 or more",
                    );
                }
                for (index, part) in parallel.of.iter().enumerate() {
                    self.part(part, within(&at, &format!("parallel.of[{index}]")), deeper);
                }
            }
            Plan::Route(route) => self.route(route, &at, deeper),
            Plan::Loop(again) => {
                let at = within(&at, "loop");
                self.bound(&at, again.max);
                self.rule(&at, "until", &again.until);
                self.part(&again.body, within(&at, "body"), deeper);
                self.fit(&again.body, &again.body, &within(&at, "body"));
            }
            Plan::Improve(improve) => {
                let at = within(&at, "improve");
                self.bound(&at, improve.max);
                self.rule(&at, "accept", &improve.accept);
                self.part(&improve.produce, within(&at, "produce"), deeper);
                self.part(&improve.evaluate, within(&at, "evaluate"), deeper);
                self.fit(&improve.produce, &improve.evaluate, &within(&at, "evaluate"));
                self.untyped(&improve.produce, &within(&at, "produce"));
            }
        }
    }

    fn route(&mut self, route: &Route, at: &str, depth: usize) {
        let at = within(at, "route");
        if route.cases.is_empty() {
            self.wrong(
                &at,
                "a route without cases always takes `otherwise`: add a case, or take the route out",
            );
        }
        if let Some(by) = &route.by {
            self.part(by, within(&at, "by"), depth);
        }
        for (index, case) in route.cases.iter().enumerate() {
            let at = within(&at, &format!("cases[{index}]"));
            self.rule(&at, "when", &case.when);
            self.part(&case.then, within(&at, "then"), depth);
        }
        self.part(&route.otherwise, within(&at, "otherwise"), depth);
    }

    fn agent(&mut self, at: &str, name: &str) {
        if self.agents.contains_key(name) {
            return;
        }
        let names = self.agents.keys().map(|name| &**name);
        let near = nearest(name, names.clone(), 1);
        let way_out = match near.first() {
            Some(near) => format!("did you mean `{near}`?"),
            None if self.agents.is_empty() => "there are no agents: declare it".to_owned(),
            None => format!("declare it, or use one of {}", listed(names, 20)),
        };
        self.wrong(at, format!("there is no agent {:?}: {way_out}", shortened(name, 64)));
    }

    fn template(&mut self, at: &str, input: &str) {
        if input.trim().is_empty() {
            self.wrong(
                at,
                "`input` is empty, and an agent needs a goal: leave it out to pass on what came before",
            );
        }
        for word in placeholders(input).filter(|word| !matches!(*word, "goal" | "input")) {
            self.wrong(
                at,
                format!(
                    "`input` holds {{{}}}, which stands for nothing: use {{goal}} or {{input}}",
                    shortened(word, 64)
                ),
            );
        }
    }

    fn rule(&mut self, at: &str, key: &str, rule: &super::Rule) {
        if let Some(problem) = rule.problem() {
            self.wrong(&within(at, key), problem);
        }
    }

    fn bound(&mut self, at: &str, max: u32) {
        if max == 0 {
            self.wrong(at, "`max` is 0, so it would never be done: use 1 or more");
        }
    }

    /// Whether what one part gives is what the next one takes, where both say so.
    fn fit(&mut self, before: &Plan, after: &Plan, at: &str) {
        let Some((giver, given)) = self.gives(before) else { return };
        for (place, taker, taken) in self.takes(after, at) {
            if let Some(why) = mismatch(&given, &taken, "$") {
                self.wrong(&place, format!("`{giver}` does not give what `{taker}` takes: {why}"));
            }
        }
    }

    fn untyped(&mut self, produce: &Plan, at: &str) {
        for (place, taker, _) in self.takes(produce, at) {
            self.wrong(
                &place,
                format!(
                    "`{taker}` takes input of a schema of its own, and from the second round on it would be given \
                     the task, its answer and the review: use an agent that takes a goal"
                ),
            );
        }
    }

    fn gives(&self, plan: &Plan) -> Option<(Arc<str>, Arc<Value>)> {
        match plan {
            Plan::Agent(step) => {
                Some((Arc::clone(&step.name), Arc::clone(self.agents.get(&step.name)?.output.as_ref()?)))
            }
            Plan::Sequence(parts) => self.gives(parts.last()?),
            Plan::Loop(again) => self.gives(&again.body),
            Plan::Improve(improve) => self.gives(&improve.produce),
            Plan::Parallel(_) | Plan::Route(_) => None,
        }
    }

    /// The agents that take what comes before this part as it is, and by which schema.
    fn takes(&self, plan: &Plan, at: &str) -> Vec<(String, Arc<str>, Arc<Value>)> {
        match plan {
            Plan::Agent(step) if &*step.input == WHOLE_INPUT => {
                let schema = self.agents.get(&step.name).and_then(|face| face.input.clone());
                schema.map(|schema| (at.to_owned(), Arc::clone(&step.name), schema)).into_iter().collect()
            }
            Plan::Agent(_) => Vec::new(),
            Plan::Sequence(parts) => {
                parts.first().map_or_else(Vec::new, |first| self.takes(first, &within(at, "sequence[0]")))
            }
            Plan::Parallel(parallel) => {
                let of = parallel.of.iter().enumerate();
                of.flat_map(|(index, part)| self.takes(part, &within(at, &format!("parallel.of[{index}]"))))
                    .collect()
            }
            Plan::Route(route) => {
                let cases = route.cases.iter().enumerate().flat_map(|(index, case)| {
                    self.takes(&case.then, &within(at, &format!("route.cases[{index}].then")))
                });
                let by = route.by.iter().flat_map(|by| self.takes(by, &within(at, "route.by")));
                by.chain(cases).chain(self.takes(&route.otherwise, &within(at, "route.otherwise"))).collect()
            }
            Plan::Loop(again) => self.takes(&again.body, &within(at, "loop.body")),
            Plan::Improve(improve) => self.takes(&improve.produce, &within(at, "improve.produce")),
        }
    }
}

/// The words in braces.
pub(super) fn placeholders(template: &str) -> impl Iterator<Item = &str> {
    template.split('{').skip(1).filter_map(|rest| {
        let (word, _) = rest.split_once('}')?;
        (!word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || c == '_')).then_some(word)
    })
}

/// Why a value of one schema need not fit another, as far as types and fields tell. None where it fits
/// or where the schemas say too little.
fn mismatch(given: &Value, taken: &Value, path: &str) -> Option<String> {
    let (gives, takes) = (types(given), types(taken));
    let fits = |give: &&str| takes.contains(give) || (*give == "integer" && takes.contains(&"number"));
    if !takes.is_empty()
        && let Some(odd) = gives.iter().find(|give| !fits(give))
    {
        return Some(format!("{path} may be of type {odd}, and {} is wanted", takes.join(" or ")));
    }
    let has = |schema: &Value, key: &str| required(schema).any(|name| name == key);
    if gives == ["object"]
        && let Some(missing) = required(taken).find(|key| !has(given, key))
    {
        return Some(format!("{path}.{missing} is wanted, and need not be there"));
    }
    let fields =
        |schema: &'_ Value| schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let (given_fields, taken_fields) = (fields(given), fields(taken));
    let closed = taken.get("additionalProperties") == Some(&Value::Bool(false));
    given_fields.iter().find_map(|(key, given)| match taken_fields.get(key) {
        Some(taken) => mismatch(given, taken, &format!("{path}.{key}")),
        None if closed => Some(format!("{path}.{key} is not taken")),
        None => None,
    })
}

fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn required(schema: &Value) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}
