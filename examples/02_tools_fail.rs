//! Four tools, four ways to fail, and who deals with each: the harness tries again, the model thinks
//! again, a panic costs one attempt, and what nobody can fix ends the run.
//!
//! ```sh
//! cargo run -p dauntless-examples --bin 02_tools_fail
//! ```
#![expect(clippy::print_stdout, clippy::panic, reason = "an example shows what happens")]

use dauntless::prelude::*;
use serde_json::json;

/// Tell the weather in a city.
#[tool(effect = "read_only")]
async fn weather(ctx: &ToolCtx, city: String) -> Result<String, Failure> {
    // Down at first. A read-only tool may be asked again, and the model never hears of it.
    match ctx.attempt {
        1 | 2 => Err(Failure::unavailable("The weather service is restarting.")),
        _ => Ok(format!("sunny in {city}")),
    }
}

/// Find a customer by name.
#[tool(effect = "read_only")]
async fn customer(name: String) -> Result<String, Failure> {
    match name.as_str() {
        "Ada Lovelace" => Ok("C-1".to_owned()),
        _ => Err(Failure::not_found(format!("No customer is named {name}.")).candidates(["Ada Lovelace"])),
    }
}

/// Draw a map of a city.
#[tool]
async fn map(city: String) -> String {
    panic!("no tiles for {city}")
}

/// List the open invoices of a customer.
#[tool(effect = "read_only")]
async fn invoices(customer: String) -> Result<String, Failure> {
    Err(Failure::unauthenticated(format!("No invoices of {customer}: this tool's key has expired.")))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = dauntless_examples::scripted([
        Turn::new().call("weather", json!({ "city": "Oslo" })),
        Turn::new().call("customer", json!({ "name": "Ada" })),
        Turn::new().call("customer", json!({ "name": "Ada Lovelace" })),
        Turn::new().call("map", json!({ "city": "Oslo" })),
        Turn::new().call("invoices", json!({ "customer": "C-1" })),
        Turn::new().text("This is never said."),
    ])?;
    let agent = Agent::new("assistant").tool(weather).tool(customer).tool(map).tool(invoices);
    let runtime = Runtime::builder().shared_model(model).agent(&agent).build().await?;

    let run = runtime.stream(&agent, "Write to Ada: the weather, a map, and what she owes.").await?;
    let outcome = run.watch(show).await;

    println!("-- {}", outcome.reason);
    println!("-- {}", outcome.explanation.as_deref().unwrap_or_default());
    Ok(())
}

fn show(progress: &Progress) {
    match progress {
        Progress::CallAsked { tool, arguments, .. } => println!("{tool} {arguments}"),
        Progress::AttemptFailed { attempt, code, message, .. } => {
            println!("   attempt {attempt}: {code}: {message} Trying again.");
        }
        Progress::CallEnded { code: None, attempts, .. } => println!("   worked, attempts: {attempts}"),
        Progress::CallEnded { code: Some(code), message, .. } => {
            println!("   {code}: {}", message.as_deref().unwrap_or_default());
        }
        _ => {}
    }
}
