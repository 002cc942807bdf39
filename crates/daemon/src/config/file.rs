//! The shape of the file. The schema, the deserialiser and the example all come from these types.
//!
//! They hold what was written, not what it means: references, files and values that depend on one
//! another are the business of `resolve`. Every default is taken from the contract.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use dauntless_contract::{Bucket, Effect, OnExhausted, PanicPolicy, ResiliencePolicy, ToolSpec};
use dauntless_tools::{CommandConfig, HttpConfig};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::chaos::ChaosFile;
use super::policy::{BreakerFile, BudgetFile, ResilienceFile, RetryFile};
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
    /// Whether replies are read as they are written.
    #[serde(default = "yes")]
    pub(super) stream: bool,
    /// The most tokens of one reply. Without it: the provider's own limit.
    #[schemars(range(min = 1))]
    pub(super) max_output_tokens: Option<u32>,
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
    /// goes on without it.
    #[serde(default)]
    #[schemars(schema_with = "ends")]
    pub(super) on_exhausted: OnExhausted,
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
    json_schema!({ "type": "string", "enum": [OnExhausted::EndRun, OnExhausted::Observe] })
}

fn yes() -> bool {
    true
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
