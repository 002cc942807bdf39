//! Documents that must stay true: decision records, reasons for dependencies, references to files.

use super::Finding;
use super::tree::{Tree, crate_table, in_backticks};

const RECORDS: &str = "docs/adr/";
const HEADINGS: [&str; 4] = ["## Context", "## Decision", "## Alternatives", "## Consequences"];
const REASONS: &str = "docs/adr/0004-dependencies.md";

pub(super) fn decisions_have_their_headings(tree: &Tree) -> Vec<Finding> {
    let records = tree.documents().filter(|(path, _)| path.starts_with(RECORDS));
    records
        .flat_map(|(path, text)| {
            let number = path.trim_start_matches(RECORDS).split('-').next().unwrap_or_default();
            let title = format!("# {number}: ");
            let untitled = (!text.starts_with(&title))
                .then(|| Finding::new(path, 1, "adr", format!("the first line must start with `{title}`")));
            let headings: Vec<&str> = text.lines().filter(|line| line.starts_with("## ")).collect();
            let misshapen = (headings != HEADINGS).then(|| {
                let text = format!("the headings must be, in this order: `{}`", HEADINGS.join("`, `"));
                Finding::new(path, 1, "adr", text)
            });
            untitled.into_iter().chain(misshapen)
        })
        .collect()
}

pub(super) fn dependencies_have_their_reasons(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let declared = outside_dependencies(tree.text("Cargo.toml"));
    let reasons = crate_table(tree.text(REASONS));
    for (name, line) in &declared {
        let mut report = |text| findings.push(Finding::new("Cargo.toml", *line, "dependencies", text));
        if !reasons.iter().any(|row| row.name() == *name) {
            report(format!("`{name}` has no reason: add a row to {REASONS}"));
        }
        if !tree.graph.members().any(|member| member.dependencies.iter().any(|used| used.name == *name)) {
            report(format!("no crate uses `{name}`: remove it here and in {REASONS}"));
        }
    }
    for row in &reasons {
        let mut report = |text| findings.push(Finding::new(REASONS, row.line, "dependencies", text));
        if !declared.iter().any(|(name, _)| *name == row.name()) {
            report(format!("`{}` is no dependency of the workspace: remove the row", row.name()));
        }
        if row.cells.get(1).is_none_or(|reason| reason.is_empty()) {
            report(format!("`{}` has an empty reason: say in one line why it is needed", row.name()));
        }
    }
    for member in tree.graph.members() {
        let manifest = tree.graph.manifest(member);
        let names = member.dependencies.iter().map(|dependency| dependency.name.as_str());
        for name in names.filter(|name| !tree.graph.is_ours(name)) {
            if !declared.iter().any(|(declared, _)| *declared == name) {
                let line = tree.line_of_dependency(manifest, name);
                let text = format!(
                    "`{name}` is declared here alone: put it into [workspace.dependencies] with its reason in \
                     {REASONS}"
                );
                findings.push(Finding::new(manifest, line, "dependencies", text));
            }
        }
    }
    findings
}

/// The crates of others in `[workspace.dependencies]`, each with its line.
fn outside_dependencies(manifest: &str) -> Vec<(&str, usize)> {
    manifest
        .lines()
        .enumerate()
        .skip_while(|(_, line)| *line != "[workspace.dependencies]")
        .skip(1)
        .take_while(|(_, line)| !line.starts_with('['))
        .filter(|(_, line)| !line.contains("path ="))
        .filter_map(|(index, line)| Some((line.split_once(" =")?.0, index + 1)))
        .collect()
}

pub(super) fn references_resolve(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.documents() {
        for (index, line) in prose_lines(text) {
            let links = links_of(line).map(|link| resolve(path, link));
            let named = in_backticks(line).into_iter().filter(|name| is_file_name(name)).map(str::to_owned);
            for target in links.chain(named).filter(|target| !tree.has(target)) {
                let text = format!("there is no `{target}`: correct the reference or remove it");
                findings.push(Finding::new(path, index + 1, "references", text));
            }
        }
    }
    findings
}

/// The lines outside of code blocks.
fn prose_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut inside = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        !inside && !fence
    })
}

/// The targets of links to files of this repository, without the part after `#`.
fn links_of(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split([')', ' ', '#']).next()?;
        (!target.is_empty() && !target.contains(':')).then_some(target)
    })
}

/// Whether a word in backticks is a path from the root to one file or folder.
fn is_file_name(word: &str) -> bool {
    let rooted =
        ["crates/", "config/", "docs/", "examples/", "tests/"].iter().any(|top| word.starts_with(top));
    rooted && !word.contains(['*', '<', '…', ' ', '{'])
}

/// The path from the root of what a link in a document means.
fn resolve(document: &str, link: &str) -> String {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in link.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}
