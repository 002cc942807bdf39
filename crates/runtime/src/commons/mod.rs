//! What the runs of one tree share besides their limits, for those that have it switched on: notes,
//! and messages to each other.
//!
//! Where workers share a journal, notes and letters are in it, so that it does not matter which of
//! them drives which run. Else they are here, in the memory of the process, and go with the root.

mod messages;
mod notes;
mod tool;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dauntless_contract::{Failure, JournalError, RunId, SharedJournal, Tool};
use dauntless_core::redact::Redactor;
use dauntless_core::tree::address::Siblings;
use dauntless_core::tree::notes::Notes;
use dauntless_core::tree::{Kin, TreeTool};
use ractor::ActorRef;

use crate::ledger::Ledger;
use crate::orchestrator::RunMsg;

pub(crate) use messages::Message;

/// The runs that are driven in this process, as they see each other.
pub(crate) struct Commons {
    journal: Option<Arc<dyn SharedJournal>>,
    redactor: Redactor,
    members: Mutex<HashMap<RunId, Member>>,
}

/// One of the runs.
#[derive(Clone)]
struct Member {
    kin: Kin,
    agent: Arc<str>,
    takes_messages: bool,
    actor: ActorRef<RunMsg>,
    /// Of its tree, if it is the root and no journal has them.
    notes: Arc<Mutex<Notes>>,
    /// Those that it started here, in this order, with their agents.
    children: Vec<(RunId, Arc<str>)>,
}

/// A run takes part for as long as this is there.
pub(crate) struct Membership {
    commons: Arc<Commons>,
    actor: ActorRef<RunMsg>,
    run: RunId,
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut members = self.commons.members();
        // One that is driven again here has another actor.
        if members.get(&self.run).is_some_and(|member| member.actor.get_id() == self.actor.get_id()) {
            members.remove(&self.run);
        }
    }
}

impl Commons {
    pub(crate) fn new(ledger: Option<&Ledger>, redactor: Redactor) -> Self {
        let journal = match ledger {
            Some(Ledger::Shared(journal)) => Some(Arc::clone(journal)),
            Some(Ledger::Own(_)) | None => None,
        };
        Self { journal, redactor, members: Mutex::default() }
    }

    /// The tools by which runs share things.
    pub(crate) fn tools(self: &Arc<Self>) -> Vec<Arc<dyn Tool>> {
        let tool = |kind| Arc::new(tool::CommonTool::new(kind, Arc::clone(self))) as Arc<dyn Tool>;
        TreeTool::ALL.map(tool).into()
    }

    pub(crate) fn join(
        self: &Arc<Self>,
        kin: &Kin,
        agent: &Arc<str>,
        takes_messages: bool,
        actor: &ActorRef<RunMsg>,
    ) -> Membership {
        let member = Member {
            kin: kin.clone(),
            agent: Arc::clone(agent),
            takes_messages,
            actor: actor.clone(),
            notes: Arc::default(),
            children: Vec::new(),
        };
        let run = kin.run();
        let mut members = self.members();
        if let Some(parent) = kin.parent().and_then(|parent| members.get_mut(&parent))
            && !parent.children.iter().any(|(child, _)| *child == run)
        {
            parent.children.push((run, Arc::clone(agent)));
        }
        members.insert(run, member);
        Membership { commons: Arc::clone(self), actor: actor.clone(), run }
    }

    fn members(&self) -> MutexGuard<'_, HashMap<RunId, Member>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn member(&self, run: RunId) -> Option<Member> {
        self.members().get(&run).cloned()
    }

    /// The run that makes a call.
    fn caller(&self, run: RunId) -> Result<Member, Failure> {
        self.member(run).ok_or_else(|| {
            Failure::tool_error("There is no run under way here that this call is part of.")
                .hint("The tool works only when an agent calls it in a run.")
        })
    }

    /// The runs that have a parent, in the order of their start.
    async fn siblings(&self, parent: RunId) -> Result<Siblings, Failure> {
        if let Some(journal) = &self.journal {
            let children = journal.children(parent).await.map_err(not_read)?;
            return Ok(Siblings::in_order(
                children.into_iter().map(|child| (child.run, child.agent, child.state.is_open())),
            ));
        }
        let members = self.members();
        let children = members.get(&parent).map(|parent| parent.children.as_slice()).unwrap_or_default();
        Ok(Siblings::in_order(
            children.iter().map(|(run, agent)| (*run, Arc::clone(agent), members.contains_key(run))),
        ))
    }
}

/// The journal did not answer; nothing was asked to change.
fn not_read(error: JournalError) -> Failure {
    Failure::unavailable("What the runs of this tree share cannot be read at present.").source(error)
}
