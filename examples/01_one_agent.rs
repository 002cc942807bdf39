//! One agent with one tool, and one run.
//!
//! ```sh
//! cargo run -p dauntless-examples --bin 01_one_agent
//! OPENAI_API_KEY=… cargo run -p dauntless-examples --bin 01_one_agent -- --real gpt-5-mini
//! ```
#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use dauntless::prelude::*;
use serde_json::json;

/// Look up the state of one order.
#[tool(effect = "read_only", timeout = "5s")]
async fn order(
    /// Order id, like ORD-2026-00042.
    id: String,
) -> Result<String, Failure> {
    match id.as_str() {
        "ORD-2026-00042" => Ok("shipped on Monday and arrives on Thursday".to_owned()),
        _ => {
            Err(Failure::not_found(format!("No order matches {id}."))
                .hint("Order ids look like ORD-2026-00042."))
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // In a service this is `OpenAi::from_env("gpt-5-mini")?`.
    let model = dauntless_examples::scripted([
        Turn::new().call("order", json!({ "id": "ORD-2026-00042" })),
        Turn::new().text("Your order was {{obs.order}}."),
    ])?;

    let agent = Agent::new("support").instructions("You help with orders. Be brief.").tool(order);
    let runtime = Runtime::builder().shared_model(model).agent(&agent).build().await?;

    // A run never fails: it has an outcome, and the outcome says why it ended.
    let outcome = runtime.run(&agent, "Where is my order ORD-2026-00042?").await;

    println!("{}", outcome.partial().unwrap_or("(no answer)"));
    println!("-- {}, {} turns, {} call", outcome.reason, outcome.totals.turns, outcome.totals.tool_calls);
    Ok(())
}
