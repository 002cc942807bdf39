//! What a child's end means to whoever started it: a value, a failure, or the end of more.
//!
//! The stop reason decides and never the text. A child that failed with words is not a child that
//! answered, and what it says is told as data: inside a JSON string, under its name.

use std::sync::Arc;

use dauntless_contract::{Bucket, EffectState, Failure, FailureCode, Json, Outcome, StopReason, ToolOutput};
use serde::Serialize;

use crate::excerpt::{counted, shortened};

/// More of a child's own explanation is for its own report.
const WHY_BYTES_MAX: usize = 300;

/// What kind of end it is, seen from above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It gave its answer.
    Value,
    /// It reached a limit. A fresh run would as well.
    Spent,
    /// Its model came to nothing. A fresh run may do better.
    Unable,
    /// Its model would not, or was not let.
    Refused,
    /// Somebody stopped it.
    Stopped,
    /// Nobody in it could fix what failed, which is of this kind.
    Terminal(
        /// The kind.
        FailureCode,
    ),
}

impl Class {
    fn of(outcome: &Outcome) -> Self {
        match &outcome.reason {
            StopReason::Completed if outcome.text.is_some() => Self::Value,
            StopReason::LimitReached(_) => Self::Spent,
            StopReason::Completed
            | StopReason::Truncated
            | StopReason::EmptyResponse
            | StopReason::MalformedOutput
            | StopReason::Stuck { .. } => Self::Unable,
            StopReason::ModelRefusal | StopReason::ContentFiltered => Self::Refused,
            StopReason::Cancelled { .. } => Self::Stopped,
            reason => Self::Terminal(root_code(reason)),
        }
    }
}

/// The kind of failure at the bottom of a terminal end.
fn root_code(reason: &StopReason) -> FailureCode {
    match reason {
        StopReason::ToolTerminal { code, .. }
        | StopReason::ToolExhausted { code, .. }
        | StopReason::ModelFailed { code, .. } => *code,
        StopReason::ChildFailed { reason, .. } => root_code(reason),
        StopReason::LimitReached(_) => FailureCode::Partial,
        StopReason::Cancelled { .. } => FailureCode::Cancelled,
        StopReason::ModelRefusal
        | StopReason::ContentFiltered
        | StopReason::Truncated
        | StopReason::EmptyResponse
        | StopReason::MalformedOutput
        | StopReason::Stuck { .. } => FailureCode::ToolError,
        // Completed is never at the bottom of a failure; what is unknown here is a defect of ours.
        _ => FailureCode::Crashed,
    }
}

/// How a child of an agent ended.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    agent: &'a str,
    outcome: &'a Outcome,
    class: Class,
}

impl<'a> End<'a> {
    /// Looks at an outcome.
    pub fn new(agent: &'a str, outcome: &'a Outcome) -> Self {
        Self { agent, outcome, class: Class::of(outcome) }
    }

    /// What kind of end it is.
    pub const fn class(&self) -> Class {
        self.class
    }

    /// The answer, if it gave one.
    pub fn answer(&self) -> Option<&'a Arc<str>> {
        self.outcome.text.as_ref().filter(|_| self.class == Class::Value)
    }

    /// What it had, if it gave no answer.
    pub fn so_far(&self) -> Option<&'a Arc<str>> {
        self.outcome.text.as_ref().filter(|_| self.class != Class::Value)
    }

    /// Whether nothing that it did would be done twice by another run.
    const fn left_no_mark(&self) -> bool {
        self.outcome.totals.effects == 0
    }

    /// Whether a fresh run of the same agent may do better, and does no harm.
    pub fn fresh_run_helps(&self) -> bool {
        self.left_no_mark()
            && match self.class {
                Class::Unable => true,
                Class::Terminal(code) => code.bucket() != Bucket::Terminal,
                Class::Value | Class::Spent | Class::Refused | Class::Stopped => false,
            }
    }

    /// Whether another agent may do better, and does no harm.
    pub fn other_agent_helps(&self) -> bool {
        self.left_no_mark()
            && match self.class {
                Class::Unable | Class::Refused | Class::Terminal(_) => true,
                Class::Spent => self.so_far().is_none(),
                Class::Value | Class::Stopped => false,
            }
    }

    /// The end as a failure, for a child that gave no answer.
    pub fn failure(&self) -> Failure {
        let Outcome { reason, totals, explanation, .. } = self.outcome;
        let code = match (self.class, self.so_far()) {
            (Class::Terminal(code), _) => code,
            (Class::Stopped, _) => FailureCode::Cancelled,
            (Class::Spent | Class::Unable, Some(_)) => FailureCode::Partial,
            (Class::Value | Class::Spent | Class::Unable | Class::Refused, _) => FailureCode::ToolError,
        };
        let agent = self.agent;
        let mut message = match self.so_far() {
            Some(_) => format!("`{agent}` ended before it was done: {reason}."),
            None => format!("`{agent}` ended without an answer: {reason}."),
        };
        if let Some(why) = explanation.as_deref().filter(|_| self.class != Class::Refused) {
            message.push(' ');
            message.push_str(&shortened(why, WHY_BYTES_MAX));
        }
        let (effect, marks) = match totals.effects {
            0 => (EffectState::None, String::new()),
            effects => (
                EffectState::Unknown,
                format!(
                    "It had made {} that may have changed something: find out what was done before you have it \
                     done again. ",
                    counted(effects, "call")
                ),
            ),
        };
        Failure::with_effect(code, effect, message).hint(format!("{marks}{}", self.way_out()))
    }

    fn way_out(&self) -> &'static str {
        match (self.class, self.so_far()) {
            (Class::Spent | Class::Unable, Some(_)) => {
                "What it had is in `so_far`. Go on with that, ask for what is missing, or do it yourself."
            }
            (Class::Spent, None) => "Ask for a smaller part, or do it yourself.",
            (Class::Value | Class::Unable, _) => {
                "Ask in other words or for a smaller part, or do it yourself."
            }
            (Class::Refused, _) => "Ask for something else, or go on without it.",
            (Class::Stopped, _) => "Go on without it.",
            (Class::Terminal(_), _) => "Another try will not help now. Go on without it.",
        }
    }
}

/// The words of an agent as data: `{"agent":…,"answer":…}`, the answer as JSON where it has a shape.
pub fn said(agent: &str, text: &str, shaped: bool) -> ToolOutput {
    #[derive(Serialize)]
    struct Said<'a> {
        agent: &'a str,
        answer: Json,
    }
    let value = shaped.then(|| Json::parse(text).ok()).flatten();
    let answer = value.unwrap_or_else(|| serde_json::Value::from(text).into());
    let said = Json::from_serialize(&Said { agent, answer });
    ToolOutput::text(said.as_ref().map_or(text, Json::as_str))
}

#[cfg(test)]
mod tests;
