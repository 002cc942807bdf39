//! One run, from goal to stop reason, as a fold over its events.
//!
//! [`RunMachine::on`] takes a fact and the time it came, and answers what is to be done about it.
//! It knows the conversation, the limits and the loop guard; it refuses to know how a call is
//! retried (that is [`crate::resilience`]) or where the model lives.
//!
//! ```text
//! Created ─► (Summarising ─►) Asking ─► Calling ─► … ─► Ended
//!                                │         └─► Settling ──►│
//!                                └────────────────────────►│
//! ```

mod answer;
mod ask_user;
mod asking;
mod attempts;
mod builtin;
mod calls;
mod delegate;
mod dispatch;
mod effect;
mod ending;
mod fallback;
mod handoff;
mod held;
mod interrupted;
mod learned;
mod limits;
mod messages;
mod nudge;
mod pace;
mod park;
mod preview;
mod recovery;
mod rejected;
mod reply;
mod resolved;
mod slots;
mod snapshot;
mod suspended;
mod verify;
mod waits;
mod withdrawn;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    AgentSpec, Attendance, Failure, History, HistoryRepair, LimitKind, ModelSpec, Outcome, Progress,
    RunEvent, RunId, RunLimits, RunTimer, RunTotals, StopReason, Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::loop_guard::LoopGuard;
use crate::redact::Redactor;
use crate::toolbox::Toolbox;
use crate::tree::mailbox::Mailbox;
use crate::tree::{Kin, Links, SETTLE_MAX};
pub use answer::AnswerShape;
pub(crate) use ask_user::NAME as ASK_USER;
use asking::Summarising;
pub use builtin::toolbox;
pub use effect::{CancelReach, Offer, RunEffect};
pub use fallback::ModelFallback;
use held::Held;
use limits::Foresight;
use nudge::Unproductive;
pub use pace::SnapshotPace;
pub use recovery::{RecoverError, Recovery};
use resolved::News;
use slots::Slots;
pub use snapshot::{FOLD_VERSION, RestoreError};
use suspended::UnderWay;
pub use verify::Verification;
pub use waits::Awaited;
use withdrawn::Withdrawn;

/// What every run of one agent shares.
#[derive(Clone, Debug)]
pub struct RunSpec {
    /// The agent.
    pub agent: AgentSpec,
    /// Its tools.
    pub toolbox: Toolbox,
    /// The shape that its answers must have, if it demands one.
    pub answer: Option<AnswerShape>,
    /// Its model.
    pub model: Arc<ModelSpec>,
    /// The models that are asked when it fails, in order.
    pub fallbacks: Vec<ModelFallback>,
    /// The agents that it may ask; each is a tool as well.
    pub links: Links,
    /// Masks secrets in what a watcher sees.
    pub redactor: Redactor,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Phase {
    Created,
    Summarising(Summarising),
    Asking { turn: u32, model: u32, purpose: Purpose },
    Calling(Slots),
    Settling { slots: Slots, reason: StopReason, explanation: Option<Arc<str>> },
    Ended(Outcome),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Purpose {
    Work,
    LastWords(LimitKind),
}

/// The state of one run.
#[derive(Clone, Debug)]
pub struct RunMachine {
    run: RunId,
    spec: Arc<RunSpec>,
    limits: RunLimits,
    started: Timestamp,
    at: Timestamp,
    /// The tools that the agent had when the run started.
    had: BTreeSet<Arc<str>>,
    turn: u32,
    history: Arc<History>,
    totals: RunTotals,
    foresight: Foresight,
    guard: LoopGuard,
    held: Held,
    news: News,
    unproductive: Unproductive,
    withdrawn: Withdrawn,
    rejected: BTreeSet<Arc<str>>,
    context: Context,
    attendance: Attendance,
    /// Answers that missed the agent's shape.
    misfits: u32,
    /// Requests in a row whose answer was lost with the process that waited for it.
    lost: u32,
    under_way: UnderWay,
    /// Itself and the runs above it.
    kin: Kin,
    /// What other runs said since the last request.
    mailbox: Mailbox,
    phase: Phase,
}

/// Two machines are equal when they would decide equally: same facts seen, same agent.
impl PartialEq for RunMachine {
    fn eq(&self, other: &Self) -> bool {
        self.run == other.run
            && self.spec.agent == other.spec.agent
            && self.limits == other.limits
            && self.started == other.started
            && self.had == other.had
            && self.turn == other.turn
            && self.history == other.history
            && self.totals == other.totals
            && self.foresight == other.foresight
            && self.guard == other.guard
            && self.held == other.held
            && self.news == other.news
            && self.unproductive == other.unproductive
            && self.withdrawn == other.withdrawn
            && self.rejected == other.rejected
            && self.context == other.context
            && self.attendance == other.attendance
            && self.misfits == other.misfits
            && self.lost == other.lost
            && self.under_way == other.under_way
            && self.kin == other.kin
            && self.mailbox == other.mailbox
            && self.phase == other.phase
    }
}

impl RunMachine {
    /// A run that has not started; its first event is [`RunEvent::RunStarted`].
    pub fn new(run: RunId, spec: Arc<RunSpec>) -> Self {
        let kin = Kin::new(run, &spec.agent.name, "", None);
        Self {
            run,
            spec,
            kin,
            limits: RunLimits::default(),
            started: Timestamp::ZERO,
            at: Timestamp::ZERO,
            had: BTreeSet::new(),
            turn: 0,
            history: Arc::new(History::default()),
            totals: RunTotals::default(),
            foresight: Foresight::default(),
            guard: LoopGuard::default(),
            held: Held::default(),
            news: News::default(),
            unproductive: Unproductive::default(),
            withdrawn: Withdrawn::default(),
            rejected: BTreeSet::new(),
            context: Context::default(),
            attendance: Attendance::default(),
            misfits: 0,
            lost: 0,
            under_way: UnderWay::default(),
            mailbox: Mailbox::default(),
            phase: Phase::Created,
        }
    }

    /// Takes a fact. One that does not belong to the present state is stale and changes nothing.
    #[must_use = "effects that are not carried out stall the run"]
    pub fn on(&mut self, now: Timestamp, event: RunEvent) -> Vec<RunEffect> {
        let mut effects = Vec::new();
        self.at = now;
        let under_way = self.suspended(&event);
        self.meet_kin(&event);
        let phase = std::mem::replace(&mut self.phase, Phase::Created);
        self.phase = match (phase, event) {
            (
                Phase::Created,
                RunEvent::RunStarted { goal, limits, history, repairs, attendance, tools, .. },
            ) => self.start(now, &goal, (limits, attendance, tools), (history, repairs), &mut effects),
            (
                Phase::Asking { turn, model, purpose },
                RunEvent::ModelReplied { turn: of, model: from, reply, attempts },
            ) if (turn, model) == (of, from) => {
                self.replied(now, model, purpose, (reply, attempts), &mut effects)
            }
            (
                Phase::Asking { turn, model, purpose },
                RunEvent::ModelFailed { turn: of, model: from, failure, attempts },
            ) if (turn, model) == (of, from) => {
                self.model_gave_up(now, model, purpose, (failure, attempts), &mut effects)
            }
            (Phase::Summarising(waiting), RunEvent::SummaryReplied { turn, model, reply, attempts })
                if waiting.is_for(turn, model) =>
            {
                self.summary_replied(now, waiting, (reply, attempts), &mut effects)
            }
            (Phase::Summarising(waiting), RunEvent::SummaryFailed { turn, model, failure: _, attempts })
                if waiting.is_for(turn, model) =>
            {
                self.totals.model_attempts += attempts;
                self.summarised(now, waiting, None, &mut effects)
            }
            (Phase::Calling(slots), RunEvent::CallEnded { call, record }) => {
                self.call_ended(now, slots, call, record, &mut effects)
            }
            (Phase::Calling(slots), RunEvent::TimerFired { timer: RunTimer::Unpark(call) }) => {
                self.unpark(now, slots, call, &mut effects)
            }
            (Phase::Settling { slots, reason, explanation }, RunEvent::CallEnded { call, record }) => {
                self.call_settled(now, slots, reason, explanation, (call, record), &mut effects)
            }
            (
                phase,
                event @ (RunEvent::ChildEnded { .. } | RunEvent::TimerFired { timer: RunTimer::Child(_) }),
            ) => self.on_child(now, phase, event, &mut effects),
            (Phase::Calling(slots), RunEvent::InputGiven { call, text }) => {
                self.input_given(now, slots, call, text, &mut effects)
            }
            (
                Phase::Settling { slots, reason, explanation },
                RunEvent::TimerFired { timer: RunTimer::Settle },
            ) => self.close(now, slots, reason, explanation, &mut effects),
            (phase, RunEvent::CancelRequested { by }) => {
                self.stop_early(now, phase, StopReason::Cancelled { by }, &mut effects)
            }
            (phase, RunEvent::TimerFired { timer: RunTimer::WallClock }) => {
                self.stop_early(now, phase, StopReason::LimitReached(LimitKind::WallClock), &mut effects)
            }
            (phase, RunEvent::Interrupted {}) => self.interrupted(now, phase, &under_way, &mut effects),
            (phase, event) => self.learned(now, phase, event, &mut effects),
        };
        effects
    }

    /// Ends the run because Dauntless itself cannot go on; `code` names where.
    pub fn fail(&mut self, now: Timestamp, code: &str, explanation: &str) -> Vec<RunEffect> {
        let mut effects = Vec::new();
        let phase = std::mem::replace(&mut self.phase, Phase::Created);
        self.phase = match phase {
            Phase::Ended(outcome) => Phase::Ended(outcome),
            phase @ (Phase::Created
            | Phase::Summarising(_)
            | Phase::Asking { .. }
            | Phase::Calling(_)
            | Phase::Settling { .. }) => {
                if let Phase::Calling(slots) | Phase::Settling { slots, .. } = &phase {
                    self.leave_children(slots, &mut effects);
                }
                let reason = StopReason::Internal { code: code.into() };
                self.end(now, reason, Some(explanation.into()), None, &mut effects)
            }
        };
        effects
    }

    /// The conversation so far.
    pub const fn history(&self) -> &Arc<History> {
        &self.history
    }

    /// The time of the last event.
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// The run.
    pub const fn run(&self) -> RunId {
        self.run
    }

    /// How it ended, once it has.
    pub const fn outcome(&self) -> Option<&Outcome> {
        match &self.phase {
            Phase::Ended(outcome) => Some(outcome),
            Phase::Created
            | Phase::Summarising(_)
            | Phase::Asking { .. }
            | Phase::Calling(_)
            | Phase::Settling { .. } => None,
        }
    }

    /// What it used so far.
    pub const fn totals(&self) -> &RunTotals {
        &self.totals
    }

    fn deadline(&self) -> Timestamp {
        self.started + self.limits.wall_clock
    }

    fn start(
        &mut self,
        now: Timestamp,
        goal: &Arc<str>,
        (limits, attendance, tools): (RunLimits, Attendance, Vec<Arc<str>>),
        (past, repairs): (History, Vec<HistoryRepair>),
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        self.limits = limits;
        self.attendance = attendance;
        self.started = now;
        self.had = tools.into_iter().collect();
        let own = &self.spec.agent.instructions;
        let instructions = self.spec.answer.as_ref().map_or_else(|| Arc::clone(own), |shape| shape.told(own));
        self.history = Arc::new(past.resume(&instructions, goal));
        if !repairs.is_empty() {
            let repairs = repairs.into_iter().map(|repair| self.spec.redactor.repair(repair)).collect();
            effects.push(RunEffect::Report(Progress::HistoryRepaired { repairs }));
        }
        effects.push(RunEffect::StartTimer { timer: RunTimer::WallClock, at: self.deadline() });
        self.next_turn(now, effects)
    }

    fn ask(&mut self, now: Timestamp, purpose: Purpose, effects: &mut Vec<RunEffect>) -> Phase {
        self.turn += 1;
        self.totals.turns += 1;
        self.context.turn_started();
        effects.push(RunEffect::Report(Progress::TurnStarted { turn: self.turn }));
        self.ask_model(now, 0, purpose, effects)
    }

    /// The model to ask when `model` failed like this, if there is one and the run can pay it.
    fn fallback_for(&self, model: u32, failure: &Failure) -> Option<u32> {
        let next = self.spec.fallbacks.get(usize::try_from(model).ok()?)?;
        (next.helps(failure) && self.unaffordable(model + 1, 1).is_none()).then_some(model + 1)
    }

    fn ask_fallback(
        &mut self,
        now: Timestamp,
        model: u32,
        purpose: Purpose,
        (failure, attempt): (&Failure, u32),
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        let (turn, code, wait) = (self.turn, failure.code, Duration::ZERO);
        effects.push(RunEffect::Report(Progress::ModelRetried { turn, attempt, code, wait }));
        self.ask_model(now, model, purpose, effects)
    }

    /// The declaration of a model by its number.
    fn model(&self, number: u32) -> &ModelSpec {
        let fallback = usize::try_from(number).ok().and_then(|n| n.checked_sub(1));
        let fallback = fallback.and_then(|n| self.spec.fallbacks.get(n));
        fallback.map_or(&self.spec.model, |fallback| &fallback.model)
    }

    /// Says something to the model in the user's place.
    fn nudge(&mut self, text: Arc<str>, effects: &mut Vec<RunEffect>) {
        effects.push(RunEffect::Report(Progress::Nudged { turn: self.turn, text: Arc::clone(&text) }));
        Arc::make_mut(&mut self.history).user(text);
    }

    fn model_failed(
        &mut self,
        now: Timestamp,
        purpose: Purpose,
        failure: Failure,
        attempts: u32,
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        let (reason, text) = match purpose {
            Purpose::Work => (StopReason::ModelFailed { code: failure.code, attempts }, None),
            Purpose::LastWords(limit) => {
                (StopReason::LimitReached(limit), self.history.last_assistant_text().cloned())
            }
        };
        self.end(now, reason, Some(failure.message), text, effects)
    }
}

#[cfg(test)]
mod tests;
