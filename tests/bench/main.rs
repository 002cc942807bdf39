//! The benchmark: agents on this runtime against a loop written by hand.
//!
//! Every figure is measured in a process of its own, so that neither the mock provider nor the
//! other contender is in it, and the two take turns, so that a machine that changes its speed
//! changes both. Figures of one run compare; figures of two runs do not.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "its output is what it is for")]

mod contender;
mod floor;
mod measure;
mod ours;
mod provider;
mod report;
mod tree;
mod window;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["provider"] => provider::serve(),
        ["window-provider", turns] => parse_turns(turns).and_then(window::serve),
        ["window"] => window::run(300),
        ["window", turns] => parse_turns(turns).and_then(window::run),
        ["one", scenario, contender, url] => contender::run_one(scenario, contender, url),
        [] => report::run_all(5, None),
        ["--rounds", rounds] => parse(rounds).and_then(|rounds| report::run_all(rounds, None)),
        ["--rounds", rounds, only] => parse(rounds).and_then(|rounds| report::run_all(rounds, Some(only))),
        [only] => report::run_all(5, Some(only)),
        _ => Err("usage: bench [--rounds N] [SCENARIO], or bench window [TURNS]".to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse_turns(turns: &str) -> Result<u64, String> {
    turns.parse().map_err(|_| format!("`{turns}` is not a number of turns"))
}

fn parse(rounds: &str) -> Result<usize, String> {
    rounds.parse().map_err(|_| format!("`{rounds}` is not a number of rounds"))
}
