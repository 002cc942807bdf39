//! An editor asks four researchers at once, each an agent of its own. One has a source that is dead,
//! one a source that is slow, and one a source that returns rubbish. The report is written all the
//! same, and says what is missing.
//!
//! ```sh
//! cargo run -p dauntless-examples --bin 05_researchers
//! ```
#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::error::Error;
use std::time::Duration;

use dauntless::prelude::*;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// What a researcher found.
#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only the editor reads it, as JSON")]
struct Finding {
    /// The year of the invention.
    year: u32,
    /// Where that is written.
    source: String,
}

/// Search the catalogue of the library.
#[tool(effect = "read_only")]
async fn library(words: String) -> String {
    json!({ "year": 1837, "source": format!("The Kettle, p. 12, on {words}") }).to_string()
}

/// Search the archive.
#[tool(effect = "read_only")]
async fn archive(words: String) -> Result<String, Failure> {
    Err(Failure::unavailable(format!("The archive does not answer for {words}.")))
}

/// Search the web.
#[tool(effect = "read_only")]
async fn web(words: String) -> String {
    tokio::time::sleep(Duration::from_secs(3600)).await;
    format!("all about {words}")
}

/// Search the forum.
#[tool(effect = "read_only")]
async fn forum(words: String) -> String {
    format!("lol {words}??? buy my kettles")
}

/// Each has a conversation, tools and limits of its own, and sees nothing of the others'.
fn researcher(name: &str, source: impl Tool) -> Result<TypedAgent<Finding>, Box<dyn Error>> {
    let tool = source.spec().name.clone();
    // What it reads is what it answers: the type keeps rubbish from being taken for a finding.
    let answer = || Turn::new().text(format!("{{{{obs.{tool}}}}}"));
    let search = Turn::new().call(&*tool, json!({ "words": "kettle" }));
    let model = dauntless_examples::scripted([search, answer(), answer(), answer()])?;
    let agent = Agent::new(name).description("Finds out who invented what, and when.").tool(source);
    Ok(agent.shared_model(model).answers())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let scholar = researcher("scholar", library)?;
    let archivist = researcher("archivist", archive)?;
    let surfer = researcher("surfer", web)?;
    let gossip = researcher("gossip", forum)?;

    let goal = json!({ "goal": "When was the electric kettle invented?" });
    let ask = |turn: Turn, agent: &TypedAgent<Finding>| turn.call(&**agent.name(), goal.clone());
    let model = dauntless_examples::scripted([
        [&scholar, &archivist, &surfer, &gossip].into_iter().fold(Turn::new(), ask),
        Turn::new().text(
            "It was invented in {{obs.scholar:/answer/year}}. The archivist ({{obs.archivist:/error}}), the \
             surfer ({{obs.surfer:/error}}) and the gossip ({{obs.gossip:/error}}) gave no finding.",
        ),
    ])?;
    // What nobody in a researcher's run can fix would end this run as well: none of them is worth that.
    let optional = |agent: &Agent| Delegate::to(agent).on_failure(OnFailure::Observe);
    let soon = Allowance { wall_clock: Some(Duration::from_secs(1)), ..Allowance::default() };
    let editor = Agent::new("editor")
        .instructions("Ask all researchers in one turn. Say what you could not find out.")
        .shared_model(model)
        .link(optional(&scholar))
        .link(optional(&archivist))
        .link(optional(&surfer).allowance(soon))
        .link(optional(&gossip))
        .join(Join::BestEffort);
    let runtime = Runtime::builder().agent(&editor).build().await?;

    let run = runtime.stream(&editor, "Write a line on the electric kettle.").await?;
    let outcome = run.watch(show).await;

    println!("{}: {}", outcome.reason, outcome.partial().unwrap_or("(no report)"));
    println!("-- {} runs below, {} calls in all", outcome.totals.children, outcome.totals.tool_calls);
    Ok(())
}

fn show(progress: &Progress) {
    if let Progress::ChildEnded { agent, outcome, .. } = progress {
        println!("{agent}: {}", outcome.reason);
    }
}
