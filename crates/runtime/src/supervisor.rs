//! The upper part of the tree: who is above the tools, the models and the runs.
//!
//! ```text
//! root ─┬─ tools ──── one small supervisor per tool ──── the tool's actor
//!       ├─ models ─── one small supervisor per model ─── the model's actor
//!       └─ runs ───── one orchestrator per run
//! ```
//!
//! A branch outlives its children: their failures arrive here typed, are logged and told to whoever
//! asked, and stop nobody else.

use std::sync::Arc;

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SpawnErr, SupervisionEvent};

use crate::orchestrator::Escalation;

/// Called with each run that ended for a reason nobody in it could do anything about.
pub(crate) type OnEscalation = Arc<dyn Fn(&Escalation) + Send + Sync>;

/// Supervises one kind of children: never restarts them, never goes down with them.
pub(crate) struct BranchSupervisor {
    pub(crate) name: &'static str,
    pub(crate) on_escalation: Option<OnEscalation>,
}

/// A branch is told nothing: it only listens to its children's ends.
pub(crate) enum BranchMsg {}

impl Actor for BranchSupervisor {
    type Msg = BranchMsg;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<BranchMsg>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<BranchMsg>,
        event: SupervisionEvent,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        let SupervisionEvent::ActorFailed(_, error) = event else { return Ok(()) };
        if let Some(escalation) = error.downcast_ref::<Escalation>() {
            tracing::info!(run = %escalation.run, reason = escalation.reason.name(), "run escalated");
            if let Some(tell) = &self.on_escalation {
                tell(escalation);
            }
        } else {
            tracing::error!(branch = self.name, %error, "a child failed");
        }
        Ok(())
    }
}

/// The top. Ends when a branch ends, because a branch never does unless something is badly wrong.
pub(crate) struct RootSupervisor {
    pub(crate) on_escalation: Option<OnEscalation>,
}

/// The three branches.
#[derive(Clone, Debug)]
pub(crate) struct Branches {
    pub(crate) tools: ActorCell,
    pub(crate) models: ActorCell,
    pub(crate) runs: ActorCell,
}

pub(crate) enum RootMsg {
    Branches(ractor::RpcReplyPort<Branches>),
}

impl Actor for RootSupervisor {
    type Msg = RootMsg;
    type State = Branches;
    type Arguments = ();

    async fn pre_start(&self, me: ActorRef<RootMsg>, (): ()) -> Result<Branches, ActorProcessingErr> {
        Ok(Branches {
            tools: branch("tools", None, &me).await?,
            models: branch("models", None, &me).await?,
            runs: branch("runs", self.on_escalation.clone(), &me).await?,
        })
    }

    async fn handle(
        &self,
        _: ActorRef<RootMsg>,
        msg: RootMsg,
        branches: &mut Branches,
    ) -> Result<(), ActorProcessingErr> {
        let RootMsg::Branches(reply) = msg;
        let _ = reply.send(branches.clone());
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<RootMsg>,
        event: SupervisionEvent,
        _: &mut Branches,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(_, error) => Err(error),
            SupervisionEvent::ActorTerminated(who, ..) => {
                Err(format!("branch {} ended by itself", who.get_id()).into())
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => Ok(()),
        }
    }
}

async fn branch(
    name: &'static str,
    on_escalation: Option<OnEscalation>,
    root: &ActorRef<RootMsg>,
) -> Result<ActorCell, SpawnErr> {
    let (actor, _) =
        Actor::spawn_linked(None, BranchSupervisor { name, on_escalation }, (), root.get_cell()).await?;
    Ok(actor.get_cell())
}
