//! `cargo xtask check`: every step that a commit must pass, as a table of command lines.
//!
//! A step is nothing but its command line, so that a failure can be repeated by hand. The cheap
//! steps come first and the tests last, so that the runner's own summary ends the output.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// One command line that must succeed.
struct Step {
    name: &'static str,
    line: &'static str,
    env: Option<(&'static str, &'static str)>,
}

const STEPS: [Step; 5] = [
    Step { name: "format", line: "cargo fmt --all --check", env: None },
    Step { name: "tidy", line: "cargo xtask tidy", env: None },
    Step {
        name: "clippy",
        line: "cargo clippy --workspace --all-targets --locked -- -D warnings",
        env: None,
    },
    Step {
        name: "docs",
        line: "cargo doc --workspace --lib --no-deps --locked",
        env: Some(("RUSTDOCFLAGS", "-D warnings")),
    },
    Step { name: "doc tests", line: "cargo test --doc --workspace --locked", env: None },
];

const NEXTEST: Step =
    Step { name: "tests", line: "cargo nextest run --workspace --locked --no-fail-fast", env: None };

const LIBTEST: Step = Step {
    name: "tests",
    line: "cargo test --workspace --lib --bins --tests --locked --no-fail-fast",
    env: None,
};

/// Runs every step and stops at the first that fails.
///
/// Once a test has run, the last line is `N passed, N failed` over unit and doc tests.
pub(crate) fn run() -> ExitCode {
    let start = Instant::now();
    let tests = if nextest_is_installed() { NEXTEST } else { LIBTEST };
    let mut counts = Counts::default();
    for step in STEPS.iter().chain([&tests]) {
        println!("check: {}: {}", step.name, step.line);
        let (passed, length) = step.run(&mut counts);
        if !passed {
            println!("check: {} failed after {}; repeat it with: {step}", step.name, seconds(length));
            counts.print();
            return ExitCode::FAILURE;
        }
        println!("check: {} passed in {}", step.name, seconds(length));
    }
    println!("check: all steps passed in {}", seconds(start.elapsed()));
    counts.print();
    ExitCode::SUCCESS
}

fn nextest_is_installed() -> bool {
    let probe = Command::new("cargo").args(["nextest", "--version"]).output();
    probe.is_ok_and(|output| output.status.success())
}

fn seconds(length: Duration) -> String {
    format!("{:.1} s", length.as_secs_f64())
}

impl Step {
    /// Runs the command, shows what it says as it says it, and counts the tests it reports.
    fn run(&self, counts: &mut Counts) -> (bool, Duration) {
        let start = Instant::now();
        let passed = self.spawn(counts).unwrap_or_else(|error| {
            println!("check: cannot run `{}`: {error}", self.line);
            false
        });
        (passed, start.elapsed())
    }

    fn spawn(&self, counts: &mut Counts) -> std::io::Result<bool> {
        let mut words = self.line.split_whitespace();
        let mut child = Command::new(words.next().unwrap_or_default())
            .args(words)
            .envs(self.env)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (lines, heard) = mpsc::channel();
        forward(child.stdout.take(), lines.clone());
        forward(child.stderr.take(), lines);
        for line in heard {
            println!("{line}");
            counts.read(&line);
        }
        Ok(child.wait()?.success())
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some((name, value)) = self.env {
            write!(f, "{name}='{value}' ")?;
        }
        f.write_str(self.line)
    }
}

/// Sends each line of a pipe on, from a thread of its own, until the pipe ends.
fn forward(pipe: Option<impl Read + Send + 'static>, lines: mpsc::Sender<String>) {
    let Some(pipe) = pipe else { return };
    std::thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        while pipe.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            let text = String::from_utf8_lossy(&line);
            if lines.send(text.trim_end_matches(['\r', '\n']).to_owned()).is_err() {
                return;
            }
            line.clear();
        }
    });
}

/// Tests that passed and failed, read from the summaries of the runners.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
}

impl Counts {
    /// Adds what a line says, if it is a summary of nextest or of `cargo test`.
    fn read(&mut self, line: &str) {
        let Some(summary) = summary_of(line) else { return };
        for part in summary.split([',', ';']) {
            let mut words = part.split_whitespace();
            let Some(count) = words.next().and_then(|word| word.parse::<u64>().ok()) else { continue };
            match words.next() {
                Some("passed") => self.passed += count,
                Some("failed" | "timed" | "exec") => self.failed += count,
                _ => {}
            }
        }
    }

    fn print(&self) {
        if *self != Self::default() {
            println!("{} passed, {} failed", self.passed, self.failed);
        }
    }
}

/// The counts in a summary line, without what stands in parentheses.
fn summary_of(line: &str) -> Option<String> {
    let line = line.trim_start();
    let counts = if line.starts_with("Summary [") {
        line.split_once(" run: ")?.1
    } else {
        line.strip_prefix("test result: ")?.split_once(". ")?.1
    };
    let mut depth = 0_u32;
    let outside = counts.chars().filter(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => return depth == 0,
        }
        false
    });
    Some(outside.collect())
}

#[cfg(test)]
mod tests;
