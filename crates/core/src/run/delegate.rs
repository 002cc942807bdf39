//! Calls that other runs work on: started within what this run has left, never twice, and ended by
//! the class of their end.
//!
//! A child that was under way when this run's process ended is still there, or is in the journal: it
//! is found again under the same id, so nothing about it is unknown and no try of it is lost.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    CallKey, Effect, EffectState, Failure, LimitKind, Outcome, Progress, RunEvent, RunLimits, RunTimer,
    StopReason, StoppedBy, Timestamp, ToolOutput,
};

use super::slots::{ChildStage, Delegated, Slots, Terminal};
use super::{Phase, RunEffect, RunMachine, nudge};
use crate::observation;
use crate::plan::Joined;
use crate::tree::{
    Ask, Child, Class, Delegation, End, Hears, Kin, LinkKind, OnFailure, Purse, child_run, goal_of, said,
};

/// What a delegation came to.
pub(super) enum Came<'a> {
    Answer(ToolOutput),
    Failure { failure: Failure, so_far: Option<&'a str>, terminal: Option<Terminal> },
}

impl From<Failure> for Came<'_> {
    fn from(failure: Failure) -> Self {
        Self::Failure { failure, so_far: None, terminal: None }
    }
}

impl RunMachine {
    /// Learns from its start who is above this run.
    pub(super) fn meet_kin(&mut self, event: &RunEvent) {
        if let (Phase::Created, RunEvent::RunStarted { goal, lineage, .. }) = (&self.phase, event) {
            self.kin = Kin::new(self.run, &self.spec.agent.name, goal, lineage.clone());
        }
    }

    /// A child ended, or its time is over.
    pub(super) fn on_child(
        &mut self,
        now: Timestamp,
        phase: Phase,
        event: RunEvent,
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        match (phase, event) {
            (Phase::Calling(slots), RunEvent::ChildEnded { call, attempt, outcome }) => {
                self.child_ended(now, slots, call, attempt, &outcome, effects)
            }
            (
                Phase::Settling { slots, reason, explanation },
                RunEvent::ChildEnded { call, attempt, outcome },
            ) => self.child_settled(now, slots, (reason, explanation), (call, attempt, &outcome), effects),
            (Phase::Calling(slots), RunEvent::TimerFired { timer: RunTimer::Child(call) }) => {
                self.child_overdue(now, slots, call, effects)
            }
            // A run that asks its model or has ended has no children: it is late.
            (phase, _) => phase,
        }
    }

    /// The agents that cannot be asked, whatever the goal: so the model is not offered them.
    pub(super) fn out_of_reach(&self) -> Vec<Arc<str>> {
        let left = Purse::new(&self.limits, &self.totals, []).left();
        let none = self.limits.depth <= 1 || left.children == 0;
        let offered = |agent: &&Arc<str>| none && self.spec.toolbox.get(agent).is_some();
        self.spec.links.agents().filter(offered).cloned().collect()
    }

    /// Starts the children that wait, in call order, as far as places and limits go.
    pub(super) fn start_children(&mut self, now: Timestamp, slots: &mut Slots, effects: &mut Vec<RunEffect>) {
        let calls = slots.waiting_for_a_child();
        if calls.is_empty() {
            return;
        }
        let most = usize::try_from(self.limits.children_at_once).unwrap_or(usize::MAX).max(1);
        // Counted once and kept up to date: a batch of a thousand must not be searched for each child.
        let (mut waiting, mut running) = (calls.len(), slots.children().count());
        let limits = self.limits.clone();
        let mut purse = Purse::new(&limits, &self.totals, slots.children().map(|(.., child)| &child.limits));
        for call in calls {
            if running >= most {
                return;
            }
            match self.may_start(now, slots, call, (&purse, waiting)) {
                Ok(child) => {
                    purse.hold(&child.limits);
                    running += 1;
                    waiting -= 1;
                    self.start_child(now, slots, call, child, effects);
                }
                // What a sibling gives back may be enough.
                Err(Refused::Limit(LimitKind::Tokens | LimitKind::Cost | LimitKind::Children))
                    if running > 0 => {}
                Err(refused) => {
                    let failure = refused.failure(&self.limits);
                    self.answer_delegation(slots, call, failure.into(), effects);
                    self.join_children(slots, effects);
                    waiting = slots.waiting_for_a_child().len();
                }
            }
        }
    }

    /// What a child may use, if it may start, while so many wait for a part of the purse.
    fn may_start(
        &self,
        now: Timestamp,
        slots: &Slots,
        call: CallKey,
        (purse, waiting): (&Purse<'_>, usize),
    ) -> Result<Child, Refused> {
        let Some((slot, delegated)) = slots.delegation(call) else { return Err(Refused::Unlinked) };
        let asked = self.spec.links.get(&slot.call.name).ok_or(Refused::Unlinked)?;
        let link = self.spec.links.get(&delegated.agent).ok_or(Refused::Unlinked)?;
        let goal = goal_of(&slot.call.arguments);
        if let Some(chain) = self.kin.circle(&link.agent, &goal) {
            return Err(Refused::Circle { agent: Arc::clone(&link.agent), chain });
        }
        let shares = match asked.kind {
            LinkKind::Handoff if !slots.is_alone() => {
                return Err(Refused::NotAlone { agent: Arc::clone(&asked.agent) });
            }
            LinkKind::Handoff => 1,
            LinkKind::Delegate => u32::try_from(waiting).unwrap_or(u32::MAX).saturating_add(1),
        };
        let ask = Ask { own: &link.limits, allowance: &link.allowance, shares };
        let limits = purse.grant(&ask, now, self.deadline()).map_err(Refused::Limit)?;
        let run = child_run(self.run, &call.to_string(), delegated.attempt + 1);
        Ok(Child { run, deadline: now + limits.wall_clock, limits })
    }

    fn start_child(
        &self,
        now: Timestamp,
        slots: &mut Slots,
        call: CallKey,
        child: Child,
        effects: &mut Vec<RunEffect>,
    ) {
        slots.change(call, |delegated| {
            delegated.attempt += 1;
            delegated.stage = ChildStage::Running(child);
        });
        self.attach(now, slots, call, effects);
    }

    /// Starts a child, or finds it again. One that was told to stop is told again: whoever drives it then may
    /// not have heard.
    pub(super) fn attach(&self, now: Timestamp, slots: &Slots, call: CallKey, effects: &mut Vec<RunEffect>) {
        let Some((slot, delegated)) = slots.delegation(call) else { return };
        let Some(child) = delegated.child() else { return };
        let link = |agent| self.spec.links.get(agent);
        let takes_over = link(&slot.call.name).is_some_and(|link| link.kind == LinkKind::Handoff);
        let hears = link(&delegated.agent).map_or(Hears::Input, |link| link.hears);
        let history = (takes_over || hears == Hears::Conversation).then(|| Arc::clone(&self.history));
        let (agent, attempt, run) = (Arc::clone(&delegated.agent), delegated.attempt, child.run);
        let told = Progress::ChildStarted { call, agent: Arc::clone(&agent), run, attempt };
        effects.push(RunEffect::Report(told));
        let limits = child.limits_at(now);
        let (goal, lineage) = (goal_of(&slot.call.arguments), self.kin.of_child());
        let delegation = Delegation { call, attempt, run, agent, goal, history, limits, lineage };
        effects.push(RunEffect::Delegate(delegation));
        if matches!(delegated.stage, ChildStage::Stopping(_)) {
            effects.push(self.cancel_child(call, child));
        }
        effects.push(RunEffect::StartTimer { timer: RunTimer::Child(call), at: child.awaited_until(now) });
    }

    fn cancel_child(&self, call: CallKey, child: &Child) -> RunEffect {
        RunEffect::CancelChild { call, run: child.run, by: format!("its parent, run {}", self.run).into() }
    }

    /// A child ended while this run goes on.
    fn child_ended(
        &mut self,
        now: Timestamp,
        mut slots: Slots,
        call: CallKey,
        attempt: u32,
        outcome: &Outcome,
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        let Some(delegated) = self.charge_child(&slots, call, attempt, outcome, effects) else {
            return Phase::Calling(slots);
        };
        let end = End::new(&delegated.agent, outcome);
        if self.try_again(&mut slots, call, &delegated, &end) {
            return self.go_on(now, slots, effects);
        }
        if self.takes_over(&slots, call) {
            return self.handed_over(now, slots, call, outcome, effects);
        }
        // One that was no longer needed ends nothing but itself.
        let escalates = matches!(delegated.stage, ChildStage::Running(_));
        self.take_child_end(&mut slots, (call, escalates), &end, outcome, effects);
        self.join_children(&mut slots, effects);
        self.go_on(now, slots, effects)
    }

    /// A child of a run that winds down ended.
    fn child_settled(
        &mut self,
        now: Timestamp,
        mut slots: Slots,
        (reason, explanation): (StopReason, Option<Arc<str>>),
        (call, attempt, outcome): (CallKey, u32, &Outcome),
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        if let Some(delegated) = self.charge_child(&slots, call, attempt, outcome, effects) {
            let end = End::new(&delegated.agent, outcome);
            self.take_child_end(&mut slots, (call, true), &end, outcome, effects);
        }
        self.settled(now, slots, reason, explanation, effects)
    }

    /// Takes over what a child used. None for a child that is not under way: it is late or double.
    fn charge_child(
        &mut self,
        slots: &Slots,
        call: CallKey,
        attempt: u32,
        outcome: &Outcome,
        effects: &mut Vec<RunEffect>,
    ) -> Option<Delegated> {
        let (_, delegated) = slots.delegation(call)?;
        delegated.child().filter(|_| delegated.attempt == attempt)?;
        self.totals += outcome.totals;
        self.totals.children += 1;
        let (agent, outcome) = (Arc::clone(&delegated.agent), outcome.clone());
        effects.push(RunEffect::Report(Progress::ChildEnded { call, agent, outcome }));
        Some(delegated.clone())
    }

    /// Lets a fresh run or another agent have a try, by the policy of the link.
    fn try_again(&self, slots: &mut Slots, call: CallKey, delegated: &Delegated, end: &End<'_>) -> bool {
        let Some(link) = self.spec.links.get(&delegated.agent) else { return false };
        if !matches!(delegated.stage, ChildStage::Running(_)) {
            return false;
        }
        if delegated.retries > 0 && end.fresh_run_helps() {
            slots.change(call, |delegated| {
                delegated.retries -= 1;
                delegated.stage = ChildStage::Waiting;
            });
            return true;
        }
        let next = link.policy.fallback.as_deref().and_then(|agent| self.spec.links.get(agent));
        let Some(next) = next.filter(|_| end.other_agent_helps()) else { return false };
        slots.change(call, |delegated| {
            delegated.agent = Arc::clone(&next.agent);
            delegated.retries = next.policy.retries;
            delegated.stage = ChildStage::Waiting;
        });
        true
    }

    fn take_child_end(
        &mut self,
        slots: &mut Slots,
        (call, escalates): (CallKey, bool),
        end: &End<'_>,
        outcome: &Outcome,
        effects: &mut Vec<RunEffect>,
    ) {
        let Some((_, Delegated { agent, .. })) = slots.delegation(call) else { return };
        let (agent, redactor) = (Arc::clone(agent), self.spec.redactor.clone());
        let link = self.spec.links.get(&agent);
        if let Some(answer) = end.answer() {
            let output = said(&agent, &redactor.text(answer), link.is_some_and(|link| link.shaped));
            return self.answer_delegation(slots, call, Came::Answer(output), effects);
        }
        let failure = redactor.failure(end.failure());
        let escalates = escalates && link.is_some_and(|link| link.policy.on_failure == OnFailure::Escalate);
        let terminal = (escalates && matches!(end.class(), Class::Terminal(_))).then(|| Terminal {
            reason: StopReason::ChildFailed {
                agent: Arc::clone(&agent),
                run: outcome.run,
                reason: Box::new(outcome.reason.clone()),
            },
            explanation: Arc::clone(&failure.message),
        });
        let so_far = end.so_far().map(|text| redactor.text(text));
        let came = Came::Failure { failure, so_far: so_far.as_deref(), terminal };
        self.answer_delegation(slots, call, came, effects);
    }

    /// Gives a delegation its one observation.
    pub(super) fn answer_delegation(
        &mut self,
        slots: &mut Slots,
        call: CallKey,
        came: Came<'_>,
        effects: &mut Vec<RunEffect>,
    ) {
        let Some((slot, delegated)) = slots.delegation(call) else { return };
        let Some(spec) = self.spec.toolbox.get(&slot.call.name).cloned() else { return };
        let attempts = delegated.attempt;
        let (call_id, tool) = (Arc::clone(&slot.call.id), Arc::clone(&slot.call.name));
        let (observation, failure, terminal) = match came {
            Came::Answer(output) => {
                self.guard.succeeded(&slot.fingerprint, &output, spec.polling);
                (self.observe(call, &output, &spec), None, None)
            }
            Came::Failure { failure, so_far, terminal } => {
                self.guard.failed(&slot.fingerprint, failure.code);
                self.held.child_failed(call, &slot.fingerprint, &failure);
                self.totals.failed_calls += 1;
                let observation = match so_far {
                    Some(text) => {
                        observation::failure_so_far(&failure, attempts, text, spec.output_bytes_max)
                    }
                    None => observation::failure(&failure, attempts, Effect::Once),
                };
                (observation, Some(failure), terminal)
            }
        };
        slots.tell(failure.is_none());
        let stopped_by = failure.is_some().then_some(StoppedBy::Permanent);
        let (code, message) = failure.map(|failure| (failure.code, failure.message)).unzip();
        let waited = Duration::ZERO;
        effects.push(RunEffect::Report(Progress::CallEnded {
            call,
            call_id,
            tool,
            code,
            message,
            attempts,
            waited,
            stopped_by,
        }));
        slots.answer(call, observation, terminal);
    }

    /// Cancels the children of a turn that are no longer needed.
    fn join_children(&mut self, slots: &mut Slots, effects: &mut Vec<RunEffect>) {
        let tally = slots.tally();
        let why = match self.spec.links.join.settle(tally) {
            Joined::Open => return,
            Joined::Met => "enough others have answered",
            Joined::Missed => "too many others have failed",
        };
        self.stop_delegations(slots, |agent| format!("`{agent}` is no longer needed: {why}."), effects);
    }

    /// Stops the children of a run that ends. Answers how long to wait for them.
    pub(super) fn stop_children(&mut self, slots: &mut Slots, effects: &mut Vec<RunEffect>) -> Duration {
        let why = |agent: &str| format!("`{agent}` had not started when the run was stopped.");
        self.stop_delegations(slots, why, effects);
        patience(slots)
    }

    fn stop_delegations(
        &mut self,
        slots: &mut Slots,
        why: impl Fn(&str) -> String,
        effects: &mut Vec<RunEffect>,
    ) {
        let open: Vec<(CallKey, Delegated)> =
            slots.delegated().map(|(call, _, delegated)| (call, delegated.clone())).collect();
        for (call, Delegated { agent, stage, .. }) in open {
            match stage {
                ChildStage::Waiting => {
                    let failure = Failure::cancelled(why(&agent));
                    self.answer_delegation(slots, call, failure.into(), effects);
                }
                ChildStage::Running(child) => {
                    effects.push(self.cancel_child(call, &child));
                    slots.change(call, |delegated| delegated.stage = ChildStage::Stopping(child));
                }
                ChildStage::Stopping(_) => {}
            }
        }
    }

    /// A child did not end by its deadline, and not by its own limit either.
    fn child_overdue(
        &mut self,
        now: Timestamp,
        mut slots: Slots,
        call: CallKey,
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        let Some((
            _,
            Delegated { agent, stage: ChildStage::Running(child) | ChildStage::Stopping(child), .. },
        )) = slots.delegation(call)
        else {
            return Phase::Calling(slots);
        };
        if now < child.overdue() {
            // The timer was that of an earlier child of this call.
            return Phase::Calling(slots);
        }
        effects.push(self.cancel_child(call, child));
        let failure = Failure::timeout(format!(
            "`{agent}` (run {}) did not end in its time and was told to stop. What it did is not known.",
            child.run
        ))
        .hint("Find out what was done before you have it done again, or go on without it.")
        .effect(EffectState::Unknown);
        self.totals += child.forfeit();
        self.answer_delegation(&mut slots, call, failure.into(), effects);
        self.join_children(&mut slots, effects);
        self.go_on(now, slots, effects)
    }

    /// Tells the children of a run that ends at once to stop, without waiting for them.
    pub(super) fn leave_children(&mut self, slots: &Slots, effects: &mut Vec<RunEffect>) {
        effects.extend(slots.children().map(|(call, _, child)| self.cancel_child(call, child)));
        self.forfeit_children(slots);
    }

    /// Charges the children that a run that ends waits for no longer: what they use until they hear of it
    /// is a part of what they hold.
    pub(super) fn forfeit_children(&mut self, slots: &Slots) {
        for (.., child) in slots.children() {
            self.totals += child.forfeit();
        }
    }

    /// After this run's process has ended, its children are found again.
    pub(super) fn attach_all(&self, now: Timestamp, slots: &Slots, effects: &mut Vec<RunEffect>) {
        for (call, ..) in slots.children() {
            self.attach(now, slots, call, effects);
        }
    }

    /// After this run's process has ended, a run that winds down waits for its children once more.
    pub(super) fn wait_again(&self, now: Timestamp, slots: &Slots, effects: &mut Vec<RunEffect>) {
        self.attach_all(now, slots, effects);
        if slots.children().next().is_some() {
            effects.push(RunEffect::StartTimer { timer: RunTimer::Settle, at: now + patience(slots) });
        }
    }
}

/// How long the children of a run that ends may take: each level of runs has its own calls to settle.
fn patience(slots: &Slots) -> Duration {
    slots.children().map(|(.., child)| child.settling()).max().unwrap_or_default()
}

/// Why a child may not start.
enum Refused {
    Limit(LimitKind),
    Circle { agent: Arc<str>, chain: String },
    NotAlone { agent: Arc<str> },
    Unlinked,
}

impl Refused {
    fn failure(self, limits: &RunLimits) -> Failure {
        match self {
            Self::Limit(limit) => Failure::cancelled(format!(
                "No other agent was asked: it would go beyond this run's limit of {}.",
                nudge::amount(limit, limits)
            ))
            .hint("Do it yourself, or give the best answer you can from what you know."),
            Self::Circle { agent, chain } => Failure::conflict(format!(
                "`{agent}` was not asked: it is already at work on this goal and waits for you ({chain})."
            ))
            .hint("Do this part yourself, ask for something smaller, or say what you could not do."),
            Self::NotAlone { agent } => Failure::conflict(format!(
                "The conversation was not handed over to `{agent}`: there were other calls in the same reply, \
                 and nobody would read their answers."
            ))
            .hint("Read the answers first. Then hand over with a reply that holds this call alone."),
            Self::Unlinked => Failure::tool_down("This agent can no longer be asked here.")
                .hint("Go on without it."),
        }
    }
}
