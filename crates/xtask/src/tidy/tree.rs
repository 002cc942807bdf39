//! What the rules look at: the files of the checkout and cargo's dependency graph, read once.
//!
//! Everything is a value, so a test states a violation in a few lines and touches no disk.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

/// The checkout.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Path from the root, with `/`, to text. Files that no rule reads have an empty text.
    pub(super) files: BTreeMap<String, String>,
    /// Names in the root directory, without what git ignores.
    pub(super) top: BTreeSet<String>,
    /// The packages and what they declare to depend on.
    pub(super) graph: Graph,
    /// For each crate that decides, by its short name: its whole tree of normal dependencies as
    /// `cargo tree --prefix depth` prints it, with the features it has when built alone.
    pub(super) pure: BTreeMap<&'static str, String>,
}

/// The crates that decide and touch nothing.
pub(super) const PURE: &[&str] = &["contract", "core"];

/// What `cargo metadata` says.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Graph {
    pub(super) packages: Vec<Package>,
    pub(super) workspace_members: Vec<String>,
    pub(super) workspace_root: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Package {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) manifest_path: String,
    pub(super) dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Dependency {
    pub(super) name: String,
    /// `None` for a normal dependency, else `dev` or `build`.
    pub(super) kind: Option<String>,
}

impl Dependency {
    /// Whether the shipped code needs it: a normal or a build dependency.
    pub(super) fn ships(&self) -> bool {
        self.kind.as_deref() != Some("dev")
    }
}

impl Package {
    /// The name as ARCHITECTURE.md writes it: without the prefix.
    pub(super) fn short_name(&self) -> &str {
        short(&self.name)
    }
}

/// A package's name as ARCHITECTURE.md writes it: without the prefix.
pub(super) fn short(package: &str) -> &str {
    package.strip_prefix("dauntless-").unwrap_or(package)
}

impl Graph {
    /// The packages of this workspace.
    pub(super) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.workspace_members.contains(&package.id))
    }

    /// Whether a package of this workspace has that name.
    pub(super) fn is_ours(&self, name: &str) -> bool {
        self.members().any(|member| member.name == name)
    }

    /// The path of a package's manifest from the root.
    pub(super) fn manifest<'a>(&self, package: &'a Package) -> &'a str {
        let path = package.manifest_path.as_str();
        path.strip_prefix(self.workspace_root.as_str()).map_or(path, |path| path.trim_start_matches('/'))
    }
}

impl Tree {
    /// Reads the workspace that the current directory belongs to.
    pub(super) fn load() -> Result<Self, Box<dyn std::error::Error>> {
        let graph: Graph = serde_json::from_str(&cargo(&["metadata", "--format-version", "1", "--locked"])?)?;
        let mut tree = Self::default();
        let root = graph.workspace_root.clone();
        let ignored = std::fs::read_to_string(format!("{root}/.gitignore")).unwrap_or_default();
        for entry in std::fs::read_dir(&root)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == ".git" || ignored.lines().any(|line| line.trim_matches('/') == name) {
                continue;
            }
            tree.read(&entry.path(), &name)?;
            tree.top.insert(name);
        }
        tree.graph = graph;
        for name in PURE {
            let package = format!("dauntless-{name}");
            let line =
                ["tree", "-p", &package, "-e", "normal", "--target", "all", "--prefix", "depth", "--locked"];
            tree.pure.insert(name, cargo(&line)?);
        }
        Ok(tree)
    }

    fn read(&mut self, path: &Path, name: &str) -> std::io::Result<()> {
        let kind = std::fs::symlink_metadata(path)?.file_type();
        if kind.is_dir() {
            for entry in std::fs::read_dir(path)? {
                let entry = entry?;
                self.read(&entry.path(), &format!("{name}/{}", entry.file_name().to_string_lossy()))?;
            }
        } else if kind.is_file() {
            let read_by_rules = [".rs", ".md", ".toml"].iter().any(|end| name.ends_with(end));
            let text = if read_by_rules { std::fs::read_to_string(path)? } else { String::new() };
            self.files.insert(name.to_owned(), text);
        }
        Ok(())
    }

    /// Where the workspace is.
    pub(super) fn root(&self) -> &Path {
        Path::new(&self.graph.workspace_root)
    }

    /// The text of a file; empty when there is none.
    pub(super) fn text(&self, path: &str) -> &str {
        self.files.get(path).map_or("", String::as_str)
    }

    /// Whether there is a file or a directory at the path.
    pub(super) fn has(&self, path: &str) -> bool {
        let inside = format!("{}/", path.trim_end_matches('/'));
        self.files.contains_key(path)
            || self.files.range(inside.clone()..).next().is_some_and(|(name, _)| name.starts_with(&inside))
    }

    /// The sources that ship: Rust files of the crates, without their tests.
    pub(super) fn sources(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str())).filter(|(path, _)| {
            path.ends_with(".rs")
                && path.starts_with("crates/")
                && !path.ends_with("/tests.rs")
                && !path.contains("/tests/")
        })
    }

    /// Every Rust file, tests included.
    pub(super) fn rust_files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .filter(|(path, _)| path.ends_with(".rs"))
    }

    /// The documents.
    pub(super) fn documents(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .filter(|(path, _)| path.ends_with(".md"))
    }

    /// The line of a manifest that names a dependency; 1 when it cannot be found.
    pub(super) fn line_of_dependency(&self, manifest: &str, dependency: &str) -> usize {
        let names =
            |line: &str| line.strip_prefix(dependency).is_some_and(|rest| rest.starts_with(['.', ' ', '=']));
        self.text(manifest).lines().position(names).map_or(1, |index| index + 1)
    }
}

/// A row of a Markdown table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row<'a> {
    pub(super) line: usize,
    pub(super) cells: Vec<&'a str>,
}

impl<'a> Row<'a> {
    /// The words in backticks of one cell.
    pub(super) fn names(&self, cell: usize) -> Vec<&'a str> {
        self.cells.get(cell).map(|cell| in_backticks(cell)).unwrap_or_default()
    }

    /// The first word in backticks of the first cell.
    pub(super) fn name(&self) -> &'a str {
        self.names(0).first().copied().unwrap_or_default()
    }
}

/// The rows of the first table whose header starts with the column `crate`.
pub(super) fn crate_table(text: &str) -> Vec<Row<'_>> {
    text.lines()
        .enumerate()
        .skip_while(|(_, line)| !line.starts_with("| crate |"))
        .take_while(|(_, line)| line.starts_with('|'))
        .skip(2)
        .map(|(index, line)| Row {
            line: index + 1,
            cells: line.trim_matches('|').split('|').map(str::trim).collect(),
        })
        .collect()
}

/// What stands between backticks.
pub(super) fn in_backticks(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// What a cargo command prints, or what it says went wrong.
fn cargo(words: &[&str]) -> Result<String, Box<dyn std::error::Error>> {
    let output = Command::new("cargo").args(words).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim_end().into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
