//! The benchmark: agents on this runtime against a loop written by hand.
//!
//! Every figure is measured in a process of its own, so that neither the mock provider nor the
//! other contender is in it, and the two take turns, so that a machine that changes its speed
//! changes both. Figures of one run compare; figures of two runs do not.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "its output is what it is for")]

mod contender;
mod durable;
mod floor;
mod measure;
mod ours;
mod provider;
mod report;
mod resume;
mod tree;
mod window;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["provider"] => provider::serve(),
        ["window-provider", turns] => parse_turns(turns).and_then(window::serve),
        ["window"] => window::run(300),
        ["window", turns] => parse_turns(turns).and_then(window::run),
        ["one", scenario, contender, url, place] => contender::run_one(scenario, contender, url, place),
        ["durable", words @ ..] => Options::read(words).and_then(|options| durable::run(&options)),
        ["resume", words @ ..] => Options::read(words).and_then(|options| resume::run(&options)),
        [] => report::run_all(5, None),
        ["--rounds", rounds] => parse(rounds).and_then(|rounds| report::run_all(rounds, None)),
        ["--rounds", rounds, only] => parse(rounds).and_then(|rounds| report::run_all(rounds, Some(only))),
        [only] => report::run_all(5, Some(only)),
        _ => Err("usage: bench [--rounds N] [SCENARIO], bench window [TURNS], \
                  or bench durable|resume [--rounds N] [--dir PATH] [--postgres URL]"
            .to_owned()),
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

/// What the comparisons with a store can be told.
struct Options {
    rounds: usize,
    dir: PathBuf,
    postgres: Option<String>,
}

impl Options {
    fn read(words: &[&str]) -> Result<Self, String> {
        let mut options = Self { rounds: 5, dir: std::env::temp_dir(), postgres: None };
        for pair in words.chunks(2) {
            match pair {
                ["--rounds", rounds] => options.rounds = parse(rounds)?,
                ["--dir", dir] => options.dir = dir.into(),
                ["--postgres", url] => options.postgres = Some((*url).to_owned()),
                _ => return Err(format!("`{}` is no option here", pair.join(" "))),
            }
        }
        Ok(options)
    }

    /// A folder of this process, removed with the answer.
    fn scratch(&self, name: &str) -> Result<Scratch, String> {
        let path = self.dir.join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Scratch(path))
    }
}

struct Scratch(PathBuf);

impl Scratch {
    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
