//! One run of a plan, as a fold over the same events as a run of an agent.
//!
//! [`PlanMachine::on`] answers with the same effects too, so one shell drives both. It starts every
//! step once, under an id that follows from its place in the plan; it calls no model and no tool.
//!
//! ```text
//! Created ─► Working ─► (Settling ─►) Ended
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    LimitKind, Outcome, Progress, Recorded, RunEvent, RunId, RunLimits, RunTimer, RunTotals, StopReason,
    Timestamp,
};
use serde::{Deserialize, Serialize};

use super::node::{Moved, Node, Walk, Wanted};
use super::passed::{Ended, Missed, Origin, Passed};
use super::steps::{Member, Stage};
use super::{Face, Plan};
use crate::redact::Redactor;
use crate::run::{RecoverError, RunEffect};
use crate::tree::{Child, End, Kin};

/// What every run of one plan shares.
#[derive(Clone, Debug)]
pub struct PlanSpec {
    /// Its name; stands where an agent's would.
    pub name: Arc<str>,
    /// The plan; its [`check`](Plan::check) found nothing.
    pub plan: Plan,
    /// The agents that it names.
    pub agents: BTreeMap<Arc<str>, Face>,
    /// Masks secrets in what steps say.
    pub redactor: Redactor,
}

/// How a plan is going to end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Ending {
    reason: StopReason,
    explanation: Option<Arc<str>>,
    text: Option<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Phase {
    Created,
    Working(Node),
    Settling(Ending),
    Ended(Outcome),
}

/// The state of one run of a plan.
#[derive(Clone, Debug)]
pub struct PlanMachine {
    pub(super) run: RunId,
    pub(super) spec: Arc<PlanSpec>,
    pub(super) limits: RunLimits,
    started: Timestamp,
    /// The time of the last event.
    at: Timestamp,
    goal: Arc<str>,
    pub(super) kin: Kin,
    pub(super) totals: RunTotals,
    /// The number of the last step that was wanted.
    last: u32,
    /// The steps that have not ended, by their numbers.
    pub(super) members: BTreeMap<u32, Member>,
    /// The last answer of a step, for a plan that is stopped.
    pub(super) so_far: Option<Arc<str>>,
    phase: Phase,
}

/// Two machines are equal when they would decide equally: same facts seen, same plan.
impl PartialEq for PlanMachine {
    fn eq(&self, other: &Self) -> bool {
        self.run == other.run
            && self.spec.plan == other.spec.plan
            && self.limits == other.limits
            && self.started == other.started
            && self.goal == other.goal
            && self.kin == other.kin
            && self.totals == other.totals
            && self.last == other.last
            && self.members == other.members
            && self.so_far == other.so_far
            && self.phase == other.phase
    }
}

impl PlanMachine {
    /// A run that has not started; its first event is [`RunEvent::RunStarted`].
    pub fn new(run: RunId, spec: Arc<PlanSpec>) -> Self {
        let kin = Kin::new(run, &spec.name, "", None);
        Self {
            run,
            spec,
            limits: RunLimits::default(),
            started: Timestamp::ZERO,
            at: Timestamp::ZERO,
            goal: "".into(),
            kin,
            totals: RunTotals::default(),
            last: 0,
            members: BTreeMap::new(),
            so_far: None,
            phase: Phase::Created,
        }
    }

    /// Folds a run from its events. What is owed to it, [`RunEvent::Interrupted`] answers, as for a
    /// run of an agent.
    ///
    /// # Errors
    /// When there is no run in the events, or they are those of another plan.
    pub fn recover(
        run: RunId,
        spec: Arc<PlanSpec>,
        events: impl IntoIterator<Item = Recorded>,
    ) -> Result<Self, RecoverError> {
        let mut machine = Self::new(run, spec);
        for (seq, Recorded { at, event }) in (1..).zip(events) {
            if seq == 1 && !matches!(event, RunEvent::RunStarted { .. }) {
                return Err(RecoverError::NoStart(run));
            }
            if !machine.waits_for(&event) {
                return Err(RecoverError::Diverged { run, seq });
            }
            // What it led to was carried out, or is owed.
            drop(machine.on(at, event));
        }
        match machine.phase {
            Phase::Created => Err(RecoverError::NoStart(run)),
            Phase::Working(_) | Phase::Settling(_) | Phase::Ended(_) => Ok(machine),
        }
    }

    /// Whether an event is one that such a run can have. The end of a child that was given up is late.
    fn waits_for(&self, event: &RunEvent) -> bool {
        match event {
            RunEvent::RunStarted { .. } => self.phase == Phase::Created,
            RunEvent::ChildEnded { call, .. } => call.turn <= self.last && call.index == 0,
            RunEvent::TimerFired { .. }
            | RunEvent::CancelRequested { .. }
            | RunEvent::ConfigChosen { .. }
            | RunEvent::LetterSetAside { .. }
            | RunEvent::Suspended { .. }
            | RunEvent::Interrupted {} => true,
            _ => false,
        }
    }

    /// Takes a fact. One that does not belong to the present state is stale and changes nothing.
    #[must_use = "effects that are not carried out stall the run"]
    pub fn on(&mut self, now: Timestamp, event: RunEvent) -> Vec<RunEffect> {
        let mut effects = Vec::new();
        self.at = now;
        let phase = std::mem::replace(&mut self.phase, Phase::Created);
        self.phase = match (phase, event) {
            (Phase::Created, RunEvent::RunStarted { goal, limits, lineage, .. }) => {
                self.kin = Kin::new(self.run, &self.spec.name, &goal, lineage);
                (self.limits, self.started, self.goal) = (limits, now, goal);
                self.start(now, &mut effects)
            }
            (
                phase @ (Phase::Working(_) | Phase::Settling(_)),
                RunEvent::ChildEnded { call, outcome, .. },
            ) => match self.charge(call, &outcome, &mut effects) {
                Some((member, awaited)) => {
                    self.child_ended(now, phase, (call.turn, awaited), &member, &outcome, &mut effects)
                }
                None => phase,
            },
            (Phase::Working(node), RunEvent::TimerFired { timer: RunTimer::Child(call) }) => {
                self.child_overdue(now, node, call.turn, &mut effects)
            }
            (Phase::Settling(ending), RunEvent::TimerFired { timer: RunTimer::Settle }) => {
                self.forfeit_members();
                self.end(now, ending, &mut effects)
            }
            (phase, RunEvent::CancelRequested { by }) => {
                self.stop(now, phase, StopReason::Cancelled { by }, &mut effects)
            }
            (phase, RunEvent::TimerFired { timer: RunTimer::WallClock }) => {
                self.stop(now, phase, StopReason::LimitReached(LimitKind::WallClock), &mut effects)
            }
            (phase, RunEvent::Interrupted {}) => self.interrupted(now, phase, &mut effects),
            // A plan asks no model, calls no tool and puts no question.
            (phase @ (Phase::Created | Phase::Working(_) | Phase::Settling(_) | Phase::Ended(_)), _) => phase,
        };
        effects
    }

    /// Ends the run because Dauntless itself cannot go on; `code` names where.
    pub fn fail(&mut self, now: Timestamp, code: &str, explanation: &str) -> Vec<RunEffect> {
        let mut effects = Vec::new();
        if self.outcome().is_none() {
            let reason = StopReason::Internal { code: code.into() };
            let ending = Ending { reason, explanation: Some(explanation.into()), text: self.so_far.clone() };
            for (number, Member { stage, .. }) in &self.members {
                effects.extend(stage.child().map(|child| self.cancel(*number, child)));
            }
            self.forfeit_members();
            self.phase = self.end(now, ending, &mut effects);
        }
        effects
    }

    /// Itself and the runs above it.
    pub const fn kin(&self) -> &Kin {
        &self.kin
    }

    /// The time of the last event.
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// How it ended, once it has.
    pub const fn outcome(&self) -> Option<&Outcome> {
        match &self.phase {
            Phase::Ended(outcome) => Some(outcome),
            Phase::Created | Phase::Working(_) | Phase::Settling(_) => None,
        }
    }

    /// What its steps used so far.
    pub const fn totals(&self) -> &RunTotals {
        &self.totals
    }

    /// The run.
    pub const fn run(&self) -> RunId {
        self.run
    }

    pub(super) fn deadline(&self) -> Timestamp {
        self.started + self.limits.wall_clock
    }

    fn start(&mut self, now: Timestamp, effects: &mut Vec<RunEffect>) -> Phase {
        effects.push(RunEffect::StartTimer { timer: RunTimer::WallClock, at: self.deadline() });
        let input = Passed { text: Arc::clone(&self.goal), origin: Origin::Goal };
        let spec = Arc::clone(&self.spec);
        let moved = self.walk(effects, |walk| walk.start(&spec.plan, "", input));
        self.go_on(now, moved, effects)
    }

    /// Goes through the plan, and takes up which steps it wants and which no longer.
    fn walk(&mut self, effects: &mut Vec<RunEffect>, go: impl FnOnce(&mut Walk<'_>) -> Moved) -> Moved {
        let spec = Arc::clone(&self.spec);
        let mut walk = Walk {
            goal: &self.goal,
            agents: &spec.agents,
            last: &mut self.last,
            wanted: Vec::new(),
            unneeded: Vec::new(),
        };
        let moved = go(&mut walk);
        let Walk { wanted, unneeded, .. } = walk;
        for (number, wanted) in wanted {
            self.members.insert(number, Member { wanted, stage: Stage::Waiting });
        }
        for number in unneeded {
            self.tell_to_stop(number, effects);
        }
        moved
    }

    /// Starts what can be started, until nothing changes any more.
    fn go_on(&mut self, now: Timestamp, moved: Moved, effects: &mut Vec<RunEffect>) -> Phase {
        let mut moved = moved;
        loop {
            let node = match moved {
                Moved::Done(ended) => return self.finish(now, ended, effects),
                Moved::Going(node) => node,
            };
            match self.launch(now, effects) {
                None => return Phase::Working(node),
                Some((number, missed)) => moved = self.feed(node, number, Err(missed), effects),
            }
        }
    }

    fn feed(&mut self, node: Node, number: u32, ended: Ended, effects: &mut Vec<RunEffect>) -> Moved {
        let spec = Arc::clone(&self.spec);
        self.walk(effects, |walk| walk.feed(&spec.plan, "", node, number, ended))
    }

    fn child_ended(
        &mut self,
        now: Timestamp,
        phase: Phase,
        (number, awaited): (u32, bool),
        wanted: &Wanted,
        outcome: &Outcome,
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        match phase {
            Phase::Working(node) => {
                let moved = if awaited {
                    let ended = self.ended(wanted, outcome);
                    self.feed(node, number, ended, effects)
                } else {
                    Moved::Going(node)
                };
                self.go_on(now, moved, effects)
            }
            Phase::Settling(ending) if self.members.is_empty() => self.end(now, ending, effects),
            phase @ (Phase::Settling(_) | Phase::Created | Phase::Ended(_)) => phase,
        }
    }

    /// What the end of a step means to the plan.
    fn ended(&mut self, wanted: &Wanted, outcome: &Outcome) -> Ended {
        let redacted = |text: &str| -> Arc<str> { self.spec.redactor.text(text).into() };
        let end = End::new(&wanted.agent, outcome);
        if let Some(answer) = end.answer() {
            let shaped = self.spec.agents.get(&wanted.agent).is_some_and(|face| face.output.is_some());
            let text = redacted(answer);
            self.so_far = Some(Arc::clone(&text));
            return Ok(Passed { text, origin: Origin::Agent { name: Arc::clone(&wanted.agent), shaped } });
        }
        let text = end.so_far().map(|text| redacted(text)).or_else(|| self.so_far.clone());
        let reason = StopReason::ChildFailed {
            agent: Arc::clone(&wanted.agent),
            run: outcome.run,
            reason: Box::new(outcome.reason.clone()),
        };
        Err(Box::new(Missed { reason, explanation: Some(redacted(&end.failure().message)), text }))
    }

    /// A step did not end by its deadline, and not by its own limit either: it counts as having used
    /// all that it held.
    fn child_overdue(
        &mut self,
        now: Timestamp,
        node: Node,
        number: u32,
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        let Some(Member { wanted, stage }) = self.members.get(&number).cloned() else {
            return Phase::Working(node);
        };
        let (child, awaited) = match stage {
            Stage::Running(child) => (child, true),
            Stage::Stopping(child) => (child, false),
            Stage::Waiting => return Phase::Working(node),
        };
        if now < child.overdue() {
            return Phase::Working(node);
        }
        effects.push(self.cancel(number, &child));
        self.members.remove(&number);
        self.totals += child.forfeit();
        if !awaited {
            return self.go_on(now, Moved::Going(node), effects);
        }
        let why = format!(
            "`{}` (run {}) did not end in its time and was told to stop. What it did is not known.",
            wanted.agent, child.run
        );
        let reason = StopReason::ChildFailed {
            agent: wanted.agent,
            run: child.run,
            reason: Box::new(StopReason::LimitReached(LimitKind::WallClock)),
        };
        let missed = Missed { reason, explanation: Some(why.into()), text: self.so_far.clone() };
        let moved = self.feed(node, number, Err(Box::new(missed)), effects);
        self.go_on(now, moved, effects)
    }

    /// The plan is done, or can go no further.
    fn finish(&mut self, now: Timestamp, ended: Ended, effects: &mut Vec<RunEffect>) -> Phase {
        let ending = match ended {
            Ok(passed) => {
                Ending { reason: StopReason::Completed, explanation: None, text: Some(passed.text) }
            }
            Err(missed) => {
                let Missed { reason, explanation, text } = *missed;
                Ending { reason, explanation, text }
            }
        };
        self.settle(now, ending, effects)
    }

    /// Ends once every step has: those still under way are told to stop.
    fn settle(&mut self, now: Timestamp, ending: Ending, effects: &mut Vec<RunEffect>) -> Phase {
        let open: Vec<u32> = self.members.keys().copied().collect();
        for number in open {
            self.tell_to_stop(number, effects);
        }
        if self.members.is_empty() {
            return self.end(now, ending, effects);
        }
        effects.push(RunEffect::StartTimer { timer: RunTimer::Settle, at: now + self.patience() });
        Phase::Settling(ending)
    }

    fn patience(&self) -> Duration {
        let children = self.members.values().filter_map(|member| member.stage.child());
        children.map(Child::settling).max().unwrap_or_default()
    }

    fn stop(
        &mut self,
        now: Timestamp,
        phase: Phase,
        reason: StopReason,
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        match phase {
            Phase::Created | Phase::Working(_) => {
                let ending = Ending { reason, explanation: None, text: self.so_far.clone() };
                self.settle(now, ending, effects)
            }
            phase @ (Phase::Settling(_) | Phase::Ended(_)) => phase,
        }
    }

    /// Finds again what was under way in a process that came to its end.
    fn interrupted(&mut self, now: Timestamp, phase: Phase, effects: &mut Vec<RunEffect>) -> Phase {
        match phase {
            Phase::Working(_) if now >= self.deadline() => {
                self.attach_all(now, effects);
                self.stop(now, phase, StopReason::LimitReached(LimitKind::WallClock), effects)
            }
            phase @ (Phase::Working(_) | Phase::Settling(_)) => {
                effects.push(match phase {
                    Phase::Settling(_) => {
                        RunEffect::StartTimer { timer: RunTimer::Settle, at: now + self.patience() }
                    }
                    Phase::Working(_) | Phase::Created | Phase::Ended(_) => {
                        RunEffect::StartTimer { timer: RunTimer::WallClock, at: self.deadline() }
                    }
                });
                self.attach_all(now, effects);
                phase
            }
            phase @ (Phase::Created | Phase::Ended(_)) => phase,
        }
    }

    fn end(&self, now: Timestamp, ending: Ending, effects: &mut Vec<RunEffect>) -> Phase {
        let Ending { reason, explanation, text } = ending;
        let outcome = Outcome {
            run: self.run,
            reason,
            text: text.filter(|text| !text.trim().is_empty()),
            explanation,
            totals: self.totals,
            elapsed: now.since(self.started),
        };
        effects.push(RunEffect::Report(Progress::RunEnded { outcome: outcome.clone() }));
        effects.push(RunEffect::End);
        Phase::Ended(outcome)
    }
}
