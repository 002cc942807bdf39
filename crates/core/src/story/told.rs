//! The words for each event.

use std::fmt::Write as _;
use std::time::Duration;

use dauntless_contract::{
    Attendance, CallKey, CallRecord, CallVerdict, EffectState, Failure, Finish, ModelReply, Outcome, RawCall,
    ResolvedBy, RunEvent, RunTimer, Usage, Verified, VerifyVerdict,
};

use super::Story;
use crate::excerpt::{counted, shortened};

/// Longest piece of a text that others wrote.
const QUOTED_BYTES_MAX: usize = 200;
/// Most names that are listed.
const LISTED_MAX: usize = 12;

impl Story {
    /// What happened, and what belongs to it.
    pub(super) fn told(&self, event: &RunEvent) -> (String, Vec<String>) {
        let text = match event {
            RunEvent::RunStarted { .. } => started(event),
            RunEvent::ModelReplied { turn, model, reply, attempts } => {
                return self.replied_text(*turn, *model, reply, *attempts);
            }
            RunEvent::ModelFailed { turn, model, failure, attempts } => {
                format!("turn {turn}: {} failed with {}", who(*model), self.failed(failure, *attempts))
            }
            RunEvent::SummaryReplied { turn, model, reply, attempts } => format!(
                "turn {turn}: earlier turns were summarised by {}{}",
                who(*model),
                asides(*attempts, reply.usage)
            ),
            RunEvent::SummaryFailed { turn, model, failure, attempts } => format!(
                "turn {turn}: {} gave no summary of earlier turns: {}",
                who(*model),
                self.failed(failure, *attempts)
            ),
            RunEvent::CallEnded { call, record } => self.ended_text(*call, record),
            RunEvent::AttemptFailed { call, by, attempt, failure, wait } => {
                let tool = by.clone().unwrap_or_else(|| self.tool(*call));
                let (failed, wait) = (self.failed(failure, 1), length(*wait));
                format!("{call} {tool}: attempt {attempt} failed with {failed}; the next after {wait}")
            }
            RunEvent::ChildEnded { call, attempt, outcome } => self.child_text(*call, *attempt, outcome),
            RunEvent::CallVerified { call, verdict } => self.verified_text(*call, verdict),
            RunEvent::OutcomeResolved { call, record, by } => self.resolved_text(*call, record, by),
            RunEvent::InputGiven { call, text } if text.trim().is_empty() => {
                format!("{call}: the user had no answer")
            }
            RunEvent::InputGiven { call, text } => {
                format!("{call}: the user answered: {}", self.quoted(text))
            }
            RunEvent::MessageReceived { letter: _, from, agent, text } => {
                format!("{} (run {from}) wrote: {}", self.quoted(agent), self.quoted(text))
            }
            RunEvent::TimerFired { timer: RunTimer::WallClock } => "the time of the run was up".to_owned(),
            RunEvent::TimerFired { timer: RunTimer::Settle } => {
                "calls that were still open were no longer waited for".to_owned()
            }
            RunEvent::TimerFired { timer: RunTimer::Unpark(call) } => {
                format!("{call} {}: asked again", self.tool(*call))
            }
            RunEvent::TimerFired { timer: RunTimer::Child(call) } => match self.calls.get(call) {
                Some(agent) => format!("{call} {agent}: its time was up"),
                None => format!("step {}: its time was up", call.turn),
            },
            RunEvent::CancelRequested { by } => format!("cancelled by {}", self.quoted(by)),
            RunEvent::ConfigChosen { config, over, by } => {
                let short = |hash: &str| shortened(hash, 12).into_owned();
                format!(
                    "its agent is configured otherwise; {} chose {} over {}",
                    self.quoted(by),
                    short(config),
                    short(over)
                )
            }
            RunEvent::LetterSetAside { letter: _, why } => {
                format!("a letter led to nothing: {}", self.quoted(why))
            }
            RunEvent::Interrupted {} if self.let_go => "another process goes on".to_owned(),
            RunEvent::Interrupted {} => {
                "interrupted: the process that drove the run came to its end, and another goes on".to_owned()
            }
            RunEvent::Suspended { calls, model } => suspended(calls, *model),
        };
        (text, Vec::new())
    }

    fn child_text(&self, call: CallKey, attempt: u32, outcome: &Outcome) -> String {
        let Outcome { run, reason, text, .. } = outcome;
        let again = if attempt > 1 { format!(" (try {attempt})") } else { String::new() };
        let words = text.as_deref().map_or_else(String::new, |text| format!(": {}", self.quoted(text)));
        let what = match self.calls.get(&call) {
            Some(agent) => format!("{call} {agent}"),
            // A plan asks for its children itself.
            None => format!("step {}", call.turn),
        };
        format!("{what}: run {run}{again} ended: {}{words}", self.quoted(&reason.to_string()))
    }

    fn resolved_text(&self, call: CallKey, record: &CallRecord, by: &ResolvedBy) -> String {
        let by = match by {
            ResolvedBy::Late { epoch: _ } => "by the worker that had begun it".to_owned(),
            ResolvedBy::Person { name } => format!("by {}", self.quoted(name)),
        };
        format!("told {by}, what was unknown: {}", self.ended_text(call, record))
    }

    fn verified_text(&self, call: CallKey, verdict: &VerifyVerdict) -> String {
        let said = match verdict {
            VerifyVerdict::Answered(Verified::Happened(output)) => {
                format!("it happened: {}", self.quoted(&output.text))
            }
            VerifyVerdict::Answered(Verified::NotHappened) => "it did not happen".to_owned(),
            VerifyVerdict::Answered(Verified::CannotTell) => "it cannot tell".to_owned(),
            VerifyVerdict::Failed(failure) => self.failed(failure, 1),
        };
        format!("{call} {}: asked whether the call happened: {said}", self.tool(call))
    }

    fn ended_text(&self, call: CallKey, record: &CallRecord) -> String {
        let CallRecord { verdict, attempts, waited, stopped_by: _, out_for, by } = record;
        let mut text = format!("{call} {}: ", self.tool(call));
        if let Some(by) = by {
            let _ = write!(text, "its fallback {by}: ");
        }
        match verdict {
            CallVerdict::Succeeded(output) => {
                text.push_str("ok");
                if *attempts > 1 {
                    let _ = write!(text, " after {}", counted(*attempts, "attempt"));
                }
                let _ = write!(text, ": {}", self.quoted(&output.text));
            }
            CallVerdict::Failed(failure) => {
                text.push_str(match failure.effect {
                    EffectState::None => "",
                    EffectState::Happened => "it happened, but ",
                    EffectState::Unknown => "it may have happened: ",
                });
                text.push_str(&self.failed(failure, *attempts));
            }
        }
        if !waited.is_zero() {
            let _ = write!(text, "; {} of waiting", length(*waited));
        }
        if let Some(out_for) = out_for {
            let _ = write!(text, "; out of service for {}", length(*out_for));
        }
        text
    }

    fn replied_text(
        &self,
        turn: u32,
        model: u32,
        reply: &ModelReply,
        attempts: u32,
    ) -> (String, Vec<String>) {
        let (who, asides) = (who(model), asides(attempts, reply.usage));
        let words = reply.refusal.as_deref().or(reply.text.as_deref()).filter(|text| !text.trim().is_empty());
        let words = words.map(|words| self.quoted(words));
        if reply.calls.is_empty() {
            let said = match (words, &reply.refusal, &reply.finish) {
                (Some(words), Some(_), _) => format!("refuses: {words}"),
                (Some(words), None, Finish::Length) => format!("is cut off while it says: {words}"),
                (Some(words), None, _) => format!("says: {words}"),
                (None, _, Finish::ContentFilter) => "is held back by the provider's filter".to_owned(),
                (None, _, _) => "says nothing".to_owned(),
            };
            return (format!("turn {turn}: {who} {said}{asides}"), Vec::new());
        }
        let words = words.map_or_else(String::new, |words| format!(" and says: {words}"));
        let calls = counted(reply.calls.len(), "call");
        let line = |(index, raw): (u32, &RawCall)| {
            format!("{} {} {}", CallKey { turn, index }, raw.name, self.quoted(&raw.arguments))
        };
        let more = (0..).zip(&reply.calls).map(line).collect();
        (format!("turn {turn}: {who} asks for {calls}{words}{asides}"), more)
    }

    fn failed(&self, failure: &Failure, attempts: u32) -> String {
        let mut text = failure.code.to_string();
        match attempts {
            0 => text.push_str(", not sent"),
            1 => {}
            n => {
                let _ = write!(text, " after {}", counted(n, "attempt"));
            }
        }
        let _ = write!(text, ": {}", self.quoted(&failure.message));
        text
    }

    /// A text that others wrote: without secrets, on one line, and then cut.
    fn quoted(&self, text: &str) -> String {
        let text = self.redactor.text(text);
        let line: Vec<&str> = text.split_whitespace().collect();
        shortened(&line.join(" "), QUOTED_BYTES_MAX).into_owned()
    }
}

fn started(event: &RunEvent) -> String {
    let RunEvent::RunStarted { agent, history, repairs, attendance, tools, .. } = event else {
        return String::new();
    };
    let tools = match tools.len() {
        0 => "without tools".to_owned(),
        1..=LISTED_MAX => format!("with {}", tools.join(", ")),
        n => format!("with {n} tools"),
    };
    let mut text = format!("started for {agent} {tools}");
    if *attendance == Attendance::Attended {
        text.push_str("; somebody can be asked");
    }
    if !history.is_empty() {
        let messages = counted(history.messages().len(), "message");
        let _ = write!(text, ", after a conversation of {messages}");
    }
    if !repairs.is_empty() {
        let _ = write!(text, " with {}", counted(repairs.len(), "repair"));
    }
    text
}

fn who(model: u32) -> String {
    match model {
        0 => "the model".to_owned(),
        n => format!("fallback model {n}"),
    }
}

fn asides(attempts: u32, usage: Option<Usage>) -> String {
    let attempts = (attempts > 1).then(|| format!("after {}", counted(attempts, "attempt")));
    let usage = usage.map(|usage| usage.total().to_string());
    let all: Vec<String> = attempts.into_iter().chain(usage).collect();
    if all.is_empty() { String::new() } else { format!(" ({})", all.join(", ")) }
}

fn suspended(calls: &[CallKey], model: bool) -> String {
    let model = model.then(|| "a request of the model".to_owned());
    let under_way: Vec<String> =
        model.into_iter().chain(calls.iter().map(|call| format!("call {call}"))).collect();
    match under_way.is_empty() {
        true => "suspended in good order, with nothing under way".to_owned(),
        false => format!("suspended in good order, with {} under way", under_way.join(", ")),
    }
}

/// A length of time, as exact as a person cares for.
pub fn length(time: Duration) -> String {
    let seconds = time.as_secs();
    let rounded = |text: String| format!("{} s", text.trim_end_matches('0').trim_end_matches('.'));
    match seconds {
        0 if time.as_millis() < 10 => format!("{} ms", time.as_millis()),
        0..10 => rounded(format!("{:.2}", time.as_secs_f64())),
        10..120 => rounded(format!("{:.1}", time.as_secs_f64())),
        120..7_200 => format!("{} min {} s", seconds / 60, seconds % 60),
        7_200..172_800 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}
