//! Starts the programs that measure the whole, built as a user would build them, and the one that
//! looks only for what breaks, built like the tests.
//!
//! The programs are of the `tests` package: they need the runtime, which this crate must not know.

use std::process::{Command, ExitCode};

/// Builds and runs one; `words` go to it as they are.
pub(crate) fn run(program: &str, words: &[&str]) -> ExitCode {
    let line =
        ["run", "--quiet", "--release", "--locked", "--package", "dauntless-tests", "--bin", program, "--"];
    start(program, &line, words)
}

/// The same for a benchmark of one crate, which is beside it.
pub(crate) fn run_bench(package: &str, name: &str, words: &[&str]) -> ExitCode {
    let line = ["bench", "--quiet", "--locked", "--package", package, "--bench", name, "--"];
    start(&format!("bench {name}"), &line, words)
}

/// The same for the harness of crashes, which takes the command that stands beside it.
pub(crate) fn run_crash(words: &[&str]) -> ExitCode {
    let command = ["build", "--quiet", "--locked", "--package", "dauntless-cli"];
    if start("crash", &command, &[]) != ExitCode::SUCCESS {
        return ExitCode::FAILURE;
    }
    let line = ["run", "--quiet", "--locked", "--package", "dauntless-tests", "--bin", "crash", "--"];
    start("crash", &line, words)
}

fn start(program: &str, line: &[&str], words: &[&str]) -> ExitCode {
    let status = Command::new(env!("CARGO")).args(line).args(words).status();
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{program}: cargo did not start: {error}");
            ExitCode::FAILURE
        }
    }
}
