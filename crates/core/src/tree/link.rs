//! Which agents an agent may ask, and what their failures come to.

use std::collections::BTreeMap;
use std::sync::Arc;

use dauntless_contract::{Effect, OnExhausted, RunLimits, ToolSpec};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Allowance;
use crate::plan::Join;

/// What a link does with the conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    /// The child works on a goal, and its end answers the call.
    #[default]
    Delegate,
    /// The child takes the conversation over, and its end is the end of both.
    Handoff,
}

/// What a child is told of its parent's conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hears {
    /// Nothing but its input.
    #[default]
    Input,
    /// All that was said before the call.
    Conversation,
}

/// What a terminal end of a child comes to, once nothing else can be tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// The parent ends with `child_failed`, as it would with a tool that nobody can fix.
    #[default]
    Escalate,
    /// The model is told, and goes on without it.
    Observe,
}

/// What is done about a child that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinkPolicy {
    /// Fresh runs after the first, where one may do better and nothing would be done twice.
    pub retries: u32,
    /// The agent that is asked then; also one that the model is offered itself, or not.
    pub fallback: Option<Arc<str>>,
    /// What a terminal end comes to.
    pub on_failure: OnFailure,
}

/// A way from an agent to another one, which it may ask.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// The other agent. A tool of this name stands for it.
    pub agent: Arc<str>,
    /// What becomes of the conversation.
    pub kind: LinkKind,
    /// What the child hears of it. One that takes it over hears all.
    pub hears: Hears,
    /// The limits that the other agent has itself.
    pub limits: RunLimits,
    /// What of its own the parent gives.
    pub allowance: Allowance,
    /// What is done about its failures.
    pub policy: LinkPolicy,
    /// Whether its answers have a shape, so that they are JSON.
    pub shaped: bool,
}

impl Link {
    /// A link to an agent with these limits of its own, and the safest of everything else.
    pub fn new(agent: impl Into<Arc<str>>, limits: RunLimits) -> Self {
        Self {
            agent: agent.into(),
            kind: LinkKind::default(),
            hears: Hears::default(),
            limits,
            allowance: Allowance::default(),
            policy: LinkPolicy::default(),
            shaped: false,
        }
    }
}

/// All links of one agent, its fallbacks included.
#[derive(Clone, Debug, PartialEq)]
pub struct Links {
    links: BTreeMap<Arc<str>, Link>,
    /// When the children of one turn have done enough, and the others are cancelled.
    pub join: Join,
}

impl Default for Links {
    fn default() -> Self {
        Self::new([])
    }
}

impl Links {
    /// These links; every child of a turn is waited for.
    pub fn new(links: impl IntoIterator<Item = Link>) -> Self {
        let links = links.into_iter().map(|link| (Arc::clone(&link.agent), link)).collect();
        Self { links, join: Join::BestEffort }
    }

    /// The link to an agent.
    pub fn get(&self, agent: &str) -> Option<&Link> {
        self.links.get(agent)
    }

    /// The links, sorted by agent.
    pub fn iter(&self) -> impl Iterator<Item = &Link> {
        self.links.values()
    }

    /// The agents, sorted.
    pub fn agents(&self) -> impl Iterator<Item = &Arc<str>> {
        self.links.keys()
    }
}

/// The tool that stands for an agent. Without an input schema of its own, an agent takes a goal; where
/// it is described by nothing, its name has to do.
pub fn delegate_spec(
    agent: impl Into<Arc<str>>,
    description: impl Into<Arc<str>>,
    input: Option<Value>,
) -> ToolSpec {
    let (agent, mut description): (Arc<str>, Arc<str>) = (agent.into(), description.into());
    if description.trim().is_empty() {
        description =
            format!("Gives a task to the agent `{agent}`, which works on it alone and answers once.").into();
    }
    let input = input.unwrap_or_else(|| {
        json!({
            "type": "object",
            "properties": {
                "goal": {
                    "type": "string",
                    "minLength": 1,
                    "description": "What the agent is to achieve, with all that it must know: it hears nothing else.",
                },
            },
            "required": ["goal"],
            "additionalProperties": false,
        })
    });
    ToolSpec {
        effect: Effect::Once,
        on_exhausted: OnExhausted::Observe,
        ..ToolSpec::new(agent, description, input)
    }
}
