//! The project's own commands, run as `cargo xtask <command>`.
//!
//! `check` is what a contributor runs before a commit and what CI runs after it; `tidy` is the part
//! of it that no compiler does: it holds the code against what ARCHITECTURE.md and the decision
//! records say. `counterparts` is slow and apart. Nothing of the product depends on this crate, and
//! it changes no file outside of the target directory.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command speaks on the terminal")]

mod check;
mod counterparts;
mod fuzz;
mod program;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask <command>

Commands:
  check  format, tidy, lints, docs, doc tests and tests; stops at the first failure
  tidy   hold the code against ARCHITECTURE.md and the decision records
  statements
         write the names of the tests into the table of docs/resilience.md
  cases  write the table of docs/cases.md from the files in tests/cases
  counterparts [llmock|aimock|llama]
         try the command against real servers; slow, and no part of check
  bench [--rounds N] [turns|fanout64|fanout1000|concurrent|waiting|tree]
         measure agents on this runtime against a loop written by hand
  bench window [TURNS]
         measure one run of very many turns in a window of 32 768 tokens
  bench durable [--rounds N] [--dir PATH] [--postgres URL]
         measure runs that are kept in a journal against runs that are not
  bench resume [--rounds N] [--dir PATH]
         measure a run of 100,000 events in a file, and how soon one goes on with it
  bench journal [--seconds N] [--rounds N] [--dir PATH] [--postgres URL]
         measure the stores against a file that is appended to and synced
  bench journal --start-gigabytes N [--dir PATH]
         measure how a worker starts on a journal of that size
  bench fold
         measure what an event costs a long run, and how soon one goes on from a snapshot
  soak [--seconds N]
         ten times the load for ten minutes, then nothing may be left behind
  crash power [--store sqlite|postgres] [--cuts N] [--seed N]
         cut the power of the disk under a journal; as root, with a filesystem of its own
  crash kill [--store sqlite|postgres] [--events N] [--seed N]
         kill and stop workers in the middle of runs, and look what came of the runs
  fuzz [--seconds N] [TARGET]
         try inputs that nobody thought of, for a minute each; needs a nightly compiler and cargo-fuzz
  simulate [--seeds N] [--from S] [--only runtimes|trees] [--verbose]
         run whole runtimes through seeded faults and check what happened
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["check"] => check::run(),
        ["tidy"] => tidy::run(),
        ["statements"] => tidy::write_statements(),
        ["cases"] => tidy::write_cases(),
        ["counterparts"] => counterparts::run(None),
        ["bench", "journal", words @ ..] => program::run_bench("dauntless-journal", "journal", words),
        ["bench", "fold"] => program::run_bench("dauntless-core", "fold", &[]),
        ["counterparts", name] => counterparts::run(Some(name)),
        ["crash", words @ ..] => program::run_crash(words),
        ["fuzz", words @ ..] => fuzz::run(words),
        [program @ ("bench" | "simulate" | "soak"), words @ ..] => program::run(program, words),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        [] => {
            eprint!("{USAGE}");
            ExitCode::from(2)
        }
        words => {
            eprint!("`cargo xtask {}` is not a command.\n\n{USAGE}", words.join(" "));
            ExitCode::from(2)
        }
    }
}
