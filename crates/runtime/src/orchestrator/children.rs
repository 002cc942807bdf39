//! The runs below a run: started here, or found again; told to stop; and heard of when they end.
//!
//! Each has a task that attends to it until its end is known. A child whose orchestrator crashed is
//! driven on from the journal; one that another worker drives is waited for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dauntless_contract::{CallKey, Fence, Outcome, Release, RunEvent, RunId};
use dauntless_core::tree::Delegation;
use ractor::{ActorRef, ActorStatus};

use super::{RunMsg, RunShell, Standing};
use crate::agent::Agent;
use crate::child::{Begun, Birth, ChildError};
use crate::run::{Parting, Reins, RunHandle, broken};
use crate::runtime::WeakRuntime;
use crate::watch::WatchedChild;

/// Crashes of the orchestrator of one child that are mended, within a time.
const CRASHES_MAX: usize = 3;
const CRASHES_WITHIN: Duration = Duration::from_secs(300);
/// How often a child that is driven elsewhere is looked for.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// What an attendant tells the run.
pub(crate) enum ChildNews {
    /// It is driven here.
    Begun(Reins),
    /// It is over.
    Ended(Box<Outcome>),
    /// This process has no more to do for it, and it is not over.
    Gone,
}

/// A child that is attended to.
pub(super) struct Attended {
    reins: Option<Reins>,
    run: RunId,
    cancelled: bool,
}

/// The children of one run that have not ended.
#[derive(Default)]
pub(super) struct Children(BTreeMap<(CallKey, u32), Attended>);

impl Children {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn hand_over(&self, at_once: bool) {
        for reins in self.0.values().filter_map(|child| child.reins.as_ref()) {
            reins.hand_over(at_once);
        }
    }

    pub(super) fn abandon(&self, why: &str) {
        for reins in self.0.values().filter_map(|child| child.reins.as_ref()) {
            reins.abandon(why);
        }
    }
}

impl RunShell {
    /// Starts a child, or finds it again.
    pub(super) fn delegate(&mut self, delegation: Delegation) {
        let (call, attempt, run) = (delegation.call, delegation.attempt, delegation.run);
        if self.children.0.contains_key(&(call, attempt)) {
            return;
        }
        let watched = WatchedChild {
            run,
            parent: self.machine.run(),
            root: delegation.lineage.root,
            agent: Arc::clone(&delegation.agent),
        };
        let attendant = Attendant {
            runtime: self.runtime.clone(),
            parent: self.me.clone(),
            agent: self.crew.below.get(&delegation.agent).cloned(),
            birth: Birth { watch: self.watch.of_child(watched), span: self.turn_span.clone(), delegation },
        };
        // It outlives this orchestrator, should that one crash, for as long as the child needs it.
        tokio::spawn(attendant.attend());
        self.children.0.insert((call, attempt), Attended { reins: None, run, cancelled: false });
    }

    /// Tells a child to stop. One that is not driven here is told by letter.
    pub(super) fn cancel_child(&mut self, run: RunId, by: &Arc<str>) {
        let Some(child) = self.children.0.values_mut().find(|child| child.run == run) else { return };
        child.cancelled = true;
        match &child.reins {
            Some(reins) => reins.cancel(Arc::clone(by)),
            None => {
                if let Some(journal) = &self.journal {
                    journal.cancel_other(run, Arc::clone(by));
                }
            }
        }
    }

    /// What an attendant has to tell. Answers the event that it is to the run.
    pub(super) fn child_news(&mut self, call: CallKey, attempt: u32, news: ChildNews) -> Option<RunEvent> {
        match news {
            ChildNews::Begun(reins) => {
                let child = self.children.0.get_mut(&(call, attempt))?;
                if child.cancelled {
                    reins.cancel(format!("its parent, run {}", self.machine.run()));
                }
                match self.standing {
                    Standing::Driving | Standing::Lost => {}
                    Standing::Leaving { at_once } => reins.hand_over(at_once),
                }
                child.reins = Some(reins);
                None
            }
            ChildNews::Ended(outcome) => {
                self.children.0.remove(&(call, attempt));
                Some(RunEvent::ChildEnded { call, attempt, outcome })
            }
            ChildNews::Gone => {
                self.children.0.remove(&(call, attempt));
                None
            }
        }
    }
}

/// Who attends to one child.
struct Attendant {
    runtime: WeakRuntime,
    parent: ActorRef<RunMsg>,
    agent: Option<Agent>,
    birth: Birth,
}

impl Attendant {
    async fn attend(self) {
        let news = match self.end().await {
            Some(outcome) => ChildNews::Ended(Box::new(outcome)),
            None => ChildNews::Gone,
        };
        self.tell(news);
    }

    fn tell(&self, news: ChildNews) {
        let Delegation { call, attempt, .. } = self.birth.delegation;
        let _ = self.parent.send_message(RunMsg::Child { call, attempt, news });
    }

    /// How the child ended; none when this process is to do no more for it.
    async fn end(&self) -> Option<Outcome> {
        let Some(agent) = &self.agent else {
            let why = format!("There is no agent `{}` to ask here.", self.birth.delegation.agent);
            return Some(self.given_up(None, "no_such_agent", why).await);
        };
        let mut crashes: Vec<Instant> = Vec::new();
        let mut before = None;
        while !self.is_alone() {
            let runtime = self.runtime.upgrade()?;
            let begun = runtime.begin_child(agent, &self.birth, self.parent.get_cell(), before).await;
            drop(runtime);
            let parting = match begun {
                Ok(Begun::Ended(outcome)) => return Some(*outcome),
                Ok(Begun::Elsewhere) => {
                    tokio::time::sleep(LOOK_AGAIN).await;
                    continue;
                }
                Ok(Begun::Here { handle, again }) => {
                    before = again;
                    self.driven(handle).await
                }
                Err(ChildError::Unavailable(why)) => {
                    tracing::warn!(run = %self.birth.delegation.run, why, "a child cannot be begun at present");
                    tokio::time::sleep(LOOK_AGAIN).await;
                    continue;
                }
                Err(ChildError::Refused { code, why }) => {
                    return Some(self.given_up(before, code, why).await);
                }
            };
            match parting {
                Parting::Ended(outcome) => return Some(outcome),
                Parting::HandedOver => return None,
                // Another has it, or this process may not write: its end will be in the journal.
                Parting::Lost(_) => {
                    before = None;
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
                Parting::Crashed => {
                    crashes.retain(|at| at.elapsed() < CRASHES_WITHIN);
                    crashes.push(Instant::now());
                    if before.is_none() || crashes.len() > CRASHES_MAX {
                        let why =
                            format!("Its orchestrator crashed {} times in a short time.", crashes.len());
                        return Some(self.given_up(before, "orchestrator_lost", why).await);
                    }
                }
            }
        }
        // It went down with its parent: whoever drives that one on finds it free.
        self.give_back(before, Release::Ready { after: Duration::ZERO }).await;
        None
    }

    /// The end of a child that is not driven on: where it has a journal it waits for an operator.
    async fn given_up(&self, before: Option<Fence>, code: &str, why: String) -> Outcome {
        self.give_back(before, Release::Paused { reason: why.as_str().into() }).await;
        broken(self.birth.delegation.run, code, why, Duration::ZERO)
    }

    async fn give_back(&self, before: Option<Fence>, next: Release) {
        if let (Some(fence), Some(runtime)) = (before, self.runtime.upgrade()) {
            runtime.give_back(fence, next).await;
        }
    }

    /// Waits while it is driven here, where letters find it meanwhile.
    async fn driven(&self, handle: RunHandle) -> Parting {
        let (run, reins) = (handle.id(), handle.reins());
        if let Some(runtime) = self.runtime.upgrade() {
            runtime.children().insert(run, reins.clone());
        }
        self.tell(ChildNews::Begun(reins));
        let parting = handle.parting().await;
        if let Some(runtime) = self.runtime.upgrade() {
            runtime.children().remove(&run);
        }
        parting
    }

    /// Whether its parent is not there any more.
    fn is_alone(&self) -> bool {
        matches!(self.parent.get_status(), ActorStatus::Stopping | ActorStatus::Stopped)
    }
}
