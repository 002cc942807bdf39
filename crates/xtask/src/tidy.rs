//! `cargo xtask tidy`: holds the code against what the documents promise, so neither can drift.
//!
//! Each rule is a function from the checked-out files and the dependency graph to findings. Rules
//! read text and never run anything; what the compiler or clippy can say is left to them.

mod arrows;
mod cases;
mod documents;
mod purity;
mod shape;
mod statements;
mod tree;

use std::fmt;
use std::process::ExitCode;

use tree::Tree;

/// One place where the code and the documents differ, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    rule: &'static str,
    text: String,
}

impl Finding {
    fn new(path: &str, line: usize, rule: &'static str, text: String) -> Self {
        Self { path: path.to_owned(), line, rule, text }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path, self.line, self.rule, self.text)
    }
}

const RULES: [fn(&Tree) -> Vec<Finding>; 16] = [
    arrows::every_crate_has_its_row,
    arrows::dependencies_follow_the_arrows,
    arrows::fenced_crates_stay_inside,
    arrows::testkit_is_for_tests,
    purity::the_dependencies_of_decisions_do_nothing,
    purity::sources_stay_pure,
    purity::one_file_names_backoff,
    shape::files_are_short,
    shape::modules_say_why,
    shape::crates_take_the_workspace_lints,
    shape::the_top_level_stays_small,
    documents::decisions_have_their_headings,
    documents::dependencies_have_their_reasons,
    documents::references_resolve,
    statements::every_statement_has_its_tests,
    cases::the_page_is_current,
];

/// Reads the workspace, applies every rule and prints what it finds.
pub(crate) fn run() -> ExitCode {
    let tree = match Tree::load() {
        Ok(tree) => tree,
        Err(error) => {
            eprintln!("tidy: cannot read the workspace: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(&tree)).collect();
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} rules, {} findings", RULES.len(), findings.len());
    if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Writes the names of the tests into the table of statements.
pub(crate) fn write_statements() -> ExitCode {
    write(statements::DOCUMENT, |tree| Ok(statements::rewritten(tree)))
}

/// Writes the table of cases.
pub(crate) fn write_cases() -> ExitCode {
    write(cases::DOCUMENT, |tree| cases::written(tree).map_err(|finding| finding.to_string().into()))
}

fn write(document: &str, text: impl FnOnce(&Tree) -> Result<String, Box<dyn std::error::Error>>) -> ExitCode {
    let written = Tree::load().and_then(|tree| {
        std::fs::write(tree.root().join(document), text(&tree)?)?;
        Ok(())
    });
    match written {
        Ok(()) => {
            println!("{document} is written");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{document}: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests;
