//! The world of a simulation without an agent of its own: a few tools of different kinds.

use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    BoxFuture, BreakerPolicy, BudgetPolicy, Effect, Failure, Json, OnExhausted, ResiliencePolicy,
    RetryPolicy, Tool, ToolCtx, ToolOutput, ToolSpec,
};
use dauntless_runtime::Agent;
use serde_json::json;

use super::chance::Chance;

const EFFECTS: [Effect; 5] =
    [Effect::ReadOnly, Effect::Idempotent, Effect::Keyed, Effect::Verifiable, Effect::Once];

/// Does what it is asked, at once. All that goes wrong is put around it.
struct Worker(Arc<ToolSpec>);

impl Tool for Worker {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    fn call(&self, ctx: ToolCtx, _: Json) -> BoxFuture<'_, Result<ToolOutput, Failure>> {
        Box::pin(async move { Ok(ToolOutput::text(format!("done in call {}", ctx.call))) })
    }
}

/// An agent with three to six tools, whose effects go round and whose policies are drawn.
pub(super) fn agent(seed: u64) -> Agent {
    let mut chance = Chance::new(seed, 2);
    let count = chance.between(3, 6);
    let first = chance.below(5);
    let tools = (0..count).map(|index| {
        let kind = usize::try_from((first + index) % 5).unwrap_or(0);
        let effect = EFFECTS.get(kind).copied().unwrap_or_default();
        let schema = json!({
            "type": "object",
            "properties": { "n": { "type": "integer" } },
            "required": ["n"],
        });
        let name = format!("{}_{index}", effect.as_str());
        let mut spec = ToolSpec::new(name, "Does a piece of work.", schema);
        spec.effect = effect;
        spec.on_exhausted = match chance.below(10) {
            0..6 => OnExhausted::Observe,
            6 => OnExhausted::Park,
            _ => OnExhausted::EndRun,
        };
        spec.max_park = chance.length_ms(1000, 60_000);
        spec.resilience = policy(&mut chance);
        Arc::new(Worker(Arc::new(spec))) as Arc<dyn Tool>
    });
    Agent::new("simulated").instructions("Use the tools.").tools(tools.collect::<Vec<_>>())
}

fn policy(chance: &mut Chance) -> ResiliencePolicy {
    // With a breaker that never opens, the guards behind it have to do.
    let patient = chance.percent(15);
    ResiliencePolicy {
        abandoned_max: ResiliencePolicy::default().abandoned_max,
        attempt_timeout: chance.length_ms(1000, 8000),
        deadline: chance.length_ms(3000, 30_000),
        concurrency: chance.count(1, 4),
        waiting: chance.count(0, 6),
        retry: RetryPolicy {
            max_attempts: chance.count(1, 4),
            base: chance.length_ms(20, 500),
            factor: 2.0,
            cap: Duration::from_secs(5),
            retry_after_cap: chance.length_ms(2000, 10_000),
        },
        breaker: BreakerPolicy {
            min_calls: if patient { 1000 } else { chance.count(3, 6) },
            consecutive_failures: if patient { 1000 } else { chance.count(2, 5) },
            open_for: chance.length_ms(1000, 5000),
            open_cap: chance.length_ms(10_000, 20_000),
            close_after: chance.count(1, 2),
            ..BreakerPolicy::default()
        },
        budget: BudgetPolicy {
            capacity_milli: chance.between(1000, 6000),
            per_success_milli: 200,
            refill_every: chance.length_ms(3000, 10_000),
        },
    }
}
