//! Takes away what a run stands on, and looks whether it is still there: the power of the disk
//! under a journal, the workers that drive it.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "its output is what it is for")]

mod power;

use std::process::ExitCode;

use dauntless_tests::store::{Error, Kind};

const USAGE: &str = "\
usage: crash power [--store sqlite|postgres] [--cuts N] [--seed N]";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["power-writer", words @ ..] => power::write(words),
        ["power", words @ ..] => Options::parse(words).and_then(|options| power::run(&options)),
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
    cuts: u64,
    seed: u64,
    writer: Writer,
}

/// Whether the writer says that something is on the disk when it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writer {
    Honest,
    /// Says so before; what it loses shows that the harness sees a loss.
    Lying,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Self, Error> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
        let mut options =
            Self { stores: Kind::ALL.to_vec(), cuts: 20, seed: now.as_secs(), writer: Writer::Honest };
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
                "--cuts" => options.cuts = number(value()?)?,
                "--seed" => options.seed = number(value()?)?,
                "--lie" => options.writer = Writer::Lying,
                other => return Err(format!("`{other}` is not an option\n{USAGE}").into()),
            }
        }
        Ok(options)
    }
}

fn number(text: &str) -> Result<u64, Error> {
    text.parse().map_err(|_| format!("`{text}` is not a number").into())
}
