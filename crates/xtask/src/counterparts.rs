//! `cargo xtask counterparts`: the real command against servers that this project did not write.
//!
//! The scenarios are scripts in `tests/counterparts`. Here is what they need: the command, built from
//! the checkout, and for each counterpart an environment of Python with exactly the versions that
//! its list names. It is slow and downloads packages the first time, so `check` leaves it out.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use serde::Deserialize;

/// What can be run, each a script and a list of packages of that name.
const NAMES: [&str; 2] = ["llmock", "llama"];

/// Runs the counterpart of that name, or all of them.
///
/// The last line is `N passed, N failed` over all scenarios.
pub(crate) fn run(name: Option<&str>) -> ExitCode {
    if let Some(name) = name.filter(|name| !NAMES.contains(name)) {
        eprintln!("counterparts: there is no `{name}`; there are: {}", NAMES.join(", "));
        return ExitCode::from(2);
    }
    let mut tally = Tally::default();
    let ran = Checkout::prepare().and_then(|checkout| {
        let mut chosen = NAMES.into_iter().filter(|known| name.is_none_or(|name| name == *known));
        chosen.try_for_each(|name| checkout.play(name, &mut tally))
    });
    if let Err(reason) = &ran {
        eprintln!("counterparts: {reason}");
    }
    println!("{} passed, {} failed", tally.passed, tally.failed);
    if ran.is_ok() && tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How many scenarios went how.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: u32,
    failed: u32,
}

impl Tally {
    /// Counts a line of a script, if it is one about a scenario.
    fn add(&mut self, line: &str) {
        match line.split_once(": ") {
            Some(("passed", _)) => self.passed += 1,
            Some(("failed", _)) => self.failed += 1,
            _ => {}
        }
    }
}

/// Where things are, and the command that is tried.
struct Checkout {
    scripts: PathBuf,
    environments: PathBuf,
    dauntless: PathBuf,
}

/// What cargo says about the workspace.
#[derive(Deserialize)]
struct Workspace {
    workspace_root: PathBuf,
    target_directory: PathBuf,
}

/// A line that cargo prints while it builds.
#[derive(Deserialize)]
struct Built {
    executable: Option<PathBuf>,
}

impl Checkout {
    /// Builds the command.
    fn prepare() -> Result<Self, String> {
        let said = output("cargo", ["metadata", "--format-version", "1", "--no-deps", "--locked"])?;
        let workspace: Workspace =
            serde_json::from_str(&said).map_err(|error| format!("cargo metadata: {error}"))?;
        println!("counterparts: building the command");
        let build = [
            "build",
            "--package",
            "dauntless-cli",
            "--locked",
            "--message-format",
            "json-render-diagnostics",
        ];
        let said = output("cargo", build)?;
        let dauntless = said
            .lines()
            .filter_map(|line| serde_json::from_str::<Built>(line).ok()?.executable)
            .next_back()
            .ok_or("cargo built no command from the package dauntless-cli")?;
        Ok(Self {
            scripts: workspace.workspace_root.join("tests/counterparts"),
            environments: workspace.target_directory.join("counterparts"),
            dauntless,
        })
    }

    /// Runs the scenarios of one counterpart, and repeats and counts what its script says.
    fn play(&self, name: &str, tally: &mut Tally) -> Result<(), String> {
        let python = self.environment(name)?;
        let script = self.scripts.join(name).with_extension("py");
        let cannot = |error| format!("cannot run {}: {error}", script.display());
        let mut child = Command::new(&python)
            .args([&script, &self.dauntless])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(cannot)?;
        let failed_before = tally.failed;
        for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines) {
            let line = line.map_err(cannot)?;
            println!("{line}");
            tally.add(&line);
        }
        let status = child.wait().map_err(cannot)?;
        if status.success() || tally.failed > failed_before {
            return Ok(());
        }
        Err(format!("{} broke off with {status}", script.display()))
    }

    /// The Python of an environment that holds the packages of the counterpart's list.
    ///
    /// It is made anew when the list has changed, or when it was not finished the last time.
    fn environment(&self, name: &str) -> Result<PathBuf, String> {
        let packages = self.scripts.join(name).with_extension("txt");
        let wanted = fs::read_to_string(&packages)
            .map_err(|error| format!("cannot read {}: {error}", packages.display()))?;
        let folder = self.environments.join(name);
        let python = folder.join("bin/python");
        let installed = folder.join("installed.txt");
        if fs::read_to_string(&installed).is_ok_and(|installed| installed == wanted) {
            return Ok(python);
        }
        println!("counterparts: installing the packages of {} into {}", packages.display(), folder.display());
        let words = ["-m", "venv", "--clear"].map(OsStr::new);
        output("python3", words.into_iter().chain([folder.as_os_str()])).map_err(|reason| {
            format!(
                "needs Python 3.10 or later with venv; on Debian, install python3 and python3-venv: {reason}"
            )
        })?;
        let words =
            ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--requirement"];
        output(&python, words.map(OsStr::new).into_iter().chain([packages.as_os_str()]))?;
        fs::write(&installed, wanted)
            .map_err(|error| format!("cannot write {}: {error}", installed.display()))?;
        Ok(python)
    }
}

/// What a program prints; what it complains of goes straight to the terminal.
fn output<W: AsRef<OsStr>>(
    program: impl AsRef<Path>,
    words: impl IntoIterator<Item = W>,
) -> Result<String, String> {
    let program = program.as_ref();
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    if !output.status.success() {
        return Err(format!("{} failed with {}: {command:?}", program.display(), output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests;
