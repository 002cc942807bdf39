//! Where a plan is: the parts that are under way, and what follows when one of them is done.
//!
//! Nothing here knows of runs. A step is a number, its end a result, and whoever walks the plan is told
//! which further steps it wants and which it no longer needs.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::check::within;
use super::passed::{Ended, Missed, Passed, filled};
use super::{Face, Improve, Join, Joined, Loop, Parallel, Plan, Route, Step, Tally, WHOLE_INPUT};

/// A part that is under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Node {
    Leaf(u32),
    Sequence {
        at: usize,
        node: Box<Self>,
    },
    Parallel {
        input: Passed,
        branches: Vec<Branch>,
    },
    Classifying {
        input: Passed,
        node: Box<Self>,
    },
    /// On a case, or on none of them.
    Routed {
        case: Option<usize>,
        node: Box<Self>,
    },
    Looping {
        round: u32,
        node: Box<Self>,
    },
    Producing {
        round: u32,
        task: Passed,
        node: Box<Self>,
    },
    Evaluating {
        round: u32,
        task: Passed,
        product: Passed,
        node: Box<Self>,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Branch {
    Waiting,
    Going(Node),
    Ended(Ended),
}

pub(super) enum Moved {
    Going(Node),
    Done(Ended),
}

/// A step that is to be started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Wanted {
    pub(super) agent: Arc<str>,
    pub(super) goal: Arc<str>,
    /// Where in the plan, in which rounds: the same each time.
    pub(super) place: String,
}

/// Goes through a plan.
pub(super) struct Walk<'a> {
    pub(super) goal: &'a Arc<str>,
    pub(super) agents: &'a BTreeMap<Arc<str>, Face>,
    /// The number of the last step that was wanted.
    pub(super) last: &'a mut u32,
    pub(super) wanted: Vec<(u32, Wanted)>,
    pub(super) unneeded: Vec<u32>,
}

impl Node {
    fn holds(&self, step: u32) -> bool {
        match self {
            Self::Leaf(number) => *number == step,
            Self::Parallel { branches, .. } => {
                branches.iter().any(|branch| matches!(branch, Branch::Going(node) if node.holds(step)))
            }
            Self::Sequence { node, .. }
            | Self::Classifying { node, .. }
            | Self::Routed { node, .. }
            | Self::Looping { node, .. }
            | Self::Producing { node, .. }
            | Self::Evaluating { node, .. } => node.holds(step),
        }
    }

    /// The steps in it that have not ended.
    pub(super) fn steps(&self, into: &mut Vec<u32>) {
        match self {
            Self::Leaf(number) => into.push(*number),
            Self::Parallel { branches, .. } => {
                for branch in branches {
                    if let Branch::Going(node) = branch {
                        node.steps(into);
                    }
                }
            }
            Self::Sequence { node, .. }
            | Self::Classifying { node, .. }
            | Self::Routed { node, .. }
            | Self::Looping { node, .. }
            | Self::Producing { node, .. }
            | Self::Evaluating { node, .. } => node.steps(into),
        }
    }
}

impl Walk<'_> {
    /// Begins a part.
    pub(super) fn start(&mut self, plan: &Plan, place: &str, input: Passed) -> Moved {
        match plan {
            Plan::Agent(step) => self.leaf(step, place, &input),
            Plan::Sequence(parts) => self.sequence(parts, place, 0, input),
            Plan::Parallel(parallel) => {
                let branches = parallel.of.iter().map(|_| Branch::Waiting).collect();
                self.parallel(parallel, place, input, branches)
            }
            Plan::Route(route) => match &route.by {
                Some(by) => {
                    let moved = self.start(by, &within(place, "route.by"), input.clone());
                    self.classified(route, place, input, moved)
                }
                None => {
                    let text = Arc::clone(&input.text);
                    self.route(route, place, &text, input)
                }
            },
            Plan::Loop(again) => self.round(again, place, 1, input),
            Plan::Improve(improve) => self.produce(improve, place, 1, input.clone(), input),
        }
    }

    /// A step in this part has ended.
    pub(super) fn feed(&mut self, plan: &Plan, place: &str, node: Node, step: u32, ended: Ended) -> Moved {
        match (plan, node) {
            (Plan::Agent(_), Node::Leaf(number)) if number == step => Moved::Done(ended),
            (Plan::Sequence(parts), Node::Sequence { at, node }) => {
                let Some(part) = parts.get(at) else { return Moved::Done(Err(Missed::other_plan())) };
                match self.feed(part, &within(place, &format!("sequence[{at}]")), *node, step, ended) {
                    Moved::Going(node) => Moved::Going(Node::Sequence { at, node: Box::new(node) }),
                    Moved::Done(Ok(passed)) => self.sequence(parts, place, at + 1, passed),
                    Moved::Done(Err(missed)) => Moved::Done(Err(missed)),
                }
            }
            (Plan::Parallel(parallel), Node::Parallel { input, branches }) => {
                let mut ended = Some(ended);
                let mut fed = Vec::with_capacity(branches.len());
                for ((index, part), branch) in parallel.of.iter().enumerate().zip(branches) {
                    fed.push(match branch {
                        Branch::Going(node) if node.holds(step) => match ended.take() {
                            Some(ended) => {
                                let place = within(place, &format!("parallel.of[{index}]"));
                                Branch::from(self.feed(part, &place, node, step, ended))
                            }
                            None => Branch::Going(node),
                        },
                        branch => branch,
                    });
                }
                self.parallel(parallel, place, input, fed)
            }
            (Plan::Route(route), Node::Classifying { input, node }) => {
                let Some(by) = &route.by else { return Moved::Done(Err(Missed::other_plan())) };
                let moved = self.feed(by, &within(place, "route.by"), *node, step, ended);
                self.classified(route, place, input, moved)
            }
            (Plan::Route(route), Node::Routed { case, node }) => {
                let Some((part, name)) = way(route, case) else {
                    return Moved::Done(Err(Missed::other_plan()));
                };
                let moved = self.feed(part, &within(place, &name), *node, step, ended);
                routed(case, moved)
            }
            (Plan::Loop(again), Node::Looping { round, node }) => {
                let at = within(place, &format!("loop#{round}"));
                let moved = self.feed(&again.body, &at, *node, step, ended);
                self.looped(again, place, round, moved)
            }
            (Plan::Improve(improve), Node::Producing { round, task, node }) => {
                let at = within(place, &format!("improve#{round}.produce"));
                let moved = self.feed(&improve.produce, &at, *node, step, ended);
                self.produced(improve, place, round, task, moved)
            }
            (Plan::Improve(improve), Node::Evaluating { round, task, product, node }) => {
                let at = within(place, &format!("improve#{round}.evaluate"));
                let moved = self.feed(&improve.evaluate, &at, *node, step, ended);
                self.evaluated(improve, place, round, (task, product), moved)
            }
            (_, node) => {
                self.abandon(&node);
                Moved::Done(Err(Missed::other_plan()))
            }
        }
    }

    fn leaf(&mut self, step: &Step, place: &str, input: &Passed) -> Moved {
        let takes_schema = self.agents.get(&step.name).is_some_and(|face| face.input.is_some());
        let goal = match &*step.input {
            WHOLE_INPUT if takes_schema => Arc::clone(&input.text),
            WHOLE_INPUT => input.as_input(),
            template => filled(template, self.goal, &input.as_input()).into(),
        };
        *self.last += 1;
        let wanted = Wanted { agent: Arc::clone(&step.name), goal, place: place.to_owned() };
        self.wanted.push((*self.last, wanted));
        Moved::Going(Node::Leaf(*self.last))
    }

    fn sequence(&mut self, parts: &[Plan], place: &str, from: usize, input: Passed) -> Moved {
        let mut passed = input;
        for (at, part) in parts.iter().enumerate().skip(from) {
            match self.start(part, &within(place, &format!("sequence[{at}]")), passed) {
                Moved::Going(node) => return Moved::Going(Node::Sequence { at, node: Box::new(node) }),
                Moved::Done(Ok(next)) => passed = next,
                Moved::Done(Err(missed)) => return Moved::Done(Err(missed)),
            }
        }
        Moved::Done(Ok(passed))
    }

    fn parallel(
        &mut self,
        parallel: &Parallel,
        place: &str,
        input: Passed,
        mut branches: Vec<Branch>,
    ) -> Moved {
        loop {
            let joined = parallel.join.settle(tally(&branches));
            if joined != Joined::Open {
                for branch in &branches {
                    if let Branch::Going(node) = branch {
                        self.abandon(node);
                    }
                }
                return Moved::Done(match joined {
                    Joined::Missed => Err(first_missed(branches)),
                    Joined::Met | Joined::Open => Ok(collected(parallel.join, branches)),
                });
            }
            let going = branches.iter().filter(|branch| matches!(branch, Branch::Going(_))).count();
            let next = branches.iter().position(|branch| *branch == Branch::Waiting);
            let has_place = usize::try_from(parallel.at_once.max(1)).is_ok_and(|most| going < most);
            let Some((index, part)) = next.and_then(|next| Some((next, parallel.of.get(next)?))) else {
                return Moved::Going(Node::Parallel { input, branches });
            };
            if !has_place {
                return Moved::Going(Node::Parallel { input, branches });
            }
            let place = within(place, &format!("parallel.of[{index}]"));
            let begun = Branch::from(self.start(part, &place, input.clone()));
            if let Some(branch) = branches.get_mut(index) {
                *branch = begun;
            }
        }
    }

    fn classified(&mut self, route: &Route, place: &str, input: Passed, moved: Moved) -> Moved {
        match moved {
            Moved::Going(node) => Moved::Going(Node::Classifying { input, node: Box::new(node) }),
            Moved::Done(Ok(class)) => self.route(route, place, &class.text, input),
            Moved::Done(Err(missed)) => Moved::Done(Err(missed)),
        }
    }

    fn route(&mut self, route: &Route, place: &str, by: &str, input: Passed) -> Moved {
        let case = route.cases.iter().position(|case| case.when.holds(by));
        let Some((part, name)) = way(route, case) else { return Moved::Done(Err(Missed::other_plan())) };
        let moved = self.start(part, &within(place, &name), input);
        routed(case, moved)
    }

    fn round(&mut self, again: &Loop, place: &str, round: u32, input: Passed) -> Moved {
        let moved = self.start(&again.body, &within(place, &format!("loop#{round}")), input);
        self.looped(again, place, round, moved)
    }

    fn looped(&mut self, again: &Loop, place: &str, round: u32, moved: Moved) -> Moved {
        match moved {
            Moved::Going(node) => Moved::Going(Node::Looping { round, node: Box::new(node) }),
            Moved::Done(Ok(passed)) if again.until.holds(&passed.text) => Moved::Done(Ok(passed)),
            Moved::Done(Ok(passed)) if round >= again.max => {
                Moved::Done(Err(Missed::rounds(again.max, "the check still did not hold", passed.text)))
            }
            Moved::Done(Ok(passed)) => self.round(again, place, round + 1, passed),
            Moved::Done(Err(missed)) => Moved::Done(Err(missed)),
        }
    }

    fn produce(&mut self, improve: &Improve, place: &str, round: u32, task: Passed, input: Passed) -> Moved {
        let at = within(place, &format!("improve#{round}.produce"));
        let moved = self.start(&improve.produce, &at, input);
        self.produced(improve, place, round, task, moved)
    }

    fn produced(&mut self, improve: &Improve, place: &str, round: u32, task: Passed, moved: Moved) -> Moved {
        let product = match moved {
            Moved::Going(node) => {
                return Moved::Going(Node::Producing { round, task, node: Box::new(node) });
            }
            Moved::Done(Ok(product)) => product,
            Moved::Done(Err(missed)) => return Moved::Done(Err(missed)),
        };
        let at = within(place, &format!("improve#{round}.evaluate"));
        let moved = self.start(&improve.evaluate, &at, product.clone());
        self.evaluated(improve, place, round, (task, product), moved)
    }

    fn evaluated(
        &mut self,
        improve: &Improve,
        place: &str,
        round: u32,
        (task, product): (Passed, Passed),
        moved: Moved,
    ) -> Moved {
        match moved {
            Moved::Going(node) => {
                Moved::Going(Node::Evaluating { round, task, product, node: Box::new(node) })
            }
            Moved::Done(Ok(review)) if improve.accept.holds(&review.text) => Moved::Done(Ok(product)),
            Moved::Done(Ok(_)) if round >= improve.max => Moved::Done(Err(Missed::rounds(
                improve.max,
                "the review still did not accept it",
                product.text,
            ))),
            Moved::Done(Ok(review)) => {
                let input = Passed::composed(json!({
                    "task": task.as_data(),
                    "answer": product.as_data(),
                    "review": review.as_data(),
                }));
                self.produce(improve, place, round + 1, task, input)
            }
            // What was made is there, whatever became of its review.
            Moved::Done(Err(missed)) => {
                Moved::Done(Err(Box::new(Missed { text: Some(product.text), ..*missed })))
            }
        }
    }

    fn abandon(&mut self, node: &Node) {
        node.steps(&mut self.unneeded);
    }
}

impl From<Moved> for Branch {
    fn from(moved: Moved) -> Self {
        match moved {
            Moved::Going(node) => Self::Going(node),
            Moved::Done(ended) => Self::Ended(ended),
        }
    }
}

fn routed(case: Option<usize>, moved: Moved) -> Moved {
    match moved {
        Moved::Going(node) => Moved::Going(Node::Routed { case, node: Box::new(node) }),
        done @ Moved::Done(_) => done,
    }
}

fn way(route: &Route, case: Option<usize>) -> Option<(&Plan, String)> {
    match case {
        None => Some((&*route.otherwise, "route.otherwise".to_owned())),
        Some(index) => Some((&route.cases.get(index)?.then, format!("route.cases[{index}].then"))),
    }
}

fn tally(branches: &[Branch]) -> Tally {
    let mut tally = Tally::default();
    for branch in branches {
        match branch {
            Branch::Waiting | Branch::Going(_) => tally.open += 1,
            Branch::Ended(Ok(_)) => tally.succeeded += 1,
            Branch::Ended(Err(_)) => tally.failed += 1,
        }
    }
    tally
}

fn first_missed(branches: Vec<Branch>) -> Box<Missed> {
    let mut missed = branches.into_iter().filter_map(|branch| match branch {
        Branch::Ended(Err(missed)) => Some(missed),
        Branch::Ended(Ok(_)) | Branch::Waiting | Branch::Going(_) => None,
    });
    missed.next().unwrap_or_else(Missed::other_plan)
}

/// The first success alone, or what became of each branch, in their order.
fn collected(join: Join, branches: Vec<Branch>) -> Passed {
    let mut results = Vec::with_capacity(branches.len());
    for branch in branches {
        results.push(match branch {
            Branch::Ended(Ok(passed)) if join == Join::FirstSuccess => return passed,
            Branch::Ended(Ok(passed)) => passed.as_data(),
            Branch::Ended(Err(missed)) => missed.as_data(),
            Branch::Waiting | Branch::Going(_) => {
                json!({ "failed": "cancelled: enough others have answered" })
            }
        });
    }
    Passed::composed(results.into())
}
