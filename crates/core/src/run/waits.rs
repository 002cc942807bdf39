//! What a run waits for, for whoever looks at it from outside.

use std::fmt;
use std::sync::Arc;

use dauntless_contract::{CallKey, Question, RunId, Timestamp};
use serde::Serialize;

use super::slots::{SlotState, Slots, Stage};
use super::{Phase, RunMachine};

/// Something that a run waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Awaited {
    /// The model's reply.
    Model {
        /// The turn.
        turn: u32,
    },
    /// The model's summary of earlier turns.
    Summary {
        /// The turn that waits for it.
        turn: u32,
    },
    /// The end of a call.
    Call {
        /// The call.
        call: CallKey,
        /// The tool that works on it.
        tool: Arc<str>,
    },
    /// Whether an interrupted call happened.
    Verdict {
        /// The call.
        call: CallKey,
        /// The tool that is asked.
        tool: Arc<str>,
    },
    /// A run that this one asked for.
    Child {
        /// The call.
        call: CallKey,
        /// The agent that works on it.
        agent: Arc<str>,
        /// Its run; none before it has a place.
        run: Option<RunId>,
    },
    /// The user's words.
    Answer(
        /// The question.
        Question,
    ),
    /// A tool that is out of service.
    Tool {
        /// The call that is parked.
        call: CallKey,
        /// The tool.
        tool: Arc<str>,
        /// When it is asked again in any case.
        until: Timestamp,
    },
}

impl RunMachine {
    /// What it waits for, in the order of the calls. Nothing once it has ended.
    pub fn waits(&self) -> Vec<Awaited> {
        match &self.phase {
            Phase::Created | Phase::Ended(_) => Vec::new(),
            Phase::Summarising(_) => vec![Awaited::Summary { turn: self.turn }],
            Phase::Asking { turn, .. } => vec![Awaited::Model { turn: *turn }],
            Phase::Calling(slots) | Phase::Settling { slots, .. } => self.open_waits(slots),
        }
    }

    fn open_waits(&self, slots: &Slots) -> Vec<Awaited> {
        let questions = self.questions();
        let wait = |call| {
            if let Some(question) = questions.iter().find(|question| question.call == call) {
                return Some(Awaited::Answer(question.clone()));
            }
            match &slots.slot(call)?.state {
                SlotState::Answered { .. } => None,
                SlotState::Running(running) => {
                    let tool = Arc::clone(&running.by.name);
                    Some(match running.stage {
                        Stage::Working => Awaited::Call { call, tool },
                        Stage::Verifying => Awaited::Verdict { call, tool },
                    })
                }
                SlotState::Delegated(delegated) => {
                    let run = delegated.child().map(|child| child.run);
                    Some(Awaited::Child { call, agent: Arc::clone(&delegated.agent), run })
                }
                SlotState::Parked(running, wait) => {
                    let tool = Arc::clone(&running.asked.name);
                    Some(Awaited::Tool { call, tool, until: wait.at })
                }
            }
        };
        slots.open_keys().into_iter().filter_map(wait).collect()
    }
}

/// What is waited for, without a word about how long.
impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model { turn } => write!(f, "the model, turn {turn}"),
            Self::Summary { turn } => write!(f, "the model's summary before turn {turn}"),
            Self::Call { call, tool } => write!(f, "call {call} of {tool}"),
            Self::Verdict { call, tool } => write!(f, "{tool} to say whether call {call} happened"),
            Self::Child { call, agent, run: Some(run) } => {
                write!(f, "agent {agent}, run {run}, for call {call}")
            }
            Self::Child { call, agent, run: None } => write!(f, "a place for agent {agent}, for call {call}"),
            Self::Answer(Question { call, question, choices }) => {
                write!(f, "the user's answer to {call}: {question}")?;
                match choices.is_empty() {
                    true => Ok(()),
                    false => write!(f, " ({})", choices.join(" / ")),
                }
            }
            Self::Tool { call, tool, .. } => write!(f, "{tool} to be back in service, for call {call}"),
        }
    }
}
