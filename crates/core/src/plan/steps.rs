//! The steps of a plan that are under way: started within what the plan has left, found again after its
//! process ended, told to stop when nothing waits for them.

use std::sync::Arc;

use dauntless_contract::{CallKey, LimitKind, Outcome, Progress, RunTimer, StopReason, Timestamp};
use serde::{Deserialize, Serialize};

use super::machine::PlanMachine;
use super::node::Wanted;
use super::passed::Missed;
use crate::run::{Awaited, RunEffect};
use crate::tree::{Allowance, Ask, Child, Delegation, Purse, child_run};

/// A step that has not ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Member {
    pub(super) wanted: Wanted,
    pub(super) stage: Stage,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Stage {
    /// It waits for a place or for what another step gives back.
    Waiting,
    Running(Child),
    /// It was told to stop, and nothing waits for what it says.
    Stopping(Child),
}

impl Stage {
    pub(super) const fn child(&self) -> Option<&Child> {
        match self {
            Self::Waiting => None,
            Self::Running(child) | Self::Stopping(child) => Some(child),
        }
    }
}

impl PlanMachine {
    /// What it waits for, in the order of its steps. Nothing once it has ended.
    pub fn waits(&self) -> Vec<Awaited> {
        let wait = |(number, Member { wanted, stage }): (&u32, &Member)| Awaited::Child {
            call: key(*number),
            agent: Arc::clone(&wanted.agent),
            run: stage.child().map(|child| child.run),
        };
        self.members.iter().map(wait).collect()
    }

    pub(super) fn tell_to_stop(&mut self, number: u32, effects: &mut Vec<RunEffect>) {
        let Some(member) = self.members.get_mut(&number) else { return };
        match member.stage.clone() {
            Stage::Waiting => {
                self.members.remove(&number);
            }
            Stage::Running(child) => {
                member.stage = Stage::Stopping(child.clone());
                effects.push(self.cancel(number, &child));
            }
            Stage::Stopping(_) => {}
        }
    }

    pub(super) fn cancel(&self, number: u32, child: &Child) -> RunEffect {
        let by = format!("its parent, run {}", self.run).into();
        RunEffect::CancelChild { call: key(number), run: child.run, by }
    }

    /// Starts the steps that wait, in their order, as far as places and limits go. Answers the first
    /// that can never start.
    pub(super) fn launch(
        &mut self,
        now: Timestamp,
        effects: &mut Vec<RunEffect>,
    ) -> Option<(u32, Box<Missed>)> {
        let numbers = self.members.iter().filter(|(_, member)| member.stage == Stage::Waiting);
        let waiting: Vec<u32> = numbers.map(|(number, _)| *number).collect();
        for (before, number) in waiting.iter().enumerate() {
            let running = self.members.values().filter(|member| member.stage.child().is_some()).count();
            if usize::try_from(self.limits.children_at_once).is_ok_and(|most| running >= most.max(1)) {
                return None;
            }
            let shares = u32::try_from(waiting.len() - before).unwrap_or(u32::MAX).saturating_add(1);
            match self.may_start(now, *number, shares) {
                Ok(child) => {
                    if let Some(member) = self.members.get_mut(number) {
                        member.stage = Stage::Running(child);
                    }
                    self.attach(now, *number, effects);
                }
                // What another step gives back may be enough.
                Err(StopReason::LimitReached(LimitKind::Tokens | LimitKind::Cost | LimitKind::Children))
                    if running > 0 => {}
                Err(reason) => {
                    let Member { wanted, .. } = self.members.remove(number)?;
                    let why = format!("`{}` was not started: {reason}.", wanted.agent);
                    let missed = Missed { reason, explanation: Some(why.into()), text: self.so_far.clone() };
                    return Some((*number, Box::new(missed)));
                }
            }
        }
        None
    }

    /// What a step may use, if it may start.
    fn may_start(&self, now: Timestamp, number: u32, shares: u32) -> Result<Child, StopReason> {
        let unknown = || StopReason::Internal { code: "unknown_agent".into() };
        let Member { wanted, .. } = self.members.get(&number).ok_or_else(unknown)?;
        let face = self.spec.agents.get(&wanted.agent).ok_or_else(unknown)?;
        if let Some(chain) = self.kin.circle(&wanted.agent, &wanted.goal) {
            let tool = Arc::clone(&wanted.agent);
            return Err(StopReason::Stuck { tool, fingerprint: chain.into(), times: 2 });
        }
        let allowance = Allowance::default();
        let ask = Ask { own: &face.limits, allowance: &allowance, shares };
        let running = self.members.values().filter_map(|member| member.stage.child());
        let purse = Purse::new(&self.limits, &self.totals, running.map(|child| &child.limits));
        let limits = purse.grant(&ask, now, self.deadline()).map_err(StopReason::LimitReached)?;
        Ok(Child { run: child_run(self.run, &wanted.place, 1), deadline: now + limits.wall_clock, limits })
    }

    /// Finds the steps again that were under way in a process that came to its end.
    pub(super) fn attach_all(&self, now: Timestamp, effects: &mut Vec<RunEffect>) {
        for number in self.members.keys() {
            self.attach(now, *number, effects);
        }
    }

    /// Starts a step, or finds it again. One that was told to stop is told again: whoever drives it then may
    /// not have heard.
    pub(super) fn attach(&self, now: Timestamp, number: u32, effects: &mut Vec<RunEffect>) {
        let (call, attempt) = (key(number), 1);
        let Some(Member { wanted, stage }) = self.members.get(&number) else { return };
        let Some(child) = stage.child() else { return };
        let (agent, run, goal) = (Arc::clone(&wanted.agent), child.run, Arc::clone(&wanted.goal));
        let told = Progress::ChildStarted { call, agent: Arc::clone(&agent), run, attempt };
        effects.push(RunEffect::Report(told));
        let (limits, lineage) = (child.limits_at(now), self.kin.of_child());
        let delegation = Delegation { call, attempt, run, agent, goal, history: None, limits, lineage };
        effects.push(RunEffect::Delegate(delegation));
        if matches!(stage, Stage::Stopping(_)) {
            effects.push(self.cancel(number, child));
        }
        effects.push(RunEffect::StartTimer { timer: RunTimer::Child(call), at: child.overdue() });
    }

    /// Charges the steps that a plan that ends waits for no longer: what they use until they hear of it is
    /// a part of what they hold.
    pub(super) fn forfeit_members(&mut self) {
        for child in self.members.values().filter_map(|member| member.stage.child()) {
            self.totals += child.forfeit();
        }
    }

    /// Takes over what a step used. None for one that is not under way: it is late or double.
    pub(super) fn charge(
        &mut self,
        call: CallKey,
        outcome: &Outcome,
        effects: &mut Vec<RunEffect>,
    ) -> Option<(Wanted, bool)> {
        let Member { wanted, stage } = self.members.get(&call.turn).filter(|_| call.index == 0)?.clone();
        let awaited = match stage {
            Stage::Waiting => return None,
            Stage::Running(_) => true,
            Stage::Stopping(_) => false,
        };
        self.members.remove(&call.turn);
        self.totals += outcome.totals;
        self.totals.children += 1;
        let agent = Arc::clone(&wanted.agent);
        effects.push(RunEffect::Report(Progress::ChildEnded { call, agent, outcome: outcome.clone() }));
        Some((wanted, awaited))
    }
}

/// The name of a step among the calls of its run.
const fn key(number: u32) -> CallKey {
    CallKey { turn: number, index: 0 }
}
