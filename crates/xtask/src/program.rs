//! Starts the benchmark and the simulator, built as a user would build them.
//!
//! Both are programs of the `tests` package: they need the runtime, which this crate must not know.

use std::process::{Command, ExitCode};

/// Builds and runs one; `words` go to it as they are.
pub(crate) fn run(name: &str, words: &[&str]) -> ExitCode {
    let status = Command::new(env!("CARGO"))
        .args([
            "run",
            "--quiet",
            "--release",
            "--locked",
            "--package",
            "dauntless-tests",
            "--bin",
            name,
            "--",
        ])
        .args(words)
        .status();
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{name}: cargo did not start: {error}");
            ExitCode::FAILURE
        }
    }
}
