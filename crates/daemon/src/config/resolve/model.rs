//! Models: which client, and what bounds it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use dauntless_contract::{MicroUsd, ModelSpec, Price, ResiliencePolicy, Tokens};

use super::Resolver;
use crate::config::dialect::ApiFile;
use crate::config::document::join;
use crate::config::file::{ModelFile, Provider};
use crate::config::{ClientConfig, DEFAULT_MODEL, ModelConfig};

impl Resolver<'_, '_> {
    pub(super) fn models(
        &mut self,
        model: Option<ModelFile>,
        models: BTreeMap<String, ModelFile>,
    ) -> BTreeMap<Arc<str>, ModelConfig> {
        let default = model.map(|file| ("/model".to_owned(), DEFAULT_MODEL.to_owned(), file));
        let named = models.into_iter().map(|(name, file)| (join("/models", &name), name, file));
        let all: Vec<_> = default.into_iter().chain(named).collect();
        all.into_iter().map(|(pointer, name, file)| (name.into(), self.model(&pointer, file))).collect()
    }

    fn model(&mut self, pointer: &str, file: ModelFile) -> ModelConfig {
        let at = |key| join(pointer, key);
        self.fits(pointer, &file);
        let client = self.client(pointer, &file);
        let (provider, name) = match (file.provider, file.name) {
            (Provider::OpenAi, Some(name)) if !name.trim().is_empty() => ("openai", name),
            (Provider::OpenAi, _) => {
                self.document.missing(&at("name"), "the model's name, as the provider knows it");
                ("openai", String::new())
            }
            (Provider::Scripted, name) => ("scripted", name.unwrap_or_else(|| "scripted".to_owned())),
        };
        let resilience = ResiliencePolicy {
            attempt_timeout: self.timeout(pointer, file.timeout, file.deadline),
            deadline: file.deadline.0,
            concurrency: file.concurrency,
            waiting: file.waiting,
            abandoned_max: file.abandoned_max,
            retry: file.retry.into(),
            breaker: file.breaker.into(),
            budget: file.budget.into(),
        };
        self.caps(pointer, &resilience);
        let price = file.price.map(|price| Price {
            input_per_million: MicroUsd::from_usd(price.input_usd_per_million),
            output_per_million: MicroUsd::from_usd(price.output_usd_per_million),
            cached_input_per_million: price.cached_input_usd_per_million.map(MicroUsd::from_usd),
        });
        let spec = ModelSpec {
            name: name.into(),
            provider: provider.into(),
            price: price.unwrap_or_default(),
            output_tokens_max: file.max_output_tokens,
            context_window: file.context_window.map(|tokens| Tokens(tokens.into())),
            counter: None,
            resilience,
        };
        let on = file.fallback_on.into_iter().map(Into::into).collect();
        let fallback = file.fallback.map(|name| (name.into(), on));
        ModelConfig { spec, client, tool_calling: file.tool_calling, fallback }
    }

    /// Notes lengths and switches that cannot go together.
    fn fits(&mut self, pointer: &str, file: &ModelFile) {
        let at = |key| join(pointer, key);
        let idle_timeout = file.idle_timeout.0;
        if file.stream && idle_timeout > file.timeout.0 && self.document.get(&at("idle_timeout")).is_some() {
            self.document.wrong(
                &at("idle_timeout"),
                format!("at most the timeout, \"{}\"", file.timeout),
                None,
            );
        }
        if file.keep_reasoning && file.api == ApiFile::Chat {
            let hint = Some("set api = \"responses\"".to_owned());
            self.document.wrong(&at("keep_reasoning"), "false with the API \"chat\"", hint);
        }
        if let (Some(reply), Some(window)) = (file.max_output_tokens, file.context_window)
            && reply >= window
        {
            let at = at("max_output_tokens");
            self.document.wrong(&at, format!("less than the context_window, {window}"), None);
        }
    }

    fn client(&mut self, pointer: &str, file: &ModelFile) -> ClientConfig {
        let at = |key| join(pointer, key);
        match file.provider {
            Provider::OpenAi => ClientConfig::OpenAi {
                base_url: file.base_url.as_ref().map(|url| url.0.clone()),
                api_key_env: file.api_key_env.0.clone(),
                api: file.api.with(file.keep_reasoning),
                profile: file.profile.map(Into::into),
                parallel_calls: file.parallel_calls,
                strict_schemas: file.strict_schemas,
                stream: file.stream,
                answer_schemas: file.answer_schemas,
                temperature: file.temperature,
                idle_timeout: file.idle_timeout.0,
            },
            Provider::Scripted => {
                let script = self.base.join(file.script.as_deref().unwrap_or_else(|| Path::new("")));
                match &file.script {
                    None => self.document.missing(&at("script"), "the file with the replies"),
                    Some(_) if script.is_file() => {}
                    Some(_) => self.document.wrong(&at("script"), "a file that exists", None),
                }
                ClientConfig::Scripted { script }
            }
        }
    }
}
