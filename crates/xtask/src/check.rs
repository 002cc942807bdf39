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
    runner: Option<Runner>,
}

/// Who runs the tests of a step, and so how it sums them up.
#[derive(Clone, Copy, Debug)]
enum Runner {
    /// One summary of all tests. What failed tests printed comes before it.
    Nextest,
    /// One summary for each binary.
    Libtest,
}

const STEPS: [Step; 5] = [
    Step { name: "format", line: "cargo fmt --all --check", env: None, runner: None },
    Step { name: "tidy", line: "cargo xtask tidy", env: None, runner: None },
    Step {
        name: "clippy",
        line: "cargo clippy --workspace --all-targets --locked -- -D warnings",
        env: None,
        runner: None,
    },
    Step {
        name: "docs",
        // The command and the facade are both called `dauntless`; only libraries have pages.
        line: "cargo doc --workspace --lib --no-deps --locked",
        env: Some(("RUSTDOCFLAGS", "-D warnings")),
        runner: None,
    },
    Step {
        name: "doc tests",
        line: "cargo test --doc --workspace --locked",
        env: None,
        runner: Some(Runner::Libtest),
    },
];

const NEXTEST: Step = Step {
    name: "tests",
    line: "cargo nextest run --workspace --locked --no-fail-fast",
    env: None,
    runner: Some(Runner::Nextest),
};

const LIBTEST: Step = Step {
    name: "tests",
    line: "cargo test --workspace --lib --bins --tests --locked --no-fail-fast",
    env: None,
    runner: Some(Runner::Libtest),
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
        let step_start = Instant::now();
        let passed = step.run(&mut counts).unwrap_or_else(|error| {
            println!("check: cannot run `{}`: {error}", step.line);
            false
        });
        let length = seconds(step_start.elapsed());
        if !passed {
            println!("check: {} failed after {length}; repeat it with: {step}", step.name);
            counts.print();
            return ExitCode::FAILURE;
        }
        println!("check: {} passed in {length}", step.name);
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
    /// Runs the command, shows what it says as it says it, and adds the tests it counted.
    fn run(&self, counts: &mut Counts) -> std::io::Result<bool> {
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
        let mut said = Vec::new();
        for line in heard {
            println!("{line}");
            said.push(line);
        }
        if let Some(runner) = self.runner {
            counts.add(runner, &said);
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
    /// Adds what a runner's summaries say.
    fn add(&mut self, runner: Runner, said: &[String]) {
        match runner {
            Runner::Nextest => {
                let summaries = said.iter().filter_map(|line| line.trim_start().strip_prefix("Summary ["));
                let last = summaries.filter_map(|line| line.split_once(" run: ")).next_back();
                self.add_summary(last.map_or("", |(_, summary)| summary));
            }
            Runner::Libtest => {
                let results = said.iter().filter_map(|line| line.strip_prefix("test result: "));
                for (_, summary) in results.filter_map(|line| line.split_once(". ")) {
                    self.add_summary(summary);
                }
            }
        }
    }

    /// Adds counts like `3 passed (1 slow), 1 failed, 1 timed out, 2 skipped`.
    fn add_summary(&mut self, summary: &str) {
        for part in without_parentheses(summary).split([',', ';']) {
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

fn without_parentheses(text: &str) -> String {
    let mut depth = 0_u32;
    let outside = text.chars().filter(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => return depth == 0,
        }
        false
    });
    outside.collect()
}

#[cfg(test)]
mod tests;
