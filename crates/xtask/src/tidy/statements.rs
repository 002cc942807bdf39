//! The statements of docs/resilience.md, each beside the tests that carry its number.
//!
//! A statement without a test is a wish. So the names of the tests are read from the sources, the
//! third column of the table is written from them by `cargo xtask statements`, and tidy finds a
//! statement that no test carries, a test that carries no statement, and a column that is stale.

use std::collections::BTreeMap;

use super::Finding;
use super::tree::Tree;

pub(super) const DOCUMENT: &str = "docs/resilience.md";

/// The families of statements and how many each has.
const FAMILIES: [(&str, u32); 6] = [("SUP", 24), ("CB", 15), ("RT", 22), ("RB", 11), ("LIM", 4), ("TST", 6)];

/// A family and a number.
type Statement = (&'static str, u32);

pub(super) fn every_statement_has_its_tests(tree: &Tree) -> Vec<Finding> {
    let text = tree.text(DOCUMENT);
    let mut findings = Vec::new();
    let mut report = |line, text| findings.push(Finding::new(DOCUMENT, line, "statements", text));
    let carried = carried(tree);
    let mut listed = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some(row) = StatementRow::read(line) else { continue };
        listed.push(row.statement);
        let (family, number) = row.statement;
        match carried.get(&row.statement) {
            None => report(
                index + 1,
                format!("{family}-{number} has no test: name one `{}`", example(row.statement)),
            ),
            Some(tests) if row.tests == cell(tests) => {}
            Some(_) => {
                let text =
                    format!("the tests of {family}-{number} are others now: run `cargo xtask statements`");
                report(index + 1, text);
            }
        }
    }
    for (family, last) in FAMILIES {
        for number in (1..=last).filter(|number| !listed.contains(&(family, *number))) {
            report(1, format!("{family}-{number} has no row: say what it promises and how it is tested"));
        }
    }
    for (statement, tests) in carried.iter().filter(|(statement, _)| !listed.contains(statement)) {
        let (family, number) = statement;
        report(1, format!("{family}-{number} has no row and yet the test {}", cell(tests)));
    }
    findings
}

/// The document with the names of the tests as they are now.
pub(super) fn rewritten(tree: &Tree) -> String {
    let carried = carried(tree);
    let mut text = String::new();
    for line in tree.text(DOCUMENT).lines() {
        match StatementRow::read(line) {
            Some(row) => {
                let tests = carried.get(&row.statement).map(|tests| cell(tests)).unwrap_or_default();
                let (family, number) = row.statement;
                text.push_str(&format!("| {family}-{number} | {} | {tests} |", row.promise));
            }
            None => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

/// A row of the table: `| SUP-1 | what it promises | its tests |`.
struct StatementRow<'a> {
    statement: Statement,
    promise: &'a str,
    tests: &'a str,
}

impl<'a> StatementRow<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let cells: Vec<&str> = line.strip_prefix('|')?.trim_end().strip_suffix('|')?.split('|').collect();
        let [name, promise, tests] = cells.as_slice() else { return None };
        let (family, number) = name.trim().split_once('-')?;
        let (family, _) = FAMILIES.into_iter().find(|(known, _)| *known == family)?;
        Some(Self { statement: (family, number.parse().ok()?), promise: promise.trim(), tests: tests.trim() })
    }
}

/// The tests of the workspace by the statement that their names begin with.
fn carried(tree: &Tree) -> BTreeMap<Statement, Vec<&str>> {
    let mut carried: BTreeMap<Statement, Vec<&str>> = BTreeMap::new();
    for line in tree.rust_files().flat_map(|(_, text)| text.lines()) {
        let line = line.trim_start();
        let line = line.strip_prefix("async ").unwrap_or(line);
        let Some(name) = line.strip_prefix("fn ").and_then(|rest| rest.split(['(', '<']).next()) else {
            continue;
        };
        for statement in statements(name) {
            carried.entry(statement).or_default().push(name);
        }
    }
    for tests in carried.values_mut() {
        tests.sort_unstable();
        tests.dedup();
    }
    carried
}

/// The statements a name carries: `cb_05_and_07_…` carries two.
fn statements(name: &str) -> Vec<Statement> {
    let mut words = name.split('_');
    let family = words.next().unwrap_or_default();
    let Some((family, _)) = FAMILIES.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(family)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    while let Some(number) = words.next().filter(|word| word.len() == 2).and_then(|word| word.parse().ok()) {
        found.push((family, number));
        if words.next() != Some("and") {
            break;
        }
    }
    found
}

fn cell(tests: &[&str]) -> String {
    tests.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn example((family, number): Statement) -> String {
    format!("{}_{number:02}_…", family.to_lowercase())
}
