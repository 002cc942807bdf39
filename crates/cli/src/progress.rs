//! The events of a run as lines for a person: one for each call, and few besides.
//!
//! A function of the events alone. It decides what is said and not how it gets onto a screen; that
//! text is harmless to a terminal is seen to here, for models and tools write a part of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{CallKey, FailureCode, HistoryRepair, Progress, RunId, StopReason, StoppedBy, Trim};

use crate::output::one_line;

/// What a line is about, up to the column where what happened begins.
const LABEL_CHARS: usize = 46;
/// Longest message of a failure, or words of a nudge, that is shown.
const MESSAGE_CHARS_MAX: usize = 160;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// What it is about, in a column of its own.
    pub(crate) label: String,
    /// What happened.
    pub(crate) what: String,
    /// How it is to be taken.
    pub(crate) tone: Tone,
}

/// How a line is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Bad,
    /// Something is under way, or is being worked around.
    Busy,
}

/// What is known of a run so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Story {
    /// The turn whose reply is awaited.
    asking: Option<u32>,
    open: BTreeMap<CallKey, Call>,
    /// Steps of a plan that have not ended, which no model has asked for.
    steps: BTreeMap<CallKey, Call>,
    /// The runs below that have not ended.
    below: BTreeMap<RunId, Below>,
    /// Each call that is open at a dependency tells of its trip; the drawn wait tells trips apart.
    trips: BTreeSet<(Arc<str>, Duration)>,
}

/// What is known of a run below.
#[derive(Clone, Debug)]
struct Below {
    level: usize,
    agent: Arc<str>,
    story: Story,
}

/// A call that has not ended.
#[derive(Clone, Debug)]
struct Call {
    label: String,
    /// What went wrong with earlier attempts, ready to be shown.
    past: String,
    now: Now,
}

#[derive(Clone, Debug)]
enum Now {
    Asked,
    Running { attempt: u32 },
    Waiting { code: FailureCode, wait: Duration },
    Parked { code: FailureCode, wait: Duration },
}

impl Story {
    /// Takes in one event. Gives the line that is now final, if there is one.
    pub(crate) fn see(&mut self, event: &Progress) -> Option<Line> {
        match event {
            Progress::TurnStarted { turn } => {
                self.asking = Some(*turn);
                None
            }
            Progress::CallAsked { call, tool, arguments, .. } => {
                self.asking = None;
                let label = label(&format!("{:<4} ", call.to_string()), &format!("{tool} {arguments}"));
                self.open.insert(*call, Call { label, past: String::new(), now: Now::Asked });
                None
            }
            Progress::CallRepaired { call, repairs } => {
                self.change(call, |call| repairs.iter().for_each(|repair| call.note(repair)))
            }
            Progress::AttemptStarted { call, attempt, .. } => self.change(call, |call| call.begin(*attempt)),
            Progress::ChildStarted { call, agent, attempt, .. } => self.child_started(*call, agent, *attempt),
            Progress::ChildEnded { call, outcome, .. } => {
                self.below.remove(&outcome.run);
                Some(self.steps.remove(call)?.stepped(&outcome.reason))
            }
            Progress::AttemptFailed { call, code, wait, .. } => {
                self.change(call, |call| call.now = Now::Waiting { code: *code, wait: *wait })
            }
            Progress::CallParked { call, code, wait, .. } => {
                self.change(call, |call| call.now = Now::Parked { code: *code, wait: *wait })
            }
            Progress::CallUnparked { call, parked, .. } => self.change(call, |call| {
                call.note(&format!("parked for {}", length(*parked)));
                call.now = Now::Asked;
            }),
            Progress::CallEnded { call, code, message, attempts, stopped_by, .. } => {
                let mut call = self.open.remove(call)?;
                call.give_up_waiting();
                Some(match code {
                    None => call.worked(*attempts),
                    Some(code) => call.failed(*code, message.as_deref(), *attempts, *stopped_by),
                })
            }
            Progress::InChild { run, parent, agent, progress, .. } => {
                self.in_child(*run, *parent, agent, progress)
            }
            Progress::ModelRetried { turn, code, wait, .. } => {
                let what = format!("{code}, next attempt in {}", length(*wait));
                Some(note(&format!("model, turn {turn}"), what, Tone::Busy))
            }
            Progress::BreakerOpened { tool, retry_in } => {
                let is_new = self.trips.insert((Arc::clone(tool), *retry_in));
                let what = format!("open: calls are refused for {}", length(*retry_in));
                is_new.then(|| note(&format!("breaker of {tool}"), what, Tone::Bad))
            }
            Progress::Nudged { turn, text } => {
                self.asking = None;
                let what = one_line(text, MESSAGE_CHARS_MAX);
                Some(note(&format!("nudge after turn {turn}"), what, Tone::Busy))
            }
            Progress::HistoryRepaired { repairs } => {
                Some(note("history repaired", repaired(repairs), Tone::Busy))
            }
            Progress::ToolRejected { turn: _, tool, message } => {
                let what = format!("not offered in this run: {}", one_line(message, MESSAGE_CHARS_MAX));
                Some(note(&format!("schema of {tool}"), what, Tone::Bad))
            }
            Progress::ContextTrimmed { turn, trim, before, after } => {
                let what = format!("{}; {} to {after}", trimmed(*trim), before.0);
                Some(note(&format!("context, turn {turn}"), what, Tone::Busy))
            }
            Progress::Lagged { lost } => {
                Some(note("this view was too slow", format!("{lost} events are not shown"), Tone::Busy))
            }
            Progress::RunEnded { .. } => {
                self.asking = None;
                None
            }
            Progress::TextArrived { .. } | Progress::InputRequested(_) | Progress::InputGiven { .. } => None,
        }
    }

    fn child_started(&mut self, call: CallKey, agent: &str, attempt: u32) -> Option<Line> {
        if self.open.contains_key(&call) {
            return self.change(&call, |call| call.begin(attempt));
        }
        let label = label(&format!("{:<4} ", call.turn), agent);
        self.steps.insert(call, Call { label, past: String::new(), now: Now::Running { attempt } });
        None
    }

    fn in_child(&mut self, run: RunId, parent: RunId, agent: &Arc<str>, progress: &Progress) -> Option<Line> {
        let level = self.below.get(&parent).map_or(1, |parent| parent.level + 1);
        let child = self.below.entry(run).or_insert_with(|| Below {
            level,
            agent: Arc::clone(agent),
            story: Self::default(),
        });
        let line = child.story.see(progress).map(|line| child.inside(line));
        if let Progress::ChildEnded { outcome, .. } = progress {
            self.below.remove(&outcome.run);
        }
        line
    }

    fn change(&mut self, call: &CallKey, change: impl FnOnce(&mut Call)) -> Option<Line> {
        if let Some(call) = self.open.get_mut(call) {
            change(call);
        }
        None
    }

    /// The lines that still change, in the order of the calls.
    pub(crate) fn open(&self) -> Vec<Line> {
        let asking = self.asking.map(|turn| note(&format!("model, turn {turn}"), "…".to_owned(), Tone::Busy));
        let own = self.open.values().chain(self.steps.values()).map(Call::unfinished).chain(asking);
        let below = self.below.values().flat_map(|child| {
            child.story.open().into_iter().map(|line| child.inside(line)).collect::<Vec<_>>()
        });
        own.chain(below).collect()
    }
}

impl Below {
    /// A line of this run among those of the run at the top.
    fn inside(&self, line: Line) -> Line {
        let place = format!("{:width$}{} ", "", self.agent, width = 2 * self.level);
        Line { label: label(&one_line(&place, LABEL_CHARS / 2), line.label.trim_start()), ..line }
    }
}

impl Call {
    fn begin(&mut self, attempt: u32) {
        self.remember();
        self.now = Now::Running { attempt };
    }

    /// Puts something among what happened before.
    fn note(&mut self, what: &str) {
        let _ = write!(self.past, "{what}; ");
    }

    /// Puts a wait that is over among what went wrong.
    fn remember(&mut self) {
        if let Now::Waiting { code, wait } = self.now {
            let _ = write!(self.past, "{code}, waited {}; ", length(wait));
        }
    }

    /// Puts a wait that no attempt followed there as well; how long it was is not known.
    fn give_up_waiting(&mut self) {
        if let Now::Waiting { code, .. } | Now::Parked { code, .. } = self.now {
            let _ = write!(self.past, "{code}; ");
        }
    }

    fn unfinished(&self) -> Line {
        let now = match self.now {
            Now::Asked => "…".to_owned(),
            Now::Running { attempt: 1 } => "running …".to_owned(),
            Now::Running { attempt } => format!("attempt {attempt} …"),
            Now::Waiting { code, wait } => format!("{code}, waiting {} …", length(wait)),
            Now::Parked { code, wait } => format!("{code}, parked for up to {} …", length(wait)),
        };
        Line { label: self.label.clone(), what: format!("{}{now}", self.past), tone: Tone::Busy }
    }

    fn worked(self, attempts: u32) -> Line {
        let what = match attempts {
            0 | 1 => format!("{}ok", self.past),
            _ => format!("{}ok after {attempts} attempts", self.past),
        };
        Line { label: self.label, what, tone: Tone::Good }
    }

    fn stepped(self, reason: &StopReason) -> Line {
        let Self { label, past, .. } = self;
        match reason {
            StopReason::Completed => Line { label, what: format!("{past}ok"), tone: Tone::Good },
            reason => {
                let why = one_line(&reason.to_string(), MESSAGE_CHARS_MAX);
                Line { label, what: format!("{past}{why}"), tone: Tone::Bad }
            }
        }
    }

    fn failed(
        self,
        code: FailureCode,
        message: Option<&str>,
        attempts: u32,
        stopped_by: Option<StoppedBy>,
    ) -> Line {
        let mut what = format!("{}{code}", self.past);
        let _ = match attempts {
            0 => write!(what, ", not sent"),
            1 => Ok(()),
            _ => write!(what, " after {attempts} attempts"),
        };
        if let Some(why) = stopped_by.and_then(why_no_more) {
            let _ = write!(what, " ({why})");
        }
        if let Some(message) = message {
            let _ = write!(what, ": {}", one_line(message, MESSAGE_CHARS_MAX));
        }
        Line { label: self.label, what, tone: Tone::Bad }
    }
}

fn repaired(repairs: &[HistoryRepair]) -> String {
    let first = repairs.first().map(ToString::to_string).unwrap_or_default();
    match repairs.len() {
        0 | 1 => first,
        n => format!("{first}, and {} more", n - 1),
    }
}

fn trimmed(trim: Trim) -> String {
    match trim {
        Trim::Shortened { observations } => format!("results shortened: {observations}"),
        Trim::Summarised { rounds } => format!("rounds summarised: {rounds}"),
        Trim::Dropped { rounds } => format!("rounds left out without a summary: {rounds}"),
    }
}

/// Why there was no further attempt, where code and attempts do not say it.
const fn why_no_more(stopped_by: StoppedBy) -> Option<&'static str> {
    match stopped_by {
        StoppedBy::MaxAttempts | StoppedBy::Permanent | StoppedBy::Cancelled => None,
        StoppedBy::Budget => Some("the retry budget is empty"),
        StoppedBy::Deadline => Some("no time for another attempt"),
        StoppedBy::Effect => Some("not repeated, it may have happened"),
        StoppedBy::BreakerOpen => Some("the breaker is open"),
        StoppedBy::RetryAfter => Some("the wait asked for is too long"),
    }
}

fn note(about: &str, what: String, tone: Tone) -> Line {
    Line { label: label("     ", about), what, tone }
}

fn label(place: &str, about: &str) -> String {
    format!("{place}{}", one_line(about, LABEL_CHARS - place.chars().count()))
}

impl Line {
    /// The line with what happened in its column.
    pub(crate) fn columns(&self) -> String {
        format!("{:<LABEL_CHARS$}  ", self.label)
    }
}

/// A length of time, as exact as a person cares for.
pub(crate) fn length(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let text = match time.as_millis() {
        0..10 => return format!("{} ms", time.as_millis()),
        10..10_000 => format!("{seconds:.2}"),
        10_000..120_000 => format!("{seconds:.1}"),
        _ => return format!("{} min {} s", time.as_secs() / 60, time.as_secs() % 60),
    };
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests;
