//! The actor that owns one conversation.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use dauntless_contract::{
    CallKey, CallRecord, CallVerdict, Clock, Fence, Journal, Json, ModelReply, ModelRequest, NewRun, Outcome,
    Progress, Recorded, RunEvent, RunId, RunLimits, RunTimer, Seq, StopReason, Timestamp, ToolOutput,
    ToolSpec,
};
use dauntless_core::resilience::CallEnd;
use dauntless_core::run::{CancelReach, Offer, RunEffect, RunMachine, RunSpec};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tracing::Span;

use crate::clock::sleep_until;
use crate::guarded::{GuardedHandle, Job, JobTicket, ReplySlot};
use crate::ports::{ModelJob, ModelPort, ToolPort, ToolRequest};
use crate::telemetry;
use crate::watch::Watch;

/// What a run needs of its agent: the machine's part, and where the calls go.
pub(crate) struct Crew {
    pub(crate) spec: Arc<RunSpec>,
    pub(crate) tools: HashMap<Arc<str>, GuardedHandle<ToolPort>>,
    pub(crate) model: GuardedHandle<ModelPort>,
    pub(crate) nothing: Arc<[Arc<ToolSpec>]>,
}

/// A run that ended for a reason nobody in it could do anything about.
///
/// Its orchestrator fails with this as its error, so that it reaches every supervisor above it
/// with its type.
#[derive(Clone, Debug, thiserror::Error)]
#[error("run {run} of `{agent}` ended with {reason}")]
pub struct Escalation {
    /// The run.
    pub run: RunId,
    /// Its agent.
    pub agent: Arc<str>,
    /// The reason.
    pub reason: StopReason,
}

/// Drives one run: messages become events, effects become calls and timers.
///
/// Holds no policy: an `if` about what happens next belongs in `core::run`. Never awaits a model
/// or a tool: while `handle` runs, the mailbox waits.
pub(crate) struct OrchestratorActor;

pub(crate) struct RunArgs {
    pub(crate) run: RunId,
    pub(crate) crew: Arc<Crew>,
    pub(crate) goal: Arc<str>,
    pub(crate) limits: RunLimits,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) journal: Option<(Arc<dyn Journal>, Fence)>,
    pub(crate) watch: Watch,
    pub(crate) outcome: oneshot::Sender<Outcome>,
    pub(crate) parent_span: Span,
}

pub(crate) enum RunMsg {
    Start,
    ModelEnded { turn: u32, end: CallEnd<ModelReply> },
    CallEnded { call: CallKey, end: CallEnd<ToolOutput> },
    Timer(RunTimer),
    Cancel { by: Arc<str> },
}

pub(crate) struct RunShell {
    me: ActorRef<RunMsg>,
    machine: RunMachine,
    crew: Arc<Crew>,
    clock: Arc<dyn Clock>,
    journal: Option<Appender>,
    watch: Watch,
    start: Option<RunEvent>,
    outcome: Option<oneshot::Sender<Outcome>>,
    model: Option<JobTicket>,
    calls: BTreeMap<CallKey, (GuardedHandle<ToolPort>, JobTicket)>,
    timers: Vec<AbortHandle>,
    span: Span,
    turn_span: Span,
}

struct Appender {
    journal: Arc<dyn Journal>,
    fence: Fence,
    head: Seq,
}

impl Drop for RunShell {
    fn drop(&mut self) {
        for timer in &self.timers {
            timer.abort();
        }
        // An orchestrator that dies leaves no call running that a repetition could redo.
        if let Some(ticket) = self.model.take() {
            self.crew.model.cancel(ticket, CancelReach::Running);
        }
        for (tool, ticket) in self.calls.values() {
            tool.cancel(*ticket, CancelReach::Running);
        }
    }
}

impl Actor for OrchestratorActor {
    type Msg = RunMsg;
    type State = RunShell;
    type Arguments = RunArgs;

    async fn pre_start(&self, me: ActorRef<RunMsg>, args: RunArgs) -> Result<RunShell, ActorProcessingErr> {
        let RunArgs { run, crew, goal, limits, clock, journal, watch, outcome, parent_span } = args;
        let agent = Arc::clone(&crew.spec.agent.name);
        let span = telemetry::run_span(&parent_span, run, &agent);
        me.send_message(RunMsg::Start)?;
        Ok(RunShell {
            me,
            machine: RunMachine::new(run, Arc::clone(&crew.spec)),
            crew,
            clock,
            journal: journal.map(|(journal, fence)| Appender { journal, fence, head: 0 }),
            watch,
            start: Some(RunEvent::RunStarted { agent, goal, limits }),
            outcome: Some(outcome),
            model: None,
            calls: BTreeMap::new(),
            timers: Vec::new(),
            turn_span: span.clone(),
            span,
        })
    }

    async fn handle(
        &self,
        _: ActorRef<RunMsg>,
        msg: RunMsg,
        shell: &mut RunShell,
    ) -> Result<(), ActorProcessingErr> {
        let Some(event) = shell.event(msg) else { return Ok(()) };
        let now = shell.clock.now();
        let effects = match shell.record(now, &event).await {
            // Journal first: replay feeds the same facts and must reach the same state.
            Ok(()) => shell.machine.on(now, event),
            Err(explanation) => {
                tracing::error!(run = %shell.machine.run(), explanation, "the journal refused an event");
                shell.machine.fail(now, "journal_refused", &explanation)
            }
        };
        for effect in effects {
            shell.apply(now, effect);
        }
        shell.finish().await
    }
}

impl RunShell {
    fn event(&mut self, msg: RunMsg) -> Option<RunEvent> {
        Some(match msg {
            RunMsg::Start => self.start.take()?,
            RunMsg::ModelEnded { turn, end } => {
                self.model = None;
                match end.result {
                    Ok(reply) => RunEvent::ModelReplied { turn, reply, attempts: end.attempts },
                    Err(failure) => RunEvent::ModelFailed { turn, failure, attempts: end.attempts },
                }
            }
            RunMsg::CallEnded { call, end } => {
                self.calls.remove(&call);
                let CallEnd { result, attempts, waited, stopped_by } = end;
                let verdict = match result {
                    Ok(output) => CallVerdict::Succeeded(output),
                    Err(failure) => CallVerdict::Failed(failure),
                };
                RunEvent::CallEnded { call, record: CallRecord { verdict, attempts, waited, stopped_by } }
            }
            RunMsg::Timer(timer) => RunEvent::TimerFired { timer },
            RunMsg::Cancel { by } => RunEvent::CancelRequested { by },
        })
    }

    async fn record(&mut self, now: Timestamp, event: &RunEvent) -> Result<(), String> {
        let Some(Appender { journal, fence, head }) = &mut self.journal else { return Ok(()) };
        let recorded = Recorded { at: now, event: event.clone() };
        if *head == 0 {
            let run = NewRun { fence: *fence, first: recorded };
            journal.create(run).await.map_err(|error| error.to_string())?;
            *head = 1;
            return Ok(());
        }
        *head = journal.append(fence, *head, vec![recorded]).await.map_err(|error| error.to_string())?;
        Ok(())
    }

    fn apply(&mut self, now: Timestamp, effect: RunEffect) {
        match effect {
            RunEffect::CallModel { turn, offer, deadline } => self.call_model(now, turn, offer, deadline),
            RunEffect::Dispatch { call, tool, arguments, deadline } => {
                self.dispatch(now, call, &tool, arguments, deadline);
            }
            RunEffect::CancelCall { call, reach } => {
                if let Some((tool, ticket)) = self.calls.get(&call) {
                    tool.cancel(*ticket, reach);
                }
            }
            RunEffect::CancelModel { turn: _ } => {
                if let Some(ticket) = self.model.take() {
                    self.crew.model.cancel(ticket, CancelReach::Running);
                }
            }
            RunEffect::StartTimer { timer, at } => {
                let (me, clock) = (self.me.clone(), Arc::clone(&self.clock));
                let task = tokio::spawn(async move {
                    sleep_until(&*clock, at).await;
                    let _ = me.send_message(RunMsg::Timer(timer));
                });
                self.timers.push(task.abort_handle());
            }
            // The watcher gets the end from the outcome itself, which cannot be lost.
            RunEffect::Report(Progress::RunEnded { .. }) | RunEffect::End => {}
            RunEffect::Report(progress) => self.watch.tell(|| progress),
        }
    }

    fn call_model(&mut self, now: Timestamp, turn: u32, offer: Offer, deadline: Timestamp) {
        self.turn_span = telemetry::turn_span(&self.span, turn);
        let tools = match offer {
            Offer::All => self.crew.spec.toolbox.offered(),
            Offer::Nothing => &self.crew.nothing,
        };
        let request = ModelRequest { history: Arc::clone(self.machine.history()), tools: Arc::clone(tools) };
        let me = self.me.clone();
        let job = Job {
            request: Arc::new(ModelJob { run: self.machine.run(), turn, request }),
            deadline,
            watch: self.watch.clone(),
            span: telemetry::chat_span(&self.turn_span, &self.crew.spec.model),
            reply: ReplySlot::new(move |end| {
                let _ = me.send_message(RunMsg::ModelEnded { turn, end });
            }),
        };
        self.model = Some(self.crew.model.submit(now, job));
    }

    fn dispatch(
        &mut self,
        now: Timestamp,
        call: CallKey,
        name: &Arc<str>,
        arguments: Json,
        deadline: Timestamp,
    ) {
        let me = self.me.clone();
        let reply = ReplySlot::new(move |end| {
            let _ = me.send_message(RunMsg::CallEnded { call, end });
        });
        let Some(tool) = self.crew.tools.get(name) else {
            // The toolbox offers only tools that have an actor; the slot answers should one not.
            return drop(reply);
        };
        let run = self.machine.run();
        let effect = tool.port().tool.spec().effect;
        let job = Job {
            request: Arc::new(ToolRequest {
                run,
                call,
                arguments,
                idempotency_key: format!("{run}-{call}").into(),
            }),
            deadline,
            watch: self.watch.clone(),
            span: telemetry::tool_span(&self.turn_span, call, name, effect),
            reply,
        };
        let ticket = tool.submit(now, job);
        self.calls.insert(call, (tool.clone(), ticket));
    }

    /// Once the run has ended: tells whoever waits, and leaves as the reason demands.
    async fn finish(&mut self) -> Result<(), ActorProcessingErr> {
        let Some(outcome) = self.machine.outcome() else { return Ok(()) };
        let Some(waiting) = self.outcome.take() else { return Ok(()) };
        telemetry::record_outcome(&self.span, outcome);
        if let Some(Appender { journal, fence, head: _ }) = &self.journal
            && let Err(error) = journal.release(fence).await
        {
            tracing::warn!(run = %outcome.run, %error, "the journal did not take the end of the run");
        }
        let escalation = Escalation {
            run: outcome.run,
            agent: Arc::clone(&self.crew.spec.agent.name),
            reason: outcome.reason.clone(),
        };
        let _ = waiting.send(outcome.clone());
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
