//! The books of a tree: what each run was given, did and was told, and whether that keeps the rules.
//!
//! Nothing here asks a machine what it thinks. It counts what goes in and what comes out, and what a
//! run may use beyond its limits is what nobody could know before: how long a reply turns out to be.

mod page;
mod verdict;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    CallKey, Finish, ModelReply, Outcome, Progress, RunEvent, RunId, RunLimits, RunTimer, Timestamp, Tokens,
    Usage,
};
use dauntless_core::run::{Offer, RunEffect};
use dauntless_core::tree::Delegation;

use super::rules;
use super::world::{ACT, Worker};
use crate::simulator::Violation;
use page::{Held, Page, Use};

/// Where a run comes from.
pub(super) struct Origin<'a> {
    pub(super) number: u32,
    pub(super) agent: &'a Arc<str>,
    pub(super) goal: &'a str,
    pub(super) above: Option<(RunId, CallKey, u32)>,
    pub(super) limits: &'a RunLimits,
}

/// All pages of a tree, and what was found.
#[derive(Default)]
pub(super) struct Books {
    pages: BTreeMap<RunId, Page>,
    never: BTreeMap<RunId, Outcome>,
    pub(super) found: Vec<Violation>,
    /// What happened, line by line, where it is wanted.
    pub(super) story: Option<Vec<String>>,
}

impl Books {
    /// Empty books, which tell what happens where that is wanted.
    pub(super) fn telling(story: Option<Vec<String>>) -> Self {
        Self { story, ..Self::default() }
    }

    pub(super) fn find(&mut self, at: Timestamp, rule: &'static str, what: String) {
        self.tell(at, || format!("!! {rule}: {what}"));
        self.found.push(Violation { at: at.since(Timestamp::ZERO), rule, what });
    }

    fn hold(&mut self, holds: bool, at: Timestamp, rule: &'static str, what: impl FnOnce() -> String) {
        if !holds {
            self.find(at, rule, what());
        }
    }

    fn tell(&mut self, at: Timestamp, what: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push(format!("{:>9.3}s {}", at.since(Timestamp::ZERO).as_secs_f64(), what()));
        }
    }

    fn number(&self, run: RunId) -> u32 {
        self.pages.get(&run).map_or(u32::MAX, |page| page.number)
    }

    /// Changes the pages of a run and of all above it.
    fn upward(&mut self, run: RunId, mut change: impl FnMut(&mut Page)) {
        let mut at = Some(run);
        while let Some(page) = at.and_then(|run| self.pages.get_mut(&run)) {
            change(page);
            at = page.above;
        }
    }

    /// The run and those above it, from the bottom.
    fn path(&self, run: RunId) -> Vec<&Page> {
        std::iter::successors(self.pages.get(&run), |page| self.pages.get(&page.above?)).collect()
    }

    pub(super) fn attempt_of(&self, parent: RunId, call: CallKey) -> Option<u32> {
        self.pages.get(&parent)?.held.get(&call).map(|held| held.attempt)
    }

    #[cfg(test)]
    pub(super) fn asked(&mut self, run: RunId, turn: u32, calls: u32) {
        if let Some(page) = self.pages.get_mut(&run) {
            page.asked.push((turn, calls));
        }
    }

    pub(super) fn never_started(&mut self, run: RunId, outcome: &Outcome) {
        self.never.insert(run, outcome.clone());
    }

    pub(super) fn started(&mut self, at: Timestamp, run: RunId, origin: Origin<'_>) {
        let Origin { number, agent, goal, above, limits } = origin;
        let above = above.map(|(above, ..)| above);
        self.tell(at, || {
            let above = above.map_or_else(|| "nobody".to_owned(), |above| above.to_string());
            format!("run {number} of {agent} starts below {above}: {goal} {limits:?}")
        });
        let goal = plain(goal);
        if let Some(above) = above {
            let path = self.path(above);
            let circle = path.iter().any(|page| page.agent == *agent && page.goal == goal);
            let deep = (2..).zip(&path).find(|(levels, page)| *levels > page.limits.depth);
            let deep = deep.map(|(levels, page)| (levels, page.number, page.limits.depth));
            let is_open = |page: &&Page| page.above == Some(above) && page.ended.is_none();
            let given_up = |page: &Page, run: &RunId| page.given_up.contains(run);
            let parent = self.pages.get(&above);
            let open = self
                .pages
                .iter()
                .filter(|(run, page)| is_open(page) && parent.is_none_or(|parent| !given_up(parent, run)));
            let (open, most) =
                (open.count() + 1, parent.map_or(0, |parent| parent.limits.children_at_once.max(1)));
            self.hold(!circle, at, rules::CIRCLE, || format!("{agent} is asked for {goal:?} below itself"));
            self.hold(deep.is_none(), at, rules::DEPTH, || format!("run {number}: {deep:?}"));
            self.hold(open <= usize::try_from(most).unwrap_or(usize::MAX), at, rules::WIDTH, || {
                format!("{open} of {most} with run {number}")
            });
        }
        self.pages.insert(run, Page::new(number, agent, goal, above, limits, at));
        if let Some(above) = above {
            self.upward(above, |page| page.below.children += 1);
            self.check_limits(at, above);
        }
    }

    /// What is used below each run fits into its limits, but for what nobody could know.
    fn check_limits(&mut self, at: Timestamp, run: RunId) {
        let over = self.path(run).into_iter().find_map(|page| {
            let limits = Use::of_limits(&page.limits);
            let (tokens, cost) = page.surprises;
            let most = limits.plus(Use { tokens, cost, calls: 0, children: 0 });
            (!page.below.fits(most))
                .then(|| format!("below run {}: {:?} of {most:?}", page.number, page.below))
        });
        if let Some(over) = over {
            self.find(at, rules::LIMITS, over);
        }
    }

    pub(super) fn happened(&mut self, run: RunId) {
        self.upward(run, |page| page.happened = true);
    }

    pub(super) fn crashed(&mut self, at: Timestamp, run: RunId, down: Duration) {
        let number = self.number(run);
        self.tell(at, || format!("run {number} crashes for {down:?}"));
        if let Some(page) = self.pages.get_mut(&run) {
            page.crashes += 1;
            page.down += down;
        }
    }

    /// A run took an event, and this is what it wants done about it.
    pub(super) fn took(
        &mut self,
        at: Timestamp,
        run: RunId,
        event: &RunEvent,
        effects: &[RunEffect],
        worker: Option<&Worker>,
    ) {
        let number = self.number(run);
        self.tell(at, || format!("run {number} takes {event:?}"));
        match event {
            RunEvent::ModelReplied { turn, reply, .. } => self.replied(run, *turn, reply, worker),
            RunEvent::ChildEnded { call, attempt, .. } => self.child_ended(run, *call, *attempt),
            RunEvent::CancelRequested { .. } => {
                if let Some(page) = self.pages.get_mut(&run) {
                    page.stopped.get_or_insert(at);
                }
            }
            _ => {}
        }
        for effect in effects {
            self.tell(at, || format!("    {effect:?}"));
            self.wants(at, run, event, effect);
        }
        self.check_limits(at, run);
    }

    fn replied(&mut self, run: RunId, turn: u32, reply: &ModelReply, worker: Option<&Worker>) {
        let (Some(page), Some(usage), Some(Worker::Agent(spec))) =
            (self.pages.get_mut(&run), reply.usage, worker)
        else {
            return;
        };
        let (model, cost) = (&spec.model, spec.model.price.of(usage));
        // The first request is sent whatever the limit: of it nothing is known.
        let (tokens, money) = page.last.map_or((page.limits.tokens, page.limits.cost), |(last, longest)| {
            let reply = model.output_tokens_max.map_or(longest, |most| Tokens(most.into()));
            let foreseen = Usage::new(last.total(), reply);
            (foreseen.total(), model.price.of(foreseen))
        });
        let longest = page.last.map_or(Tokens::ZERO, |(_, longest)| longest).max(usage.completion);
        page.last = Some((usage, longest));
        let surprise = (usage.total().0.saturating_sub(tokens.0), cost.0.saturating_sub(money.0));
        let more = (surprise.0.saturating_sub(page.surprise.0), surprise.1.saturating_sub(page.surprise.1));
        page.surprise = (page.surprise.0.max(surprise.0), page.surprise.1.max(surprise.1));
        let worked = page.offered && reply.refusal.is_none() && reply.finish != Finish::ContentFilter;
        let calls = if worked { u32::try_from(reply.calls.len()).unwrap_or(u32::MAX) } else { 0 };
        if calls > 0 {
            page.asked.push((turn, calls));
        }
        let used = Use { tokens: usage.total().0, cost: cost.0, calls: 0, children: 0 };
        page.own = page.own.plus(Use { calls: calls.into(), ..used });
        self.upward(run, |page| {
            page.below = page.below.plus(used);
            page.surprises = (page.surprises.0 + more.0, page.surprises.1 + more.1);
        });
    }

    /// Charges a child by what it said itself when it ended, whatever arrived above.
    fn child_ended(&mut self, run: RunId, call: CallKey, attempt: u32) {
        let Some(page) = self.pages.get(&run) else { return };
        let Some(held) = page.held.get(&call).filter(|held| held.attempt == attempt).cloned() else { return };
        let truth =
            self.pages.get(&held.run).and_then(|child| child.ended.as_ref().map(|(_, outcome)| outcome));
        let Some(totals) = truth.or_else(|| self.never.get(&held.run)).map(|outcome| outcome.totals) else {
            return;
        };
        let used = Use {
            tokens: totals.usage.total().0,
            cost: totals.cost.0,
            calls: totals.tool_calls.into(),
            children: u64::from(totals.children) + 1,
        };
        let Some(page) = self.pages.get_mut(&run) else { return };
        page.held.remove(&call);
        page.charged = page.charged.plus(used);
        page.charged_turns += totals.turns;
    }

    fn wants(&mut self, at: Timestamp, run: RunId, event: &RunEvent, effect: &RunEffect) {
        let Some(page) = self.pages.get_mut(&run) else { return };
        let number = page.number;
        match effect {
            RunEffect::CallModel { turn, offer, .. } => {
                page.turns = page.turns.max(*turn);
                page.offered = *offer != Offer::Nothing;
                self.begins(at, run, "a request");
            }
            RunEffect::Dispatch { call, tool, .. } => {
                let first = page.dispatched.insert(*call);
                let harmless = first || &**tool != ACT;
                if first {
                    self.upward(run, |page| page.below.calls += 1);
                }
                self.hold(harmless, at, rules::ONCE, || format!("call {call} of run {number} again"));
                self.begins(at, run, "a call");
            }
            RunEffect::Delegate(delegation) => self.delegates(at, run, delegation),
            RunEffect::CancelChild { call, run: child, .. } => {
                page.told_to_stop.insert(*child);
                // In answer to its own timer, a child that is told to stop is waited for no longer.
                if *event == (RunEvent::TimerFired { timer: RunTimer::Child(*call) }) {
                    page.give_up(*call);
                }
            }
            RunEffect::Report(Progress::CallEnded { call, .. }) => {
                let first = page.reported.insert(*call);
                self.hold(first, at, rules::OBSERVED, || format!("call {call} of run {number} ended twice"));
            }
            _ => {}
        }
    }

    /// A run that was told to stop begins nothing.
    fn begins(&mut self, at: Timestamp, run: RunId, what: &str) {
        let stopped = self.pages.get(&run).and_then(|page| page.stopped);
        let number = self.number(run);
        self.hold(stopped.is_none(), at, rules::STOPS, || {
            format!("run {number} was told to stop and begins {what}")
        });
    }

    fn delegates(&mut self, at: Timestamp, run: RunId, delegation: &Delegation) {
        let Delegation { call, attempt, run: child, agent, limits, .. } = delegation;
        let Some(page) = self.pages.get_mut(&run) else { return };
        let number = page.number;
        if let Some(held) = page.held.get(call).filter(|held| held.attempt == *attempt) {
            // It is found again, with less time at most.
            let same = held.run == *child
                && RunLimits { wall_clock: limits.wall_clock, ..held.limits.clone() } == *limits;
            return self.hold(same, at, rules::ONE_ID, || {
                format!("call {call} of run {number} is found as another")
            });
        }
        let (before, asks) = (page.came.insert(*call, *child), page.turns > 0);
        let given = page.held.values().map(|held| Use::held(&held.limits));
        let given = given.fold(page.own.plus(page.charged), Use::plus);
        let left = Use::of_limits(&page.limits).minus(given);
        let fits = Use::held(limits).fits(left);
        page.held.insert(*call, Held { attempt: *attempt, run: *child, limits: limits.clone() });
        let again = before.is_some_and(|before| self.pages.get(&before).is_some_and(|page| page.happened));
        // The steps of a plan are no calls of a model.
        if before.is_none() && asks {
            self.upward(run, |page| page.below.calls += 1);
        }
        self.hold(fits, at, rules::GRANTS, || format!("run {number} gives {agent} {limits:?} of {left:?}"));
        self.hold(!again, at, rules::ONCE, || format!("try {attempt} of call {call} of run {number}"));
        self.begins(at, run, "a run");
    }
}

/// A goal without what does not make it another.
fn plain(goal: &str) -> String {
    goal.trim().trim_end_matches('.').to_lowercase()
}
