//! Size and form of files: what keeps a reader oriented.
//!
//! The length of functions is clippy's (`too_many_lines`, with the bound in clippy.toml).

use super::Finding;
use super::tree::Tree;

const SOURCE_LINES_MAX: usize = 500;
const MAP_LINES_MAX: usize = 300;

/// All that the root directory may hold.
const TOP_LEVEL: [&str; 20] = [
    ".cargo",
    ".ci",
    ".config",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "GLOSSARY.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "clippy.toml",
    "config",
    "crates",
    "docs",
    "examples",
    "rustfmt.toml",
    "tests",
];

pub(super) fn files_are_short(tree: &Tree) -> Vec<Finding> {
    let map = ("ARCHITECTURE.md", tree.text("ARCHITECTURE.md"));
    let bounded = tree.sources().map(|file| (file, SOURCE_LINES_MAX)).chain([(map, MAP_LINES_MAX)]);
    bounded
        .filter_map(|((path, text), max)| {
            let lines = text.lines().count();
            let text = format!("{lines} lines, {max} are allowed: split it where a reader would pause");
            (lines > max).then(|| Finding::new(path, max + 1, "length", text))
        })
        .collect()
}

pub(super) fn modules_say_why(tree: &Tree) -> Vec<Finding> {
    tree.sources()
        .filter(|(_, text)| !text.starts_with("//! "))
        .map(|(path, _)| {
            let text = "starts without a module doc: say in `//!` why it exists and what it refuses to do";
            Finding::new(path, 1, "module-doc", text.to_owned())
        })
        .collect()
}

pub(super) fn crates_take_the_workspace_lints(tree: &Tree) -> Vec<Finding> {
    tree.graph
        .members()
        .map(|member| tree.graph.manifest(member))
        .filter(|manifest| !tree.text(manifest).contains("[lints]\nworkspace = true\n"))
        .map(|manifest| {
            let text = "takes no lints from the workspace: add `[lints]` with `workspace = true`";
            Finding::new(manifest, 1, "lints", text.to_owned())
        })
        .collect()
}

pub(super) fn the_top_level_stays_small(tree: &Tree) -> Vec<Finding> {
    tree.top
        .iter()
        .filter(|name| !TOP_LEVEL.contains(&name.as_str()))
        .map(|name| {
            let text = "is not one of the entries of the top level: move it into one of the folders";
            Finding::new(name, 1, "top-level", text.to_owned())
        })
        .collect()
}
