//! The actor that owns one conversation.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    CallKey, Clock, Failure, Letter, ModelReply, ModelRequest, Posted, Progress, Question, RequestPurpose,
    RunEvent, RunId, RunTimer, StopReason, Timestamp, ToolSpec,
};
use dauntless_core::resilience::{CallEnd, Rng};
use dauntless_core::run::{CancelReach, RunEffect, SnapshotPace, Verification};
use dauntless_core::toolbox::Toolbox;
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tracing::Span;

use crate::agent::Agent;
use crate::answerer::AnswerError;
use crate::clock::{RunClock, sleep_until};
use crate::commons::{Membership, Message};
use crate::error::SubmitError;
use crate::guarded::{GuardedHandle, JobTicket};
use crate::lease::Lease;
use crate::ledger::{Appender, Refusal};
use crate::ports::{ModelPort, ToolPort, ToolReply, Wanted};
use crate::run::Parting;
use crate::runtime::WeakRuntime;
use crate::telemetry;
use crate::watch::Watch;

mod asker;
mod brain;
mod children;
mod company;
mod effects;
mod letters;
mod parting;

use asker::{Asker, CallAsked, ModelAsked, Notes};
pub(crate) use brain::{Brain, Folding, Machine};
use children::{ChildNews, Children};

/// What a run needs of its agent: the machine's part, and where the calls go.
pub(crate) struct Crew {
    pub(crate) brain: Brain,
    pub(crate) tools: HashMap<Arc<str>, GuardedHandle<ToolPort>>,
    /// Its own model first, then the fallbacks in order.
    pub(crate) models: Vec<GuardedHandle<ModelPort>>,
    pub(crate) nothing: Arc<[Arc<ToolSpec>]>,
    /// The agents that its runs may start runs of.
    pub(crate) below: BTreeMap<Arc<str>, Agent>,
}

impl Crew {
    /// The tools of an agent; a plan has none.
    pub(crate) fn toolbox(&self) -> Toolbox {
        self.brain.agent().map_or_else(|| Toolbox::build(Vec::new()).0, |spec| spec.toolbox.clone())
    }

    /// The tool of this name.
    ///
    /// # Errors
    /// [`SubmitError::NoSuchTool`], with the names there are.
    pub(crate) fn tool(&self, name: &str) -> Result<&GuardedHandle<ToolPort>, SubmitError> {
        self.tools.get(name).ok_or_else(|| {
            let mut known: Vec<&str> = self.tools.keys().map(|name| &**name).collect();
            known.sort_unstable();
            SubmitError::NoSuchTool {
                agent: Arc::clone(self.brain.name()),
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
    pub(crate) runtime: WeakRuntime,
    pub(crate) crew: Arc<Crew>,
    pub(crate) opening: Opening,
    pub(crate) clock: RunClock,
    pub(crate) journal: Option<Appender>,
    pub(crate) lease: Option<Lease>,
    pub(crate) watch: Watch,
    pub(crate) parting: oneshot::Sender<Parting>,
    pub(crate) parent_span: Span,
    /// Of what is left to chance in this run.
    pub(crate) seed: u64,
}

/// Where a run begins, as far as this process is concerned.
pub(crate) enum Opening {
    /// With its first event, which is in no journal yet.
    New(RunEvent),
    /// With what its first event leads to: it is in the journal, and nobody drove the run yet.
    Fresh { machine: Machine, effects: Vec<RunEffect> },
    /// In the midst: whoever drove it let go of it, or died.
    Interrupted { machine: Machine },
}

impl Opening {
    /// Of a run that was folded from its events.
    pub(crate) fn of(machine: Machine) -> Self {
        match machine.outcome() {
            // Its last owner died before it could say that the run is over.
            Some(_) => Self::Fresh { machine, effects: Vec::new() },
            None => Self::Interrupted { machine },
        }
    }
}

pub(crate) enum RunMsg {
    Start,
    ModelEnded { asked: ModelAsked, end: CallEnd<ModelReply> },
    CallEnded { asked: CallAsked, end: CallEnd<ToolReply> },
    AttemptFailed { asked: CallAsked, attempt: u32, failure: Failure, wait: Duration },
    Timer(RunTimer),
    Cancel { by: Arc<str> },
    Questions { reply: oneshot::Sender<Vec<Question>> },
    Answer { call: CallKey, text: Arc<str>, reply: oneshot::Sender<Result<(), AnswerError>> },
    Letter(Letter),
    Message { message: Message, reply: oneshot::Sender<Posted> },
    Child { call: CallKey, attempt: u32, news: ChildNews },
    HandOver { at_once: bool },
    Abandon { why: Arc<str> },
}

pub(crate) struct RunShell {
    me: ActorRef<RunMsg>,
    runtime: WeakRuntime,
    machine: Machine,
    crew: Arc<Crew>,
    clock: RunClock,
    journal: Option<Appender>,
    pace: SnapshotPace,
    lease: Option<Lease>,
    watch: Watch,
    start: Option<Start>,
    parting: Option<oneshot::Sender<Parting>>,
    standing: Standing,
    letters: letters::Read,
    membership: Option<Membership>,
    model: Option<(GuardedHandle<ModelPort>, JobTicket)>,
    calls: BTreeMap<CallKey, (GuardedHandle<ToolPort>, JobTicket)>,
    children: Children,
    timers: Vec<AbortHandle>,
    chance: Rng,
    span: Span,
    /// The turn that `turn_span` is of.
    turn: u32,
    turn_span: Span,
}

/// What comes first.
enum Start {
    Event(RunEvent),
    Effects(Vec<RunEffect>),
}

/// What this process still does for the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Everything.
    Driving,
    /// It waits for what is under way, begins nothing, and then lets go.
    Leaving {
        /// It does not even wait for its calls.
        at_once: bool,
    },
    /// The run is somebody else's: what is still under way is told to that one.
    Lost,
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
        let RunArgs { run, runtime, crew, opening, clock, journal, lease, watch, parting, parent_span, seed } =
            args;
        let span = telemetry::run_span(&parent_span, run, crew.brain.name());
        me.send_message(RunMsg::Start)?;
        let (machine, start) = match opening {
            Opening::New(event) => (Machine::new(run, &crew.brain), Start::Event(event)),
            Opening::Fresh { machine, effects } => (machine, Start::Effects(effects)),
            Opening::Interrupted { machine } => (machine, Start::Event(RunEvent::Interrupted {})),
        };
        Ok(RunShell {
            me,
            runtime,
            machine,
            crew,
            clock,
            journal,
            pace: SnapshotPace::default(),
            lease,
            watch,
            start: Some(start),
            parting: Some(parting),
            standing: Standing::Driving,
            letters: letters::Read::default(),
            membership: None,
            model: None,
            calls: BTreeMap::new(),
            children: Children::default(),
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
        match msg {
            msg if shell.standing == Standing::Lost => shell.told_too_late(msg),
            RunMsg::Start => match shell.start.take() {
                Some(Start::Event(event)) => shell.take(event, None).await,
                Some(Start::Effects(effects)) => shell.carry_out(shell.clock.now(), effects),
                None => {}
            },
            RunMsg::Letter(letter) => shell.read(letter).await,
            RunMsg::HandOver { at_once } => shell.leave(at_once),
            RunMsg::Abandon { why } => {
                shell.children.abandon(&why);
                shell.lose(&why, None);
            }
            msg => {
                if let Some(event) = shell.event(msg) {
                    shell.take(event, None).await;
                }
            }
        }
        shell.keep_company().await;
        shell.finish().await
    }

    /// What becomes of a child is its attendant's to tell; here its failure is only noted.
    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<RunMsg>,
        event: SupervisionEvent,
        shell: &mut RunShell,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(_, error) = event {
            match error.downcast_ref::<Escalation>() {
                Some(escalation) => {
                    let _run = escalation.span.enter();
                    tracing::info!(
                        run = %escalation.run,
                        parent = %shell.machine.run(),
                        error.r#type = escalation.reason.name(),
                        "a child run escalated"
                    );
                }
                None => {
                    tracing::error!(parent = %shell.machine.run(), %error, "the orchestrator of a child failed")
                }
            }
        }
        Ok(())
    }
}

impl RunShell {
    /// A fact: into the journal, through the machine, and what follows from it is begun.
    async fn take(&mut self, event: RunEvent, letter: Option<Arc<str>>) {
        let now = self.clock.now();
        let recorded = match &mut self.journal {
            Some(journal) => journal.record(now, event, letter).await,
            None => Ok(event),
        };
        let effects = match recorded {
            // Journal first: replay feeds the same facts and must reach the same state.
            Ok(event) => {
                self.pace.saw(&event);
                self.machine.on(now, event)
            }
            Err(Refusal::Lost { error, event }) => return self.lose(&error.to_string(), Some(*event)),
            Err(Refusal::Defect(explanation)) => {
                tracing::error!(run = %self.machine.run(), explanation, "the journal refused an event");
                self.machine.fail(now, "journal_refused", &explanation)
            }
        };
        self.carry_out(now, effects);
        if self.pace.is_due()
            && let Some(snapshot) = self.snapshot()
        {
            tokio::spawn(snapshot);
        }
    }

    /// Keeps the state, where the journal takes it: whoever drives the run next reads less then.
    fn snapshot(&mut self) -> Option<impl Future<Output = ()> + Send + use<>> {
        let journal = self.journal.as_ref().filter(|_| self.machine.outcome().is_none())?;
        let body = self.machine.snapshot()?;
        self.pace = SnapshotPace::after(body.len());
        journal.keep(body)
    }

    fn carry_out(&mut self, now: Timestamp, effects: Vec<RunEffect>) {
        if self.lease.as_ref().is_some_and(|lease| !lease.may_begin()) && self.machine.outcome().is_none() {
            return self.lose("its worker could not renew its lease in time", None);
        }
        for effect in effects {
            // Whoever leaves begins nothing; the next one is owed it.
            if self.standing == Standing::Driving || !begins(&effect) {
                self.apply(now, effect);
            }
        }
    }

    fn event(&mut self, msg: RunMsg) -> Option<RunEvent> {
        Some(match msg {
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
            RunMsg::CallEnded { asked, end } => {
                self.calls.remove(&asked.call);
                asked.ended(end)
            }
            RunMsg::AttemptFailed { asked: CallAsked { call, by, .. }, attempt, failure, wait } => {
                RunEvent::AttemptFailed { call, by, attempt, failure, wait }
            }
            RunMsg::Child { call, attempt, news } => self.child_news(call, attempt, news)?,
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
                let text = self.crew.brain.redactor().text(&text).into();
                known.then_some(RunEvent::InputGiven { call, text })?
            }
            RunMsg::Message { message, reply } => {
                let posted = self.posted(&message.letter);
                let _ = reply.send(posted);
                (posted == Posted::New).then(|| message.event())?
            }
            RunMsg::Start | RunMsg::Letter(_) | RunMsg::HandOver { .. } | RunMsg::Abandon { .. } => {
                return None;
            }
        })
    }

    fn apply(&mut self, now: Timestamp, effect: RunEffect) {
        match effect {
            RunEffect::CallModel { turn, model, offer, built_in, deadline } => {
                let answer = self.crew.brain.agent().and_then(|spec| spec.answer.as_ref());
                let request = ModelRequest {
                    answer: answer.map(|shape| Arc::clone(shape.schema())),
                    ..ModelRequest::new(self.machine.history(), self.on_offer(&offer, built_in))
                };
                self.call_model(now, turn, model, request, deadline);
            }
            RunEffect::Summarise { turn, model, history, deadline } => {
                self.call_model(now, turn, model, ModelRequest::summary(history), deadline);
            }
            RunEffect::Dispatch { call, asked, tool, arguments, key_of, deadline, attempts_made } => {
                let by = (asked != tool).then(|| Arc::clone(&tool));
                let asked = self.asked(call, by, Wanted::Call);
                self.dispatch(now, asked, &tool, (arguments, key_of), deadline, attempts_made);
            }
            RunEffect::Verify(Verification { call, tool, arguments, key_of, deadline }) => {
                let asked = self.asked(call, None, Wanted::Verdict);
                self.dispatch(now, asked, &tool, (arguments, key_of), deadline, 0);
            }
            RunEffect::CancelCall { call, reach } => {
                if let Some((tool, ticket)) = self.calls.get(&call) {
                    tool.cancel(*ticket, reach);
                }
            }
            RunEffect::Delegate(delegation) => self.delegate(delegation),
            RunEffect::CancelChild { call: _, run, by } => self.cancel_child(run, &by),
            RunEffect::CancelModel { turn: _ } => {
                if let Some((model, ticket)) = self.model.take() {
                    model.cancel(ticket, CancelReach::Running);
                }
            }
            RunEffect::StartTimer { timer, at } => {
                let (me, clock) = (self.me.clone(), self.clock.clone());
                let task = tokio::spawn(async move {
                    sleep_until(&clock, at).await;
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
}

/// Whether it is the start of something that takes its time.
const fn begins(effect: &RunEffect) -> bool {
    match effect {
        RunEffect::CallModel { .. }
        | RunEffect::Summarise { .. }
        | RunEffect::Dispatch { .. }
        | RunEffect::Verify(_)
        | RunEffect::Delegate(_)
        | RunEffect::StartTimer { .. }
        | RunEffect::Park { .. } => true,
        RunEffect::CancelCall { .. }
        | RunEffect::CancelChild { .. }
        | RunEffect::CancelModel { .. }
        | RunEffect::Report(_)
        | RunEffect::End => false,
    }
}
