//! The same agent on this runtime, with every guard it has by default.

use std::sync::Arc;
use std::time::Duration;

use dauntless::prelude::*;
use dauntless::{
    BoxFuture, Clock, Json, Model, ResiliencePolicy, Secret, SharedJournal, SystemClock, ToolSpec,
};
use dauntless_runtime::Lease;
use serde::Deserialize;

use crate::contender::Plan;

pub(crate) struct Team {
    runtime: Runtime,
    agent: Agent,
}

pub(crate) struct Work {
    spec: Arc<ToolSpec>,
    time: Duration,
}

#[derive(Deserialize)]
struct Arguments {
    n: u64,
}

impl Tool for Work {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, _: ToolCtx, arguments: Json) -> BoxFuture<'_, Result<ToolOutput, Failure>> {
        Box::pin(async move {
            let Arguments { n } = arguments.to()?;
            if !self.time.is_zero() {
                tokio::time::sleep(self.time).await;
            }
            Ok(ToolOutput::json(&serde_json::json!({ "done": n }))?)
        })
    }
}

/// Longer than any measurement takes.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// The tool.
pub(crate) fn work(plan: Plan) -> Work {
    let parameters = serde_json::json!({
        "type": "object",
        "properties": { "n": { "type": "integer" } },
        "required": ["n"],
        "additionalProperties": false,
    });
    let mut spec = ToolSpec::new("work", "Does the work.", parameters);
    spec.effect = Effect::ReadOnly;
    spec.resilience.concurrency = 1000;
    spec.polling = true;
    Work { spec: Arc::new(spec), time: plan.call_time() }
}

/// The client of a model.
pub(crate) fn model(name: &str, url: &str) -> Result<Arc<dyn Model>, String> {
    let patient = ResiliencePolicy { concurrency: 4000, ..ResiliencePolicy::for_model() };
    let model = OpenAi::builder(name)
        .stream(false)
        .base_url(url.to_owned())
        .api_key(Secret::new("none"))
        .resilience(patient)
        .build()
        .map_err(|error| error.to_string())?;
    Ok(Arc::new(model))
}

impl Team {
    pub(crate) async fn new(
        plan: Plan,
        url: &str,
        journal: Option<Arc<dyn SharedJournal>>,
    ) -> Result<Self, String> {
        let agent = Agent::new("bench").instructions("Do the work.").tool(work(plan));
        let limits = RunLimits { turns: 1000, ..RunLimits::default() };
        let mut builder =
            Runtime::builder().shared_model(model(&plan.model(), url)?).limits(limits).agent(&agent);
        if let Some(journal) = journal {
            let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
            let lease = Lease::new(Arc::clone(&clock), HOUR, clock.now());
            builder = builder.shared_journal(journal).lease(lease);
        }
        let runtime = builder.build().await.map_err(|error| error.to_string())?;
        Ok(Self { runtime, agent })
    }

    pub(crate) async fn run(&self) -> Result<(), String> {
        let outcome = self.runtime.run(&self.agent, "Begin.").await;
        match outcome.is_completed() {
            true => Ok(()),
            false => Err(format!("{} {:?}", outcome.reason, outcome.explanation)),
        }
    }
}
