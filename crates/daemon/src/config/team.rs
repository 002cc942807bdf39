//! The shape of links between agents, and of plans.
//!
//! A link and a plan are written as `core` reads them, with the units of this file. That a part of a
//! plan is of exactly one kind is left to `resolve`, which finds better words for it than a schema.

use std::sync::Arc;

use dauntless_contract::{MicroUsd, Tokens};
use dauntless_core::plan::{Join, Rule};
use dauntless_core::tree::{Allowance, Hears, LinkKind, LinkPolicy, OnFailure};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;

use super::file::LimitsFile;
use super::unit::Length;

/// What is special about asking one agent.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LinkFile {
    /// "delegate": it works on a goal, and its end answers the call. "handoff": it takes the
    /// conversation over, and its end is the end of both.
    #[schemars(schema_with = "kinds")]
    pub(super) kind: LinkKind,
    /// What it is told of the conversation: "input", nothing but its goal; "conversation", all that
    /// was said before. One that takes it over hears all.
    #[schemars(schema_with = "hearings")]
    pub(super) hears: Hears,
    /// Whether the model is offered it. With false it only stands in for another, as its fallback.
    pub(super) offered: bool,
    /// Fresh runs after one that failed, where nothing would be done twice.
    pub(super) retries: u32,
    /// The agent that is asked then. It is linked too.
    pub(super) fallback: Option<String>,
    /// When it fails for a reason that nobody can fix: "escalate" ends the run that asked, "observe"
    /// tells the model, which goes on without it.
    #[schemars(schema_with = "failures")]
    pub(super) on_failure: OnFailure,
    /// What it may use of the limits of the run that asks. Each key that is absent: an equal share.
    pub(super) allowance: AllowanceFile,
}

/// What a child may use of its parent's limits.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AllowanceFile {
    /// At most so many tokens.
    #[schemars(range(min = 1, max = 1_000_000_000_000_000_u64))]
    pub(super) tokens: Option<u64>,
    /// At most so much money, in US dollars.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 1_000_000_000))]
    pub(super) usd: Option<f64>,
    /// At most so many tool calls.
    pub(super) tool_calls: Option<u32>,
    /// At most so many runs below it.
    pub(super) children: Option<u32>,
    /// At most so long.
    pub(super) wall_clock: Option<Length>,
}

/// What agents do one after the other, side by side or again, decided without a model.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub(super) struct PlanFile {
    /// What a run of it may use up, all its agents together. Each absent key comes from [limits].
    #[serde(default)]
    pub(super) limits: LimitsFile,
    #[serde(flatten)]
    pub(super) part: PartFile,
}

/// A part of a plan. It has exactly one key, its kind.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PartFile {
    /// An agent works on what came before.
    pub(super) agent: Option<StepFile>,
    /// One after the other, each on what the one before gave.
    pub(super) sequence: Option<Vec<Self>>,
    /// Several on the same, at once.
    pub(super) parallel: Option<ParallelFile>,
    /// One of several, by a rule.
    pub(super) route: Option<RouteFile>,
    /// Again and again on its own result, until a rule holds for it.
    #[serde(rename = "loop")]
    pub(super) again: Option<LoopFile>,
    /// Again and again, with a review each time, until it is accepted.
    pub(super) improve: Option<ImproveFile>,
}

/// One agent's part.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StepFile {
    /// A name from [agents].
    pub(super) name: String,
    /// Its goal: {goal} stands for that of the plan, {input} for what came before, as data. Without
    /// it: what came before, as it is.
    pub(super) input: Option<Arc<str>>,
}

/// Several at once.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ParallelFile {
    /// The branches. Their results are in this order, whichever is there first.
    pub(super) of: Vec<PartFile>,
    /// How many must succeed; the others are cancelled then. Default "all".
    #[serde(default)]
    #[schemars(schema_with = "joins")]
    pub(super) join: Option<Join>,
    /// How many are under way at once. Default 16.
    #[schemars(range(min = 1))]
    pub(super) at_once: Option<u32>,
}

/// One of several.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RouteFile {
    /// Who classifies what came before; without it the rules look at that itself.
    pub(super) by: Option<Box<PartFile>>,
    /// The first whose rule holds is taken. It works on what came before, not on the class.
    pub(super) cases: Vec<CaseFile>,
    /// What is done when none holds.
    pub(super) otherwise: Box<PartFile>,
}

/// One way of a route.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CaseFile {
    /// When it is taken.
    pub(super) when: RuleFile,
    /// What is done then.
    pub(super) then: PartFile,
}

/// Again and again.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LoopFile {
    /// What is done each time.
    pub(super) body: Box<PartFile>,
    /// When its result is good.
    pub(super) until: RuleFile,
    /// After so many rounds the plan ends with limit_reached, with the last result.
    #[schemars(range(min = 1))]
    pub(super) max: u32,
}

/// Again and again, with a review.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ImproveFile {
    /// Who makes it. From the second time on, it is given the task, its last answer and the review.
    pub(super) produce: Box<PartFile>,
    /// Who reviews it.
    pub(super) evaluate: Box<PartFile>,
    /// When the review accepts it.
    pub(super) accept: RuleFile,
    /// After so many rounds the plan ends with limit_reached, with the last answer.
    #[schemars(range(min = 1))]
    pub(super) max: u32,
}

/// What must hold for a text. It has exactly one key.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RuleFile {
    /// It holds these words, whatever their case.
    pub(super) contains: Option<String>,
    /// It is these words, whatever their case and the white space around them.
    pub(super) equals: Option<String>,
    /// It is JSON, and what is at a pointer like "/verdict" is this.
    pub(super) field: Option<FieldFile>,
    /// It is JSON, and the number at a pointer is not below this.
    pub(super) at_least: Option<AtLeastFile>,
}

/// A value in a text that is JSON.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FieldFile {
    /// The JSON pointer; empty for the whole.
    pub(super) at: String,
    /// The value.
    pub(super) is: Value,
}

/// The least number that is enough, in a text that is JSON.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AtLeastFile {
    /// The JSON pointer; empty for the whole.
    pub(super) at: String,
    /// The number.
    pub(super) least: f64,
}

impl From<&AllowanceFile> for Allowance {
    fn from(file: &AllowanceFile) -> Self {
        Self {
            tokens: file.tokens.map(Tokens),
            cost: file.usd.map(MicroUsd::from_usd),
            tool_calls: file.tool_calls,
            children: file.children,
            wall_clock: file.wall_clock.map(|length| length.0),
        }
    }
}

impl Default for LinkFile {
    fn default() -> Self {
        Self {
            kind: LinkKind::default(),
            hears: Hears::default(),
            offered: true,
            retries: 0,
            fallback: None,
            on_failure: OnFailure::default(),
            allowance: AllowanceFile::default(),
        }
    }
}

impl LinkFile {
    pub(super) fn policy(&self) -> LinkPolicy {
        LinkPolicy {
            retries: self.retries,
            fallback: self.fallback.as_deref().map(Into::into),
            on_failure: self.on_failure,
        }
    }
}

impl RuleFile {
    /// The rule; none unless there is exactly one.
    pub(super) fn rule(self) -> Option<Rule> {
        let Self { contains, equals, field, at_least } = self;
        let rules = [
            contains.map(Rule::Contains),
            equals.map(Rule::Equals),
            field.map(|FieldFile { at, is }| Rule::Field { at, is }),
            at_least.map(|AtLeastFile { at, least }| Rule::AtLeast { at, least }),
        ];
        let mut rules = rules.into_iter().flatten();
        rules.next().filter(|_| rules.next().is_none())
    }
}

fn kinds(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": [LinkKind::Delegate, LinkKind::Handoff] })
}

fn hearings(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": [Hears::Input, Hears::Conversation] })
}

fn failures(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": [OnFailure::Escalate, OnFailure::Observe] })
}

/// The schema of a join, in which a quorum is a table.
pub(super) fn joins(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "title": "\"all\", \"first_success\", \"best_effort\" or { quorum = N } with N of 1 or more",
        "anyOf": [
            { "type": "string", "enum": [Join::All, Join::FirstSuccess, Join::BestEffort] },
            {
                "type": "object",
                "properties": { "quorum": { "type": "integer", "minimum": 1, "maximum": u32::MAX } },
                "required": ["quorum"],
                "additionalProperties": false,
            },
        ],
    })
}
