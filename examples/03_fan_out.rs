//! Eight calls in one turn run side by side. Each gets its own answer, in the order of the calls,
//! however late it comes and however it ends.
//!
//! ```sh
//! cargo run -p dauntless-examples --bin 03_fan_out
//! ```
#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::time::Duration;

use dauntless::prelude::*;
use serde_json::json;

const SLOWEST: Duration = Duration::from_millis(500);

/// Ask one shop for its price of a kettle.
#[tool(effect = "read_only", concurrency = 8)]
async fn price(
    /// The number of the shop, 1 to 8.
    shop: u32,
) -> Result<String, Failure> {
    // The first shop is the slowest, the last one the fastest.
    tokio::time::sleep(SLOWEST - Duration::from_millis(50) * (shop - 1)).await;
    match shop {
        5 => Err(Failure::no_results("Shop 5 sells no kettles.")),
        _ => Ok(format!("shop {shop}: {} €", 30 + shop * 7 % 11)),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = dauntless_examples::all_at_once("price", (1..=8).map(|shop| json!({ "shop": shop })))?;
    let agent = Agent::new("buyer").instructions("Ask all shops in one turn.").tool(price);
    let runtime = Runtime::builder().shared_model(model).agent(&agent).build().await?;

    let outcome = runtime.run(&agent, "What does a kettle cost in the shops 1 to 8?").await;

    println!("{}", outcome.partial().unwrap_or("(no answer)"));
    let times = outcome.elapsed.as_millis() / SLOWEST.as_millis();
    println!("-- {} calls took as long as {times}", outcome.totals.tool_calls);
    Ok(())
}
