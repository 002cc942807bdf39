//! Starts the benchmark, built as a user would build it.
//!
//! The benchmark itself is a program of the `tests` package: it needs the runtime, which this crate
//! must not know.

use std::process::{Command, ExitCode};

/// Builds and runs it; `words` go to it as they are.
pub(crate) fn run(words: &[&str]) -> ExitCode {
    let status = Command::new(env!("CARGO"))
        .args([
            "run",
            "--quiet",
            "--release",
            "--locked",
            "--package",
            "dauntless-tests",
            "--bin",
            "bench",
            "--",
        ])
        .args(words)
        .status();
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: cargo did not start: {error}");
            ExitCode::FAILURE
        }
    }
}
