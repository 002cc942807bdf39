//! Plans: what agents do one after the other, side by side or again, decided without a model.
//!
//! A plan is a run like any other: it has a journal, limits, a deadline and one stop reason, and its
//! steps are child runs. It refuses to guess: a text is routed or accepted by a rule that is written
//! down, and every loop has a bound.
//!
//! As TOML, each part is a table with one key, its kind:
//!
//! ```toml
//! [[plans.report.sequence]]
//! agent = { name = "researcher", input = "Find sources for: {goal}" }
//!
//! [[plans.report.sequence]]
//! parallel = { of = [{ agent = { name = "writer" } }, { agent = { name = "poet" } }], join = "first_success" }
//!
//! [[plans.report.sequence]]
//! [plans.report.sequence.improve]
//! produce = { agent = { name = "editor" } }
//! evaluate = { agent = { name = "critic" } }
//! accept = { contains = "ACCEPT" }
//! max = 3
//! ```

mod check;
mod join;
mod machine;
mod node;
mod passed;
mod rule;
mod steps;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use check::{Face, Problem};
pub use join::{Join, Joined, Tally};
pub use machine::{PlanMachine, PlanSpec};
pub use rule::Rule;

/// What is to be done, in what order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Plan {
    /// An agent works on what came before.
    Agent(Step),
    /// One after the other, each on what the one before gave.
    Sequence(Vec<Self>),
    /// Several on the same, at once.
    Parallel(Parallel),
    /// One of several, by a rule.
    Route(Route),
    /// Again and again on its own result, until a check holds.
    Loop(Loop),
    /// Again and again, with a review each time, until it is accepted.
    Improve(Improve),
}

/// One agent's part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The agent.
    pub name: Arc<str>,
    /// Its goal: `{goal}` stands for that of the plan, `{input}` for what came before, as data.
    #[serde(default = "whole_input")]
    pub input: Arc<str>,
}

/// The template of a step that takes what came before as it is.
const WHOLE_INPUT: &str = "{input}";

fn whole_input() -> Arc<str> {
    WHOLE_INPUT.into()
}

/// Several at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parallel {
    /// The branches. Their results are in this order, whichever is there first.
    pub of: Vec<Plan>,
    /// How many must succeed.
    #[serde(default)]
    pub join: Join,
    /// How many are under way at once. Default 16.
    #[serde(default = "at_once")]
    pub at_once: u32,
}

const fn at_once() -> u32 {
    16
}

/// One of several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Who classifies what came before; without it the rules look at that itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Box<Plan>>,
    /// The first whose rule holds is taken. It works on what came before, not on the class.
    pub cases: Vec<Case>,
    /// What is done when none holds.
    pub otherwise: Box<Plan>,
}

/// One way of a route.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// When it is taken.
    pub when: Rule,
    /// What is done then.
    pub then: Plan,
}

/// Again and again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loop {
    /// What is done each time.
    pub body: Box<Plan>,
    /// When its result is good.
    pub until: Rule,
    /// After so many rounds the plan ends with `limit_reached`, with the last result.
    pub max: u32,
}

/// Again and again, with a review.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Improve {
    /// Who makes it. From the second time on, it is given the task, its last answer and the review.
    pub produce: Box<Plan>,
    /// Who reviews it.
    pub evaluate: Box<Plan>,
    /// When the review accepts it.
    pub accept: Rule,
    /// After so many rounds the plan ends with `limit_reached`, with the last answer.
    pub max: u32,
}

impl Plan {
    /// An agent works on what came before.
    pub fn agent(name: impl Into<Arc<str>>) -> Self {
        Self::Agent(Step { name: name.into(), input: whole_input() })
    }

    /// An agent works on a goal of its own, with `{goal}` and `{input}` filled in.
    pub fn agent_on(name: impl Into<Arc<str>>, input: impl Into<Arc<str>>) -> Self {
        Self::Agent(Step { name: name.into(), input: input.into() })
    }

    /// One after the other.
    pub fn sequence(parts: impl IntoIterator<Item = Self>) -> Self {
        Self::Sequence(parts.into_iter().collect())
    }

    /// Several at once.
    pub fn parallel(join: Join, branches: impl IntoIterator<Item = Self>) -> Self {
        Self::Parallel(Parallel { of: branches.into_iter().collect(), join, at_once: at_once() })
    }

    /// One of several, by rules on what came before.
    pub fn route(cases: impl IntoIterator<Item = (Rule, Self)>, otherwise: Self) -> Self {
        let cases = cases.into_iter().map(|(when, then)| Case { when, then }).collect();
        Self::Route(Route { by: None, cases, otherwise: Box::new(otherwise) })
    }

    /// One of several, by rules on what a classifier says of what came before.
    pub fn route_by(by: Self, cases: impl IntoIterator<Item = (Rule, Self)>, otherwise: Self) -> Self {
        let cases = cases.into_iter().map(|(when, then)| Case { when, then }).collect();
        Self::Route(Route { by: Some(Box::new(by)), cases, otherwise: Box::new(otherwise) })
    }

    /// The same on its own result, at most `max` times, until a rule holds for it.
    #[must_use]
    pub fn until(self, rule: Rule, max: u32) -> Self {
        Self::Loop(Loop { body: Box::new(self), until: rule, max })
    }

    /// The same again with a review, at most `max` times, until a rule holds for the review.
    #[must_use]
    pub fn improved_by(self, evaluate: Self, accept: Rule, max: u32) -> Self {
        Self::Improve(Improve { produce: Box::new(self), evaluate: Box::new(evaluate), accept, max })
    }
}

#[cfg(test)]
mod tests;
