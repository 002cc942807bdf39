//! Keeps a dependency: starts its supervisor, and starts it afresh when that has given up.
//!
//! A supervisor that gives up ends, as OTP has it. The keeper tells whoever asked, once, waits out
//! a cool-down, and revives the dependency behind the same handle, with the breaker, budget and
//! gate it had.

use std::sync::Arc;

use dauntless_contract::{FailureCode, PastFailure, ToolChange};
use dauntless_core::revival::{Revival, RevivalPolicy};
use dauntless_core::supervision::{Incident, RestartPolicy, Restarts};
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};

use super::attempt::Timer;
use super::handle::Status;
use super::supervisor::{GaveUp, GuardedSupervisor, SupervisorArgs};
use super::{GuardedHandle, Port};
use crate::clock::sleep_until;

pub(crate) struct Keeper<P>(std::marker::PhantomData<fn() -> P>);

impl<P> Keeper<P> {
    pub(crate) const fn new() -> Self {
        Self(std::marker::PhantomData)
    }
}

pub(crate) struct KeeperArgs<P: Port> {
    pub(crate) handle: GuardedHandle<P>,
    pub(crate) restarts: RestartPolicy,
    pub(crate) revival: RevivalPolicy,
    pub(crate) seed: u64,
}

pub(crate) enum KeeperMsg {
    /// The cool-down is over.
    ReviveDue,
}

pub(crate) struct KeeperShell<P: Port> {
    args: KeeperArgs<P>,
    revival: Revival,
    starts: u64,
    phase: Phase,
}

enum Phase {
    Kept(ActorId),
    CoolingDown { _timer: Timer },
}

impl<P: Port> Actor for Keeper<P> {
    type Msg = KeeperMsg;
    type State = KeeperShell<P>;
    type Arguments = KeeperArgs<P>;

    async fn pre_start(
        &self,
        me: ActorRef<KeeperMsg>,
        args: KeeperArgs<P>,
    ) -> Result<KeeperShell<P>, ActorProcessingErr> {
        let supervisor = start(&args, 0, &me).await?;
        let revival = Revival::new(&args.revival, args.handle.now());
        Ok(KeeperShell { args, revival, starts: 1, phase: Phase::Kept(supervisor) })
    }

    async fn handle(
        &self,
        me: ActorRef<KeeperMsg>,
        KeeperMsg::ReviveDue: KeeperMsg,
        shell: &mut KeeperShell<P>,
    ) -> Result<(), ActorProcessingErr> {
        let Phase::CoolingDown { .. } = shell.phase else { return Ok(()) };
        shell.starts += 1;
        match start(&shell.args, shell.starts, &me).await {
            Ok(supervisor) => {
                shell.phase = Phase::Kept(supervisor);
                shell.revival.on_up(shell.args.handle.now());
                shell.args.handle.tell(ToolChange::Revived);
            }
            Err(error) => shell.take_down("it did not start.".into(), &error.to_string(), &[], &me),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        me: ActorRef<KeeperMsg>,
        event: SupervisionEvent,
        shell: &mut KeeperShell<P>,
    ) -> Result<(), ActorProcessingErr> {
        let Phase::Kept(supervisor) = shell.phase else { return Ok(()) };
        match event {
            SupervisionEvent::ActorFailed(who, error) if who.get_id() == supervisor => {
                match error.downcast_ref::<GaveUp>() {
                    Some(gave_up) => {
                        shell.take_down(gave_up.why(), &error.to_string(), &gave_up.history, &me);
                    }
                    None => shell.take_down("its supervisor failed.".into(), &error.to_string(), &[], &me),
                }
            }
            SupervisionEvent::ActorTerminated(who, _, reason) if who.get_id() == supervisor => {
                let reason = reason.unwrap_or_else(|| "no reason given".to_owned());
                shell.take_down("its supervisor ended.".into(), &reason, &[], &me);
            }
            SupervisionEvent::ActorFailed(..)
            | SupervisionEvent::ActorTerminated(..)
            | SupervisionEvent::ActorStarted(_)
            | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}

impl<P: Port> KeeperShell<P> {
    fn take_down(&mut self, why: Arc<str>, error: &str, history: &[Incident], me: &ActorRef<KeeperMsg>) {
        let handle = &self.args.handle;
        let now = handle.now();
        let revive_in = self.revival.on_down(now);
        let until = now + revive_in;
        handle.set_status(Status::Down { why: Arc::clone(&why), until: Some(until) });
        tracing::error!(
            dependency = &**handle.name(),
            revive_in_ms = u64::try_from(revive_in.as_millis()).unwrap_or(u64::MAX),
            error = &*handle.port().redact(error),
            "out of service"
        );
        let history = history
            .iter()
            .map(|Incident { at, cause }| PastFailure {
                at: *at,
                code: FailureCode::Crashed,
                message: Arc::clone(cause),
            })
            .collect();
        handle.tell(ToolChange::Down { why, revive_in, history });
        let (me, clock) = (me.clone(), Arc::clone(handle.clock()));
        let timer = tokio::spawn(async move {
            sleep_until(&*clock, until).await;
            let _ = me.send_message(KeeperMsg::ReviveDue);
        });
        self.phase = Phase::CoolingDown { _timer: Timer(timer.abort_handle()) };
    }
}

async fn start<P: Port>(
    args: &KeeperArgs<P>,
    starts: u64,
    me: &ActorRef<KeeperMsg>,
) -> Result<ActorId, ActorProcessingErr> {
    let seed = args.seed.wrapping_add(starts << 16);
    let restarts = Restarts::new(args.restarts.clone(), seed)?;
    let args = SupervisorArgs { handle: args.handle.clone(), restarts, seed };
    let (actor, _) = Actor::spawn_linked(None, GuardedSupervisor::<P>::new(), args, me.get_cell()).await?;
    Ok(actor.get_id())
}
