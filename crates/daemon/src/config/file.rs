//! The shape of the file. The schema, the deserialiser and the example all come from these types.
//!
//! They hold what was written, not what it means: references, files and values that depend on one
//! another are the business of `resolve`. Every default is taken from the contract.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use dauntless_contract::{Bucket, Effect, OnExhausted, PanicPolicy, ResiliencePolicy, ToolSpec};
use dauntless_core::plan::Join;
use dauntless_tools::{CommandConfig, HttpConfig};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::chaos::ChaosFile;
use super::dialect::{ApiFile, ProfileFile};
use super::journal::{JournalFile, WorkerFile};
use super::policy::{BreakerFile, BudgetFile, ResilienceFile, RetryFile};
use super::team::{LinkFile, PlanFile, joins};
use super::unit::{HttpUrl, Length, Size, VariableName};

/// What a Dauntless daemon runs: models, agents and tools.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Dauntless configuration")]
pub(super) struct ConfigFile {
    /// The model of every agent that names none. Its own name is "default".
    pub(super) model: Option<ModelFile>,
    /// More models, by the name that agents use.
    #[serde(default)]
    pub(super) models: BTreeMap<String, ModelFile>,
    /// The agents, by name. At least one.
    #[serde(default)]
    pub(super) agents: BTreeMap<String, AgentFile>,
    /// What agents do together, decided without a model, by name. A plan is run like an agent.
    #[serde(default)]
    pub(super) plans: BTreeMap<String, PlanFile>,
    /// What a run may use up, where its agent says nothing else.
    #[serde(default)]
    pub(super) limits: LimitsFile,
    /// What all models and tools have in common.
    #[serde(default)]
    pub(super) resilience: ResilienceFile,
    /// The tools, by the name that the model sees: 1 to 64 of a-z, A-Z, 0-9, `_` and `-`.
    #[serde(default)]
    pub(super) tools: BTreeMap<String, ToolFile>,
    /// Which tools fail on purpose. Off unless enabled, here or by --chaos.
    #[serde(default)]
    pub(super) chaos: ChaosFile,
    /// What is masked wherever text leaves the daemon, besides known keys and tokens.
    #[serde(default)]
    pub(super) redact: RedactFile,
    /// Where traces go.
    #[serde(default)]
    pub(super) telemetry: TelemetryFile,
    /// Where runs are kept that outlive their process: an address like "sqlite:journal.db", or a table.
    #[serde(default)]
    pub(super) journal: JournalFile,
    /// How a worker drives the runs of the journal.
    #[serde(default)]
    pub(super) worker: WorkerFile,
}

/// A model and how it is reached.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ModelFile {
    /// "openai" for every service that speaks its API, "scripted" for replies from a file.
    pub(super) provider: Provider,
    /// The model's name, as the provider knows it. Required unless scripted.
    pub(super) name: Option<String>,
    /// The file of a scripted model, relative to this file. Other providers ignore it.
    pub(super) script: Option<PathBuf>,
    /// The address of the service. Without it: OPENAI_BASE_URL, else https://api.openai.com/v1.
    pub(super) base_url: Option<HttpUrl>,
    /// The environment variable that holds the key.
    #[serde(default = "api_key_env")]
    pub(super) api_key_env: VariableName,
    /// "chat" for chat completions, which every service has; "responses" for OpenAI's newer API.
    #[serde(default)]
    pub(super) api: ApiFile,
    /// The provider whose ways requests follow. Without it: known by the host of base_url.
    pub(super) profile: Option<ProfileFile>,
    /// Whether the model may ask for several calls in one reply.
    #[serde(default = "yes")]
    pub(super) parallel_calls: bool,
    /// Whether the provider holds the model to schemas, where its strict mode takes the schema.
    #[serde(default)]
    pub(super) strict_schemas: bool,
    /// Whether the model gets its own reasoning back, sealed. With the API "responses" only.
    #[serde(default)]
    pub(super) keep_reasoning: bool,
    /// Whether replies are read as they are written.
    #[serde(default = "yes")]
    pub(super) stream: bool,
    /// How the model calls tools: "native", or "json_schema" for one that ignores the tools it is
    /// offered and keeps to the schema of its answer. `dauntless check --probe` says which.
    #[serde(default)]
    pub(super) tool_calling: ToolCalling,
    /// Whether the schema of an agent's answer goes into the request, as response_format. Set it to
    /// false for a provider that refuses that; the model is told the schema in words either way.
    #[serde(default = "yes")]
    pub(super) answer_schemas: bool,
    /// The most tokens of one reply. Without it: the provider's own limit.
    #[schemars(range(min = 1))]
    pub(super) max_output_tokens: Option<u32>,
    /// The most tokens of a request and its reply together. Without it: by the model's name if that
    /// is known, else only the provider knows.
    #[schemars(range(min = 256))]
    pub(super) context_window: Option<u32>,
    /// How freely the model writes, 0 to 2. Without it: the provider's own default.
    #[schemars(range(min = 0, max = 2))]
    pub(super) temperature: Option<f64>,
    /// Longest time of one attempt.
    #[serde(default = "model_timeout")]
    pub(super) timeout: Length,
    /// Longest time of one request: queue, attempts and waits together.
    #[serde(default = "model_deadline")]
    pub(super) deadline: Length,
    /// A stream that is silent for so long counts as broken.
    #[serde(default = "idle_timeout")]
    pub(super) idle_timeout: Length,
    /// Requests in flight at once, over all runs.
    #[serde(default = "model_concurrency")]
    #[schemars(range(min = 1))]
    pub(super) concurrency: u32,
    /// Requests that may wait for a place.
    #[serde(default = "model_waiting")]
    pub(super) waiting: u32,
    /// Attempts that were stopped but do not end: with more than this, no further one is started.
    #[serde(default = "abandoned_max")]
    pub(super) abandoned_max: u32,
    /// How often and when an attempt is repeated.
    #[serde(default)]
    pub(super) retry: RetryFile,
    /// When the model is left alone, and for how long.
    #[serde(default)]
    pub(super) breaker: BreakerFile,
    /// How many retries it may be sent, over all runs.
    #[serde(default)]
    pub(super) budget: BudgetFile,
    /// A name from [models]: the model that is asked when this one failed.
    pub(super) fallback: Option<String>,
    /// The kinds of failure for which the fallback is asked.
    #[serde(default = "fallback_on")]
    pub(super) fallback_on: Vec<FallbackOn>,
    /// What it costs. Without it: nothing, and limits in usd cannot be set.
    pub(super) price: Option<PriceFile>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Provider {
    OpenAi,
    Scripted,
}

/// How a model calls tools.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum ToolCalling {
    /// By itself: the request offers tools, and the reply holds calls.
    #[default]
    Native,
    /// Each decision is an answer with a schema: one call of a tool, or the final answer.
    JsonSchema,
}

/// What a failure of a model is, as far as another model can help.
#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum FallbackOn {
    Transient,
    Terminal,
    Harness,
    Defect,
    ModelMistake,
}

impl From<FallbackOn> for Bucket {
    fn from(file: FallbackOn) -> Self {
        match file {
            FallbackOn::Transient => Self::Transient,
            FallbackOn::Terminal => Self::Terminal,
            FallbackOn::Harness => Self::Harness,
            FallbackOn::Defect => Self::Defect,
            FallbackOn::ModelMistake => Self::ModelMistake,
        }
    }
}

/// What a million tokens cost, in US dollars.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PriceFile {
    /// For a million prompt tokens.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub(super) input_usd_per_million: f64,
    /// For a million completion tokens.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub(super) output_usd_per_million: f64,
    /// For a million prompt tokens out of the provider's cache. Without it: like the others.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub(super) cached_input_usd_per_million: Option<f64>,
}

/// A named role.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AgentFile {
    /// What the agent is told about its role. Either this or instructions_file.
    pub(super) instructions: Option<String>,
    /// A text file with the instructions, relative to this file.
    pub(super) instructions_file: Option<PathBuf>,
    /// A name from [models]. Without it: [model].
    pub(super) model: Option<String>,
    /// Names from [tools].
    #[serde(default)]
    pub(super) tools: Vec<String>,
    /// Names from [agents]: those that it may ask. Each is a tool of that name to its model.
    #[serde(default)]
    pub(super) agents: Vec<String>,
    /// What is special about asking one of them; each table links its agent as well.
    #[serde(default)]
    pub(super) links: BTreeMap<String, LinkFile>,
    /// How many of those that it asks in one turn must succeed; the others are cancelled then.
    /// Default "best_effort": all are waited for.
    #[serde(default)]
    #[schemars(schema_with = "joins")]
    pub(super) join: Option<Join>,
    /// What other agents read of it, to decide whether to ask it.
    pub(super) description: Option<String>,
    /// JSON Schema of what it takes from other agents and plans, as a table; its root is an object.
    /// Without it and input_file: a goal in words.
    pub(super) input: Option<Map<String, Value>>,
    /// A JSON file with that schema, relative to this file.
    pub(super) input_file: Option<PathBuf>,
    /// JSON Schema that its answers must fit, as a table. Without it and answer_file: any words will do.
    pub(super) answer: Option<Map<String, Value>>,
    /// A JSON file with that schema, relative to this file.
    pub(super) answer_file: Option<PathBuf>,
    /// How often a run asks again for an answer that does not fit.
    #[serde(default = "answer_reasks")]
    pub(super) answer_reasks: u32,
    /// Whether it may ask whoever set the goal, with the built-in tool ask_user.
    #[serde(default)]
    pub(super) ask_user: bool,
    /// Whether it has the notes that the runs of its tree share, with the tools notes_read and notes_write.
    #[serde(default)]
    pub(super) notes: bool,
    /// Whether it may write to the agents beside it and to the one that asked it, with the tool
    /// send_message, and is written to by those that may as well.
    #[serde(default)]
    pub(super) messages: bool,
    /// A panic in a tool: "observe" tells the model, "end_run" ends the run so that it is seen.
    #[serde(default)]
    pub(super) on_panic: OnPanic,
    /// What a run of this agent may use up. Each key that is absent comes from [limits].
    #[serde(default)]
    pub(super) limits: LimitsFile,
}

#[derive(Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum OnPanic {
    #[default]
    Observe,
    EndRun,
}

/// What a run may use up. A run that reaches a limit ends with limit_reached.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LimitsFile {
    /// Model requests. Default 50.
    #[schemars(range(min = 1))]
    pub(super) turns: Option<u32>,
    /// Prompt plus completion tokens over all turns. Default 2000000.
    #[schemars(range(min = 1, max = 1_000_000_000_000_000_u64))]
    pub(super) tokens: Option<u64>,
    /// Cost over all turns in US dollars, by the model's price. Default 10.0.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 1_000_000_000))]
    pub(super) usd: Option<f64>,
    /// Time from submit, waiting included. Default "1h".
    pub(super) wall_clock: Option<Length>,
    /// Tool calls the model asks for. Default 1000.
    pub(super) tool_calls: Option<u32>,
    /// Runs that it may start, at all levels below it together. Default 100.
    pub(super) children: Option<u32>,
    /// Runs that it may have under way at once; more wait for their turn. Default 16.
    #[schemars(range(min = 1))]
    pub(super) children_at_once: Option<u32>,
    /// Levels of runs from it down: with 1 it can start no other. Default 4.
    #[schemars(range(min = 1))]
    pub(super) depth: Option<u32>,
}

/// A tool without code. Exactly one of http and command says what it does.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolFile {
    /// What it does. The model decides by it.
    #[schemars(extend("title" = "a sentence that says what the tool does", "pattern" = "\\S"))]
    pub(super) description: String,
    /// What a repetition would do: read_only changes nothing; idempotent may be done twice; keyed
    /// drops repetitions by the idempotency key; verifiable can be asked whether it happened; once
    /// is none of these and is never repeated after it may have started.
    #[serde(default)]
    #[schemars(schema_with = "effects")]
    pub(super) effect: Effect,
    /// Longest time of one attempt.
    #[serde(default = "tool_timeout")]
    pub(super) timeout: Length,
    /// Longest time of one call: queue, attempts and waits together.
    #[serde(default = "tool_deadline")]
    pub(super) deadline: Length,
    /// Attempts in flight at once, over all runs.
    #[serde(default = "tool_concurrency")]
    #[schemars(range(min = 1))]
    pub(super) concurrency: u32,
    /// Calls that may wait for a place; the next is refused as overloaded.
    #[serde(default = "tool_waiting")]
    pub(super) waiting: u32,
    /// Attempts that were stopped but do not end: with more than this, no further one is started.
    #[serde(default = "abandoned_max")]
    pub(super) abandoned_max: u32,
    /// When it stays broken after all retries: end_run ends the run, observe tells the model, which
    /// goes on without it, park lets the run wait until it may work again.
    #[serde(default)]
    #[schemars(schema_with = "ends")]
    pub(super) on_exhausted: OnExhausted,
    /// With on_exhausted = "park": how long a call may wait for it in all. Default 1 h.
    pub(super) max_park: Option<Length>,
    /// A name from [tools]: the tool that is asked in its place, with the same arguments, when this
    /// one is exhausted or down. Never for a call that may have happened, unless that does no harm.
    pub(super) fallback: Option<String>,
    /// Whether it is asked again and again on purpose; equal answers are then no loop.
    #[serde(default)]
    pub(super) polling: bool,
    /// Longest text of a success that the model is shown.
    #[serde(default = "output_max")]
    pub(super) output_max: Size,
    /// How often and when an attempt is repeated.
    #[serde(default)]
    pub(super) retry: RetryFile,
    /// When the tool is left alone, and for how long.
    #[serde(default)]
    pub(super) breaker: BreakerFile,
    /// How many retries it may be sent, over all runs.
    #[serde(default)]
    pub(super) budget: BudgetFile,
    /// JSON Schema of the arguments; its root is an object. Without it and parameters_file: none.
    pub(super) parameters: Option<Map<String, Value>>,
    /// A JSON file with that schema, relative to this file.
    pub(super) parameters_file: Option<PathBuf>,
    /// One HTTP request per call.
    pub(super) http: Option<HttpConfig>,
    /// One process per call.
    pub(super) command: Option<CommandConfig>,
}

/// What is masked, besides known keys and tokens.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RedactFile {
    /// Regular expressions in the syntax of Rust's `regex` crate.
    pub(super) patterns: Vec<String>,
}

/// Where traces go.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TelemetryFile {
    /// An OpenTelemetry collector that takes OTLP over HTTP. Without it: off.
    pub(super) otlp_endpoint: Option<HttpUrl>,
    /// The name that the collector files the traces under.
    pub(super) service_name: String,
}

impl Default for TelemetryFile {
    fn default() -> Self {
        Self { otlp_endpoint: None, service_name: "dauntless".to_owned() }
    }
}

impl From<OnPanic> for PanicPolicy {
    fn from(file: OnPanic) -> Self {
        match file {
            OnPanic::Observe => Self::Observe,
            OnPanic::EndRun => Self::EndRun,
        }
    }
}

fn effects(_: &mut SchemaGenerator) -> Schema {
    let all = [Effect::ReadOnly, Effect::Idempotent, Effect::Keyed, Effect::Verifiable, Effect::Once];
    json_schema!({ "type": "string", "enum": all })
}

fn ends(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": [OnExhausted::EndRun, OnExhausted::Observe, OnExhausted::Park] })
}

fn yes() -> bool {
    true
}

fn answer_reasks() -> u32 {
    2
}

fn api_key_env() -> VariableName {
    VariableName("OPENAI_API_KEY".to_owned())
}

fn idle_timeout() -> Length {
    Duration::from_secs(30).into()
}

fn model_timeout() -> Length {
    ResiliencePolicy::for_model().attempt_timeout.into()
}

fn model_deadline() -> Length {
    ResiliencePolicy::for_model().deadline.into()
}

fn model_concurrency() -> u32 {
    ResiliencePolicy::for_model().concurrency
}

fn model_waiting() -> u32 {
    ResiliencePolicy::for_model().waiting
}

fn tool_timeout() -> Length {
    ResiliencePolicy::default().attempt_timeout.into()
}

fn tool_deadline() -> Length {
    ResiliencePolicy::default().deadline.into()
}

fn tool_concurrency() -> u32 {
    ResiliencePolicy::default().concurrency
}

fn tool_waiting() -> u32 {
    ResiliencePolicy::default().waiting
}

fn abandoned_max() -> u32 {
    ResiliencePolicy::default().abandoned_max
}

fn fallback_on() -> Vec<FallbackOn> {
    vec![FallbackOn::Transient, FallbackOn::Terminal, FallbackOn::Harness]
}

fn output_max() -> Size {
    Size(ToolSpec::new("", "", Value::Null).output_bytes_max)
}
