//! The words the harness says to the model in the user's place, and how often.

use std::sync::Arc;

use dauntless_contract::{LimitKind, RunLimits, StopReason};
use serde::{Deserialize, Serialize};

use crate::excerpt::counted;

/// What an answer is to be written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Any words will do.
    Words,
    /// The agent's shape.
    Shaped,
}

impl Form {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Words => "as plain text",
            Self::Shaped => "as one JSON value that fits the schema",
        }
    }
}

/// A kind of reply that leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dud {
    /// Neither text nor calls.
    Empty,
    /// Text that the output limit cut, or nothing but a cut.
    Cut,
    /// A call written as prose.
    Prose,
}

/// Counts replies in a row that lead nowhere. Any other reply starts afresh.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Unproductive {
    empty: u32,
    cut: u32,
    prose: u32,
}

impl Unproductive {
    const EMPTY_MAX: u32 = 2;
    const CUT_MAX: u32 = 2;
    const PROSE_MAX: u32 = 1;
    /// Duds of different kinds in turn are no better than one kind.
    const ALL_MAX: u32 = 4;

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Counts one more; answers the reason to stop when there were too many.
    pub(super) fn count(&mut self, dud: Dud) -> Option<StopReason> {
        let (count, max, reason) = match dud {
            Dud::Empty => (&mut self.empty, Self::EMPTY_MAX, StopReason::EmptyResponse),
            Dud::Cut => (&mut self.cut, Self::CUT_MAX, StopReason::Truncated),
            Dud::Prose => (&mut self.prose, Self::PROSE_MAX, StopReason::MalformedOutput),
        };
        *count += 1;
        let over = *count > max;
        let all_over = self.empty + self.cut + self.prose > Self::ALL_MAX;
        (over || all_over).then_some(reason)
    }
}

pub(super) fn empty(hidden_tokens: u64, form: Form) -> Arc<str> {
    let form = form.as_str();
    if hidden_tokens > 0 {
        return format!(
            "Your last reply arrived empty although you wrote {}. \
             Call a tool through the tool interface, or write your answer {form}.",
            counted(hidden_tokens, "token")
        )
        .into();
    }
    format!("Your last reply was empty. Call a tool, or write your answer {form}.").into()
}

pub(super) fn cut(limit: Option<u32>) -> Arc<str> {
    let limit = limit.map_or_else(String::new, |limit| format!(" of {limit} tokens"));
    format!(
        "Your last reply was cut off by the output limit{limit}. \
         Answer again and keep it shorter, or split the work into smaller calls."
    )
    .into()
}

pub(super) fn prose(form: Form) -> Arc<str> {
    format!(
        "Your last reply wrote a tool call as text, so nothing was called. \
         Make the call through the tool interface; or, if you are done, write your answer {}.",
        form.as_str()
    )
    .into()
}

/// A limit with its unit.
pub(super) fn amount(limit: LimitKind, limits: &RunLimits) -> String {
    match limit {
        LimitKind::Turns => counted(limits.turns, "turn"),
        LimitKind::Tokens => limits.tokens.to_string(),
        LimitKind::Cost => limits.cost.to_string(),
        LimitKind::ToolCalls => counted(limits.tool_calls, "tool call"),
        LimitKind::WallClock => format!("{} s", limits.wall_clock.as_secs()),
        LimitKind::Depth => match limits.depth {
            1 => "1 level of runs".to_owned(),
            depth => format!("{depth} levels of runs"),
        },
        LimitKind::Children => counted(limits.children, "run") + " below this one",
        // Bounds a loop of a plan, which has no conversation to be told in.
        LimitKind::Rounds => "rounds".to_owned(),
    }
}

pub(super) fn last_words(limit: LimitKind, limits: &RunLimits, form: Form) -> Arc<str> {
    let what = amount(limit, limits);
    format!(
        "This run has reached its limit of {what}, and no more tools can be called. \
         Give the best answer you can from what you know now, {}.",
        match form {
            Form::Words => "and say what is missing",
            Form::Shaped => "in the shape of the schema as far as it goes",
        }
    )
    .into()
}
