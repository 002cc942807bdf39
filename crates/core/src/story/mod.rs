//! A run as a person reads it: a fold of its events into lines, counts and what it waits for.
//!
//! It needs the events alone, so that a run can be looked at whose agent is no longer configured.
//! What events alone cannot tell (that a call which failed went on to another tool, or is parked)
//! comes from the run machine where there is one. It decides nothing and hides nothing but secrets.

mod told;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    Attendance, CallKey, CallRecord, MicroUsd, ModelReply, Question, RawCall, Recorded, RunEvent, RunTimer,
    RunTotals, Seq, Timestamp, Tokens, Usage, Verified, VerifyVerdict,
};
use serde::{Deserialize, Serialize};

use crate::excerpt::counted;
use crate::plan::PlanMachine;
use crate::redact::Redactor;
use crate::run::{ASK_USER, Awaited, RunMachine};
pub use told::length;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Its event.
    pub seq: Seq,
    /// When, from the start of the run.
    pub after: Duration,
    /// What, in one line.
    pub text: String,
    /// What belongs to it, a line each: the calls that a model asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub more: Vec<String>,
}

/// Something that a run waits for, and how long it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wait {
    /// What.
    #[serde(rename = "for")]
    pub awaited: Awaited,
    /// Since when.
    pub since: Timestamp,
}

/// A run in a few words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Headline {
    /// The agent.
    pub agent: Arc<str>,
    /// The goal.
    pub goal: String,
    /// Replies and failures of the model.
    pub turns: u32,
    /// Calls that it asked for.
    pub calls: u32,
    /// Attempts of those that have ended.
    pub attempts: u32,
    /// Tokens, where the provider says.
    pub tokens: Tokens,
    /// Cost by the configured price; none where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<MicroUsd>,
    /// How often the process that drove it came to its end.
    pub interruptions: u32,
    /// What it waits for, unless it has ended.
    pub waits: Vec<Wait>,
    /// The runs below it. Their tokens and their cost are in its own.
    #[serde(skip_serializing_if = "Below::is_empty")]
    pub below: Below,
}

/// What the runs below another did, all levels together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Below {
    /// How many there are.
    pub runs: u32,
    /// Replies and failures of their models.
    pub turns: u32,
    /// Calls that these asked for.
    pub calls: u32,
}

impl Below {
    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.runs == 0
    }

    fn add(&mut self, runs: u32, turns: u32, calls: u32) {
        self.runs = self.runs.saturating_add(runs);
        self.turns = self.turns.saturating_add(turns);
        self.calls = self.calls.saturating_add(calls);
    }
}

/// What the machine of a run knows beyond its events.
#[derive(Clone, Debug)]
pub struct Folded<'a> {
    /// What it waits for.
    pub waits: Vec<Awaited>,
    /// What it used.
    pub totals: &'a RunTotals,
}

impl<'a> From<&'a RunMachine> for Folded<'a> {
    fn from(machine: &'a RunMachine) -> Self {
        Self { waits: machine.waits(), totals: machine.totals() }
    }
}

impl<'a> From<&'a PlanMachine> for Folded<'a> {
    fn from(machine: &'a PlanMachine) -> Self {
        Self { waits: machine.waits(), totals: machine.totals() }
    }
}

/// A call that has not ended.
#[derive(Clone, Debug)]
struct Open {
    tool: Arc<str>,
    since: Timestamp,
    question: Option<Question>,
}

/// What is known of a run after the events so far.
#[derive(Clone, Debug)]
pub struct Story {
    redactor: Redactor,
    seen: Seq,
    started: Timestamp,
    last: Timestamp,
    /// When the model was asked, if nothing else is waited for.
    asked: Timestamp,
    agent: Arc<str>,
    goal: String,
    tools: Vec<Arc<str>>,
    attendance: Attendance,
    turn: u32,
    /// The names of the tools of all calls.
    calls: BTreeMap<CallKey, Arc<str>>,
    open: BTreeMap<CallKey, Open>,
    /// When calls ended last: one that ended may be parked, or go on to a fallback.
    ends: BTreeMap<CallKey, Timestamp>,
    attempts: u32,
    usage: Usage,
    below: Below,
    interruptions: u32,
    /// Whether the last event is that its process let go of it in good order.
    let_go: bool,
    lines: Vec<Line>,
}

impl Story {
    /// A run of which nothing is known yet. What the redactor masks is not shown.
    pub fn new(redactor: Redactor) -> Self {
        Self {
            redactor,
            seen: 0,
            started: Timestamp::ZERO,
            last: Timestamp::ZERO,
            asked: Timestamp::ZERO,
            agent: "".into(),
            goal: String::new(),
            tools: Vec::new(),
            attendance: Attendance::default(),
            turn: 0,
            calls: BTreeMap::new(),
            open: BTreeMap::new(),
            ends: BTreeMap::new(),
            attempts: 0,
            usage: Usage::default(),
            below: Below::default(),
            interruptions: 0,
            let_go: false,
            lines: Vec::new(),
        }
    }

    /// Takes in the next event.
    pub fn see(&mut self, Recorded { at, event }: &Recorded) {
        if self.seen == 0 {
            self.started = *at;
        }
        self.seen += 1;
        self.last = *at;
        let (text, more) = self.told(event);
        self.lines.push(Line { seq: self.seen, after: at.since(self.started), text, more });
        self.fold(*at, event);
        self.let_go = matches!(event, RunEvent::Suspended { .. });
    }

    fn fold(&mut self, at: Timestamp, event: &RunEvent) {
        match event {
            RunEvent::RunStarted { agent, goal, tools, attendance, .. } => {
                self.agent = Arc::clone(agent);
                self.goal = self.redactor.text(goal).into_owned();
                (self.tools, self.attendance) = (tools.clone(), *attendance);
                self.asked = at;
            }
            RunEvent::ModelReplied { turn, reply, .. } => self.replied(at, *turn, reply),
            RunEvent::ModelFailed { turn, .. } => (self.turn, self.asked) = (*turn, at),
            RunEvent::SummaryReplied { reply, .. } => {
                self.usage += reply.usage.unwrap_or_default();
                self.asked = at;
            }
            RunEvent::SummaryFailed { .. } => self.asked = at,
            RunEvent::CallEnded { call, record } => self.ended(at, *call, record),
            RunEvent::ChildEnded { call, outcome, .. } => {
                let RunTotals { usage, children, turns, tool_calls, .. } = outcome.totals;
                self.usage += usage;
                self.below.add(children.saturating_add(1), turns, tool_calls);
                self.attempts += 1;
                self.ends.insert(*call, at);
                self.close(at, *call);
            }
            RunEvent::InputGiven { call, .. } => self.close(at, *call),
            RunEvent::TimerFired { timer: RunTimer::Unpark(call) } => {
                let tool = self.tool(*call);
                self.open.insert(*call, Open { tool, since: at, question: None });
            }
            // What did not happen is begun again.
            RunEvent::CallVerified { verdict: VerifyVerdict::Answered(Verified::NotHappened), .. } => {}
            RunEvent::CallVerified { call, .. } => self.close(at, *call),
            RunEvent::Interrupted {} => {
                self.interruptions += u32::from(!self.let_go);
                self.asked = at;
            }
            RunEvent::TimerFired { timer: RunTimer::WallClock | RunTimer::Settle | RunTimer::Child(_) }
            | RunEvent::CancelRequested { .. }
            | RunEvent::AttemptFailed { .. }
            | RunEvent::OutcomeResolved { .. }
            | RunEvent::ConfigChosen { .. }
            | RunEvent::LetterSetAside { .. }
            | RunEvent::MessageReceived { .. }
            | RunEvent::Suspended { .. } => {}
        }
    }

    fn replied(&mut self, at: Timestamp, turn: u32, reply: &ModelReply) {
        (self.turn, self.asked) = (turn, at);
        self.usage += reply.usage.unwrap_or_default();
        self.open.clear();
        for (index, raw) in (0..).zip(&reply.calls) {
            let call = CallKey { turn, index };
            self.calls.insert(call, Arc::clone(&raw.name));
            // What the agent does not have was answered on the spot.
            if self.tools.contains(&raw.name) {
                let question = self.question(call, raw);
                self.open.insert(call, Open { tool: Arc::clone(&raw.name), since: at, question });
            }
        }
    }

    fn question(&self, call: CallKey, raw: &RawCall) -> Option<Question> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Asked {
            question: String,
            choices: Vec<String>,
        }
        let asks = self.attendance == Attendance::Attended && &*raw.name == ASK_USER;
        let Asked { question, choices } =
            asks.then(|| serde_json::from_str(&raw.arguments).unwrap_or_default())?;
        let redacted = |text: String| self.redactor.text(&text).into();
        Some(Question {
            call,
            question: redacted(question),
            choices: choices.into_iter().map(redacted).collect(),
        })
    }

    fn ended(&mut self, at: Timestamp, call: CallKey, record: &CallRecord) {
        self.attempts += record.attempts;
        self.ends.insert(call, at);
        self.close(at, call);
    }

    fn close(&mut self, at: Timestamp, call: CallKey) {
        self.open.remove(&call);
        if self.open.is_empty() {
            self.asked = at;
        }
    }

    fn tool(&self, call: CallKey) -> Arc<str> {
        self.calls.get(&call).cloned().unwrap_or_else(|| "a tool".into())
    }

    /// The events in order, a line each.
    pub fn timeline(&self) -> &[Line] {
        &self.lines
    }

    /// The run in a few words. With its machine, folded from the same events, they are exact.
    pub fn headline(&self, machine: Option<Folded<'_>>) -> Headline {
        let cost = machine.as_ref().map(|machine| machine.totals.cost);
        let awaited = machine.map_or_else(|| self.guessed(), |machine| machine.waits);
        let waits = awaited.into_iter().map(|awaited| Wait { since: self.since(&awaited), awaited });
        Headline {
            agent: Arc::clone(&self.agent),
            goal: self.goal.clone(),
            turns: self.turn,
            calls: u32::try_from(self.calls.len()).unwrap_or(u32::MAX),
            attempts: self.attempts,
            tokens: self.usage.total(),
            cost: cost.filter(|cost| *cost > MicroUsd::ZERO),
            interruptions: self.interruptions,
            waits: waits.collect(),
            below: self.below,
        }
    }

    /// The time of the last event.
    pub const fn last_at(&self) -> Timestamp {
        self.last
    }

    /// How many events there are.
    pub const fn events(&self) -> Seq {
        self.seen
    }

    fn guessed(&self) -> Vec<Awaited> {
        if self.open.is_empty() {
            return vec![Awaited::Model { turn: self.turn + 1 }];
        }
        let awaited = |(call, open): (&CallKey, &Open)| match &open.question {
            Some(question) => Awaited::Answer(question.clone()),
            None => Awaited::Call { call: *call, tool: Arc::clone(&open.tool) },
        };
        self.open.iter().map(awaited).collect()
    }

    fn since(&self, awaited: &Awaited) -> Timestamp {
        let call = match awaited {
            Awaited::Model { .. } | Awaited::Summary { .. } => return self.asked,
            Awaited::Call { call, .. }
            | Awaited::Child { call, .. }
            | Awaited::Verdict { call, .. }
            | Awaited::Tool { call, .. } => call,
            Awaited::Answer(question) => &question.call,
        };
        let open = self.open.get(call).map(|open| open.since);
        open.or_else(|| self.ends.get(call).copied()).unwrap_or(self.asked)
    }
}

impl Wait {
    /// The wait at a time, in words.
    pub fn told(&self, now: Timestamp) -> String {
        let mut text = format!("{}, for {}", self.awaited, length(now.since(self.since)));
        if let Awaited::Tool { until, .. } = &self.awaited {
            let left = until.since(now);
            text += &match left.is_zero() {
                true => "; it is asked again now".to_owned(),
                false => format!("; it is asked again in {} at the latest", length(left)),
            };
        }
        text
    }
}

impl Headline {
    /// Takes in what a child used so far whose end the run has not seen.
    pub fn take_in(&mut self, child: &Self) {
        self.below.add(child.below.runs.saturating_add(1), child.turns, child.calls);
        self.below.add(0, child.below.turns, child.below.calls);
        self.tokens += child.tokens;
        if let Some(cost) = child.cost {
            self.cost = Some(self.cost.unwrap_or_default() + cost);
        }
    }

    /// What it used, in words.
    pub fn used(&self) -> String {
        let mut parts = vec![counted(self.turns, "turn"), counted(self.calls, "call")];
        if self.calls > 0 && self.attempts > 0 {
            parts.push(counted(self.attempts, "attempt"));
        }
        if self.tokens > Tokens::ZERO {
            parts.push(self.tokens.to_string());
        }
        parts.extend(self.cost.map(|cost| cost.to_string()));
        if self.interruptions > 0 {
            parts.push(counted(self.interruptions, "interruption"));
        }
        if let Below { runs: 1.., turns, calls } = self.below {
            let (turns, calls) = (counted(turns, "turn"), counted(calls, "call"));
            parts.push(format!("and below it {} with {turns} and {calls}", counted(self.below.runs, "run")));
        }
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests;
