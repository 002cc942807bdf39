//! What decisions rest on, without anything that runs: for whoever folds a run and drives none.
//!
//! No key and no program is needed for it, so a run can be looked at on a machine that could not
//! drive it.

use std::collections::BTreeSet;
use std::sync::Arc;

use dauntless_contract::ModelSpec;
use dauntless_core::redact::{RedactError, Redactor};
use dauntless_core::run::{AnswerShape, ModelFallback, RunSpec, toolbox};
use dauntless_core::toolbox::Quarantined;

use serde_json::Value;

use super::{Cause, Environment, ModelError, NoAgent, client};
use crate::config::{AgentConfig, ClientConfig, Config, ModelConfig, StoreConfig};

/// What every run of an agent shares.
///
/// # Errors
/// [`NoAgent`], when there is no such agent or it could not run anywhere.
pub fn spec(
    config: &Config,
    agent: &str,
    environment: Environment<'_>,
    redactor: Redactor,
) -> Result<RunSpec, NoAgent> {
    let Some((name, AgentConfig { spec: agent, model, tools, .. })) = config.agents.get_key_value(agent)
    else {
        let known = config.agents.keys().map(|name| &**name).collect::<Vec<_>>().join(", ");
        return Err(NoAgent::Unknown { name: agent.to_owned(), known });
    };
    let broken = |cause| NoAgent::Broken { name: Arc::clone(name), cause: Arc::new(cause) };
    let tools = tools.iter().filter_map(|tool| config.tools.get(tool)).map(|tool| Arc::clone(&tool.spec));
    let (toolbox, problems) = toolbox(agent, tools.collect());
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
        links: Default::default(),
        redactor,
    })
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
