//! Cases: each a file of what models and tools do wrong, and of what must come of it.
//!
//! Every case goes through the real loop: the runtime with its actors and guards, the OpenAI client,
//! and the strict provider on loopback, which refuses an invalid conversation. Beside what the file
//! asks for, what holds for all is checked: no request was refused, every call was answered once,
//! nothing broke or was left behind, no key left by any exit. A case is run whole and streamed where
//! its replies can come both ways.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where it cannot go on"
)]

mod case;
mod drive;
mod log;
mod provider;
mod tools;
mod verdict;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

use case::Case;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    log::note_panics();
    let trials = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("cases")).into_iter().map(trial);
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// The case files, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else if path.extension().is_some_and(|end| end == "toml") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// A test of its own for each file; it is read when it runs.
fn trial(file: PathBuf) -> Trial {
    let id = file.file_stem().unwrap().to_string_lossy().into_owned();
    Trial::test(id.clone(), move || run(&id, &file))
}

fn run(id: &str, file: &Path) -> Result<(), Failed> {
    let folder = std::env::temp_dir().join(format!("dauntless-case-{id}-{}", std::process::id()));
    let case = Case::read(&fs::read_to_string(file)?, &folder)?;
    for mode in case.modes() {
        fs::create_dir_all(&folder)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let evidence = runtime.block_on(drive::drive(&case, mode));
        let verdict = verdict::judge(&case, &evidence);
        fs::remove_dir_all(&folder)?;
        verdict.map_err(|problems| format!("{mode:?}: {problems}"))?;
    }
    Ok(())
}
