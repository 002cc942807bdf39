//! Takes away what a run stands on, and looks whether it is still there: the power of the disk
//! under a journal, the workers that drive it.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "its output is what it is for")]

mod power;

use std::process::ExitCode;

use dauntless_tests::kill::Plan;
use dauntless_tests::store::{Error, Kind};

const USAGE: &str = "\
usage: crash power [--store sqlite|postgres] [--cuts N] [--seed N]
       crash kill [--store sqlite|postgres] [--events N] [--seed N]";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["power-writer", words @ ..] => power::write(words),
        ["kill", words @ ..] => Options::parse(words, "--events", 200).and_then(|options| kill(&options)),
        ["power", words @ .., "--lie"] => {
            Options::parse(words, "--cuts", 20).and_then(|options| power::run(&options, Writer::Lying))
        }
        ["power", words @ ..] => {
            Options::parse(words, "--cuts", 20).and_then(|options| power::run(&options, Writer::Honest))
        }
        _ => Err(USAGE.into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("crash: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What the words ask for.
struct Options {
    stores: Vec<Kind>,
    /// How often it strikes.
    count: u64,
    seed: u64,
}

/// Whether the writer says that something is on the disk when it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writer {
    Honest,
    /// Says so before; what it loses shows that the harness sees a loss.
    Lying,
}

impl Options {
    fn parse(words: &[&str], counted: &str, count: u64) -> Result<Self, Error> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
        let mut options = Self { stores: Kind::ALL.to_vec(), count, seed: now.as_secs() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("`{word}` needs a value\n{USAGE}"));
            match *word {
                "--store" => {
                    let name = value()?;
                    options.stores = Kind::ALL.into_iter().filter(|kind| kind.as_str() == *name).collect();
                    if options.stores.is_empty() {
                        return Err(format!("`{name}` is not a store: sqlite or postgres").into());
                    }
                }
                "--seed" => options.seed = number(value()?)?,
                word if word == counted => options.count = number(value()?)?,
                other => return Err(format!("`{other}` is not an option\n{USAGE}").into()),
            }
        }
        Ok(options)
    }
}

/// Kills workers of the command that stands beside this program.
fn kill(options: &Options) -> Result<(), Error> {
    let program = std::env::current_exe()?.with_file_name("dauntless");
    for store in &options.stores {
        let report = Plan {
            program: program.clone(),
            folder: std::env::temp_dir().join(format!("dauntless-kill-{}", std::process::id())),
            store: *store,
            strikes: options.count,
            seed: options.seed,
            workers: 3,
            runs: 12,
            turns: 40,
        }
        .carry_out()?;
        println!("{report}");
    }
    Ok(())
}

fn number(text: &str) -> Result<u64, Error> {
    text.parse().map_err(|_| format!("`{text}` is not a number").into())
}
