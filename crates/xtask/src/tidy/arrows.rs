//! Which crate may depend on which: the table in ARCHITECTURE.md against cargo's own data.
//!
//! The table is the rule. Its third column lists the crates of ours that a crate may depend on, its
//! fourth the outside crates that belong to it; one that stands there is closed to all other rows.
//! Dependencies of tests are free.

use super::Finding;
use super::tree::{Package, Row, Tree, crate_table, short};

const MAP: &str = "ARCHITECTURE.md";
const OURS: usize = 2;
const FENCED: usize = 3;

/// Packages that only test and show, so that they may use the testkit.
const TESTING: [&str; 2] = ["examples", "tests"];

pub(super) fn every_crate_has_its_row(tree: &Tree) -> Vec<Finding> {
    let rows = crate_table(tree.text(MAP));
    let missing =
        tree.graph.members().filter(|member| !rows.iter().any(|row| row.name() == member.short_name())).map(
            |member| {
                let text = format!(
                    "`{}` has no row in the table of {MAP}: add one that says why it exists",
                    member.name
                );
                Finding::new(tree.graph.manifest(member), 1, "map", text)
            },
        );
    let stale = rows
        .iter()
        .filter(|row| !tree.graph.members().any(|member| member.short_name() == row.name()))
        .map(|row| {
            let text = format!("the table has `{}`, the workspace does not: remove the row", row.name());
            Finding::new(MAP, row.line, "map", text)
        });
    missing.chain(stale).collect()
}

pub(super) fn dependencies_follow_the_arrows(tree: &Tree) -> Vec<Finding> {
    let rows = crate_table(tree.text(MAP));
    shipped(tree, &rows)
        .filter(|(_, row, dependency)| {
            tree.graph.is_ours(dependency) && !row.names(OURS).contains(&short(dependency))
        })
        .map(|(member, row, dependency)| {
            let text = format!(
                "`{}` may not depend on `{}`: go through a port of `contract`, or change the row at {MAP}:{}",
                member.short_name(),
                short(dependency),
                row.line
            );
            at_dependency(tree, member, dependency, "arrows", text)
        })
        .collect()
}

pub(super) fn fenced_crates_stay_inside(tree: &Tree) -> Vec<Finding> {
    let rows = crate_table(tree.text(MAP));
    shipped(tree, &rows)
        .filter_map(|(member, row, dependency)| {
            let owners: Vec<&str> =
                rows.iter().filter(|row| fences(row, dependency)).map(Row::name).collect();
            if owners.is_empty() || fences(row, dependency) {
                return None;
            }
            let text = format!(
                "`{}` may not use `{dependency}`, which belongs to `{}`: ask that crate for what you need, \
                 or change the row at {MAP}:{}",
                member.short_name(),
                owners.join("` and `"),
                row.line
            );
            Some(at_dependency(tree, member, dependency, "fences", text))
        })
        .collect()
}

pub(super) fn testkit_is_for_tests(tree: &Tree) -> Vec<Finding> {
    tree.graph
        .members()
        .filter(|member| !TESTING.contains(&member.short_name()))
        .filter(|member| {
            member.dependencies.iter().any(|dependency| dependency.ships() && short(&dependency.name) == "testkit")
        })
        .map(|member| {
            let text = format!(
                "`{}` ships `testkit`: move it to [dev-dependencies]; it injects faults and is no part of a product",
                member.short_name()
            );
            at_dependency(tree, member, "dauntless-testkit", "testkit", text)
        })
        .collect()
}

/// Every member that has a row, with that row and each dependency that its shipped code needs.
fn shipped<'a>(
    tree: &'a Tree,
    rows: &'a [Row<'a>],
) -> impl Iterator<Item = (&'a Package, &'a Row<'a>, &'a str)> {
    let with_row = tree.graph.members().filter_map(|member| {
        rows.iter().find(|row| row.name() == member.short_name()).map(|row| (member, row))
    });
    with_row.flat_map(|(member, row)| {
        let shipped = member.dependencies.iter().filter(|dependency| dependency.ships());
        shipped.map(move |dependency| (member, row, dependency.name.as_str()))
    })
}

/// Whether the row's fence has the crate inside. A trailing `*` stands for any end of the name.
fn fences(row: &Row<'_>, dependency: &str) -> bool {
    row.names(FENCED).iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(start) => dependency.starts_with(start),
        None => *pattern == dependency,
    })
}

fn at_dependency(
    tree: &Tree,
    member: &Package,
    dependency: &str,
    rule: &'static str,
    text: String,
) -> Finding {
    let manifest = tree.graph.manifest(member);
    Finding::new(manifest, tree.line_of_dependency(manifest, dependency), rule, text)
}
