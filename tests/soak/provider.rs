//! The provider of the soak, in a process of its own, with faults by dice.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dauntless_testkit::{Call, ChatRequest, Reply, Script, StrictProvider};
use serde_json::json;

use crate::tools::{NAMES, dice};

/// Serves until its standard input closes, and prints its address as the only line.
pub(crate) fn serve() -> Result<(), crate::Error> {
    let asked = AtomicU64::new(0);
    let script = Script::from_fn(move |request| reply(request, asked.fetch_add(1, Ordering::Relaxed)));
    let provider = StrictProvider::builder().record(0).start(script)?;
    println!("{}", provider.url());
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    provider.assert_clean();
    Ok(())
}

/// Starts one beside this process.
pub(crate) fn start() -> Result<(Running, String), crate::Error> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("provider")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut url = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut url)?;
    }
    Ok((Running(child), url.trim().to_owned()))
}

/// Ends the provider with the soak.
pub(crate) struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        match self.0.wait() {
            Ok(status) if status.success() => {}
            _ => eprintln!("soak: the provider saw a request that breaks its rules; see above"),
        }
    }
}

fn reply(request: &ChatRequest, asked: u64) -> Reply {
    let dice = dice(&[&asked.to_le_bytes()]);
    match dice % 100 {
        0..2 => return Reply::error(503, "overloaded", "Try again."),
        2 => return Reply::rate_limited(Duration::from_secs(1)),
        3 => return Reply::text("It is all done, as was asked for.").cut_after(2),
        4 => return Reply::text("It is all done.").malformed_after(1),
        5 if dice.is_multiple_of(7) => return Reply::text("It is all done.").stall_after(1),
        6 => return Reply::empty(),
        _ => {}
    }
    if request.assistant_messages() >= 4 {
        return Reply::text("done").usage(100, 5);
    }
    let call = |n: u64| {
        let name =
            NAMES.into_iter().cycle().nth(usize::try_from((dice + n) % 4).unwrap_or(0)).unwrap_or_default();
        match (dice >> (8 + n)) % 23 {
            0 => Call::raw(name, "{\"n\": "),
            1 => Call::new("nothing_of_the_kind", &json!({})),
            2 => Call::new(name, &json!({ "n": "many" })),
            _ => Call::new(name, &json!({ "n": dice + n })),
        }
    };
    Reply::calls((0..1 + (dice >> 32) % 6).map(call)).usage(100, 20)
}
