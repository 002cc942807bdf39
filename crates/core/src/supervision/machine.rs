//! Decides for all children of one supervisor: who starts, who stops, in which order, and when it ends.
//!
//! ```text
//!  Due ──start──► Live(Starting) ──started──► Live(Up) ──ends by itself──► Due | Waiting | Down | gone
//!   ▲                  │  doomed                 │  doomed
//!   └── Waiting ◄──────┴──────── Live(Stopping) ◄┘ ──exited──► Due | Down | gone, as its fate says
//! ```
//!
//! Nothing is started in the place of a child whose exit has not been confirmed.

use std::collections::BTreeMap;
use std::sync::Arc;

use dauntless_contract::Timestamp;

use super::restarts::{Excess, Pace, Schedule, Window};
use super::{
    AutoShutdown, ChildInfo, ChildKey, ChildKind, ChildRules, ChildState, Counts, End, ExitReason, Failed,
    RequestError, Restart, SpecError, Strategy, SupervisorEffect, SupervisorEvent, SupervisorRules, Ticket,
};

/// The children of one supervisor.
///
/// An event about an earlier incarnation, a cancelled wait or an unknown child changes nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct SupervisorMachine {
    pub(super) rules: SupervisorRules,
    pub(super) children: BTreeMap<ChildKey, Child>,
    ids: BTreeMap<Arc<str>, ChildKey>,
    window: Window<(Arc<str>, Arc<str>)>,
    schedule: Schedule,
    pub(super) life: Life,
    timers: u64,
}

/// Where the supervisor itself stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Life {
    /// The children given at the beginning have not all run yet.
    Beginning,
    Running,
    Ending(End),
    Ended,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Child {
    pub(super) rules: ChildRules,
    pub(super) phase: Phase,
    pub(super) starts: u64,
    pace: Pace,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Phase {
    Down,
    /// To be started when its turn comes.
    Due(Origin),
    /// To be restarted when the timer fires.
    Waiting {
        timer: u64,
        at: Timestamp,
    },
    Live {
        stage: Stage,
        origin: Origin,
        fate: Option<Fate>,
    },
}

/// Who is concerned when a start fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Origin {
    /// The whole supervisor, which has not started then.
    Beginning,
    /// Who asked for a new child.
    Added(Ticket),
    /// Who asked for a child that was down.
    Revived(Ticket),
    /// Nobody: it counts as a failure of the child.
    Restart,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Starting,
    Up,
    Stopping,
}

/// What becomes of a child that has to stop.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fate {
    Restart,
    Stay(Vec<Ticket>),
    Vanish(Vec<Ticket>),
}

type Effects = Vec<SupervisorEffect>;

impl SupervisorMachine {
    /// A supervisor with these children, in the order of their starts. `seed` is for jitter.
    ///
    /// # Errors
    /// [`SpecError`], when rules contradict each other.
    pub fn new(
        rules: SupervisorRules,
        children: impl IntoIterator<Item = (ChildKey, ChildRules)>,
        seed: u64,
    ) -> Result<Self, SpecError> {
        rules.check()?;
        let mut machine = Self {
            window: Window::new(&rules.restarts),
            schedule: Schedule::new(&rules.restarts, seed)?,
            rules,
            children: BTreeMap::new(),
            ids: BTreeMap::new(),
            life: Life::Beginning,
            timers: 0,
        };
        for (key, child) in children {
            machine.rules.check_child(&child)?;
            if machine.ids.contains_key(&child.id) {
                return Err(SpecError::DuplicateId { id: child.id });
            }
            machine.insert(key, child, Origin::Beginning);
        }
        Ok(machine)
    }

    /// Takes one event in, and says what is to be done about it.
    #[must_use = "an effect that is not carried out stalls the supervisor"]
    pub fn on(&mut self, now: Timestamp, event: SupervisorEvent) -> Effects {
        let mut effects = Effects::new();
        let touched = match event {
            SupervisorEvent::Begun => None,
            SupervisorEvent::Started { child, incarnation } => {
                self.started(child, incarnation, &mut effects);
                Some(child)
            }
            SupervisorEvent::Exited { child, incarnation, reason } => {
                self.exited(now, child, incarnation, &reason, &mut effects);
                Some(child)
            }
            SupervisorEvent::TimerFired { child, timer } => {
                self.timer_fired(child, timer);
                Some(child)
            }
            SupervisorEvent::Healthy { child } => {
                if let Some(child) = self.children.get_mut(&child) {
                    child.pace.on_healthy(now);
                }
                return effects;
            }
            SupervisorEvent::Requested { ticket, request } => self.requested(ticket, request, &mut effects),
            SupervisorEvent::ShutdownRequested => {
                self.end(End::Requested, &mut effects);
                None
            }
        };
        self.settle(touched, &mut effects);
        effects
    }

    /// The child of a name.
    pub fn key(&self, id: &str) -> Option<ChildKey> {
        self.ids.get(id).copied()
    }

    /// Whether the supervisor has begun to end; it does not start anything then.
    pub const fn is_ending(&self) -> bool {
        matches!(self.life, Life::Ending(_) | Life::Ended)
    }

    /// Every child, in the order of starts.
    pub fn children(&self) -> impl Iterator<Item = ChildInfo> {
        self.children.iter().map(|(key, child)| child.info(*key))
    }

    /// One child.
    pub fn child(&self, key: ChildKey) -> Option<ChildInfo> {
        self.children.get(&key).map(|child| child.info(key))
    }

    /// How many children there are.
    pub fn count(&self) -> Counts {
        let mut counts = Counts::default();
        for child in self.children.values() {
            counts.specs += 1;
            match child.rules.kind {
                ChildKind::Worker => counts.workers += 1,
                ChildKind::Supervisor => counts.supervisors += 1,
            }
            match &child.phase {
                Phase::Live { stage: Stage::Up | Stage::Stopping, .. } => counts.active += 1,
                Phase::Live { stage: Stage::Starting, .. }
                | Phase::Down
                | Phase::Due(_)
                | Phase::Waiting { .. } => {}
            }
        }
        counts
    }

    pub(super) fn insert(&mut self, key: ChildKey, rules: ChildRules, origin: Origin) {
        self.ids.insert(Arc::clone(&rules.id), key);
        let child = Child { rules, phase: Phase::Due(origin), starts: 0, pace: Pace::default() };
        self.children.insert(key, child);
    }

    pub(super) fn forget(&mut self, key: ChildKey, effects: &mut Effects) {
        if let Some(child) = self.children.remove(&key) {
            self.ids.remove(&child.rules.id);
            effects.push(SupervisorEffect::ForgetChild { child: key });
        }
    }

    fn started(&mut self, key: ChildKey, incarnation: u64, effects: &mut Effects) {
        let Some(child) = self.children.get_mut(&key).filter(|child| child.starts == incarnation) else {
            return;
        };
        let Phase::Live { stage, origin, .. } = &mut child.phase else { return };
        if *stage != Stage::Starting {
            return;
        }
        *stage = Stage::Up;
        if let Origin::Added(ticket) | Origin::Revived(ticket) = std::mem::replace(origin, Origin::Restart) {
            effects.push(SupervisorEffect::Reply { ticket, reply: Ok(key) });
        }
    }

    fn timer_fired(&mut self, key: ChildKey, timer: u64) {
        if let Some(child) = self.children.get_mut(&key)
            && matches!(child.phase, Phase::Waiting { timer: current, .. } if current == timer)
        {
            child.phase = Phase::Due(Origin::Restart);
        }
    }

    fn exited(
        &mut self,
        now: Timestamp,
        key: ChildKey,
        incarnation: u64,
        reason: &ExitReason,
        effects: &mut Effects,
    ) {
        let Some(child) = self.children.get_mut(&key).filter(|child| child.starts == incarnation) else {
            return;
        };
        let Phase::Live { stage, origin, fate } = &mut child.phase else { return };
        let (stage, origin, fate) = (*stage, *origin, fate.take());
        child.phase = Phase::Down;
        match fate {
            Some(Fate::Restart) => child.phase = Phase::Due(origin),
            Some(Fate::Stay(tickets)) => self.terminated(key, origin, tickets, effects),
            Some(Fate::Vanish(tickets)) => {
                self.terminated(key, origin, tickets, effects);
                self.forget(key, effects);
            }
            None if stage == Stage::Starting => self.start_failed(now, key, origin, reason, effects),
            None => self.ended_by_itself(now, key, reason, effects),
        }
    }

    /// Tells whoever asked for the end of a child, and whoever still waited for its start.
    pub(super) fn terminated(
        &self,
        key: ChildKey,
        origin: Origin,
        tickets: Vec<Ticket>,
        effects: &mut Effects,
    ) {
        if let Origin::Added(ticket) | Origin::Revived(ticket) = origin {
            let error = match (&self.life, self.children.get(&key)) {
                (Life::Beginning | Life::Running, Some(child)) => {
                    RequestError::Terminated(Arc::clone(&child.rules.id))
                }
                _ => RequestError::ShuttingDown,
            };
            effects.push(SupervisorEffect::Reply { ticket, reply: Err(error) });
        }
        let done = tickets.into_iter().map(|ticket| SupervisorEffect::Reply { ticket, reply: Ok(key) });
        effects.extend(done);
    }

    fn start_failed(
        &mut self,
        now: Timestamp,
        key: ChildKey,
        origin: Origin,
        reason: &ExitReason,
        effects: &mut Effects,
    ) {
        let Some(child) = self.children.get(&key) else { return };
        let (id, cause) = (Arc::clone(&child.rules.id), reason.cause());
        match origin {
            Origin::Beginning => {
                let failed = Failed { at: now, child: id, cause };
                self.end(End::StartFailed { failed }, effects);
            }
            Origin::Added(ticket) | Origin::Revived(ticket) => {
                let reply = Err(RequestError::StartFailed { id, cause });
                effects.push(SupervisorEffect::Reply { ticket, reply });
                if matches!(origin, Origin::Added(_)) {
                    self.forget(key, effects);
                }
            }
            Origin::Restart => self.failed(now, key, reason, effects),
        }
    }

    fn ended_by_itself(&mut self, now: Timestamp, key: ChildKey, reason: &ExitReason, effects: &mut Effects) {
        let Some(child) = self.children.get(&key) else { return };
        match child.rules.restart {
            Restart::Permanent => return self.failed(now, key, reason, effects),
            Restart::Transient if reason.is_abnormal() => return self.failed(now, key, reason, effects),
            Restart::Transient | Restart::Temporary => {}
        }
        let (id, significant) = (Arc::clone(&child.rules.id), child.rules.significant);
        if child.rules.restart == Restart::Temporary || self.rules.strategy == Strategy::Dynamic {
            self.forget(key, effects);
        }
        let ends = significant
            && match self.rules.auto_shutdown {
                AutoShutdown::Never => false,
                AutoShutdown::AnySignificant => true,
                AutoShutdown::AllSignificant => !self
                    .children
                    .values()
                    .any(|child| child.rules.significant && !matches!(child.phase, Phase::Down)),
            };
        if ends {
            self.end(End::Significant { child: id }, effects);
        }
    }

    /// Counts a failure of a child that should run, and restarts it or gives up.
    fn failed(&mut self, now: Timestamp, key: ChildKey, reason: &ExitReason, effects: &mut Effects) {
        let Some(child) = self.children.get_mut(&key) else { return };
        let (id, cause) = (Arc::clone(&child.rules.id), reason.cause());
        if matches!(reason, ExitReason::Terminal { .. }) {
            let failed = Failed { at: now, child: id, cause };
            return self.end(End::Terminal { failed }, effects);
        }
        if let Err(Excess { count, latest }) = self.window.count(now, (Arc::clone(&id), cause)) {
            let failed = |(at, (child, cause))| Failed { at, child, cause };
            let history = latest.into_iter().map(failed).collect();
            return self.end(End::TooManyFailures { child: id, count, history }, effects);
        }
        let wait = child.pace.next_wait(now, &mut self.schedule);
        child.phase = if wait.is_zero() {
            Phase::Due(Origin::Restart)
        } else {
            self.timers += 1;
            let (timer, at) = (self.timers, now + wait);
            effects.push(SupervisorEffect::StartTimer { child: key, timer, at });
            Phase::Waiting { timer, at }
        };
        match self.rules.strategy {
            Strategy::OneForOne | Strategy::Dynamic => {}
            Strategy::RestForOne => self.restart_siblings(key, Some(key), effects),
            Strategy::OneForAll => self.restart_siblings(key, None, effects),
        }
    }

    /// The siblings that go with a failed child: all, or those started after it.
    fn restart_siblings(&mut self, failed: ChildKey, after: Option<ChildKey>, effects: &mut Effects) {
        let mut gone = Vec::new();
        for (key, child) in &mut self.children {
            if *key == failed || after.is_some_and(|after| *key < after) {
                continue;
            }
            let temporary = child.rules.restart == Restart::Temporary;
            match &mut child.phase {
                Phase::Live { fate: Some(_), .. } | Phase::Due(_) | Phase::Waiting { .. } => {}
                Phase::Live { fate, .. } if temporary => *fate = Some(Fate::Vanish(Vec::new())),
                Phase::Live { fate, .. } => *fate = Some(Fate::Restart),
                Phase::Down if temporary => gone.push(*key),
                Phase::Down => child.phase = Phase::Due(Origin::Restart),
            }
        }
        for key in gone {
            self.forget(key, effects);
        }
    }

    /// Begins to end, unless it has begun already: the first reason is the one that is told.
    fn end(&mut self, end: End, effects: &mut Effects) {
        if self.is_ending() {
            return;
        }
        self.life = Life::Ending(end);
        let mut gone = Vec::new();
        for (key, child) in &mut self.children {
            match &mut child.phase {
                Phase::Live { fate, .. } => {
                    let tickets = match fate.take() {
                        Some(Fate::Stay(tickets) | Fate::Vanish(tickets)) => tickets,
                        Some(Fate::Restart) | None => Vec::new(),
                    };
                    *fate = Some(Fate::Vanish(tickets));
                }
                Phase::Due(origin) => gone.push((*key, *origin)),
                Phase::Down | Phase::Waiting { .. } => gone.push((*key, Origin::Restart)),
            }
        }
        for (key, origin) in gone {
            self.terminated(key, origin, Vec::new(), effects);
            self.forget(key, effects);
        }
        if self.rules.strategy == Strategy::Dynamic {
            self.stop_all(effects);
        }
    }
}

impl Child {
    fn info(&self, key: ChildKey) -> ChildInfo {
        ChildInfo {
            key,
            id: Arc::clone(&self.rules.id),
            state: self.phase.state(),
            starts: self.starts,
            restart: self.rules.restart,
            kind: self.rules.kind,
        }
    }
}

impl Phase {
    const fn state(&self) -> ChildState {
        match self {
            Self::Down => ChildState::Down,
            Self::Due(_) => ChildState::Restarting { at: None },
            Self::Waiting { at, .. } => ChildState::Restarting { at: Some(*at) },
            Self::Live { stage: Stage::Starting, .. } => ChildState::Starting,
            Self::Live { stage: Stage::Up, .. } => ChildState::Running,
            Self::Live { stage: Stage::Stopping, .. } => ChildState::Stopping,
        }
    }
}
