//! What may be done now: stops before starts, each in its order.
//!
//! The machine says what shall become of each child; this part finds whose turn it is. Children that
//! do not concern each other are never made to wait for each other.

use super::machine::{Life, Origin, Phase, Stage, SupervisorMachine};
use super::{ChildKey, Strategy, SupervisorEffect};

type Effects = Vec<SupervisorEffect>;

impl SupervisorMachine {
    /// Stops and starts whatever may be stopped and started. Only `touched` has changed, if it is given.
    pub(super) fn settle(&mut self, touched: Option<ChildKey>, effects: &mut Effects) {
        let grouped = match self.rules.strategy {
            Strategy::OneForOne | Strategy::Dynamic => false,
            Strategy::OneForAll | Strategy::RestForOne => true,
        };
        match &self.life {
            Life::Running if !grouped => {
                if let Some(key) = touched {
                    self.stop(key, effects);
                    self.start(key, effects);
                }
            }
            Life::Beginning | Life::Running => {
                if grouped {
                    self.stop_next(effects);
                } else {
                    self.stop_all(effects);
                }
                self.start_next(effects);
                if self.life == Life::Beginning && !self.children.values().any(is_of_the_beginning) {
                    self.life = Life::Running;
                    effects.push(SupervisorEffect::Ready);
                    if !grouped {
                        self.each(Self::start, effects);
                    }
                }
            }
            // They were told when the end began, all at once.
            Life::Ending(_) if self.rules.strategy == Strategy::Dynamic => {}
            Life::Ending(_) => self.stop_next(effects),
            Life::Ended => {}
        }
        if self.children.is_empty()
            && let Life::Ending(end) = &self.life
        {
            effects.push(SupervisorEffect::End(end.clone()));
            self.life = Life::Ended;
        }
    }

    /// Stops a child that has to.
    fn stop(&mut self, key: ChildKey, effects: &mut Effects) {
        if let Some(child) = self.children.get_mut(&key)
            && let Phase::Live { stage, fate: Some(_), .. } = &mut child.phase
            && *stage != Stage::Stopping
        {
            *stage = Stage::Stopping;
            let (incarnation, shutdown) = (child.starts, child.rules.shutdown);
            effects.push(SupervisorEffect::StopChild { child: key, incarnation, shutdown });
        }
    }

    pub(super) fn stop_all(&mut self, effects: &mut Effects) {
        self.each(Self::stop, effects);
    }

    fn each(&mut self, step: fn(&mut Self, ChildKey, &mut Effects), effects: &mut Effects) {
        let keys: Vec<ChildKey> = self.children.keys().copied().collect();
        for key in keys {
            step(self, key, effects);
        }
    }

    /// Stops the last started of those that have to, once the one before is gone.
    fn stop_next(&mut self, effects: &mut Effects) {
        let doomed = |phase: &Phase| matches!(phase, Phase::Live { fate: Some(_), .. });
        let next = self.children.iter().rev().find(|(_, child)| doomed(&child.phase)).map(|(key, _)| *key);
        let busy = self
            .children
            .values()
            .any(|child| matches!(child.phase, Phase::Live { stage: Stage::Stopping, .. }));
        if let Some(key) = next.filter(|_| !busy) {
            self.stop(key, effects);
        }
    }

    /// Starts a child that is due.
    fn start(&mut self, key: ChildKey, effects: &mut Effects) {
        if let Some(child) = self.children.get_mut(&key)
            && let Phase::Due(origin) = child.phase
        {
            child.starts += 1;
            child.phase = Phase::Live { stage: Stage::Starting, origin, fate: None };
            effects.push(SupervisorEffect::StartChild { child: key, incarnation: child.starts });
        }
    }

    /// Starts the first that is due, unless one that comes before it is not up yet.
    fn start_next(&mut self, effects: &mut Effects) {
        let all_wait = self.rules.strategy == Strategy::OneForAll;
        let mut due = None;
        for (key, child) in &self.children {
            match &child.phase {
                Phase::Live { fate: Some(_), .. } => return,
                Phase::Due(_) => due = due.or(Some(*key)),
                Phase::Waiting { .. } | Phase::Live { stage: Stage::Starting, .. }
                    if all_wait || due.is_none() =>
                {
                    return;
                }
                Phase::Down | Phase::Waiting { .. } | Phase::Live { .. } => {}
            }
        }
        if let Some(key) = due {
            self.start(key, effects);
        }
    }
}

fn is_of_the_beginning(child: &super::machine::Child) -> bool {
    matches!(
        child.phase,
        Phase::Due(Origin::Beginning)
            | Phase::Live { stage: Stage::Starting | Stage::Stopping, origin: Origin::Beginning, .. }
    )
}
