//! A way from an agent to another one.

use dauntless_contract::RunLimits;
use dauntless_core::tree::{Allowance, Hears, Link, LinkKind, LinkPolicy, OnFailure};

use crate::agent::Agent;

/// An agent that another one may ask, and what is done about its failures.
///
/// # Examples
/// ```
/// use dauntless_runtime::{Agent, Delegate};
///
/// let archive = Agent::new("archive").instructions("Search old reports.");
/// let researcher = Agent::new("researcher").description("Finds sources.").instructions("Search the web.");
/// let editor = Agent::new("editor")
///     .link(Delegate::to(&researcher).retries(1).fallback("archive"))
///     .link(Delegate::to(&archive).unoffered());
/// assert_eq!(editor.name().as_ref(), "editor");
/// ```
#[derive(Clone, Debug)]
#[must_use = "a link belongs to an agent: `Agent::link`"]
pub struct Delegate {
    pub(crate) agent: Agent,
    pub(crate) is_offered: bool,
    kind: LinkKind,
    hears: Hears,
    allowance: Allowance,
    policy: LinkPolicy,
}

impl Delegate {
    /// The other agent works on a goal in a run of its own, and its answer is the answer of the call.
    pub fn to(agent: &Agent) -> Self {
        Self {
            agent: agent.clone(),
            is_offered: true,
            kind: LinkKind::Delegate,
            hears: Hears::default(),
            allowance: Allowance::default(),
            policy: LinkPolicy::default(),
        }
    }

    /// The other agent takes the conversation over, and its end is the end of both.
    pub fn handoff(agent: &Agent) -> Self {
        Self { kind: LinkKind::Handoff, ..Self::to(agent) }
    }

    /// What it is told of the conversation besides its goal. Default: nothing.
    pub const fn hears(mut self, hears: Hears) -> Self {
        self.hears = hears;
        self
    }

    /// What it is given of this agent's limits. What is not named is an equal share.
    pub const fn allowance(mut self, allowance: Allowance) -> Self {
        self.allowance = allowance;
        self
    }

    /// How many fresh runs may follow one that failed, where another may do better and nothing would
    /// be done twice. Default 0.
    pub const fn retries(mut self, retries: u32) -> Self {
        self.policy.retries = retries;
        self
    }

    /// The agent that is asked in its place then; it must be linked as well.
    pub fn fallback(mut self, agent: impl Into<std::sync::Arc<str>>) -> Self {
        self.policy.fallback = Some(agent.into());
        self
    }

    /// What an end that nobody below can fix comes to, once nothing else can be tried. Default: this
    /// agent's run ends as well.
    pub const fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.policy.on_failure = on_failure;
        self
    }

    /// The model is not offered it: it is only the fallback of another.
    pub const fn unoffered(mut self) -> Self {
        self.is_offered = false;
        self
    }

    /// As the run machine has it. `otherwise` are the limits of an agent without its own.
    pub(crate) fn link(&self, otherwise: &RunLimits) -> Link {
        let limits = self.agent.own_limits().unwrap_or(otherwise).clone();
        Link {
            kind: self.kind,
            hears: self.hears,
            allowance: self.allowance,
            policy: self.policy.clone(),
            shaped: self.agent.has_shape(),
            ..Link::new(self.agent.name().clone(), limits)
        }
    }
}
