//! The same agent on this runtime, with every guard it has by default.

use std::sync::Arc;
use std::time::Duration;

use dauntless::prelude::*;
use dauntless::{BoxFuture, Clock, Json, ResiliencePolicy, Secret, SharedJournal, SystemClock, ToolSpec};
use dauntless_runtime::Lease;
use serde::Deserialize;

use crate::contender::Plan;

pub(crate) struct Team {
    runtime: Runtime,
    agent: Agent,
}

struct Work {
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

/// The agent that does a plan's work.
pub(crate) fn worker(plan: Plan, url: &str) -> Result<Agent, String> {
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
    let tool = Work { spec: Arc::new(spec), time: plan.call_time() };
    let model = model(plan.model(), url)?;
    Ok(Agent::new("bench").instructions("Do the work.").model(model).tool(tool))
}

/// The mock provider, told by the model's name what it is to do.
pub(crate) fn model(name: String, url: &str) -> Result<OpenAi, String> {
    let patient = ResiliencePolicy { concurrency: 4000, ..ResiliencePolicy::for_model() };
    OpenAi::builder(name)
        .stream(false)
        .base_url(url.to_owned())
        .api_key(Secret::new("none"))
        .resilience(patient)
        .build()
        .map_err(|error| error.to_string())
}

impl Team {
    /// An agent that does the plan's work, with a journal that other workers could share, or none.
    pub(crate) async fn new(
        plan: Plan,
        url: &str,
        journal: Option<Arc<dyn SharedJournal>>,
    ) -> Result<Self, String> {
        let limits = RunLimits { turns: 1000, ..RunLimits::default() };
        Self::of(worker(plan, url)?.limits(limits), journal).await
    }

    pub(crate) async fn of(agent: Agent, journal: Option<Arc<dyn SharedJournal>>) -> Result<Self, String> {
        let mut builder = Runtime::builder().agent(&agent);
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
