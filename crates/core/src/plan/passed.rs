//! What goes from one part of a plan to the next: whose words it is, and how it stands in a goal.
//!
//! Only the words of whoever set the goal stand for themselves. What an agent said is data wherever it
//! goes, and a part that came to nothing passes nothing on.

use std::sync::Arc;

use dauntless_contract::{Json, LimitKind, StopReason};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::excerpt::counted;
use crate::tree::said;

/// What goes from one part to the next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Passed {
    pub(super) text: Arc<str>,
    pub(super) origin: Origin,
}

/// Whose words they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Origin {
    /// Whoever set the goal: instructions.
    Goal,
    /// An agent's: data.
    Agent { name: Arc<str>, shaped: bool },
    /// JSON that was put together from such data.
    Composed,
}

/// A part that came to nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Missed {
    pub(super) reason: StopReason,
    pub(super) explanation: Option<Arc<str>>,
    pub(super) text: Option<Arc<str>>,
}

pub(super) type Ended = Result<Passed, Box<Missed>>;

impl Passed {
    /// As one JSON value.
    pub(super) fn as_data(&self) -> Value {
        let read = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| text.into());
        match &self.origin {
            Origin::Goal => (*self.text).into(),
            Origin::Agent { name, shaped } => read(&said(name, &self.text, *shaped).text),
            Origin::Composed => read(&self.text),
        }
    }

    /// As it stands in the goal of a step: only the words of whoever set the goal stand for themselves.
    pub(super) fn as_input(&self) -> Arc<str> {
        match &self.origin {
            Origin::Goal | Origin::Composed => Arc::clone(&self.text),
            Origin::Agent { name, shaped } => said(name, &self.text, *shaped).text,
        }
    }

    pub(super) fn composed(value: Value) -> Self {
        Self { text: Json::from(value).as_str().into(), origin: Origin::Composed }
    }
}

impl Missed {
    pub(super) fn rounds(max: u32, what: &str, text: Arc<str>) -> Box<Self> {
        Box::new(Self {
            reason: StopReason::LimitReached(LimitKind::Rounds),
            explanation: Some(format!("After {} {what}.", counted(max, "round")).into()),
            text: Some(text),
        })
    }

    pub(super) fn as_data(&self) -> Value {
        let mut data = match &self.reason {
            StopReason::ChildFailed { agent, reason, .. } => {
                json!({ "agent": &**agent, "failed": reason.to_string() })
            }
            reason => json!({ "failed": reason.to_string() }),
        };
        if let (Some(text), Some(fields)) = (&self.text, data.as_object_mut()) {
            fields.insert("so_far".to_owned(), (**text).into());
        }
        data
    }

    /// The plan that is folded is not the one that was walked.
    pub(super) fn other_plan() -> Box<Self> {
        let explanation = "The plan is no longer the one that this run was started with.";
        Box::new(Self {
            reason: StopReason::Internal { code: "plan_changed".into() },
            explanation: Some(explanation.into()),
            text: None,
        })
    }
}

/// A template with its words in braces filled in. What is filled in is not looked at again.
pub(super) fn filled(template: &str, goal: &str, input: &str) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        rest = if let Some(rest) = after.strip_prefix("goal}") {
            text.push_str(goal);
            rest
        } else if let Some(rest) = after.strip_prefix("input}") {
            text.push_str(input);
            rest
        } else {
            text.push('{');
            after
        };
    }
    text.push_str(rest);
    text
}
