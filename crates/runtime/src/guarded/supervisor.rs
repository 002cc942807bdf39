//! The small supervisor of one dependency: restarts its actor, and knows when to stop trying.

use std::sync::Arc;

use dauntless_contract::ToolChange;
use dauntless_core::supervision::{Incident, Restarts, Verdict};
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};

use super::actor::{GuardedActor, GuardedArgs};
use super::attempt::Timer;
use super::handle::Status;
use super::{GuardedHandle, Port};
use crate::clock::sleep_until;

/// A dependency broke more often than its supervisor puts up with.
#[derive(Clone, Debug, thiserror::Error)]
#[error("`{name}` is out of service: it broke {count} times in a short time, last: {}", last_cause(.history))]
pub(crate) struct GaveUp {
    pub(crate) name: Arc<str>,
    pub(crate) count: u32,
    /// The latest causes, oldest first.
    pub(crate) history: Vec<Incident>,
}

impl GaveUp {
    /// Why the dependency is out of service, in a sentence.
    pub(crate) fn why(&self) -> Arc<str> {
        format!("it broke {} times in a short time.", self.count).into()
    }
}

fn last_cause(history: &[Incident]) -> &str {
    history.last().map_or("unknown", |incident| &incident.cause)
}

pub(crate) struct GuardedSupervisor<P>(std::marker::PhantomData<fn() -> P>);

impl<P> GuardedSupervisor<P> {
    pub(crate) const fn new() -> Self {
        Self(std::marker::PhantomData)
    }
}

pub(crate) struct SupervisorArgs<P: Port> {
    pub(crate) handle: GuardedHandle<P>,
    pub(crate) restarts: Restarts,
    pub(crate) seed: u64,
}

pub(crate) enum SupervisorMsg {
    /// An attempt panicked. Its call is answered already; here it only counts.
    AttemptPanicked { cause: Arc<str> },
    /// An attempt worked: the first since the start or since the last panic.
    Healthy,
    /// The wait before a restart is over.
    RestartDue,
}

pub(crate) struct SupervisorShell<P: Port> {
    args: SupervisorArgs<P>,
    incarnation: u64,
    child: Option<ActorId>,
    /// Ends the wait before a restart; stopped with the supervisor.
    restart: Option<Timer>,
}

impl<P: Port> Actor for GuardedSupervisor<P> {
    type Msg = SupervisorMsg;
    type State = SupervisorShell<P>;
    type Arguments = SupervisorArgs<P>;

    async fn pre_start(
        &self,
        me: ActorRef<SupervisorMsg>,
        args: SupervisorArgs<P>,
    ) -> Result<SupervisorShell<P>, ActorProcessingErr> {
        let mut shell = SupervisorShell { args, incarnation: 0, child: None, restart: None };
        shell.start_child(&me).await?;
        Ok(shell)
    }

    async fn handle(
        &self,
        me: ActorRef<SupervisorMsg>,
        msg: SupervisorMsg,
        shell: &mut SupervisorShell<P>,
    ) -> Result<(), ActorProcessingErr> {
        match msg {
            SupervisorMsg::AttemptPanicked { cause } => {
                tracing::error!(dependency = shell.name(), cause = &*cause, "an attempt panicked");
                let now = shell.args.handle.now();
                match shell.args.restarts.on_failure(now, cause) {
                    // The panic is contained in its attempt; the actor is sound and keeps its calls.
                    Verdict::Restart { after: _ } => Ok(()),
                    Verdict::GiveUp { count, history } => Err(shell.give_up(count, history)),
                }
            }
            SupervisorMsg::Healthy => {
                shell.args.restarts.on_healthy(shell.args.handle.now());
                Ok(())
            }
            SupervisorMsg::RestartDue if shell.child.is_none() => {
                shell.restart = None;
                shell.start_child(&me).await
            }
            SupervisorMsg::RestartDue => Ok(()),
        }
    }

    async fn handle_supervisor_evt(
        &self,
        me: ActorRef<SupervisorMsg>,
        event: SupervisionEvent,
        shell: &mut SupervisorShell<P>,
    ) -> Result<(), ActorProcessingErr> {
        let (who, cause): (ActorId, Arc<str>) = match event {
            SupervisionEvent::ActorFailed(who, error) => (who.get_id(), error.to_string().into()),
            SupervisionEvent::ActorTerminated(who, _, reason) => {
                (who.get_id(), reason.unwrap_or_else(|| "it stopped by itself".into()).into())
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => return Ok(()),
        };
        if shell.child != Some(who) {
            return Ok(());
        }
        shell.child = None;
        let cause = shell.args.handle.port().redact(&cause);
        let told = Arc::clone(&cause);
        tracing::error!(dependency = shell.name(), cause = &*cause, "its actor ended");
        let now = shell.args.handle.now();
        match shell.args.restarts.on_failure(now, cause) {
            Verdict::Restart { after } => {
                let handle = &shell.args.handle;
                handle.count_restart();
                handle.tell(ToolChange::Restarting { retry_in: after, cause: told });
                if after.is_zero() {
                    return shell.start_child(&me).await;
                }
                let until = now + after;
                handle.set_status(Status::Restarting { until });
                let clock = Arc::clone(shell.args.handle.clock());
                let timer = tokio::spawn(async move {
                    sleep_until(&*clock, until).await;
                    let _ = me.send_message(SupervisorMsg::RestartDue);
                });
                shell.restart = Some(Timer(timer.abort_handle()));
                Ok(())
            }
            Verdict::GiveUp { count, history } => Err(shell.give_up(count, history)),
        }
    }

    async fn post_stop(
        &self,
        _: ActorRef<SupervisorMsg>,
        shell: &mut SupervisorShell<P>,
    ) -> Result<(), ActorProcessingErr> {
        let why = "the runtime is shutting down.".into();
        shell.args.handle.set_status(Status::Down { why, until: None });
        Ok(())
    }
}

impl<P: Port> SupervisorShell<P> {
    fn name(&self) -> &str {
        self.args.handle.name()
    }

    async fn start_child(&mut self, me: &ActorRef<SupervisorMsg>) -> Result<(), ActorProcessingErr> {
        self.incarnation += 1;
        let args = GuardedArgs {
            handle: self.args.handle.clone(),
            supervisor: me.clone(),
            seed: self.args.seed.wrapping_add(self.incarnation),
        };
        let (actor, _) = Actor::spawn_linked(None, GuardedActor::<P>::new(), args, me.get_cell()).await?;
        self.child = Some(actor.get_id());
        self.args.handle.set_status(Status::Up(actor));
        Ok(())
    }

    /// Takes the dependency out of service and escalates, typed. The supervisor ends with its
    /// child, whose calls are answered by their slots.
    fn give_up(&self, count: u32, history: Vec<Incident>) -> ActorProcessingErr {
        let handle = &self.args.handle;
        let gave_up = GaveUp { name: Arc::clone(handle.name()), count, history };
        // At once, so that no call is sent to an actor that is about to end.
        handle.set_status(Status::Down { why: gave_up.why(), until: None });
        Box::new(gave_up)
    }
}
