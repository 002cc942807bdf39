//! Models, each built when the first agent asks for it. One that nobody uses may lack its key.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;
use std::sync::Arc;

use dauntless_contract::{Bucket, Model, ModelSpec};
use dauntless_models::{OpenAi, Scripted, Secret, StructuredCalls};

use super::{Environment, ModelError};
use crate::config::{ClientConfig, ModelConfig, ToolCalling};

type Built = Result<Arc<dyn Model>, Arc<ModelError>>;

/// The models that were asked for, whether they could be had or not.
#[derive(Default)]
pub(super) struct Models {
    built: BTreeMap<Arc<str>, Built>,
    secrets: Vec<String>,
}

impl Models {
    pub(super) fn get(
        &mut self,
        name: &Arc<str>,
        config: &ModelConfig,
        environment: Environment<'_>,
    ) -> Built {
        match self.built.entry(Arc::clone(name)) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(place) => {
                let built = build(name, config, environment, &mut self.secrets).map_err(Arc::new);
                place.insert(built).clone()
            }
        }
    }

    /// The models that are asked after this one, in order, as far as they can be had.
    pub(super) fn fallbacks(
        &mut self,
        name: &Arc<str>,
        all: &BTreeMap<Arc<str>, ModelConfig>,
        environment: Environment<'_>,
    ) -> Vec<(Arc<dyn Model>, Vec<Bucket>)> {
        let mut chain = Vec::new();
        let mut next = all.get(name).and_then(|model| model.fallback.as_ref());
        while let Some((name, on)) = next {
            let Some(config) = all.get(name) else { break };
            // One that cannot be had is passed over: the next in the chain may be there.
            if let Ok(model) = self.get(name, config, environment) {
                chain.push((model, on.clone()));
            }
            next = config.fallback.as_ref();
        }
        chain
    }

    /// What must not be shown of them.
    pub(super) fn into_secrets(self) -> Vec<String> {
        self.secrets
    }
}

fn build(
    model: &Arc<str>,
    config: &ModelConfig,
    environment: Environment<'_>,
    secrets: &mut Vec<String>,
) -> Result<Arc<dyn Model>, ModelError> {
    let client = client(model, config, environment, secrets)?;
    Ok(match config.tool_calling {
        ToolCalling::Native => client,
        ToolCalling::JsonSchema => Arc::new(StructuredCalls::shared(client)),
    })
}

/// The client of a model, which knows nothing of how the model calls tools.
pub(crate) fn client(
    model: &Arc<str>,
    config: &ModelConfig,
    environment: Environment<'_>,
    secrets: &mut Vec<String>,
) -> Result<Arc<dyn Model>, ModelError> {
    let spec = &config.spec;
    match &config.client {
        ClientConfig::OpenAi {
            base_url,
            api_key_env,
            api,
            profile,
            parallel_calls,
            strict_schemas,
            stream,
            answer_schemas,
            temperature,
            idle_timeout,
        } => {
            let filled = |name: &str| environment(name).filter(|value| !value.trim().is_empty());
            let key = filled(api_key_env).ok_or_else(|| ModelError::NoKey {
                model: Arc::clone(model),
                variable: api_key_env.clone(),
            })?;
            secrets.push(key.clone());
            let mut builder = OpenAi::builder(Arc::clone(&spec.name))
                .api_key(Secret::new(key))
                .provider(Arc::clone(&spec.provider))
                .api(*api)
                .parallel_calls(*parallel_calls)
                .strict_schemas(*strict_schemas)
                .stream(*stream)
                .answer_schemas(*answer_schemas)
                .price(spec.price)
                .resilience(spec.resilience.clone())
                .idle_timeout(*idle_timeout);
            if let Some(url) = base_url.clone().or_else(|| filled("OPENAI_BASE_URL")) {
                builder = builder.base_url(url);
            }
            if let Some(profile) = profile {
                builder = builder.profile(profile.clone());
            }
            if let Some(tokens) = spec.output_tokens_max {
                builder = builder.max_output_tokens(tokens);
            }
            if let Some(tokens) = spec.context_window {
                builder = builder.context_window(tokens);
            }
            if let Some(temperature) = temperature {
                builder = builder.temperature(*temperature);
            }
            let built = builder.build();
            Ok(Arc::new(built.map_err(|error| ModelError::Client { model: Arc::clone(model), error })?))
        }
        ClientConfig::Scripted { script } => Ok(Arc::new(scripted(model, script, spec)?)),
    }
}

fn scripted(model: &Arc<str>, path: &Path, spec: &ModelSpec) -> Result<Scripted, ModelError> {
    let text = std::fs::read_to_string(path).map_err(|error| ModelError::ScriptFile {
        model: Arc::clone(model),
        path: path.to_owned(),
        error,
    })?;
    let read = match path.extension().is_some_and(|extension| extension == "json") {
        true => Scripted::from_json(&text),
        false => Scripted::from_toml(&text),
    };
    let scripted =
        read.map_err(|error| ModelError::Script { model: Arc::clone(model), path: path.to_owned(), error })?;
    Ok(scripted.with_spec(|declared| *declared = spec.clone()))
}
