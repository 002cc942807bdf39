//! `cargo xtask fuzz`: inputs that nobody thought of, for whatever takes bytes from outside.
//!
//! The targets are a workspace of their own in `tests/fuzz`, because they need a nightly compiler and
//! cargo-fuzz; this says what is missing of these before it starts. What a run finds stays in the
//! target directory: an input enters the corpus of the repository by hand, with the fix.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use serde::Deserialize;

const FOLDER: &str = "tests/fuzz";
const DEFAULT_SECONDS: u32 = 60;
/// An input that takes longer, or more memory, is a finding.
const BOUNDS: [&str; 3] = ["-max_len=4096", "-rss_limit_mb=2048", "-timeout=10"];
const USAGE: &str = "usage: cargo xtask fuzz [--seconds N] [TARGET]";

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
struct Order<'w> {
    seconds: u32,
    target: Option<&'w str>,
}

impl<'w> Order<'w> {
    fn of(words: &[&'w str]) -> Result<Self, String> {
        let mut order = Self { seconds: DEFAULT_SECONDS, target: None };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--seconds" => {
                    let seconds =
                        words.next().and_then(|word| word.parse().ok()).filter(|seconds| *seconds > 0);
                    order.seconds =
                        seconds.ok_or("--seconds needs a number from 1 on, like --seconds 600")?;
                }
                target if order.target.is_none() && !target.starts_with('-') => order.target = Some(target),
                odd => return Err(format!("`{odd}` is not understood; {USAGE}")),
            }
        }
        Ok(order)
    }
}

/// Runs one target or each in turn, and stops at the first input that breaks a property.
pub(crate) fn run(words: &[&str]) -> ExitCode {
    match Order::of(words).and_then(|order| carry_out(&order)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            eprintln!("fuzz: {reason}");
            ExitCode::from(2)
        }
    }
}

fn carry_out(order: &Order<'_>) -> Result<bool, String> {
    needs(
        &["+nightly", "--version"],
        "a nightly compiler is missing: install it with `rustup toolchain install nightly`",
    )?;
    needs(
        &["fuzz", "--version"],
        "cargo-fuzz is missing: install it with `cargo install --locked cargo-fuzz`",
    )?;
    let workspace = Workspace::find()?;
    let targets = workspace.targets()?;
    let chosen: Vec<&String> =
        targets.iter().filter(|name| order.target.is_none_or(|wanted| wanted == *name)).collect();
    if let (Some(wanted), true) = (order.target, chosen.is_empty()) {
        return Err(format!("there is no target `{wanted}`; there are: {}", targets.join(", ")));
    }
    for target in chosen {
        if !workspace.fuzz(target, order.seconds)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Tells what is missing where a cargo command does not work.
fn needs(words: &[&str], missing: &str) -> Result<(), String> {
    let probe = Command::new("cargo").args(words).stdin(Stdio::null()).output();
    if probe.is_ok_and(|output| output.status.success()) { Ok(()) } else { Err(missing.to_owned()) }
}

/// What cargo says about the workspace.
#[derive(Deserialize)]
struct Workspace {
    workspace_root: PathBuf,
    target_directory: PathBuf,
}

impl Workspace {
    fn find() -> Result<Self, String> {
        let output = Command::new("cargo")
            .args(["metadata", "--format-version", "1", "--no-deps", "--locked"])
            .output()
            .map_err(|error| format!("cargo did not start: {error}"))?;
        serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("cannot read `cargo metadata`: {error}"))
    }

    /// The names of the targets, each a file.
    fn targets(&self) -> Result<Vec<String>, String> {
        let folder = self.workspace_root.join(FOLDER).join("fuzz_targets");
        let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let name = |path: PathBuf| Some(path.file_stem()?.to_str()?.to_owned());
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).filter_map(name).collect();
        names.sort();
        Ok(names)
    }

    /// Runs one target; false where an input broke its property.
    fn fuzz(&self, target: &str, seconds: u32) -> Result<bool, String> {
        let work = self.target_directory.join("fuzz");
        let (found, broken) = (work.join("corpus").join(target), work.join("artifacts").join(target));
        for folder in [&found, &broken] {
            fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        println!("fuzz: {target} for {seconds} s; what it finds goes into {}", work.display());
        let status = Command::new("cargo")
            .args(["+nightly", "fuzz", "run", "--fuzz-dir", FOLDER, "--target-dir"])
            .args([&work, Path::new(target), &found])
            .arg(Path::new(FOLDER).join("corpus").join(target))
            .arg("--")
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-artifact_prefix={}/", broken.display()))
            .arg(format!("-dict={FOLDER}/words.dict"))
            .args(BOUNDS)
            .args(["-print_final_stats=1", "-verbosity=1"])
            .current_dir(&self.workspace_root)
            .status()
            .map_err(|error| format!("cargo did not start: {error}"))?;
        Ok(status.success())
    }
}

#[cfg(test)]
mod tests;
