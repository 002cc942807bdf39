//! What a run wants done: calls of models and tools, waits, and lines in the log.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    CallKey, CallRecord, CallVerdict, Json, ModelRequest, Progress, RunEvent, RunTimer, Timestamp, ToolSpec,
    VerifyVerdict,
};
use dauntless_core::resilience::CallEnd;
use dauntless_core::run::Offer;

use super::{Asker, CallAsked, ModelAsked, Notes, RunMsg, RunShell};
use crate::clock::sleep_until;
use crate::guarded::{Job, ReplySlot};
use crate::ports::{ModelJob, ToolReply, ToolRequest, Wanted};
use crate::telemetry;

impl CallAsked {
    /// What the tool's answer is to the run.
    pub(super) fn ended(self, end: CallEnd<ToolReply>) -> RunEvent {
        let CallEnd { result, attempts, waited, stopped_by, out_for } = end;
        let Self { call, by, wanted, notes: _ } = self;
        let verdict = match (result, wanted) {
            (Ok(ToolReply::Verdict(said)), _) => {
                return RunEvent::CallVerified { call, verdict: VerifyVerdict::Answered(said) };
            }
            (Err(failure), Wanted::Verdict) => {
                return RunEvent::CallVerified { call, verdict: VerifyVerdict::Failed(failure) };
            }
            (Ok(ToolReply::Output(output)), _) => CallVerdict::Succeeded(output),
            (Err(failure), Wanted::Call) => CallVerdict::Failed(failure),
        };
        let record = CallRecord { verdict, attempts, waited, stopped_by, out_for, by };
        RunEvent::CallEnded { call, record }
    }
}

impl RunShell {
    pub(super) fn asked(&self, call: CallKey, by: Option<Arc<str>>, wanted: Wanted) -> CallAsked {
        let notes = if self.journal.is_some() { Notes::Kept } else { Notes::Dropped };
        CallAsked { call, by, wanted, notes }
    }

    pub(super) fn park(&mut self, call: CallKey, tool: &Arc<str>, at: Timestamp, spread: Duration) {
        let Some(tool) = self.crew.tools.get(tool).cloned() else { return };
        let (me, clock) = (self.me.clone(), self.clock.clone());
        let spread = self.chance.up_to(spread);
        let task = tokio::spawn(async move {
            tokio::select! {
                () = sleep_until(&clock, at) => {}
                () = tool.back() => {}
            }
            tokio::time::sleep(spread).await;
            let _ = me.send_message(RunMsg::Timer(RunTimer::Unpark(call)));
        });
        // A call may be parked again and again.
        self.timers.retain(|timer| !timer.is_finished());
        self.timers.push(task.abort_handle());
    }

    /// What an operator should know of even where nobody watches.
    pub(super) fn log(&self, progress: &Progress) {
        let run = self.machine.run();
        match progress {
            Progress::ToolRejected { tool, message, .. } => {
                tracing::warn!(%run, %tool, %message, "the provider refused a tool");
            }
            Progress::HistoryRepaired { repairs } => {
                for repair in repairs {
                    tracing::info!(%run, %repair, "the conversation before this run was repaired");
                }
            }
            _ => {}
        }
    }

    pub(super) fn on_offer(&self, offer: &Offer, built_in: Vec<Arc<ToolSpec>>) -> Arc<[Arc<ToolSpec>]> {
        let Some(spec) = self.crew.brain.agent() else { return Arc::clone(&self.crew.nothing) };
        let all = spec.toolbox.offered();
        match offer {
            Offer::All if built_in.is_empty() => Arc::clone(all),
            Offer::All => all.iter().cloned().chain(built_in).collect(),
            Offer::Without(out) => {
                let left = all.iter().filter(|spec| !out.contains(&spec.name)).cloned();
                left.chain(built_in).collect()
            }
            Offer::Nothing => Arc::clone(&self.crew.nothing),
        }
    }

    pub(super) fn call_model(
        &mut self,
        now: Timestamp,
        turn: u32,
        number: u32,
        request: ModelRequest,
        deadline: Timestamp,
    ) {
        let asked = ModelAsked { turn, model: number, purpose: request.purpose };
        if self.turn != turn {
            self.turn = turn;
            self.turn_span = telemetry::turn_span(&self.span, turn);
        }
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        let Some(model) = self.crew.models.get(number).cloned() else {
            // The machine asks for no model that the crew was not built with.
            return;
        };
        let job = Job {
            request: Arc::new(ModelJob { run: self.machine.run(), turn, request }),
            deadline: self.clock.outside(deadline),
            attempts_made: 0,
            watch: self.watch.clone(),
            span: telemetry::chat_span(&self.turn_span, model.port().model.spec()),
            reply: ReplySlot::new(model.name(), Asker { me: self.me.clone(), asked }),
        };
        let ticket = model.submit(self.clock.outside(now), job);
        self.model = Some((model, ticket));
    }

    pub(super) fn dispatch(
        &mut self,
        now: Timestamp,
        asked: CallAsked,
        name: &Arc<str>,
        (arguments, key_of): (Json, CallKey),
        deadline: Timestamp,
        attempts_made: u32,
    ) {
        let (call, wanted) = (asked.call, asked.wanted);
        let reply = ReplySlot::new(name, Asker { me: self.me.clone(), asked });
        let Some(tool) = self.crew.tools.get(name) else {
            // The toolbox offers only tools that have an actor; the slot answers should one not.
            return drop(reply);
        };
        let run = self.machine.run();
        let effect = tool.port().tool.spec().effect;
        let job = Job {
            request: Arc::new(ToolRequest {
                wanted,
                run,
                call,
                arguments,
                idempotency_key: format!("{run}-{key_of}").into(),
            }),
            deadline: self.clock.outside(deadline),
            attempts_made,
            watch: self.watch.clone(),
            span: telemetry::tool_span(&self.turn_span, call, name, effect),
            reply,
        };
        let ticket = tool.submit(self.clock.outside(now), job);
        self.calls.insert(call, (tool.clone(), ticket));
    }
}
