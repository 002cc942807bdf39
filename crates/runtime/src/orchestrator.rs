//! The actor that owns one conversation.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use dauntless_contract::{
    AppendError, Attendance, CallKey, CallRecord, CallVerdict, Clock, CreateError, EffectState, Failure,
    Fence, Journal, ModelReply, ModelRequest, NewRun, Outcome, Progress, Question, Recorded, Release,
    RepairedHistory, RequestPurpose, RunEvent, RunId, RunLimits, RunTimer, Seq, StopReason, Timestamp,
    TooLarge, ToolOutput, ToolSpec,
};
use dauntless_core::resilience::{CallEnd, Rng};
use dauntless_core::run::{CancelReach, RunEffect, RunMachine, RunSpec};
use ractor::{Actor, ActorProcessingErr, ActorRef, ActorStatus};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tracing::Span;

use crate::answerer::AnswerError;
use crate::clock::sleep_until;
use crate::error::SubmitError;
use crate::guarded::{Caller, GuardedHandle, JobTicket};
use crate::ports::{ModelPort, ToolPort};
use crate::submission::Submission;
use crate::telemetry;
use crate::watch::Watch;

mod effects;

/// What a run needs of its agent: the machine's part, and where the calls go.
pub(crate) struct Crew {
    pub(crate) spec: Arc<RunSpec>,
    pub(crate) tools: HashMap<Arc<str>, GuardedHandle<ToolPort>>,
    /// Its own model first, then the fallbacks in order.
    pub(crate) models: Vec<GuardedHandle<ModelPort>>,
    pub(crate) nothing: Arc<[Arc<ToolSpec>]>,
}

impl Crew {
    /// The tool of this name.
    ///
    /// # Errors
    /// [`SubmitError::NoSuchTool`], with the names there are.
    pub(crate) fn tool(&self, name: &str) -> Result<&GuardedHandle<ToolPort>, SubmitError> {
        self.tools.get(name).ok_or_else(|| {
            let mut known: Vec<&str> = self.tools.keys().map(|name| &**name).collect();
            known.sort_unstable();
            SubmitError::NoSuchTool {
                agent: Arc::clone(&self.spec.agent.name),
                tool: name.to_owned(),
                known: known.join(", "),
            }
        })
    }
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
    /// The run's span. Where `tracing-opentelemetry` listens, its context holds the trace id.
    pub span: Span,
}

/// Drives one run: messages become events, effects become calls and timers.
///
/// Holds no policy: an `if` about what happens next belongs in `core::run`. Never awaits a model
/// or a tool: while `handle` runs, the mailbox waits.
pub(crate) struct OrchestratorActor;

pub(crate) struct RunArgs {
    pub(crate) run: RunId,
    pub(crate) crew: Arc<Crew>,
    pub(crate) submission: Submission,
    pub(crate) limits: RunLimits,
    pub(crate) attendance: Attendance,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) journal: Option<(Arc<dyn Journal>, Fence)>,
    pub(crate) watch: Watch,
    pub(crate) outcome: oneshot::Sender<Outcome>,
    pub(crate) parent_span: Span,
    /// Of what is left to chance in this run.
    pub(crate) seed: u64,
}

pub(crate) enum RunMsg {
    Start,
    ModelEnded { asked: ModelAsked, end: CallEnd<ModelReply> },
    CallEnded { asked: CallAsked, end: CallEnd<ToolOutput> },
    Timer(RunTimer),
    Cancel { by: Arc<str> },
    Questions { reply: oneshot::Sender<Vec<Question>> },
    Answer { call: CallKey, text: Arc<str>, reply: oneshot::Sender<Result<(), AnswerError>> },
}

/// The run, as the one who waits for an answer.
struct Asker<K> {
    me: ActorRef<RunMsg>,
    asked: K,
}

impl<K> Asker<K> {
    fn is_gone(&self) -> bool {
        matches!(self.me.get_status(), ActorStatus::Stopping | ActorStatus::Stopped)
    }
}

/// Which model call of a run.
#[derive(Clone, Copy)]
pub(crate) struct ModelAsked {
    turn: u32,
    model: u32,
    purpose: RequestPurpose,
}

/// Which tool call of a run, and the fallback it went to, if it did.
#[derive(Clone)]
pub(crate) struct CallAsked {
    call: CallKey,
    by: Option<Arc<str>>,
}

impl Caller<CallEnd<ModelReply>> for Asker<ModelAsked> {
    fn take(self: Box<Self>, end: CallEnd<ModelReply>) {
        let _ = self.me.send_message(RunMsg::ModelEnded { asked: self.asked, end });
    }

    fn is_gone(&self) -> bool {
        self.is_gone()
    }
}

impl Caller<CallEnd<ToolOutput>> for Asker<CallAsked> {
    fn take(self: Box<Self>, end: CallEnd<ToolOutput>) {
        let _ = self.me.send_message(RunMsg::CallEnded { asked: self.asked, end });
    }

    fn is_gone(&self) -> bool {
        self.is_gone()
    }
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
    model: Option<(GuardedHandle<ModelPort>, JobTicket)>,
    calls: BTreeMap<CallKey, (GuardedHandle<ToolPort>, JobTicket)>,
    timers: Vec<AbortHandle>,
    chance: Rng,
    span: Span,
    /// The turn that `turn_span` is of.
    turn: u32,
    turn_span: Span,
}

struct Appender {
    journal: Arc<dyn Journal>,
    fence: Fence,
    head: Seq,
}

impl Appender {
    async fn add(&mut self, now: Timestamp, event: &RunEvent) -> Result<(), AppendError> {
        let recorded = Recorded { at: now, event: event.clone() };
        if self.head == 0 {
            let created = self.journal.create(NewRun::new(self.fence, recorded)).await;
            created.map_err(|error| match error {
                CreateError::TooLarge(size) => AppendError::TooLarge(size),
                error => AppendError::Unavailable(error.to_string()),
            })?;
            self.head = 1;
            return Ok(());
        }
        self.head = self.journal.append(&self.fence, self.head, vec![recorded]).await?;
        Ok(())
    }
}

/// The end of a call whose value is larger than the journal takes, told as such.
fn without_result(event: RunEvent, size: TooLarge) -> Option<RunEvent> {
    let RunEvent::CallEnded { call, record } = event else { return None };
    let CallVerdict::Succeeded(_) = &record.verdict else { return None };
    let failure = Failure::too_large(format!(
        "The call worked, but its result of {} bytes is larger than the journal of this run takes.",
        size.size
    ));
    let failure = failure.hint("Ask for less at a time: a page or a range.").effect(EffectState::Happened);
    let record = CallRecord { verdict: CallVerdict::Failed(failure), ..record };
    Some(RunEvent::CallEnded { call, record })
}

impl Drop for RunShell {
    fn drop(&mut self) {
        for timer in &self.timers {
            timer.abort();
        }
        // An orchestrator that dies leaves no call running that a repetition could redo.
        if let Some((model, ticket)) = self.model.take() {
            model.cancel(ticket, CancelReach::Running);
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
        let RunArgs {
            run,
            crew,
            submission,
            limits,
            attendance,
            clock,
            journal,
            watch,
            outcome,
            parent_span,
            seed,
        } = args;
        let agent = Arc::clone(&crew.spec.agent.name);
        let span = telemetry::run_span(&parent_span, run, &agent);
        let Submission { goal, past: RepairedHistory { history, repairs } } = submission;
        let tools = crew.spec.toolbox.names().map(Arc::from).collect();
        me.send_message(RunMsg::Start)?;
        Ok(RunShell {
            me,
            machine: RunMachine::new(run, Arc::clone(&crew.spec)),
            crew,
            clock,
            journal: journal.map(|(journal, fence)| Appender { journal, fence, head: 0 }),
            watch,
            start: Some(RunEvent::RunStarted {
                agent,
                goal,
                limits,
                history,
                repairs,
                attendance,
                tools,
                lineage: None,
            }),
            outcome: Some(outcome),
            model: None,
            calls: BTreeMap::new(),
            timers: Vec::new(),
            chance: Rng::new(seed),
            turn: 0,
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
        let effects = match shell.record(now, event).await {
            // Journal first: replay feeds the same facts and must reach the same state.
            Ok(event) => shell.machine.on(now, event),
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
            RunMsg::ModelEnded { asked: ModelAsked { turn, model, purpose }, end } => {
                self.model = None;
                let attempts = end.attempts;
                match (purpose, end.result) {
                    (RequestPurpose::Turn, Ok(reply)) => {
                        RunEvent::ModelReplied { turn, model, reply, attempts }
                    }
                    (RequestPurpose::Turn, Err(failure)) => {
                        RunEvent::ModelFailed { turn, model, failure, attempts }
                    }
                    (RequestPurpose::Summary, Ok(reply)) => {
                        RunEvent::SummaryReplied { turn, model, reply, attempts }
                    }
                    (RequestPurpose::Summary, Err(failure)) => {
                        RunEvent::SummaryFailed { turn, model, failure, attempts }
                    }
                }
            }
            RunMsg::CallEnded { asked: CallAsked { call, by }, end } => {
                self.calls.remove(&call);
                let CallEnd { result, attempts, waited, stopped_by, out_for } = end;
                let verdict = match result {
                    Ok(output) => CallVerdict::Succeeded(output),
                    Err(failure) => CallVerdict::Failed(failure),
                };
                let record = CallRecord { verdict, attempts, waited, stopped_by, out_for, by };
                RunEvent::CallEnded { call, record }
            }
            RunMsg::Timer(timer) => RunEvent::TimerFired { timer },
            RunMsg::Cancel { by } => RunEvent::CancelRequested { by },
            RunMsg::Questions { reply } => {
                let _ = reply.send(self.machine.questions());
                return None;
            }
            RunMsg::Answer { call, text, reply } => {
                let open = self.machine.questions();
                let known = open.iter().any(|question| question.call == call);
                let _ = reply.send(if known { Ok(()) } else { Err(AnswerError::not_open(call, &open)) });
                let text = self.crew.spec.redactor.text(&text).into();
                known.then_some(RunEvent::InputGiven { call, text })?
            }
        })
    }

    /// Puts an event into the journal. Answers the one that it took.
    async fn record(&mut self, now: Timestamp, event: RunEvent) -> Result<RunEvent, String> {
        let Some(journal) = &mut self.journal else { return Ok(event) };
        let size = match journal.add(now, &event).await {
            Ok(()) => return Ok(event),
            Err(AppendError::TooLarge(size)) => size,
            Err(error) => return Err(error.to_string()),
        };
        // A result that the journal does not take is a failure of its call and not of the run.
        let smaller = without_result(event, size).ok_or_else(|| size.to_string())?;
        journal.add(now, &smaller).await.map_err(|error| error.to_string())?;
        Ok(smaller)
    }

    fn apply(&mut self, now: Timestamp, effect: RunEffect) {
        match effect {
            RunEffect::CallModel { turn, model, offer, built_in, deadline } => {
                let history = Arc::clone(self.machine.history());
                let request = ModelRequest {
                    answer: self.crew.spec.answer.as_ref().map(|shape| Arc::clone(shape.schema())),
                    ..ModelRequest::new(history, self.on_offer(&offer, built_in))
                };
                self.call_model(now, turn, model, request, deadline);
            }
            RunEffect::Summarise { turn, model, history, deadline } => {
                self.call_model(now, turn, model, ModelRequest::summary(history), deadline);
            }
            RunEffect::Dispatch { call, asked, tool, arguments, key_of, deadline } => {
                let by = (asked != tool).then(|| Arc::clone(&tool));
                self.dispatch(now, CallAsked { call, by }, &tool, (arguments, key_of), deadline);
            }
            RunEffect::CancelCall { call, reach } => {
                if let Some((tool, ticket)) = self.calls.get(&call) {
                    tool.cancel(*ticket, reach);
                }
            }
            // No agent of this runtime has links, so no run has children.
            RunEffect::Delegate(_) | RunEffect::CancelChild { .. } => {}
            RunEffect::CancelModel { turn: _ } => {
                if let Some((model, ticket)) = self.model.take() {
                    model.cancel(ticket, CancelReach::Running);
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
            RunEffect::Park { call, tool, at, spread } => self.park(call, &tool, at, spread),
            // The watcher gets the end from the outcome itself, which cannot be lost.
            RunEffect::Report(Progress::RunEnded { .. }) | RunEffect::End => {}
            RunEffect::Report(progress) => {
                if let Progress::CallEnded { tool, code: Some(code), .. } = &progress
                    && let Some(tool) = self.crew.tools.get(tool)
                {
                    tool.policies().stats.observed(*code);
                }
                self.log(&progress);
                self.watch.tell(|| progress);
            }
        }
    }

    /// Once the run has ended: tells whoever waits, and leaves as the reason demands.
    async fn finish(&mut self) -> Result<(), ActorProcessingErr> {
        let Some(outcome) = self.machine.outcome() else { return Ok(()) };
        let Some(waiting) = self.outcome.take() else { return Ok(()) };
        telemetry::record_outcome(&self.span, outcome);
        let ended = Release::Ended { reason: outcome.reason.to_string().into() };
        if let Some(Appender { journal, fence, head: _ }) = &self.journal
            && let Err(error) = journal.release(fence, ended).await
        {
            tracing::warn!(run = %outcome.run, %error, "the journal did not take the end of the run");
        }
        let escalation = Escalation {
            run: outcome.run,
            agent: Arc::clone(&self.crew.spec.agent.name),
            reason: outcome.reason.clone(),
            span: self.span.clone(),
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
