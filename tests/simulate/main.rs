//! The simulator from the command line: many seeds, or one again.
//!
//! Everything it finds is found by `dauntless_testkit::simulator`; here it is only started and told.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "its output is what it is for")]

use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

use dauntless_testkit::Simulation;
use dauntless_testkit::simulator::trees;

const USAGE: &str = "usage: simulate [--seeds N] [--from S] [--only runtimes|trees] [--verbose]";

/// What the words ask for.
struct Wanted {
    seeds: Range<u64>,
    worlds: Worlds,
    print: Print,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Worlds {
    All,
    Runtimes,
    Trees,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Print {
    Totals,
    Histories,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match Wanted::parse(&words) {
        Ok(wanted) => wanted.simulate(),
        Err(error) => {
            eprintln!("simulate: {error}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

impl Wanted {
    fn parse(words: &[String]) -> Result<Self, String> {
        let (mut from, mut count, mut worlds, mut print) = (0, 1000, Worlds::All, Print::Totals);
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut number = || -> Result<u64, String> {
                let text = words.next().ok_or_else(|| format!("`{word}` needs a number"))?;
                text.parse().map_err(|_| format!("`{text}` is not a number"))
            };
            match word.as_str() {
                "--seeds" => count = number()?,
                "--from" => from = number()?,
                "--only" => {
                    worlds = match words.next().map(String::as_str) {
                        Some("runtimes") => Worlds::Runtimes,
                        Some("trees") => Worlds::Trees,
                        other => {
                            return Err(format!(
                                "`--only` needs `runtimes` or `trees`, not `{}`",
                                other.unwrap_or("")
                            ));
                        }
                    };
                }
                "--verbose" => print = Print::Histories,
                other => return Err(format!("`{other}` is not an option")),
            }
        }
        let end = from.checked_add(count).ok_or("there are no seeds beyond 2^64")?;
        Ok(Self { seeds: from..end, worlds, print })
    }

    fn simulate(self) -> ExitCode {
        if self.worlds != Worlds::Trees && self.runtimes() != ExitCode::SUCCESS {
            return ExitCode::FAILURE;
        }
        if self.worlds == Worlds::Runtimes { ExitCode::SUCCESS } else { self.trees() }
    }

    fn trees(&self) -> ExitCode {
        if self.print == Print::Histories {
            return self.tell_trees();
        }
        let start = Instant::now();
        match trees::grow_all(self.seeds.clone(), threads()) {
            Ok(totals) => {
                let took = start.elapsed().as_secs_f64();
                println!(
                    "{} trees broke no rule in {took:.1} s: {} runs, {} events ({:.0} runs/s, {:.0} events/s)",
                    totals.seeds,
                    totals.runs,
                    totals.events,
                    totals.runs as f64 / took,
                    totals.events as f64 / took,
                );
                ExitCode::SUCCESS
            }
            Err(found) => {
                println!("{found}");
                ExitCode::FAILURE
            }
        }
    }

    fn runtimes(&self) -> ExitCode {
        let simulation = Simulation::builder().build();
        if self.print == Print::Histories {
            return self.tell(&simulation);
        }
        let start = Instant::now();
        match simulation.run_all(self.seeds.clone(), threads()) {
            Ok(totals) => {
                let took = start.elapsed().as_secs_f64();
                println!(
                    "{} seeds broke no rule in {took:.1} s: {} runs, {} attempts, {} events ({:.0} runs/s, {:.0} events/s)",
                    totals.seeds,
                    totals.runs,
                    totals.attempts,
                    totals.events,
                    totals.runs as f64 / took,
                    totals.events as f64 / took,
                );
                ExitCode::SUCCESS
            }
            Err(found) => {
                println!("{found}");
                ExitCode::FAILURE
            }
        }
    }

    /// The whole history of each seed.
    fn tell(&self, simulation: &Simulation) -> ExitCode {
        for seed in self.seeds.clone() {
            println!("seed {seed}");
            match simulation.run(seed) {
                Ok(history) => print!("{}", history.transcript()),
                Err(found) => {
                    print!("{}", found.history.transcript());
                    println!("breaks {} rules:", found.violations.len());
                    found.violations.iter().for_each(|violation| println!("  {violation}"));
                    return ExitCode::FAILURE;
                }
            }
        }
        ExitCode::SUCCESS
    }

    /// The whole story of each tree.
    fn tell_trees(&self) -> ExitCode {
        for seed in self.seeds.clone() {
            println!("tree of seed {seed}");
            trees::story(seed).iter().for_each(|line| println!("{line}"));
            if let Err(found) = trees::grow(seed) {
                println!("breaks {} rules:", found.violations.len());
                found.violations.iter().for_each(|violation| println!("  {violation}"));
                return ExitCode::FAILURE;
            }
        }
        ExitCode::SUCCESS
    }
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
