//! The form of a case file.
//!
//! A case is data: what the model sends, what the tools do, what happens from outside, and what must
//! come of it. Whatever a file does not mention has a default that holds for every case; a field
//! that no case can have is refused.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

/// One file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// The rule in a few words.
    pub(crate) title: String,
    /// What goes wrong where it is not kept.
    pub(crate) elsewhere: String,
    /// What happens here.
    pub(crate) here: String,
    /// The ways in which replies come; both where the replies can be put both ways.
    #[serde(default)]
    pub(crate) modes: Vec<Mode>,
    /// Also by the Responses API, whole and streamed.
    #[serde(default)]
    pub(crate) responses: bool,
    #[serde(default)]
    pub(crate) model: ModelPlan,
    #[serde(default)]
    pub(crate) agent: AgentPlan,
    /// The agents that it may ask, and those that they may.
    #[serde(default)]
    pub(crate) crew: Vec<AgentPlan>,
    #[serde(default, rename = "tool")]
    pub(crate) tools: Vec<ToolPlan>,
    #[serde(default, rename = "reply")]
    pub(crate) replies: Vec<ReplyPlan>,
    /// What requests for notes on what no longer fits get, in place of the next reply; the last
    /// repeats.
    #[serde(default, rename = "notes")]
    pub(crate) notes: Vec<ReplyPlan>,
    /// None where the agents are refused before any could start.
    #[serde(default, rename = "run")]
    pub(crate) runs: Vec<RunPlan>,
    /// The replies come again from the first one, without end.
    #[serde(default)]
    pub(crate) cycle: bool,
    /// Runs start together instead of one after the other.
    #[serde(default)]
    pub(crate) together: bool,
    #[serde(default, rename = "secret")]
    pub(crate) secrets: Vec<SecretPlan>,
    #[serde(default)]
    pub(crate) must: Must,
}

/// How replies come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    Plain,
    Streamed,
    Responses,
    ResponsesStreamed,
}

impl Mode {
    pub(crate) const fn is_streamed(self) -> bool {
        matches!(self, Self::Streamed | Self::ResponsesStreamed)
    }

    pub(crate) const fn is_responses(self) -> bool {
        matches!(self, Self::Responses | Self::ResponsesStreamed)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ModelPlan {
    pub(crate) output_tokens_max: Option<u32>,
    pub(crate) context_window: Option<u64>,
    /// What the provider wants otherwise than others, by its name.
    pub(crate) profile: Option<String>,
    /// Decisions as JSON, for a model that makes no calls of its own.
    pub(crate) json_calling: bool,
    pub(crate) policy: PolicyPlan,
    /// Silence in a stream that is one too long.
    pub(crate) idle_ms: Option<u64>,
}

/// What differs from the policy of every case: waits of milliseconds, else the defaults.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PolicyPlan {
    pub(crate) attempts: Option<u32>,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) deadline_ms: Option<u64>,
    pub(crate) base_ms: Option<u64>,
    pub(crate) retry_after_cap_ms: Option<u64>,
    pub(crate) concurrency: Option<u32>,
    pub(crate) breaker_open_ms: Option<u64>,
    pub(crate) breaker_failures: Option<u32>,
    pub(crate) budget: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AgentPlan {
    /// One of the crew has a name; the one that runs is `case`.
    pub(crate) name: Option<String>,
    pub(crate) instructions: String,
    /// The tools that it has; all of the case's for the one that runs, else none.
    pub(crate) tools: Option<Vec<String>>,
    /// The agents that it may ask.
    pub(crate) links: Vec<LinkPlan>,
    pub(crate) join: Option<dauntless::Join>,
    /// It may write to other runs of its tree.
    pub(crate) messages: bool,
    pub(crate) depth: Option<u32>,
    pub(crate) children: Option<u32>,
    pub(crate) children_at_once: Option<u32>,
    pub(crate) turns: Option<u32>,
    pub(crate) tool_calls: Option<u32>,
    pub(crate) wall_clock_ms: Option<u64>,
    pub(crate) tokens: Option<u64>,
    /// The schema that its answers must fit, as JSON.
    pub(crate) answer: Option<String>,
    pub(crate) ask_user: bool,
}

/// A way from an agent to another one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkPlan {
    pub(crate) to: String,
    #[serde(default)]
    pub(crate) handoff: bool,
    /// A terminal end below is told, and ends nothing.
    #[serde(default)]
    pub(crate) observe: bool,
    #[serde(default)]
    pub(crate) retries: u32,
    pub(crate) fallback: Option<String>,
    /// The model is not offered it.
    #[serde(default)]
    pub(crate) unoffered: bool,
    #[serde(default)]
    pub(crate) allowance: dauntless::Allowance,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolPlan {
    pub(crate) name: String,
    /// Where it comes from; none for a tool of the program. What reaches it is noted under
    /// `source/name`.
    pub(crate) source: Option<String>,
    /// JSON; any object fits where it is left out.
    pub(crate) schema: Option<String>,
    #[serde(default)]
    pub(crate) effect: dauntless::Effect,
    /// Cases are about what the model is told, so tools are optional unless a case says otherwise.
    #[serde(default)]
    pub(crate) end_run: bool,
    #[serde(default)]
    pub(crate) park: bool,
    #[serde(default)]
    pub(crate) polling: bool,
    pub(crate) fallback: Option<String>,
    pub(crate) output_bytes_max: Option<usize>,
    #[serde(default)]
    pub(crate) policy: PolicyPlan,
    /// What the n-th invocation does; the last one repeats. All work where there is none.
    #[serde(default)]
    pub(crate) does: Vec<Act>,
    /// A real process in place of a script.
    pub(crate) command: Option<Value>,
}

/// What one invocation does.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Act {
    /// Only for arguments that hold this text.
    pub(crate) when: Option<String>,
    pub(crate) after_ms: u64,
    /// It changes the world before it answers.
    pub(crate) effect: bool,
    pub(crate) ok: Option<String>,
    pub(crate) fail: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) retry_after_ms: Option<u64>,
    pub(crate) effect_state: Option<dauntless::EffectState>,
    /// An error of Rust, given with `?`.
    pub(crate) error: Option<String>,
    pub(crate) panic: Option<String>,
    pub(crate) hang: bool,
}

/// One answer of the provider: something the model says, or bytes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ReplyPlan {
    /// The agent whose model says it; none for the one that runs.
    pub(crate) agent: Option<String>,
    /// Said in every conversation in which that model has spoken so often, whoever else asks it.
    pub(crate) spoken: Option<usize>,
    /// Text.
    pub(crate) say: Option<String>,
    /// Calls.
    pub(crate) calls: Vec<CallPlan>,
    /// The message as JSON, for what the two above cannot say.
    pub(crate) message: Option<String>,
    /// The finish reason, where it is not the usual one; empty for `null`.
    pub(crate) finish: Option<String>,
    /// Tokens of the prompt and of the completion.
    pub(crate) usage: Option<(u64, u64)>,
    /// The whole body, whatever was asked for.
    pub(crate) body: Option<String>,
    /// Stream events: the deltas of one choice. The finish reason follows, then `[DONE]`.
    pub(crate) deltas: Option<Vec<String>>,
    /// Pieces of a stream, byte for byte.
    pub(crate) sse: Option<Vec<String>>,
    pub(crate) status: Option<u16>,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) end: End,
    pub(crate) after_ms: u64,
    /// So many requests in a row get this answer; 0 for all that follow. `№` in ids and arguments
    /// is the number of each.
    pub(crate) times: Option<usize>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallPlan {
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) arguments: String,
    /// So many of them; `#` in id and arguments is the number of each.
    #[serde(default)]
    pub(crate) count: Option<usize>,
}

/// How a response ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum End {
    #[default]
    Complete,
    /// The connection breaks after what was sent.
    Cut,
    /// Nothing follows what was sent.
    Hang,
    /// The connection breaks before anything is sent.
    Disconnect,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RunPlan {
    pub(crate) goal: Option<String>,
    /// The conversation that it continues: a list of messages, as JSON.
    pub(crate) after: Option<String>,
    /// The faults that are found in that conversation, in order.
    pub(crate) faults: Vec<String>,
    /// What the user says to each question, in order. Nobody can be asked where there is nothing.
    pub(crate) user: Vec<String>,
    /// Time that passes before it starts.
    pub(crate) wait_ms: u64,
    /// So many equal runs at once.
    pub(crate) copies: Option<usize>,
    pub(crate) cancel: Option<CancelPlan>,
    /// How it must end, as a report says it; `*` at its end stands for whatever follows.
    pub(crate) stop: String,
    pub(crate) answer: Option<String>,
    pub(crate) partial: Option<String>,
    /// What it used, with all that ran below it.
    pub(crate) tokens: Option<u64>,
    pub(crate) children: Option<u32>,
    /// Calls that ended in a failure that a model was shown, below it too.
    pub(crate) failed_calls: Option<u32>,
    /// What the explanation holds.
    pub(crate) explains: Vec<String>,
    pub(crate) within_ms: Option<u64>,
}

/// A cancel from outside.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelPlan {
    pub(crate) on: Moment,
    /// At the n-th of them.
    #[serde(default = "one")]
    pub(crate) nth: usize,
    #[serde(default)]
    pub(crate) after_ms: u64,
}

const fn one() -> usize {
    1
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Moment {
    /// A child starts, at any level.
    Child,
    /// A model request starts.
    Turn,
    /// A piece of text arrived.
    Text,
    /// An attempt of a call starts.
    Attempt,
    /// A call ended.
    CallEnded,
    /// The user is asked.
    Question,
}

/// What may leave by no exit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SecretPlan {
    pub(crate) value: String,
    /// Whether the runtime was told that it is one.
    #[serde(default)]
    pub(crate) configured: bool,
    /// Exits that it may leave by, because the model itself wrote it.
    #[serde(default)]
    pub(crate) may_show_in: Vec<String>,
}

/// What must come of it, beside how the runs end.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Must {
    /// Requests that reached the provider.
    pub(crate) requests: Option<usize>,
    /// For storms: at most so many.
    pub(crate) requests_max: Option<usize>,
    /// The arguments that each tool was given, in any order. A tool that is missing was not called.
    pub(crate) invoked: BTreeMap<String, Invoked>,
    /// Changes to the world, over all tools.
    pub(crate) effects: usize,
    /// The same, where those under one key count once; as many as all where it is not said.
    pub(crate) effects_distinct: Option<usize>,
    /// Declarations that cannot be offered, by a part of the reason.
    pub(crate) quarantined: Vec<String>,
    /// What the refusal of the agents says, where they cannot be built.
    pub(crate) refused: Vec<String>,
    #[serde(rename = "call")]
    pub(crate) calls: Vec<CallMust>,
    /// All child runs, at all levels.
    #[serde(rename = "child")]
    pub(crate) children: Vec<ChildMust>,
    #[serde(rename = "request")]
    pub(crate) sent: Vec<RequestMust>,
    /// What the log holds.
    pub(crate) logged: Vec<String>,
    /// How the conversation was made shorter, each way once, in the order of their first time.
    pub(crate) trims: Vec<String>,
    /// Files in the case's own folder that must not be there, this long after the end.
    pub(crate) no_files: Vec<String>,
    pub(crate) settle_ms: u64,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Invoked {
    Times(usize),
    With(Vec<String>),
}

/// What must be of one call.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CallMust {
    /// The id that the provider is shown.
    pub(crate) id: String,
    /// The name that the provider is shown.
    pub(crate) name: Option<String>,
    /// The kind of failure, or `ok`.
    pub(crate) code: Option<String>,
    pub(crate) attempts: Option<u32>,
    /// What a watcher is told was put right in it, in parts of the words.
    pub(crate) repaired: Vec<String>,
    /// Whether its effect took place, by the journal.
    pub(crate) effect: Option<dauntless::EffectState>,
    /// What the observation holds.
    pub(crate) has: Vec<String>,
    pub(crate) lacks: Vec<String>,
    /// The observation, to the letter.
    pub(crate) is: Option<String>,
    pub(crate) bytes_max: Option<usize>,
}

/// What must be of the child runs of one agent that end in one way.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChildMust {
    pub(crate) agent: String,
    /// How they end, as a report says it; `*` at its end stands for whatever follows.
    pub(crate) stop: String,
    /// How many.
    #[serde(default = "one")]
    pub(crate) times: usize,
    /// What they say, be it an answer or not.
    pub(crate) text: Option<String>,
}

/// What must be of one request.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RequestMust {
    /// The agent that makes it; none for the one that runs.
    pub(crate) agent: Option<String>,
    /// Which of its requests, counted from 1.
    pub(crate) n: usize,
    pub(crate) has: Vec<String>,
    pub(crate) lacks: Vec<String>,
    /// The roles of its messages, by their first letters.
    pub(crate) roles: Option<String>,
    /// The tools on offer.
    pub(crate) tools: Option<Vec<String>>,
    pub(crate) bytes_max: Option<usize>,
}

impl Case {
    /// Reads a file; `folder` stands for `{{dir}}` in it.
    pub(crate) fn read(text: &str, folder: &Path) -> Result<Self, String> {
        let text = expand(text).replace("{{dir}}", &folder.display().to_string());
        let case: Self = toml::from_str(&text).map_err(|error| error.to_string())?;
        if case.runs.is_empty() && case.must.refused.is_empty() {
            return Err("it has no run".to_owned());
        }
        Ok(case)
    }

    /// The ways in which its replies can come.
    pub(crate) fn modes(&self) -> Vec<Mode> {
        let only_streamed = |reply: &ReplyPlan| reply.deltas.is_some() || reply.sse.is_some();
        let mut modes = match self.replies.iter().any(only_streamed) {
            _ if !self.modes.is_empty() => self.modes.clone(),
            true => vec![Mode::Streamed],
            false => vec![Mode::Plain, Mode::Streamed],
        };
        if self.responses {
            modes.extend([Mode::Responses, Mode::ResponsesStreamed]);
        }
        modes
    }
}

impl PolicyPlan {
    /// Changes a policy so that a test of it takes milliseconds.
    pub(crate) fn apply(&self, policy: &mut dauntless::ResiliencePolicy) {
        let ms = Duration::from_millis;
        policy.retry.base = ms(self.base_ms.unwrap_or(1));
        policy.attempt_timeout = ms(self.timeout_ms.unwrap_or(3000));
        policy.deadline = ms(self.deadline_ms.unwrap_or(6000)).max(policy.attempt_timeout);
        if let Some(attempts) = self.attempts {
            policy.retry.max_attempts = attempts;
        }
        if let Some(cap) = self.retry_after_cap_ms {
            policy.retry.retry_after_cap = ms(cap);
        }
        if let Some(concurrency) = self.concurrency {
            policy.concurrency = concurrency;
        }
        if let Some(open) = self.breaker_open_ms {
            policy.breaker.open_for = ms(open);
        }
        if let Some(failures) = self.breaker_failures {
            policy.breaker.consecutive_failures = failures;
            policy.breaker.min_calls = u32::MAX;
        }
        if let Some(retries) = self.budget {
            policy.budget.capacity_milli = retries * 1000;
        }
    }
}

/// Puts repetitions in: `⟦ab*3⟧` stands for `ababab`.
fn expand(text: &str) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('⟦') {
        expanded.push_str(before);
        let Some((inside, after)) = after.split_once('⟧') else { break };
        if let Some((piece, times)) = inside.rsplit_once('*')
            && let Ok(times) = times.parse()
        {
            expanded.push_str(&piece.repeat(times));
        }
        rest = after;
    }
    expanded + rest
}
