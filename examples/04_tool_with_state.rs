//! Tools that share a state, and a write that is safe to repeat: a tool that drops repetitions by the
//! idempotency key declares `keyed`, and an answer that got lost is asked for again.
//!
//! ```sh
//! cargo run -p dauntless-examples --bin 04_tool_with_state
//! ```
#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::collections::HashSet;
use std::sync::Arc;

use dauntless::prelude::*;
use serde_json::json;
use tokio::sync::Mutex;

struct Stock(Mutex<Shelf>);

struct Shelf {
    kettles: u32,
    /// The keys of the deliveries that were made.
    delivered: HashSet<Arc<str>>,
}

#[tool]
impl Stock {
    /// Count the kettles in stock.
    #[tool(effect = "read_only")]
    async fn count(&self) -> u32 {
        self.0.lock().await.kettles
    }

    /// Deliver kettles to the customer.
    #[tool(effect = "keyed", timeout = "1s")]
    async fn deliver(
        &self,
        ctx: &ToolCtx,
        /// How many.
        #[schemars(range(min = 1))]
        kettles: u32,
    ) -> Result<String, Failure> {
        let mut shelf = self.0.lock().await;
        if !shelf.delivered.contains(&ctx.idempotency_key) {
            shelf.kettles = shelf.kettles.checked_sub(kettles).ok_or_else(|| {
                Failure::conflict(format!("There are only {} kettles.", shelf.kettles)).hint("Deliver fewer.")
            })?;
            shelf.delivered.insert(ctx.idempotency_key.clone());
        }
        match ctx.attempt {
            // The worst case: it is done, and the answer gets lost.
            1 => Err(Failure::timeout("The warehouse did not confirm in time.")),
            _ => Ok(format!("delivered {kettles}")),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = dauntless_examples::scripted([
        Turn::new().call("deliver", json!({ "kettles": 2 })),
        Turn::new().text("Two kettles are on their way.").call("count", json!({})),
        Turn::new().text("I {{obs.deliver}} kettles, {{obs.count}} are left."),
    ])?;
    let stock = Arc::new(Stock(Mutex::new(Shelf { kettles: 10, delivered: HashSet::new() })));
    let agent = Agent::new("warehouse").tools(stock.tools());
    let runtime = Runtime::builder().shared_model(model).build().await?;

    for turns in [3, 1] {
        let agent = agent.clone().limits(RunLimits { turns, ..RunLimits::default() });
        let outcome = runtime.run(&agent, "Deliver two kettles and tell me how many are left.").await;
        println!("calls: {}, attempts: {}", outcome.totals.tool_calls, outcome.totals.tool_attempts);
        let text = outcome.partial().unwrap_or("nothing");
        match &outcome.reason {
            StopReason::Completed => println!("answer: {text}"),
            StopReason::LimitReached(limit) => println!("stopped at its limit of {limit}; so far: {text}"),
            StopReason::ToolTerminal { tool, code, .. } | StopReason::ToolExhausted { tool, code, .. } => {
                println!("`{tool}` needs a person: {code}");
            }
            other => println!("stopped: {other}"),
        }
    }
    Ok(())
}
