//! What decisions rest on, without anything that runs: for whoever folds a run and drives none.
//!
//! No key and no program is needed for it, so a run can be looked at on a machine that could not
//! drive it.

use std::collections::BTreeSet;
use std::sync::Arc;

use dauntless_contract::{AgentSpec, ModelSpec, PanicPolicy, RunLimits};
use dauntless_core::plan::PlanSpec;
use dauntless_core::redact::{RedactError, Redactor};
use dauntless_core::run::{AnswerShape, ModelFallback, RunSpec, toolbox};
use dauntless_core::toolbox::{Quarantined, Toolbox};
use dauntless_core::tree::delegate_spec;

use serde_json::Value;

use super::{Cause, Environment, ModelError, NoAgent, client};
use crate::config::{AgentConfig, ClientConfig, Config, ModelConfig, StoreConfig};

/// What every run of one agent, or of one plan, shares.
#[derive(Clone, Debug)]
pub enum Spec {
    /// Of an agent.
    Agent(Arc<RunSpec>),
    /// Of a plan.
    Plan(Arc<PlanSpec>),
}

/// What every run of an agent or a plan of this name shares.
///
/// # Errors
/// [`NoAgent`], when there is neither or it could not run anywhere.
pub fn spec(
    config: &Config,
    name: &str,
    environment: Environment<'_>,
    redactor: Redactor,
) -> Result<Spec, NoAgent> {
    if let Some((name, plan)) = config.plans.get_key_value(name) {
        let face = |name: Arc<str>| config.agents.get(&name).map(|agent| (name, agent.face()));
        let agents = plan.agents().into_iter().filter_map(face).collect();
        let spec = PlanSpec { name: Arc::clone(name), plan: plan.plan.clone(), agents, redactor };
        return Ok(Spec::Plan(Arc::new(spec)));
    }
    match config.agents.get_key_value(name) {
        Some((name, agent)) => {
            of_agent(config, name, agent, environment, redactor).map(|spec| Spec::Agent(Arc::new(spec)))
        }
        None => Err(NoAgent::Unknown { name: name.to_owned(), known: config.names() }),
    }
}

fn of_agent(
    config: &Config,
    name: &Arc<str>,
    of: &AgentConfig,
    environment: Environment<'_>,
    redactor: Redactor,
) -> Result<RunSpec, NoAgent> {
    let AgentConfig { spec: agent, model, links, .. } = of;
    let broken = |cause| NoAgent::Broken { name: Arc::clone(name), cause: Arc::new(cause) };
    let (toolbox, problems) = toolbox_of(config, of);
    if !problems.is_empty() {
        return Err(broken(Cause::Declarations(problems)));
    }
    let unusable = |reason| broken(Cause::Declarations(vec![Quarantined { name: Arc::clone(name), reason }]));
    let answer = agent.answer.as_ref().map(AnswerShape::compile).transpose().map_err(unusable)?;
    let model_spec = |name: &Arc<str>, model: &ModelConfig| {
        model_spec(name, model, environment).map_err(|error| broken(Cause::Model(Arc::new(error))))
    };
    let mut chain = Vec::new();
    let mut next = Some((model, Vec::new()));
    while let Some((name, on)) = next
        && let Some(model) = config.models.get(name)
    {
        chain.push(ModelFallback { model: model_spec(name, model)?, on });
        next = model.fallback.as_ref().map(|(name, on)| (name, on.clone()));
    }
    let mut chain = chain.into_iter();
    let Some(ModelFallback { model, on: _ }) = chain.next() else {
        return Err(unusable(format!("there is no model `{model}`")));
    };
    Ok(RunSpec {
        agent: agent.clone(),
        toolbox,
        answer,
        model,
        fallbacks: chain.collect(),
        links: links.clone(),
        redactor,
    })
}

/// What the runs of an agent or a plan of this name begin with: who it is, its tools, and its limits.
pub(crate) fn opening(config: &Config, name: &str) -> Option<(AgentSpec, Toolbox, RunLimits)> {
    if let Some(agent) = config.agents.get(name) {
        let (toolbox, _) = toolbox_of(config, agent);
        return Some((agent.spec.clone(), toolbox, agent.limits.clone()));
    }
    let (name, plan) = config.plans.get_key_value(name)?;
    let spec = AgentSpec {
        name: Arc::clone(name),
        instructions: "".into(),
        on_panic: PanicPolicy::default(),
        answer: None,
        ask_user: false,
        notes: false,
        messages: false,
    };
    let (toolbox, _) = toolbox(&spec, Vec::new());
    Some((spec, toolbox, plan.limits.clone()))
}

/// The tools of an agent, and the agents that its model is offered.
fn toolbox_of(config: &Config, agent: &AgentConfig) -> (Toolbox, Vec<Quarantined>) {
    let tools = agent.tools.iter().filter_map(|tool| config.tools.get(tool));
    let tools = tools.map(|tool| Arc::clone(&tool.spec));
    let others = agent.offered.iter().filter_map(|name| {
        let other = config.agents.get(name)?;
        let input = other.input.as_deref().cloned();
        Some(Arc::new(delegate_spec(Arc::clone(name), other.description.clone().unwrap_or_default(), input)))
    });
    toolbox(&agent.spec, tools.chain(others).collect())
}

/// What a client of this model would declare. A key that is not set is not missed.
fn model_spec(
    name: &Arc<str>,
    model: &ModelConfig,
    environment: Environment<'_>,
) -> Result<Arc<ModelSpec>, ModelError> {
    match &model.client {
        ClientConfig::Scripted { .. } => Ok(Arc::new(model.spec.clone())),
        ClientConfig::OpenAi { api_key_env, .. } => {
            let keyed = |variable: &str| {
                let set = environment(variable).filter(|value| !value.trim().is_empty());
                set.or_else(|| (variable == api_key_env).then(|| "no-key-is-needed-here".to_owned()))
            };
            Ok(Arc::clone(client(name, model, &keyed, &mut Vec::new())?.spec()))
        }
    }
}

/// Masks what a process with this configuration and this environment must not show: whatever it has
/// from a variable that the configuration names. Nothing has to be able to start for it.
///
/// # Errors
/// [`RedactError`], when the patterns together are too large.
pub fn redactor(config: &Config, environment: Environment<'_>) -> Result<Redactor, RedactError> {
    let mut variables = BTreeSet::new();
    named(config.written().get("tools").unwrap_or(&Value::Null), &mut variables);
    for model in config.models.values() {
        if let ClientConfig::OpenAi { api_key_env, .. } = &model.client {
            variables.insert(api_key_env.as_str());
        }
    }
    if let StoreConfig::Variable { name, .. } = &config.journal.store {
        variables.insert(name);
    }
    let patterns: Vec<String> = config.redact.iter().map(|pattern| pattern.as_str().to_owned()).collect();
    Redactor::new(variables.into_iter().filter_map(environment), &patterns)
}

/// The variables that the texts in a value name as `${NAME}`.
fn named<'v>(value: &'v Value, variables: &mut BTreeSet<&'v str>) {
    match value {
        Value::String(text) => {
            variables.extend(text.split("${").skip(1).filter_map(|rest| Some(rest.split_once('}')?.0)));
        }
        Value::Array(items) => items.iter().for_each(|item| named(item, variables)),
        Value::Object(map) => map.values().for_each(|value| named(value, variables)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
