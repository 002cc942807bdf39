//! `cargo xtask counterparts`: the real command against servers that this project did not write.
//!
//! The scenarios are scripts in `tests/counterparts`. Here is what they need: the command, built from
//! the checkout, and for each counterpart an environment of Python, with exactly the versions that
//! its lists name: `NAME.txt` for PyPI, `NAME.npm.txt` for npm. It is slow and downloads packages the first time, so `check` leaves it out.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use serde::Deserialize;

/// What can be run, each a script and lists of packages of that name.
const NAMES: [&str; 3] = ["llmock", "aimock", "llama"];

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
        let said = output(cargo("metadata").args(["--format-version", "1", "--no-deps"]))?;
        let workspace: Workspace =
            serde_json::from_str(&said).map_err(|error| format!("cannot read `cargo metadata`: {error}"))?;
        println!("counterparts: building the command");
        let build = ["--package", "dauntless-cli", "--message-format", "json-render-diagnostics"];
        let said = output(cargo("build").args(build))?;
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

    /// The Python of an environment that holds the packages of the counterpart's lists.
    ///
    /// It is made anew when a list has changed, or when it was not finished the last time.
    fn environment(&self, name: &str) -> Result<PathBuf, String> {
        let [of_python, of_node] = ["txt", "npm.txt"].map(|end| self.scripts.join(name).with_extension(end));
        let (python_list, node_list) = (list(&of_python)?, list(&of_node)?);
        let wanted = format!("{python_list}{node_list}");
        let folder = self.environments.join(name);
        let python = folder.join("bin/python");
        let installed = folder.join("installed.txt");
        if python.exists() && fs::read_to_string(&installed).is_ok_and(|installed| installed == wanted) {
            return Ok(python);
        }
        println!("counterparts: installing the packages of {name} into {}", folder.display());
        succeed(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder)).map_err(|reason| {
            let hint =
                "Python 3.10 or later with venv is needed; on Debian, install python3 and python3-venv";
            format!("{reason}. {hint}")
        })?;
        if !python_list.is_empty() {
            let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"];
            succeed(Command::new(&python).args(pip).arg("--requirement").arg(&of_python))?;
        }
        if !node_list.is_empty() {
            let npm = ["install", "--silent", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts"];
            let packages = node_list.split_whitespace();
            succeed(Command::new("npm").args(npm).arg("--prefix").arg(&folder).args(packages))
                .map_err(|reason| format!("{reason}. Node.js 20 or later with npm is needed"))?;
        }
        fs::write(&installed, wanted)
            .map_err(|error| format!("cannot write {}: {error}", installed.display()))?;
        Ok(python)
    }
}

/// A list of packages; empty where the counterpart has none of the kind.
fn list(path: &Path) -> Result<String, String> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read.map_err(|error| format!("cannot read {}: {error}", path.display())),
    }
}

fn cargo(subcommand: &str) -> Command {
    let mut command = Command::new("cargo");
    command.args([subcommand, "--locked"]);
    command
}

/// What a program prints. What it complains of goes straight to the terminal.
fn output(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot run {command:?}: {error}"))?;
    succeeded(command, output.status)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a program that prints nothing but complaints.
fn succeed(command: &mut Command) -> Result<(), String> {
    let status = command.stdin(Stdio::null()).status();
    let status = status.map_err(|error| format!("cannot run {command:?}: {error}"))?;
    succeeded(command, status)
}

fn succeeded(command: &Command, status: ExitStatus) -> Result<(), String> {
    if status.success() { Ok(()) } else { Err(format!("{command:?} ended with {status}")) }
}

#[cfg(test)]
mod tests;
