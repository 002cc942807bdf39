//! One run of very many turns with a model whose window holds a few dozen: what it costs late in
//! the run, against early. The provider checks every request and refuses one beyond the window.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dauntless::prelude::*;
use dauntless::{MicroUsd, Secret, Tokens};
use dauntless_testkit::{Call, Reply, Script, StrictProvider};
use serde_json::json;

use crate::measure::resident_bytes;

const WINDOW_TOKENS: u64 = 32_768;

/// Serves until its standard input closes, then says what it saw.
pub(crate) fn serve(turns: u64) -> Result<(), String> {
    let seen = Arc::new(Mutex::new((0_u64, 0_usize, 0_u64)));
    let notes = Arc::clone(&seen);
    let script = Script::from_fn(move |request| {
        let Ok(mut notes) = notes.lock() else { return Reply::empty() };
        let tokens = u64::try_from(request.body_bytes() / 4).unwrap_or(u64::MAX);
        notes.1 = notes.1.max(request.body_bytes());
        if tokens > WINDOW_TOKENS {
            notes.2 += 1;
            return Reply::error(400, "context_length_exceeded", "This conversation is too long.");
        }
        let reply = if request.tools().is_empty() {
            Reply::text("Things were looked up, one after the other; nothing stood out.")
        } else {
            notes.0 += 1;
            match notes.0 {
                turn if turn < turns => Reply::calls([Call::new("look", &json!({ "n": turn }))]),
                _ => Reply::text("done"),
            }
        };
        reply.usage(tokens, 20)
    });
    let provider = StrictProvider::builder().record(0).start(script);
    let provider = provider.map_err(|error| format!("the provider did not start: {error}"))?;
    println!("{}", provider.url());
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    let (_, largest, refused) = *seen.lock().map_err(|_| "the provider broke")?;
    println!("{} {largest} {refused}", provider.violations().len());
    Ok(())
}

/// When a turn came, and what the process held then.
type Mark = (Instant, u64);

/// Runs the scenario and prints its figures.
pub(crate) fn run(turns: u64) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut provider = Command::new(program)
        .args(["window-provider", &turns.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("the provider did not start: {error}"))?;
    let stdout = provider.stdout.take().ok_or("the provider has no output")?;
    let mut lines = BufReader::new(stdout).lines();
    let mut line = || lines.next().and_then(Result::ok).ok_or("the provider broke");
    let url = line()?;
    let (outcome, marks) = drive(&url, turns)?;
    drop(provider.stdin.take());
    let seen = line()?;
    let _ = provider.wait();
    println!(
        "{} after {} turns and {} calls",
        outcome.reason, outcome.totals.turns, outcome.totals.tool_calls
    );
    let words: Vec<&str> = seen.split(' ').collect();
    let [broken, largest, refused] = words.as_slice() else { return Err("the provider broke".to_owned()) };
    println!("requests: largest {largest} bytes, {broken} broke a rule, {refused} refused as too long");
    for part in parts(&marks) {
        println!("{part}");
    }
    match (outcome.is_completed(), *broken, *refused) {
        (true, "0", "0") => Ok(()),
        _ => Err(format!("it should have completed without a refusal: {outcome:?}")),
    }
}

fn drive(url: &str, turns: u64) -> Result<(Outcome, Vec<Mark>), String> {
    let marks: Arc<Mutex<Vec<Mark>>> = Arc::default();
    let notes = Arc::clone(&marks);
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Look {
        n: usize,
    }
    let look = tool_fn("look", "Looks up one thing.", move |Look { n }: Look| {
        if let Ok(mut notes) = notes.lock() {
            notes.push((Instant::now(), resident_bytes()));
        }
        std::future::ready(Ok::<_, Failure>(format!("{n}: {}", "some words ".repeat(100 + n % 4 * 90))))
    });
    let model = OpenAi::builder("window")
        .base_url(url.to_owned())
        .api_key(Secret::new("key"))
        .context_window(Tokens(WINDOW_TOKENS))
        .max_output_tokens(2048)
        .build()
        .map_err(|error| error.to_string())?;
    let limits = RunLimits {
        turns: u32::MAX,
        tool_calls: u32::MAX,
        tokens: Tokens(u64::MAX),
        cost: MicroUsd(u64::MAX),
        wall_clock: Duration::from_secs(3600),
        ..RunLimits::default()
    };
    let threads = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let outcome = threads.map_err(|error| error.to_string())?.block_on(async {
        let runtime = Runtime::builder().model(model).limits(limits).build().await;
        let runtime = runtime.map_err(|error| error.to_string())?;
        let agent = Agent::new("long").tool(look.effect(Effect::ReadOnly));
        Ok::<_, String>(runtime.run(&agent, format!("Look up {turns} things.")).await)
    })?;
    let marks = marks.lock().map_err(|_| "a mark broke")?.clone();
    Ok((outcome, marks))
}

/// A line for each sixth of the run.
fn parts(marks: &[Mark]) -> Vec<String> {
    let size = marks.len().div_ceil(6).max(2);
    let line = |(index, part): (usize, &[Mark])| {
        let (first, last) = (part.first()?, part.last()?);
        let turns = u32::try_from(part.len() - 1).ok().filter(|turns| *turns > 0)?;
        let each = last.0.duration_since(first.0) / turns;
        let from = index * size + 1;
        Some(format!(
            "turns {from} to {}: {:.2} ms a turn, {} MiB resident",
            from + part.len() - 1,
            each.as_secs_f64() * 1000.0,
            last.1 / (1 << 20)
        ))
    };
    marks.chunks(size).enumerate().filter_map(line).collect()
}
