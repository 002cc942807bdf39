//! How an orchestrator comes to its end: with the run, by letting go of it in good order, or because
//! the run is no longer its own.

use std::sync::Arc;

use dauntless_contract::{Release, RunEvent, StopReason};
use dauntless_core::run::CancelReach;
use ractor::ActorProcessingErr;

use super::{Escalation, RunMsg, RunShell, Standing};
use crate::run::Parting;
use crate::telemetry;

impl RunShell {
    /// Begins nothing more; `at_once` does not even wait for what is under way.
    pub(super) fn leave(&mut self, at_once: bool) {
        if self.journal.is_none() || self.start.is_some() {
            return;
        }
        self.standing = Standing::Leaving { at_once };
        self.children.hand_over(at_once);
        for timer in self.timers.drain(..) {
            timer.abort();
        }
    }

    /// Writes what is still under way and lets go of the run.
    async fn hand_over(&mut self) {
        let suspended =
            RunEvent::Suspended { calls: self.calls.keys().copied().collect(), model: self.model.is_some() };
        self.take(suspended, None).await;
        if self.standing == Standing::Lost {
            return;
        }
        if let Some(snapshot) = self.snapshot() {
            snapshot.await;
        }
        let Some(journal) = &self.journal else { return };
        let parting = match journal.release(Release::Ready { after: std::time::Duration::ZERO }).await {
            Ok(()) => Parting::HandedOver,
            Err(error) => Parting::Lost(error.to_string().into()),
        };
        self.part(parting);
        self.me.stop(None);
    }

    /// Stops deciding for the run. Calls that may not be repeated go on, so that their ends are known.
    pub(super) fn lose(&mut self, why: &str, unwritten: Option<RunEvent>) {
        tracing::warn!(run = %self.machine.run(), why, "the run is not driven here any more");
        self.standing = Standing::Lost;
        for timer in self.timers.drain(..) {
            timer.abort();
        }
        if let Some((model, ticket)) = self.model.take() {
            model.cancel(ticket, CancelReach::Running);
        }
        for (tool, ticket) in self.calls.values() {
            let repeatable = tool.port().tool.spec().effect.repeatable();
            tool.cancel(*ticket, if repeatable { CancelReach::Running } else { CancelReach::Waiting });
        }
        self.part(Parting::Lost(why.into()));
        if let Some(event) = unwritten {
            self.tell_owner(event);
        }
    }

    /// A message to a run that is somebody else's.
    pub(super) fn told_too_late(&mut self, msg: RunMsg) {
        if let Some(event) = self.event(msg) {
            self.tell_owner(event);
        }
    }

    fn tell_owner(&self, event: RunEvent) {
        if let (RunEvent::CallEnded { call, record }, Some(journal)) = (event, &self.journal)
            && record.attempts > 0
        {
            journal.late(call, record);
        }
    }

    fn part(&mut self, parting: Parting) {
        if let Some(waiting) = self.parting.take() {
            let _ = waiting.send(parting);
        }
    }

    /// After each message: leaves when there is nothing more to do here.
    pub(super) async fn finish(&mut self) -> Result<(), ActorProcessingErr> {
        let no_calls = self.model.is_none() && self.calls.is_empty();
        if self.standing == Standing::Lost {
            if no_calls && self.children.is_empty() {
                self.me.stop(None);
            }
            return Ok(());
        }
        let Some(outcome) = self.machine.outcome().cloned() else {
            // The children first: each is let go of by itself.
            if let Standing::Leaving { at_once } = self.standing
                && (at_once || no_calls)
                && self.children.is_empty()
                && self.parting.is_some()
            {
                self.hand_over().await;
            }
            return Ok(());
        };
        let Some(waiting) = self.parting.take() else { return Ok(()) };
        telemetry::record_outcome(&self.span, &outcome);
        let ended = Release::Ended { reason: outcome.reason.to_string().into() };
        if let Some(journal) = &self.journal
            && let Err(error) = journal.release(ended).await
        {
            tracing::warn!(run = %outcome.run, %error, "the journal did not take the end of the run");
        }
        let escalation = Escalation {
            run: outcome.run,
            agent: Arc::clone(self.crew.brain.name()),
            reason: outcome.reason.clone(),
            span: self.span.clone(),
        };
        let _ = waiting.send(Parting::Ended(outcome));
        match escalation.reason {
            StopReason::ToolTerminal { .. }
            | StopReason::ToolExhausted { .. }
            | StopReason::ModelFailed { .. }
            | StopReason::ChildFailed { .. }
            | StopReason::Internal { .. } => Err(Box::new(escalation)),
            _ => {
                self.me.stop(None);
                Ok(())
            }
        }
    }
}
