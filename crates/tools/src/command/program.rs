//! Finds the program of a command before anybody calls it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::template::Template;

/// Programs that read an argument as a script.
const SHELLS: [&str; 8] = ["sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "csh"];

/// The absolute path of a program: looked up on `path`, or relative to `cwd` if it has a slash.
pub(super) fn find(program: &str, cwd: Option<&Path>, path: Option<&str>) -> Result<PathBuf, String> {
    if program.is_empty() {
        return Err("the program's name is empty".to_owned());
    }
    if program.contains('/') {
        let file = cwd.map_or_else(|| PathBuf::from(program), |cwd| cwd.join(program));
        let file = std::path::absolute(&file).map_err(|error| format!("`{program}`: {error}"))?;
        return match is_executable(&file) {
            Some(true) => Ok(file),
            Some(false) => {
                Err(format!("`{}` is not executable: set its mode with `chmod +x`", file.display()))
            }
            None => Err(format!("there is no program `{}`", file.display())),
        };
    }
    let path =
        path.ok_or_else(|| format!("PATH is not set, so `{program}` is not found: write its full path"))?;
    let mut candidates = std::env::split_paths(path).map(|folder| folder.join(program));
    candidates.find(|file| is_executable(file) == Some(true)).ok_or_else(|| {
        format!("`{program}` is not on PATH: install it, or write its full path (PATH is `{path}`)")
    })
}

/// Whether a file may be executed; `None` if there is no such file.
fn is_executable(file: &Path) -> Option<bool> {
    let metadata = fs::metadata(file).ok().filter(fs::Metadata::is_file)?;
    Some(metadata.permissions().mode() & 0o111 != 0)
}

/// The place of a shell script that has values put into its text, where they would be read as code.
///
/// A script that is nothing but one value is let through: that is a choice, not an accident.
pub(super) fn script_with_values(argv: &[Template]) -> Option<usize> {
    let fixed: Vec<Option<String>> = argv.iter().map(Template::fixed).collect();
    let shell = fixed.iter().position(|element| {
        let name = element.as_deref().and_then(|text| Path::new(text).file_name()).and_then(OsStr::to_str);
        name.is_some_and(|name| SHELLS.contains(&name))
    })?;
    let is_option = |text: &str| text.starts_with('-') && !text.starts_with("--") && text.ends_with('c');
    let option = fixed.iter().skip(shell).position(|element| element.as_deref().is_some_and(is_option))?;
    let place = shell + option + 1;
    argv.get(place).filter(|script| !script.is_literal() && script.only_hole().is_none()).map(|_| place)
}
