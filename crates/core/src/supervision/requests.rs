//! What may be asked of a supervisor, and what it answers.

use std::sync::Arc;

use super::machine::{Fate, Origin, Phase, Stage, SupervisorMachine};
use super::{ChildKey, ChildRules, Request, RequestError, Restart, Strategy, SupervisorEffect, Ticket};

type Effects = Vec<SupervisorEffect>;

impl SupervisorMachine {
    /// Answers a request or takes it on; returns the child that something changed for.
    pub(super) fn requested(
        &mut self,
        ticket: Ticket,
        request: Request,
        effects: &mut Effects,
    ) -> Option<ChildKey> {
        if self.is_ending() {
            if let Request::Start { child, .. } = &request {
                effects.push(SupervisorEffect::ForgetChild { child: *child });
            }
            effects.push(SupervisorEffect::Reply { ticket, reply: Err(RequestError::ShuttingDown) });
            return None;
        }
        let taken = match request {
            Request::Start { child, rules } => {
                let taken = self.add(ticket, child, rules);
                if taken.is_err() {
                    effects.push(SupervisorEffect::ForgetChild { child });
                }
                taken.map(|()| child)
            }
            Request::Terminate { id } => self.known(id).inspect(|key| self.terminate(*key, ticket, effects)),
            Request::Restart { id } => self.revive(ticket, id),
            Request::Delete { id } => self.delete(ticket, id, effects),
        };
        taken.map_err(|error| effects.push(SupervisorEffect::Reply { ticket, reply: Err(error) })).ok()
    }

    fn known(&self, id: Arc<str>) -> Result<ChildKey, RequestError> {
        self.key(&id).ok_or(RequestError::NotFound(id))
    }

    fn add(&mut self, ticket: Ticket, key: ChildKey, rules: ChildRules) -> Result<(), RequestError> {
        self.rules.check_child(&rules)?;
        let namesake = self.key(&rules.id).and_then(|key| self.children.get(&key));
        let Some(namesake) = namesake else {
            self.insert(key, rules, Origin::Added(ticket));
            return Ok(());
        };
        Err(match &namesake.phase {
            Phase::Down => RequestError::AlreadyPresent(rules.id),
            Phase::Due(Origin::Restart) | Phase::Waiting { .. } => RequestError::Restarting(rules.id),
            Phase::Live { fate: Some(Fate::Restart), .. } => RequestError::Restarting(rules.id),
            Phase::Live { stage: Stage::Starting, origin: Origin::Restart, .. } => {
                RequestError::Restarting(rules.id)
            }
            Phase::Due(_) | Phase::Live { .. } => RequestError::AlreadyStarted(rules.id),
        })
    }

    fn terminate(&mut self, key: ChildKey, ticket: Ticket, effects: &mut Effects) {
        let Some(child) = self.children.get_mut(&key) else { return };
        let vanishes = child.rules.restart == Restart::Temporary || self.rules.strategy == Strategy::Dynamic;
        let origin = match &mut child.phase {
            Phase::Live { fate: Some(Fate::Stay(tickets) | Fate::Vanish(tickets)), .. } => {
                return tickets.push(ticket);
            }
            Phase::Live { fate, .. } => {
                let tickets = vec![ticket];
                *fate = Some(if vanishes { Fate::Vanish(tickets) } else { Fate::Stay(tickets) });
                return;
            }
            Phase::Due(origin) => *origin,
            Phase::Down | Phase::Waiting { .. } => Origin::Restart,
        };
        child.phase = Phase::Down;
        self.terminated(key, origin, vec![ticket], effects);
        if vanishes || matches!(origin, Origin::Added(_)) {
            self.forget(key, effects);
        }
    }

    fn revive(&mut self, ticket: Ticket, id: Arc<str>) -> Result<ChildKey, RequestError> {
        if self.rules.strategy == Strategy::Dynamic {
            return Err(RequestError::Dynamic(id));
        }
        let key = self.known(Arc::clone(&id))?;
        let Some(child) = self.children.get_mut(&key) else { return Err(RequestError::NotFound(id)) };
        match &child.phase {
            Phase::Down => {
                child.phase = Phase::Due(Origin::Revived(ticket));
                Ok(key)
            }
            Phase::Due(_) | Phase::Waiting { .. } => Err(RequestError::Restarting(id)),
            Phase::Live { .. } => Err(RequestError::AlreadyStarted(id)),
        }
    }

    fn delete(
        &mut self,
        ticket: Ticket,
        id: Arc<str>,
        effects: &mut Effects,
    ) -> Result<ChildKey, RequestError> {
        if self.rules.strategy == Strategy::Dynamic {
            return Err(RequestError::Dynamic(id));
        }
        let key = self.known(Arc::clone(&id))?;
        match self.children.get(&key).map(|child| &child.phase) {
            Some(Phase::Down) => {
                self.forget(key, effects);
                effects.push(SupervisorEffect::Reply { ticket, reply: Ok(key) });
                Ok(key)
            }
            Some(Phase::Live { .. }) => Err(RequestError::Running(id)),
            Some(Phase::Due(_) | Phase::Waiting { .. }) => Err(RequestError::Restarting(id)),
            None => Err(RequestError::NotFound(id)),
        }
    }
}
