//! The books of a tree: what each run was given, did and was told, and whether that keeps the rules.
//!
//! Nothing here asks a machine what it thinks. It counts what goes in and what comes out, and what a
//! run may use beyond its limits is what nobody could know before: how long a reply turns out to be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    CallKey, Finish, Message, ModelReply, Outcome, Progress, RunEvent, RunId, RunLimits, RunTimer,
    StopReason, Timestamp, Tokens, Usage,
};
use dauntless_core::run::{Offer, RunEffect};
use dauntless_core::tree::Delegation;
use serde_json::Value;

use super::mind::did;
use super::world::{ACT, Worker};
use crate::CallAccounting;
use crate::simulator::Violation;

/// How long a level of runs may take to end.
const SETTLE: Duration = Duration::from_secs(5);
/// More levels than a run is waited for.
const LEVELS_MAX: u32 = 16;
/// The longest that a call which may have happened is waited for.
const CALL_MAX: Duration = Duration::from_secs(60);
/// What signals take on their way, and more.
const GRACE: Duration = Duration::from_secs(1);

pub(super) mod rules {
    //! The rules of trees.

    pub(in super::super) const ENDS: &str = "every run of a tree ends in its time";
    pub(in super::super) const OBSERVED: &str = "every call has one observation, in the order of the calls";
    pub(in super::super) const HONEST: &str = "a failure below is no success above";
    pub(in super::super) const TOTALS: &str = "what a run counts is what it and those below did";
    pub(in super::super) const GRANTS: &str = "what is given comes out of what is left";
    pub(in super::super) const LIMITS: &str = "the limits of a run hold for all below it";
    pub(in super::super) const DEPTH: &str = "a tree is no deeper than its limits";
    pub(in super::super) const WIDTH: &str = "no more children run at once than may";
    pub(in super::super) const STOPS: &str = "an end above reaches every run below";
    pub(in super::super) const CIRCLE: &str = "no goal goes round in a circle";
    pub(in super::super) const NAMES: &str = "an escalation names the run that failed";
    pub(in super::super) const ONE_ID: &str = "one id is one run";
    pub(in super::super) const REPLAY: &str = "a journal gives its run back";
    pub(in super::super) const ONCE: &str = "nothing is repeated that may have happened";
}

/// Where a run comes from.
pub(super) struct Origin<'a> {
    pub(super) number: u32,
    pub(super) agent: &'a Arc<str>,
    pub(super) goal: &'a str,
    pub(super) above: Option<(RunId, CallKey, u32)>,
    pub(super) limits: &'a RunLimits,
}

/// What can be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Use {
    tokens: u64,
    cost: u64,
    calls: u64,
    children: u64,
}

impl Use {
    const fn of_limits(limits: &RunLimits) -> Self {
        Self {
            tokens: limits.tokens.0,
            cost: limits.cost.0,
            calls: limits.tool_calls as u64,
            children: limits.children as u64,
        }
    }

    /// What a child that runs holds: its slice, and itself.
    const fn held(limits: &RunLimits) -> Self {
        let slice = Self::of_limits(limits);
        Self { children: slice.children + 1, ..slice }
    }

    const fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens + other.tokens,
            cost: self.cost + other.cost,
            calls: self.calls + other.calls,
            children: self.children + other.children,
        }
    }

    const fn minus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_sub(other.tokens),
            cost: self.cost.saturating_sub(other.cost),
            calls: self.calls.saturating_sub(other.calls),
            children: self.children.saturating_sub(other.children),
        }
    }

    const fn fits(self, other: Self) -> bool {
        self.tokens <= other.tokens
            && self.cost <= other.cost
            && self.calls <= other.calls
            && self.children <= other.children
    }
}

/// A child as its parent's effects have it.
#[derive(Clone)]
struct Held {
    attempt: u32,
    run: RunId,
    limits: RunLimits,
}

/// The page of one run.
struct Page {
    number: u32,
    agent: Arc<str>,
    goal: String,
    above: Option<RunId>,
    limits: RunLimits,
    began: Timestamp,
    /// What it used itself, by what it was told.
    own: Use,
    turns: u32,
    last: Option<(Usage, Tokens)>,
    /// What its children came to, by their own outcomes.
    charged: Use,
    charged_turns: u32,
    held: BTreeMap<CallKey, Held>,
    /// The run that a call came to last.
    came: BTreeMap<CallKey, RunId>,
    told_to_stop: BTreeSet<RunId>,
    given_up: BTreeSet<RunId>,
    /// What really was used by it and all below, whoever counts it.
    below: Use,
    happened: bool,
    /// By how much its requests used more than could be known, at most; and all of those below.
    surprise: (u64, u64),
    surprises: (u64, u64),
    /// The turns with calls, and how many.
    asked: Vec<(u32, u32)>,
    offered: bool,
    dispatched: BTreeSet<CallKey>,
    reported: BTreeSet<CallKey>,
    stopped: Option<Timestamp>,
    ended: Option<(Timestamp, Outcome)>,
    crashes: u32,
    down: Duration,
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

    /// A run has ended.
    pub(super) fn ended(
        &mut self,
        at: Timestamp,
        run: RunId,
        outcome: &Outcome,
        messages: Option<&[Message]>,
    ) {
        let Some(page) = self.pages.get_mut(&run) else { return };
        let number = page.number;
        page.ended = Some((at, outcome.clone()));
        let open: Vec<CallKey> = page.held.keys().copied().collect();
        let told = page.held.values().all(|held| page.told_to_stop.contains(&held.run));
        open.into_iter().for_each(|call| page.give_up(call));
        let counted = page.own.plus(page.charged);
        let turns = page.turns + page.charged_turns;
        let totals = &outcome.totals;
        let said = Use {
            tokens: totals.usage.total().0,
            cost: totals.cost.0,
            calls: totals.tool_calls.into(),
            children: totals.children.into(),
        };
        self.hold(told, at, rules::STOPS, || {
            format!("run {number} ends and leaves children that were told nothing")
        });
        self.hold((said, totals.turns) == (counted, turns), at, rules::TOTALS, || {
            format!("run {number} says {said:?} in {} turns, and it was {counted:?} in {turns}", totals.turns)
        });
        self.check_names(at, run, &outcome.reason);
        match messages {
            Some(messages) => self.check_observations(at, run, messages),
            None => {
                let text = outcome.text.as_deref().filter(|_| outcome.is_completed());
                let passed_off = text.is_some_and(holds_partial);
                self.hold(!passed_off, at, rules::HONEST, || format!("plan {number} ends with {text:?}"));
            }
        }
    }

    fn check_names(&mut self, at: Timestamp, run: RunId, reason: &StopReason) {
        let StopReason::ChildFailed { agent, run: child, reason } = reason else { return };
        let named = self.pages.get(child).is_some_and(|page| {
            let above = page.above.and_then(|above| self.pages.get(&above));
            let given_up = above.is_some_and(|above| above.given_up.contains(child));
            page.agent == *agent
                && (given_up || page.ended.as_ref().is_some_and(|(_, outcome)| outcome.reason == **reason))
        });
        let number = self.number(run);
        self.hold(named, at, rules::NAMES, || format!("run {number} blames {agent} ({child}): {reason}"));
    }

    /// Each call has one observation in its place, and it tells what the call came to.
    pub(super) fn check_observations(&mut self, at: Timestamp, run: RunId, messages: &[Message]) {
        let Some(page) = self.pages.get(&run) else { return };
        let number = page.number;
        let mut wrong = Vec::new();
        let mut accounts = CallAccounting::default();
        accounts.see_history(messages);
        wrong.extend(accounts.check().err().into_iter().flatten().map(|problem| (rules::OBSERVED, problem)));
        let rounds = rounds(messages);
        let skipped = rounds.len().saturating_sub(page.asked.len());
        let own = rounds.get(skipped..).unwrap_or_default();
        let counts: Vec<u32> =
            own.iter().map(|round| u32::try_from(round.len()).unwrap_or(u32::MAX)).collect();
        if !counts.iter().eq(page.asked.iter().map(|(_, count)| count)) {
            wrong.push((rules::OBSERVED, format!("{:?} were asked and {counts:?} are told", page.asked)));
        }
        for ((turn, _), round) in page.asked.iter().zip(own) {
            for (index, text) in (0..).zip(round) {
                let call = CallKey { turn: *turn, index };
                if let Some(problem) = self.misheard(page, call, text) {
                    wrong.push((rules::HONEST, format!("call {call}: {problem}")));
                }
            }
        }
        for (rule, problem) in wrong {
            self.find(at, rule, format!("run {number}: {problem}"));
        }
    }

    /// What is wrong with an observation, by what the call really came to.
    fn misheard(&self, page: &Page, call: CallKey, text: &str) -> Option<String> {
        let told: Value = serde_json::from_str(text).unwrap_or_default();
        let answer = told.get("answer").and_then(Value::as_str);
        let failed = told.get("error").is_some();
        let Some(child) = page.came.get(&call) else {
            let done = answer.is_some() || !failed && text != did(call);
            return done.then(|| format!("nothing was done, and it says {text}"));
        };
        let outcome =
            self.pages.get(child).and_then(|child| child.ended.as_ref().map(|(_, outcome)| outcome));
        let gave = outcome.and_then(|outcome| outcome.answer());
        let given_up = page.given_up.contains(child);
        let ok = match (answer, gave) {
            (Some(answer), gave) => gave == Some(answer) && !given_up,
            // A conversation that was taken over is not told.
            (None, _) if text.contains("took the conversation over") => !given_up,
            (None, Some(_)) => failed && given_up,
            (None, None) => failed,
        };
        (!ok).then(|| format!("it came to {gave:?} (given up: {given_up}), and it says {text}"))
    }

    /// Nothing is due any more.
    pub(super) fn close(&mut self, now: Timestamp, dead: impl Fn(&RunId) -> bool) {
        let mut found = Vec::new();
        for (run, page) in &self.pages {
            let number = page.number;
            let Some((ended, _)) = page.ended else {
                if !dead(run) {
                    found.push((now, rules::ENDS, format!("run {number} never ends")));
                }
                continue;
            };
            let patience = SETTLE * (page.limits.depth.min(LEVELS_MAX) + 1) + CALL_MAX;
            let patience = patience * (page.crashes + 1) + page.down + GRACE;
            let due = page.began + page.limits.wall_clock + patience;
            if ended > due {
                found.push((ended, rules::ENDS, format!("run {number} was due at {due:?}")));
            }
            let above = page.above.and_then(|above| self.pages.get(&above)?.ended.as_ref());
            let Some((above, _)) = above else { continue };
            let told = page.stopped.is_some_and(|stopped| stopped <= *above + page.down + GRACE);
            if ended > *above + page.down + GRACE && !told {
                found.push((ended, rules::STOPS, format!("run {number} goes on after the end above")));
            }
        }
        for (at, rule, what) in found {
            self.find(at, rule, what);
        }
    }
}

impl Page {
    fn new(
        number: u32,
        agent: &Arc<str>,
        goal: String,
        above: Option<RunId>,
        limits: &RunLimits,
        began: Timestamp,
    ) -> Self {
        Self {
            number,
            agent: Arc::clone(agent),
            goal,
            above,
            limits: limits.clone(),
            began,
            own: Use::default(),
            turns: 0,
            last: None,
            charged: Use::default(),
            charged_turns: 0,
            held: BTreeMap::new(),
            came: BTreeMap::new(),
            told_to_stop: BTreeSet::new(),
            given_up: BTreeSet::new(),
            below: Use::default(),
            happened: false,
            surprise: (0, 0),
            surprises: (0, 0),
            asked: Vec::new(),
            offered: false,
            dispatched: BTreeSet::new(),
            reported: BTreeSet::new(),
            stopped: None,
            ended: None,
            crashes: 0,
            down: Duration::ZERO,
        }
    }

    /// A child that is waited for no longer counts as having used all that it held.
    fn give_up(&mut self, call: CallKey) {
        if let Some(held) = self.held.remove(&call) {
            self.charged = self.charged.plus(Use::held(&held.limits));
            self.given_up.insert(held.run);
        }
    }
}

/// The observations of each message with calls.
fn rounds(messages: &[Message]) -> Vec<Vec<&str>> {
    let mut rounds: Vec<Vec<&str>> = Vec::new();
    for message in messages {
        match message {
            Message::Assistant { calls, .. } if !calls.is_empty() => rounds.push(Vec::new()),
            Message::Tool { text, .. } => {
                if let Some(round) = rounds.last_mut() {
                    round.push(text);
                }
            }
            Message::Assistant { .. } | Message::System { .. } | Message::User { .. } => {}
        }
    }
    rounds
}

/// Whether words of an agent that was not done stand where an answer stands.
fn holds_partial(text: &str) -> bool {
    fn look(value: &Value) -> bool {
        match value {
            // The answer of a plan may be JSON in a text.
            Value::String(text) => holds_partial(text),
            Value::Array(values) => values.iter().any(look),
            Value::Object(fields) => fields.iter().any(|(name, value)| name != "so_far" && look(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
    match serde_json::from_str(text) {
        Ok(value @ (Value::Array(_) | Value::Object(_))) => look(&value),
        Ok(_) | Err(_) => text.contains("partial-"),
    }
}

/// A goal without what does not make it another.
fn plain(goal: &str) -> String {
    goal.trim().trim_end_matches('.').to_lowercase()
}
