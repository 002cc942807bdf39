//! Asks a configured model whether it does what an agent will need of it.
//!
//! A configuration shows neither whether a key is good nor whether a model calls the tools that it
//! is offered; one small request does. Nothing is retried, because a probe tells how things stand
//! and costs money.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    Clock, Failure, FailureCode, Finish, History, Model, ModelCtx, ModelReply, ModelRequest, RunId, ToolSpec,
};
use dauntless_models::StructuredCalls;
use dauntless_runtime::SystemClock;
use serde_json::json;
use tokio::time::Instant;

use crate::config::{ClientConfig, Config, DEFAULT_MODEL, ModelConfig, ToolCalling};
use crate::wiring::{self, Environment, ModelError};

#[cfg(test)]
mod tests;

/// The most tokens of one reply to a probe, where the configuration allows more.
const OUTPUT_TOKENS_MAX: u32 = 512;

const TOOL: &str = "ping";

/// What became of asking one model. Its text is a line for the operator.
#[derive(Debug)]
pub struct Probed {
    /// The model, as the configuration names it.
    pub model: Arc<str>,
    /// Its name, as the provider knows it.
    pub name: Arc<str>,
    /// Whether an agent with tools depends on it.
    pub has_tools: bool,
    /// What was found.
    pub finding: Finding,
    /// How long it took.
    pub took: Duration,
}

/// What was found about a model.
#[derive(Debug)]
pub enum Finding {
    /// It follows a script, so there was nothing to ask.
    Scripted,
    /// There is no client to ask with.
    Broken(ModelError),
    /// The request failed.
    Failed(Failure),
    /// It was offered a tool and told to call it, and called it.
    Calls,
    /// It was offered a tool and told to call it, and did not.
    CallsNothing {
        /// The refusal, if the request failed for the tool in it.
        refusal: Option<Failure>,
        /// What came of asking for the same as an answer with a schema.
        structured: Structured,
    },
    /// It is configured to call tools in answers with a schema.
    Structured(Structured),
}

/// What became of asking for a call as an answer with a schema.
#[derive(Debug)]
pub enum Structured {
    /// It called the tool.
    Calls,
    /// The form was right, and it chose something else.
    Other,
    /// The form was wrong, so nothing keeps the model to a schema.
    Formless,
    /// The output limit cut the reply.
    Cut,
    /// The request failed.
    Failed(Failure),
}

impl Probed {
    /// Whether what depends on the model can work as it is configured.
    pub const fn works(&self) -> bool {
        match self.finding {
            Finding::Scripted | Finding::Calls | Finding::Structured(Structured::Calls) => true,
            Finding::CallsNothing { .. }
            | Finding::Structured(Structured::Other | Structured::Formless | Structured::Cut) => {
                !self.has_tools
            }
            Finding::Broken(_) | Finding::Failed(_) | Finding::Structured(Structured::Failed(_)) => false,
        }
    }
}

/// Asks the model of this name once, and a second time where the first leaves a question open.
///
/// Each request takes no longer than the model's deadline. Dropping the future ends it.
pub async fn probe(
    model: &Arc<str>,
    config: &ModelConfig,
    all: &Config,
    environment: Environment<'_>,
) -> Probed {
    let start = Instant::now();
    let finding = match &config.client {
        ClientConfig::Scripted { .. } => Finding::Scripted,
        ClientConfig::OpenAi { .. } => {
            let mut config = config.clone();
            let tokens = config.spec.output_tokens_max.unwrap_or(OUTPUT_TOKENS_MAX);
            config.spec.output_tokens_max = Some(tokens.min(OUTPUT_TOKENS_MAX));
            match wiring::client(model, &config, environment, &mut Vec::new()) {
                Ok(client) => find(client, config.tool_calling).await,
                Err(error) => Finding::Broken(error),
            }
        }
    };
    Probed {
        model: Arc::clone(model),
        name: Arc::clone(&config.spec.name),
        has_tools: has_tools(model, all),
        finding,
        took: start.elapsed(),
    }
}

async fn find(client: Arc<dyn Model>, tool_calling: ToolCalling) -> Finding {
    if tool_calling == ToolCalling::JsonSchema {
        return Finding::Structured(structured(client).await);
    }
    let refusal = match ask(&*client).await {
        Ok(reply) if calls(&reply) => return Finding::Calls,
        Ok(_) => None,
        // It may be the tool that is refused. If so, the same request without one is not.
        Err(failure) if failure.code == FailureCode::InvalidArguments => Some(failure),
        Err(failure) => return Finding::Failed(failure),
    };
    match (refusal, structured(client).await) {
        (Some(failure), Structured::Failed(_)) => Finding::Failed(failure),
        (refusal, structured) => Finding::CallsNothing { refusal, structured },
    }
}

async fn structured(client: Arc<dyn Model>) -> Structured {
    match ask(&StructuredCalls::shared(client)).await {
        Ok(reply) if calls(&reply) => Structured::Calls,
        Ok(reply) if reply.finish == Finish::Length => Structured::Cut,
        Ok(reply) if reply.calls.iter().any(|call| call.garbled.is_some()) => Structured::Formless,
        Ok(_) => Structured::Other,
        Err(failure) => Structured::Failed(failure),
    }
}

/// Tells the model to call a tool.
async fn ask(model: &dyn Model) -> Result<ModelReply, Failure> {
    let spec = model.spec();
    let parameters = json!({
        "type": "object",
        "properties": {"number": {"type": "integer"}},
        "required": ["number"],
    });
    let tool = ToolSpec::new(TOOL, "Takes a number.", parameters);
    let goal = format!("Call the tool {TOOL} with the number 7.");
    let history = History::open(&"You call tools.".into(), &goal.into());
    let within = spec.resilience.deadline;
    let deadline = SystemClock::new().now() + within;
    let ctx = ModelCtx { run: RunId::from_u128(0), turn: 1, attempt: 1, deadline, on_text: None };
    let request = ModelRequest::new(Arc::new(history), Arc::new([Arc::new(tool)]));
    tokio::time::timeout(within, model.call(ctx, request)).await.unwrap_or_else(|_| {
        Err(Failure::timeout(format!("Model `{}` did not finish its reply within {within:?}.", spec.name)))
    })
}

fn calls(reply: &ModelReply) -> bool {
    let is_cut = reply.finish == Finish::Length;
    !is_cut && reply.calls.iter().any(|call| &*call.name == TOOL && call.garbled.is_none())
}

/// Whether an agent with tools asks this model, or one that it stands in for.
fn has_tools(model: &Arc<str>, all: &Config) -> bool {
    let mut asked = BTreeSet::new();
    for agent in all.agents.values().filter(|agent| !agent.tools.is_empty()) {
        let mut next = Some(&agent.model);
        while let Some(name) = next.filter(|name| asked.insert(Arc::clone(name))) {
            next = all.models.get(name).and_then(|model| model.fallback.as_ref()).map(|(name, _)| name);
        }
    }
    asked.contains(model)
}

impl fmt::Display for Probed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, name, finding, took, .. } = self;
        write!(f, "model {model} ({name}): ")?;
        let table = Table(model);
        match finding {
            Finding::Scripted => return f.write_str("follows a script, so it was not asked"),
            Finding::Broken(error) => return write!(f, "cannot be asked: {error}"),
            Finding::Failed(failure) => write!(f, "{}", Told(failure))?,
            Finding::Calls => f.write_str("calls tools")?,
            Finding::CallsNothing { refusal, structured } => {
                match refusal {
                    None => f.write_str("does not call the tool that it is offered")?,
                    Some(failure) => write!(f, "takes no request with tools ({})", failure.message)?,
                }
                structured.beside_native(f, table)?;
            }
            Finding::Structured(structured) => structured.alone(f, table)?,
        }
        write!(f, " ({:.1} s)", took.as_secs_f64())
    }
}

impl Structured {
    fn beside_native(&self, f: &mut fmt::Formatter<'_>, table: Table<'_>) -> fmt::Result {
        match self {
            Self::Calls => write!(
                f,
                ". It calls tools in answers with a schema: set tool_calling = \"json_schema\" in {table}"
            ),
            Self::Other => write!(
                f,
                ". It keeps to the schema of an answer but chose to call nothing: with tool_calling = \
                 \"json_schema\" in {table} it may call tools now and then; a larger model does it reliably"
            ),
            Self::Formless => f.write_str(
                ", and does not keep to the schema of an answer: agents with tools need another model",
            ),
            Self::Cut => write!(
                f,
                ", and the output limit cut its answer with a schema: raise max_output_tokens in {table} and \
                 try again"
            ),
            Self::Failed(failure) if failure.code == FailureCode::InvalidArguments => write!(
                f,
                ", and answers with a schema are refused: agents with tools need another model. {}",
                Told(failure)
            ),
            Self::Failed(failure) => {
                write!(f, "; whether it keeps to the schema of an answer is not known. {}", Told(failure))
            }
        }
    }

    fn alone(&self, f: &mut fmt::Formatter<'_>, table: Table<'_>) -> fmt::Result {
        match self {
            Self::Calls => f.write_str("calls tools"),
            Self::Other => f.write_str(
                "keeps to the schema of its answer but did not call the tool that it was told to call: a larger \
                 model does",
            ),
            Self::Formless => write!(
                f,
                "does not keep to the schema of its answer: tool_calling = \"json_schema\" in {table} is of no \
                 use with this service"
            ),
            Self::Cut => write!(f, "was cut by the output limit: raise max_output_tokens in {table}"),
            Self::Failed(failure) => write!(f, "{}", Told(failure)),
        }
    }
}

/// Where a model stands in the file.
#[derive(Clone, Copy)]
struct Table<'a>(&'a str);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            DEFAULT_MODEL => f.write_str("[model]"),
            name => write!(f, "[models.{name}]"),
        }
    }
}

/// A failure as an operator is told of it.
struct Told<'a>(&'a Failure);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.code, self.0.message)?;
        match &self.0.hint {
            Some(hint) => write!(f, " {hint}"),
            None => Ok(()),
        }
    }
}
