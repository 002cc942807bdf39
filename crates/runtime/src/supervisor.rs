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

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SpawnErr, SupervisionEvent};
use tokio::sync::Semaphore;

use crate::guarded::panic_text;
use crate::orchestrator::Escalation;
use crate::supervision::{ChildSpec, Strategy, Supervisor, SupervisorBuilder};

/// Restarts of branches that are granted within 300 s.
pub(crate) const ROOT_INTENSITY: u32 = 3;

/// Called with each run that ended for a reason nobody in it could do anything about.
pub(crate) type OnEscalation = Arc<dyn Fn(&Escalation) + Send + Sync>;

/// Supervises one kind of children: never restarts them, never goes down with them.
pub(crate) struct BranchSupervisor {
    pub(crate) name: &'static str,
    pub(crate) on_escalation: Option<OnEscalation>,
    /// A place comes back when the end of a child has been taken note of, not before: so the ends
    /// that wait in the mailbox are never more than there are places.
    places: Arc<Semaphore>,
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
        let error = match event {
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => return Ok(()),
            SupervisionEvent::ActorTerminated(..) => {
                self.places.add_permits(1);
                return Ok(());
            }
            SupervisionEvent::ActorFailed(_, error) => error,
        };
        self.places.add_permits(1);
        if let Some(escalation) = error.downcast_ref::<Escalation>() {
            // Inside the run's span, so that whoever collects traces files it with the run.
            let _run = escalation.span.enter();
            tracing::info!(run = %escalation.run, error.r#type = escalation.reason.name(), "run escalated");
            if let Some(tell) = &self.on_escalation
                && let Err(panic) = catch_unwind(AssertUnwindSafe(|| tell(escalation)))
            {
                tracing::error!(run = %escalation.run, cause = &*panic_text(&*panic), "`on_escalation` panicked");
            }
        } else {
            tracing::error!(branch = self.name, %error, "a child failed");
        }
        Ok(())
    }
}

/// The actors of the three branches that run now; a branch that was restarted is another actor.
#[derive(Default)]
pub(crate) struct Branches {
    pub(crate) tools: Branch,
    pub(crate) models: Branch,
    pub(crate) runs: Branch,
}

#[derive(Default)]
pub(crate) struct Branch {
    now: RwLock<Option<Incarnation>>,
    starts: AtomicU64,
}

/// One life of a branch.
#[derive(Clone)]
pub(crate) struct Incarnation {
    pub(crate) cell: ActorCell,
    /// One for each child; whoever starts one takes it and does not give it back.
    pub(crate) places: Arc<Semaphore>,
}

impl Branch {
    /// Its actor; none before the first start.
    pub(crate) fn cell(&self) -> Option<ActorCell> {
        self.now().map(|incarnation| incarnation.cell)
    }

    /// Its actor and the places on it; none before the first start.
    pub(crate) fn now(&self) -> Option<Incarnation> {
        self.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn started(&self, incarnation: Incarnation) {
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Some(incarnation);
        self.starts.fetch_add(1, Ordering::Release);
    }
}

impl Branches {
    /// Changes whenever the supervisors of tools or of models are gone and have to be started anew.
    pub(crate) fn generation(&self) -> u64 {
        self.tools.starts.load(Ordering::Acquire) + self.models.starts.load(Ordering::Acquire)
    }
}

/// The top: a branch that breaks takes those that need it along, and all start again, empty.
pub(crate) fn root(
    branches: &Arc<Branches>,
    runs_at_once: usize,
    on_escalation: Option<OnEscalation>,
) -> SupervisorBuilder {
    let spec = |name, branch: fn(&Branches) -> &Branch, on_escalation: Option<OnEscalation>| {
        let branches = Arc::clone(branches);
        ChildSpec::new(name, move |root| {
            let (branches, on_escalation) = (Arc::clone(&branches), on_escalation.clone());
            async move {
                let places = Arc::new(Semaphore::new(runs_at_once));
                let supervisor = BranchSupervisor { name, on_escalation, places: Arc::clone(&places) };
                let started = Actor::spawn_linked(None, supervisor, (), root).await?;
                branch(&branches).started(Incarnation { cell: started.0.get_cell(), places });
                Ok::<_, SpawnErr>(started)
            }
        })
    };
    Supervisor::builder()
        .strategy(Strategy::RestForOne)
        .intensity(ROOT_INTENSITY, Duration::from_secs(300))
        .child(spec("tools", |branches| &branches.tools, None))
        .child(spec("models", |branches| &branches.models, None))
        .child(spec("runs", |branches| &branches.runs, on_escalation))
}
