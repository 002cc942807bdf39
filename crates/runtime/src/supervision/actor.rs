//! The actor of a supervisor: messages and ends of children in, events of the machine out.

use std::sync::Arc;

use dauntless_core::supervision::{Counts, RequestError, SupervisorEvent};
use ractor::actor::messages::BoxedState;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::oneshot;

use super::child::ChildSpec;
use super::handle::{ChildInfo, SupervisorHandle};
use super::keeper::Who;
use super::shell::{Shell, ShellArgs};

pub(super) struct SupervisorActor;

pub(super) type Reply = oneshot::Sender<Result<Option<ActorCell>, RequestError>>;

pub(super) enum SupervisorMsg {
    Begin,
    News { who: Who, news: News },
    Timer { event: SupervisorEvent },
    Healthy { id: Arc<str> },
    Ask { ask: Ask, reply: Reply },
    Which(oneshot::Sender<Vec<ChildInfo>>),
    Count(oneshot::Sender<Counts>),
    Shutdown,
}

/// Does nothing but be linked to the supervisor, so that keepers can speak in the queue in which
/// ractor tells of ends.
///
/// ractor sends the end of an actor before the actor's task ends, but by another queue than
/// messages, and that one may show it later. What is put into the same queue after the end of the
/// task cannot overtake it.
struct Herald;

impl Actor for Herald {
    type Msg = ();
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

/// Says through the herald that all that ractor had to say of a child has been said.
pub(super) fn settle(herald: &ActorCell, child: &ActorCell, who: Who) {
    let settled = Some(BoxedState::new(who));
    herald.notify_supervisor(SupervisionEvent::ActorTerminated(child.clone(), settled, None));
}

fn settled(state: Option<BoxedState>) -> Result<Who, Option<BoxedState>> {
    match state {
        Some(BoxedState { msg: Some(msg) }) => {
            msg.downcast().map(|who| *who).map_err(|msg| Some(BoxedState { msg: Some(msg) }))
        }
        other => Err(other),
    }
}

/// What a keeper reports.
pub(super) enum News {
    /// Its actor exists; `below` is its handle, if it is a supervisor.
    Spawned {
        cell: ActorCell,
        below: Option<SupervisorHandle>,
    },
    Up,
    NotStarted(ActorProcessingErr),
    /// Its task has ended.
    Ended,
    /// Its task has ended, and its state has been dropped.
    Disposed,
}

pub(super) enum Ask {
    Start(ChildSpec),
    Terminate(Arc<str>),
    Restart(Arc<str>),
    Delete(Arc<str>),
}

impl Actor for SupervisorActor {
    type Msg = SupervisorMsg;
    type State = Shell;
    type Arguments = ShellArgs;

    async fn pre_start(
        &self,
        me: ActorRef<SupervisorMsg>,
        args: ShellArgs,
    ) -> Result<Shell, ActorProcessingErr> {
        // Children are started by messages: one that hangs must not make the supervisor deaf.
        me.send_message(SupervisorMsg::Begin)?;
        let (herald, task) = Actor::spawn_linked(None, Herald, (), me.get_cell()).await?;
        args.keepers.spawn(async move { drop(task.await) });
        Ok(Shell::new(me, herald.get_cell(), args))
    }

    async fn handle(
        &self,
        _: ActorRef<SupervisorMsg>,
        msg: SupervisorMsg,
        shell: &mut Shell,
    ) -> Result<(), ActorProcessingErr> {
        match msg {
            SupervisorMsg::Begin => shell.on(SupervisorEvent::Begun),
            SupervisorMsg::News { who, news } => shell.news(who, news),
            SupervisorMsg::Timer { event } => shell.on(event),
            SupervisorMsg::Healthy { id } => shell.healthy(&id),
            SupervisorMsg::Ask { ask, reply } => shell.ask(ask, reply),
            SupervisorMsg::Which(reply) => {
                let _ = reply.send(shell.which());
            }
            SupervisorMsg::Count(reply) => {
                let _ = reply.send(shell.count());
            }
            SupervisorMsg::Shutdown => shell.on(SupervisorEvent::ShutdownRequested),
        }
        shell.finish()
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<SupervisorMsg>,
        event: SupervisionEvent,
        shell: &mut Shell,
    ) -> Result<(), ActorProcessingErr> {
        if event.actor_id() == Some(shell.herald()) && !matches!(event, SupervisionEvent::ActorStarted(_)) {
            return Err("somebody stopped the herald of a supervisor".into());
        }
        match event {
            SupervisionEvent::ActorFailed(who, error) => shell.failed(who.get_id(), error),
            SupervisionEvent::ActorTerminated(who, state, reason) => match settled(state) {
                Ok(who) => shell.settled(who),
                Err(state) => shell.terminated(who.get_id(), state, reason.as_deref()),
            },
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }

    /// Somebody stopped the supervisor without asking it: its children still stop in order.
    async fn post_stop(
        &self,
        _: ActorRef<SupervisorMsg>,
        shell: &mut Shell,
    ) -> Result<(), ActorProcessingErr> {
        shell.wind_up().await;
        shell.finish()
    }
}
