//! One turn of a script, and the condition under which it answers.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{Failure, FailureCode, Finish, Tokens, Usage};
use serde_json::Value;

use super::observed::{Observed, has_placeholder};

/// What the model does when it is asked.
///
/// Texts, and the texts inside arguments, may quote observations: `{{last}}` is the newest,
/// `{{obs.order}}` the newest of the tool `order`, and `{{obs.order:/items/0}}` a part of it by
/// JSON pointer. An argument that is nothing but one placeholder keeps the type of what it quotes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turn {
    pub(super) text: Option<Arc<str>>,
    pub(super) refusal: Option<Arc<str>>,
    pub(super) calls: Vec<ScriptedCall>,
    pub(super) finish: Option<Finish>,
    pub(super) usage: Option<Usage>,
    pub(super) when: Option<When>,
    pub(super) fault: Option<Fault>,
    pub(super) delay: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct ScriptedCall {
    pub(super) tool: Arc<str>,
    pub(super) arguments: CallArguments,
    pub(super) id: Option<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum CallArguments {
    /// The same every time.
    Fixed(Arc<str>),
    /// With placeholders to fill.
    Template(Value),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fault {
    pub(super) failure: Failure,
    pub(super) times: u32,
}

impl Turn {
    /// A turn that says nothing, until told what to say.
    pub fn new() -> Self {
        Self::default()
    }

    /// Says this.
    #[must_use]
    pub fn text(mut self, text: impl Into<Arc<str>>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// Refuses in these words.
    #[must_use]
    pub fn refusal(mut self, words: impl Into<Arc<str>>) -> Self {
        self.refusal = Some(words.into());
        self
    }

    /// Asks for a call, after those that are there.
    #[must_use]
    pub fn call(self, tool: impl Into<Arc<str>>, arguments: Value) -> Self {
        let text = arguments.to_string();
        let template = has_placeholder(&text);
        let arguments =
            if template { CallArguments::Template(arguments) } else { CallArguments::Fixed(text.into()) };
        self.add(tool.into(), arguments)
    }

    /// Asks for a call with arguments that stay as they are, JSON or not.
    #[must_use]
    pub fn raw_call(self, tool: impl Into<Arc<str>>, arguments: impl Into<Arc<str>>) -> Self {
        self.add(tool.into(), CallArguments::Fixed(arguments.into()))
    }

    fn add(mut self, tool: Arc<str>, arguments: CallArguments) -> Self {
        self.calls.push(ScriptedCall { tool, arguments, id: None });
        self
    }

    /// Gives the call added last this id; without one it is `call_TURN_PLACE`, both from 1.
    #[must_use]
    pub fn id(mut self, id: impl Into<Arc<str>>) -> Self {
        if let Some(call) = self.calls.last_mut() {
            call.id = Some(id.into());
        }
        self
    }

    /// Stops for this reason, in place of the one that follows from whether there are calls.
    #[must_use]
    pub fn finish(mut self, finish: Finish) -> Self {
        self.finish = Some(finish);
        self
    }

    /// Uses so many tokens; without this the reply says nothing of its use.
    #[must_use]
    pub fn usage(mut self, prompt: u64, completion: u64) -> Self {
        self.usage = Some(Usage::new(Tokens(prompt), Tokens(completion)));
        self
    }

    /// Answers only when this holds; else the next turn stands in.
    #[must_use]
    pub fn when(mut self, when: When) -> Self {
        self.when = Some(when);
        self
    }

    /// Fails, every time.
    #[must_use]
    pub fn fail(self, failure: Failure) -> Self {
        self.fail_times(failure, u32::MAX)
    }

    /// Fails on the first so many attempts, then answers.
    #[must_use]
    pub fn fail_times(mut self, failure: Failure, times: u32) -> Self {
        self.fault = Some(Fault { failure, times });
        self
    }

    /// Waits so long before it answers or fails.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}

/// A condition on the goal, and on the observations that answer the model's last reply.
///
/// Holds when one of these meets all that is asked for. Without observations nothing but a goal holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct When {
    pub(super) tool: Option<Arc<str>>,
    pub(super) error: Option<FailureCode>,
    pub(super) contains: Option<Arc<str>>,
    pub(super) goal: Option<Arc<str>>,
}

impl When {
    /// Holds for any observation, until told what to ask for.
    pub fn observed() -> Self {
        Self::default()
    }

    /// Asks that it is of this tool.
    #[must_use]
    pub fn tool(mut self, name: impl Into<Arc<str>>) -> Self {
        self.tool = Some(name.into());
        self
    }

    /// Asks that it is a failure of this kind.
    #[must_use]
    pub fn error(mut self, code: FailureCode) -> Self {
        self.error = Some(code);
        self
    }

    /// Asks that its text holds this.
    #[must_use]
    pub fn contains(mut self, text: impl Into<Arc<str>>) -> Self {
        self.contains = Some(text.into());
        self
    }

    /// Asks that the latest words of the user hold this, and of observations nothing unless that is
    /// said besides.
    #[must_use]
    pub fn goal(mut self, text: impl Into<Arc<str>>) -> Self {
        self.goal = Some(text.into());
        self
    }

    pub(super) fn holds(&self, observed: &Observed<'_>) -> bool {
        if let Self { tool: None, error: None, contains: None, goal: Some(wanted) } = self {
            return observed.goal.contains(&**wanted);
        }
        if self.goal.as_deref().is_some_and(|wanted| !observed.goal.contains(wanted)) {
            return false;
        }
        observed.last_round().any(|(tool, text)| {
            self.tool.as_deref().is_none_or(|wanted| wanted == tool)
                && self.error.is_none_or(|wanted| error_in(text).as_deref() == Some(wanted.as_str()))
                && self.contains.as_deref().is_none_or(|wanted| text.contains(wanted))
        })
    }
}

/// The code in an observation of a failure.
fn error_in(text: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Failed {
        error: String,
    }
    serde_json::from_str::<Failed>(text).ok().map(|failed| failed.error)
}
