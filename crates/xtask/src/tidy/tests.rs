use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::purity::{Ban, banned_words};
use super::tree::{Graph, Tree, crate_table};
use super::{Finding, arrows, cases, documents, purity, shape, statements};

const MAP: &str = "\
| crate | why | may depend on | only it may use |
|---|---|---|---|
| `contract` | types | | |
| `core` | decisions | `contract` | `backoff` |
| `runtime` | actors | `contract` `core` | `ractor` |
| `daemon` | wiring | `contract` `runtime` | `opentelemetry*` |
";

/// A package of the workspace: its short name and its dependencies, `dev:` before those of tests.
fn member(name: &str, dependencies: &[&str]) -> Value {
    let package = format!("dauntless-{name}");
    let dependencies: Vec<Value> = dependencies
        .iter()
        .map(|dependency| match dependency.strip_prefix("dev:") {
            Some(name) => json!({ "name": name, "kind": "dev" }),
            None => json!({ "name": dependency, "kind": null }),
        })
        .collect();
    json!({
        "id": package,
        "name": package,
        "manifest_path": format!("/w/crates/{name}/Cargo.toml"),
        "dependencies": dependencies,
    })
}

/// The checkout of a workspace with these members and these files.
fn workspace(members: &[Value], files: &[(&str, &str)]) -> Tree {
    let ids: Vec<&Value> = members.iter().map(|member| &member["id"]).collect();
    let graph = json!({ "packages": members, "workspace_members": ids, "workspace_root": "/w" });
    let graph: Graph = serde_json::from_value(graph).expect("the shape of cargo metadata");
    let files: BTreeMap<String, String> =
        files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    let top = files.keys().map(|path| path.split('/').next().unwrap_or(path).to_owned()).collect();
    Tree { files, top, graph, pure: BTreeMap::new() }
}

fn files(files: &[(&str, &str)]) -> Tree {
    workspace(&[], files)
}

#[expect(clippy::needless_pass_by_value, reason = "`expect!` makes a temporary")]
fn check(findings: Vec<Finding>, expected: Expect) {
    let lines: String = findings.iter().map(|finding| format!("{finding}\n")).collect();
    expected.assert_eq(&lines);
}

#[test]
fn a_crate_and_its_row_come_together() {
    let members = [member("contract", &[]), member("core", &[]), member("daemon", &[]), member("queue", &[])];
    let tree = workspace(&members, &[("ARCHITECTURE.md", MAP)]);
    check(
        arrows::every_crate_has_its_row(&tree),
        expect![[r#"
            crates/queue/Cargo.toml:1: map: `dauntless-queue` has no row in the table of ARCHITECTURE.md: add one that says why it exists
            ARCHITECTURE.md:5: map: the table has `runtime`, the workspace does not: remove the row
        "#]],
    );
}

#[test]
fn a_dependency_against_the_arrows_is_found() {
    let core = member("core", &["dauntless-contract", "dauntless-runtime"]);
    let members = [member("contract", &[]), core, member("runtime", &["dauntless-core"])];
    let manifest =
        "[dependencies]\ndauntless-contract.workspace = true\ndauntless-runtime.workspace = true\n";
    let tree = workspace(&members, &[("ARCHITECTURE.md", MAP), ("crates/core/Cargo.toml", manifest)]);
    check(
        arrows::dependencies_follow_the_arrows(&tree),
        expect![[r#"
            crates/core/Cargo.toml:3: arrows: `core` may not depend on `runtime`: go through a port of `contract`, or change the row at ARCHITECTURE.md:4
        "#]],
    );
}

#[test]
fn tests_may_go_against_the_arrows() {
    let members = [member("core", &["dev:dauntless-runtime", "dev:ractor"]), member("runtime", &[])];
    let tree = workspace(&members, &[("ARCHITECTURE.md", MAP)]);
    check(arrows::dependencies_follow_the_arrows(&tree), expect![[""]]);
    check(arrows::fenced_crates_stay_inside(&tree), expect![[""]]);
}

#[test]
fn a_fenced_crate_outside_its_fence_is_found() {
    let members = [
        member("core", &["backoff", "ractor"]),
        member("runtime", &["ractor", "opentelemetry-otlp", "serde"]),
        member("daemon", &["opentelemetry_sdk"]),
    ];
    let manifest = "[dependencies]\nractor = { workspace = true }\n";
    let tree = workspace(&members, &[("ARCHITECTURE.md", MAP), ("crates/core/Cargo.toml", manifest)]);
    check(
        arrows::fenced_crates_stay_inside(&tree),
        expect![[r#"
            crates/core/Cargo.toml:2: fences: `core` may not use `ractor`, which belongs to `runtime`: ask that crate for what you need, or change the row at ARCHITECTURE.md:4
            crates/runtime/Cargo.toml:1: fences: `runtime` may not use `opentelemetry-otlp`, which belongs to `daemon`: ask that crate for what you need, or change the row at ARCHITECTURE.md:5
        "#]],
    );
}

#[test]
fn the_testkit_ships_with_nothing() {
    let members = [
        member("daemon", &["dauntless-testkit"]),
        member("runtime", &["dev:dauntless-testkit"]),
        member("examples", &["dauntless-testkit"]),
    ];
    check(
        arrows::testkit_is_for_tests(&workspace(&members, &[])),
        expect![[r#"
            crates/daemon/Cargo.toml:1: testkit: `daemon` ships `testkit`: move it to [dev-dependencies]; it injects faults and is no part of a product
        "#]],
    );
}

#[test]
fn an_impure_package_deep_in_the_tree_of_core_is_found() {
    let mut tree = files(&[("crates/core/Cargo.toml", "[dependencies]\nserde = \"1\"\nschema = \"1\"\n")]);
    let printed = "\
0dauntless-core v0.1.0 (/w/crates/core)
1serde v1.0.2
1schema v1.0.0
2fetch v2.0.0
3reqwest v0.13.0
2serde v1.0.2 (*)
1strsim v0.11.0
";
    tree.pure.insert("core", printed.to_owned());
    check(
        purity::the_dependencies_of_decisions_do_nothing(&tree),
        expect![[r#"
            crates/core/Cargo.toml:3: pure-tree: `core` reaches dauntless-core v0.1.0 > schema v1.0.0 > fetch v2.0.0 > reqwest v0.13.0: decisions touch nothing; drop the dependency or the feature that brings it
        "#]],
    );
}

#[test]
fn the_random_source_of_backoff_is_tolerated_and_no_other() {
    let mut tree = files(&[]);
    let core = "0dauntless-core v0.1.0 (/w/crates/core)\n1backoff v0.4.0\n2rand v0.8.5\n1dice v1.0.0\n2rand v0.10.0\n";
    let contract = "0dauntless-contract v0.1.0 (/w/crates/contract)\n1rand v0.8.5\n";
    tree.pure.insert("core", core.to_owned());
    tree.pure.insert("contract", contract.to_owned());
    check(
        purity::the_dependencies_of_decisions_do_nothing(&tree),
        expect![[r#"
            crates/contract/Cargo.toml:1: pure-tree: `contract` reaches dauntless-contract v0.1.0 > rand v0.8.5: decisions touch nothing; drop the dependency or the feature that brings it
            crates/core/Cargo.toml:1: pure-tree: `core` reaches dauntless-core v0.1.0 > dice v1.0.0 > rand v0.10.0: decisions touch nothing; drop the dependency or the feature that brings it
        "#]],
    );
}

#[test]
fn words_of_io_are_found_in_the_sources_of_core() {
    let source = "\
//! Reads no SystemTime.
use std::collections::{BTreeMap, HashMap};
use std::fs;
fn late() { Instant::now(); } // thread_rng would be worse
fn fine(my_fs: &str, HashMapLike: u8) { tokio_like::now(); }
fn worse() { tokio::spawn(fs::read(\"a\")); }
";
    let tree = files(&[("crates/core/src/call.rs", source), ("crates/core/src/tests.rs", "fs::read()")]);
    check(
        purity::sources_stay_pure(&tree),
        expect![[r#"
            crates/core/src/call.rs:4: pure-source: `Instant::now`: time comes in as an argument: take a `Timestamp`
            crates/core/src/call.rs:6: pure-source: `fs::`: return an effect and let `runtime` or an adapter carry it out
            crates/core/src/call.rs:6: pure-source: `tokio::`: return an effect and let `runtime` or an adapter carry it out
            crates/core/src/call.rs:2: pure-source: `HashMap`: equal runs must compare and print equal: take `BTreeMap` or `BTreeSet`
        "#]],
    );
}

#[test]
fn a_library_reads_no_environment_and_the_daemon_may() {
    let source = "//! Doc.\nlet key = std::env::var(\"KEY\");\nlet at = \"http://a\"; env::args();\nenv::split_paths(path);\n";
    let tree = files(&[("crates/models/src/lib.rs", source), ("crates/daemon/src/lib.rs", source)]);
    check(
        purity::sources_stay_pure(&tree),
        expect![[r#"
            crates/models/src/lib.rs:2: pure-source: `env::var`: a library takes what it needs as an argument; `daemon` and `cli` read the environment
            crates/models/src/lib.rs:3: pure-source: `env::args`: a library takes what it needs as an argument; `daemon` and `cli` read the environment
        "#]],
    );
}

#[test]
fn a_file_with_a_reason_may_write_a_banned_word() {
    let ban = Ban {
        crates: &["core"],
        words: &["net::"],
        way_out: "no sockets",
        except: &[("crates/core/src/address.rs", "parses addresses and opens none")],
    };
    let tree = files(&[
        ("crates/core/src/address.rs", "use std::net::IpAddr;"),
        ("crates/core/src/other.rs", "use std::net::TcpStream;"),
    ]);
    check(
        banned_words(&tree, &[ban]),
        expect![[r#"
            crates/core/src/other.rs:1: pure-source: `net::`: no sockets
        "#]],
    );
}

#[test]
fn only_one_file_of_core_names_the_backoff_crate() {
    let tree = files(&[
        ("crates/core/src/resilience/backoff.rs", "use backoff::ExponentialBackoff;"),
        ("crates/core/src/resilience/retry.rs", "use super::backoff::wait;\nuse backoff::Clock;\n"),
        ("crates/core/src/lib.rs", "pub use self::backoff::wait;\nuse ::backoff::Clock;\n"),
    ]);
    check(
        purity::one_file_names_backoff(&tree),
        expect![[r#"
            crates/core/src/lib.rs:2: backoff: only the file backoff.rs of core names the crate `backoff`; for a module of that name write `self::backoff` or `crate::…::backoff`
            crates/core/src/resilience/retry.rs:2: backoff: only the file backoff.rs of core names the crate `backoff`; for a module of that name write `self::backoff` or `crate::…::backoff`
        "#]],
    );
}

#[test]
fn a_long_file_is_found_and_its_tests_may_be_longer() {
    let long = "x\n".repeat(501);
    let tree = files(&[
        ("crates/core/src/run.rs", &long),
        ("crates/core/src/run/tests.rs", &long),
        ("crates/core/src/exact.rs", &"x\n".repeat(500)),
        ("tests/src/lib.rs", &long),
        ("ARCHITECTURE.md", &"x\n".repeat(301)),
    ]);
    check(
        shape::files_are_short(&tree),
        expect![[r#"
            crates/core/src/run.rs:501: length: 501 lines, 500 are allowed: split it where a reader would pause
            ARCHITECTURE.md:301: length: 301 lines, 300 are allowed: split it where a reader would pause
        "#]],
    );
}

#[test]
fn a_module_without_a_doc_is_found() {
    let tree = files(&[
        ("crates/core/src/lib.rs", "//! Decides.\n"),
        ("crates/core/src/run.rs", "use std::fmt;\n"),
        ("crates/core/src/tests.rs", "use super::*;\n"),
    ]);
    check(
        shape::modules_say_why(&tree),
        expect![[r#"
            crates/core/src/run.rs:1: module-doc: starts without a module doc: say in `//!` why it exists and what it refuses to do
        "#]],
    );
}

#[test]
fn a_crate_without_the_lints_of_the_workspace_is_found() {
    let tree = workspace(
        &[member("core", &[]), member("models", &[])],
        &[
            ("crates/core/Cargo.toml", "[package]\n\n[lints]\nworkspace = true\n"),
            ("crates/models/Cargo.toml", "[package]\n"),
        ],
    );
    check(
        shape::crates_take_the_workspace_lints(&tree),
        expect![[r#"
            crates/models/Cargo.toml:1: lints: takes no lints from the workspace: add `[lints]` with `workspace = true`
        "#]],
    );
}

#[test]
fn a_stray_entry_of_the_top_level_is_found() {
    let tree = files(&[("Cargo.toml", ""), ("crates/core/src/lib.rs", ""), ("scripts/run.sh", "")]);
    check(
        shape::the_top_level_stays_small(&tree),
        expect![[r#"
            scripts:1: top-level: is not one of the entries of the top level: move it into one of the folders
        "#]],
    );
}

#[test]
fn a_decision_record_has_its_number_and_headings() {
    let good = "# 0001: a\n\n## Context\n\n## Decision\n\n## Alternatives\n\n## Consequences\n";
    let bad = "# 2: b\n\n## Decision\n\n## Context\n\n## Alternatives\n\n## Consequences\n";
    let tree = files(&[("docs/adr/0001-a.md", good), ("docs/adr/0002-b.md", bad)]);
    check(
        documents::decisions_have_their_headings(&tree),
        expect![[r#"
            docs/adr/0002-b.md:1: adr: the first line must start with `# 0002: `
            docs/adr/0002-b.md:1: adr: the headings must be, in this order: `## Context`, `## Decision`, `## Alternatives`, `## Consequences`
        "#]],
    );
}

#[test]
fn dependencies_and_their_reasons_come_together() {
    let manifest = "\
[workspace.dependencies]
dauntless-core = { path = \"crates/core\" }
serde = { version = \"1\" }
regex = \"1\"
tokio = \"1\"

[profile.dev]
debug = true
";
    let reasons = "\
| crate | why |
|---|---|
| `serde` | wire types |
| `regex` | |
| `uuid` | ids |
";
    let files = [
        ("Cargo.toml", manifest),
        ("docs/adr/0004-dependencies.md", reasons),
        ("crates/core/Cargo.toml", "[dependencies]\nserde.workspace = true\nrogue = \"1\"\n"),
    ];
    let members = [member("core", &["serde", "rogue", "dev:tokio"])];
    check(
        documents::dependencies_have_their_reasons(&workspace(&members, &files)),
        expect![[r#"
            Cargo.toml:4: dependencies: no crate uses `regex`: remove it here and in docs/adr/0004-dependencies.md
            Cargo.toml:5: dependencies: `tokio` has no reason: add a row to docs/adr/0004-dependencies.md
            docs/adr/0004-dependencies.md:4: dependencies: `regex` has an empty reason: say in one line why it is needed
            docs/adr/0004-dependencies.md:5: dependencies: `uuid` is no dependency of the workspace: remove the row
            crates/core/Cargo.toml:3: dependencies: `rogue` is declared here alone: put it into [workspace.dependencies] with its reason in docs/adr/0004-dependencies.md
        "#]],
    );
}

#[test]
fn a_reference_to_a_missing_file_is_found() {
    let guide = "\
See [the map](../ARCHITECTURE.md#words), [a site](https://example.org) and [here](#top).
See [nothing](missing.md), `crates/core/src/gone.rs` and `crates/core/src/`, not `crates/*/src`.
```
[not prose](also-missing.md)
```
";
    let tree = files(&[
        ("ARCHITECTURE.md", "[guide](docs/guide.md) [folder](docs/) [gone](docs/gone.md)"),
        ("docs/guide.md", guide),
        ("crates/core/src/lib.rs", ""),
    ]);
    check(
        documents::references_resolve(&tree),
        expect![[r#"
            ARCHITECTURE.md:1: references: there is no `docs/gone.md`: correct the reference or remove it
            docs/guide.md:2: references: there is no `docs/missing.md`: correct the reference or remove it
            docs/guide.md:2: references: there is no `crates/core/src/gone.rs`: correct the reference or remove it
        "#]],
    );
}

#[test]
fn the_table_of_crates_ends_where_its_lines_end() {
    let text = format!("# Map\n\n{MAP}\n| crate | another table |\n|---|---|\n| `x` | y |\n");
    let rows = crate_table(&text);
    assert_eq!(
        rows.iter().map(super::tree::Row::name).collect::<Vec<_>>(),
        ["contract", "core", "runtime", "daemon"]
    );
    assert_eq!(rows[2].line, 7);
    assert_eq!(rows[2].names(2), ["contract", "core"]);
    assert_eq!(rows[0].names(3), Vec::<&str>::new());
}

const STATEMENTS: &str = "\
# Resilience

| | promise | tests |
|---|---|---|
| LIM-1 | One more is refused. | `lim_01_one_more_is_refused` |
| LIM-2 | Runs take turns. | `lim_02_an_old_name` |
| LIM-3 | Places come back. |  |
";

const STATEMENT_TESTS: &str = "\
#[test]
fn lim_01_one_more_is_refused() {}
#[tokio::test]
async fn lim_02_and_04_runs_take_turns() {}
fn lime_03_is_no_statement() {}
";

#[test]
fn a_statement_and_its_tests_come_together() {
    let tree = files(&[("docs/resilience.md", STATEMENTS), ("crates/core/src/tests.rs", STATEMENT_TESTS)]);
    let findings = statements::every_statement_has_its_tests(&tree);
    let (ours, others): (Vec<_>, Vec<_>) =
        findings.into_iter().partition(|finding| finding.text.contains("LIM"));
    assert_eq!(others.len(), 24 + 15 + 22 + 11 + 6, "every other statement lacks its row");
    check(
        ours,
        expect![[r#"
            docs/resilience.md:6: statements: the tests of LIM-2 are others now: run `cargo xtask statements`
            docs/resilience.md:7: statements: LIM-3 has no test: name one `lim_03_…`
            docs/resilience.md:1: statements: LIM-4 has no row: say what it promises and how it is tested
            docs/resilience.md:1: statements: LIM-4 has no row and yet the test `lim_02_and_04_runs_take_turns`
        "#]],
    );
    let rewritten = statements::rewritten(&tree);
    assert!(
        rewritten.contains("| LIM-2 | Runs take turns. | `lim_02_and_04_runs_take_turns` |\n"),
        "{rewritten}"
    );
    assert!(rewritten.starts_with("# Resilience\n\n| | promise"), "{rewritten}");
}

/// Every Rust file below a folder of the workspace, with its text.
fn sources_below(folder: &str) -> Vec<(String, String)> {
    let mut folders = vec![std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder)];
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push((path.display().to_string(), std::fs::read_to_string(path).unwrap()));
            }
        }
    }
    sources
}

#[test]
fn tst_03_tests_of_resilience_sleep_on_no_real_clock() {
    for (path, text) in sources_below("crates/core/src") {
        assert!(!text.contains("sleep("), "{path}: decisions know no sleep");
    }
    for (path, text) in
        sources_below("crates/runtime/src").into_iter().filter(|(path, _)| path.contains("tests"))
    {
        // Threads that are really blocked are what two tests are about.
        let blocking = text.matches("thread::sleep(").count();
        assert!(
            blocking == 0 || path.ends_with("lifecycle.rs") || path.contains("/supervision/"),
            "{path}: a real sleep"
        );
        let mut clock = "";
        for line in text.lines() {
            if line.contains("#[tokio::test") {
                clock = line;
            }
            let sleeps = line.contains("time::sleep(");
            let paused = clock.is_empty() || clock.contains("start_paused") || clock.contains("multi_thread");
            assert!(!sleeps || paused, "{path}: {line}: a sleep on the real clock");
        }
    }
}

#[test]
fn the_page_of_cases_is_what_the_files_say() {
    let case = "title = \"a | b\"\nelsewhere = \"Bad.\"\nhere = \"Good.\"\n[[run]]\nstop = \"completed\"\n";
    let tree = files(&[("tests/cases/c/c01.toml", case), ("tests/Cargo.toml", "")]);
    let page = cases::written(&tree).unwrap();
    let table = page.split_once("\n## ").unwrap().1;
    expect![[r"
        Names of tools

        | case | what comes | elsewhere | here |
        |---|---|---|---|
        | c01 | a \| b | Bad. | Good. |
    "]]
    .assert_eq(table);
    let text = cases::the_page_is_current(&tree)[0].to_string();
    assert!(text.contains("run `cargo xtask cases`"), "{text}");
    let current = files(&[("tests/cases/c/c01.toml", case), ("docs/cases.md", &page)]);
    assert_eq!(cases::the_page_is_current(&current), []);
    let misplaced = files(&[("tests/cases/c/x01.toml", case)]);
    assert!(cases::the_page_is_current(&misplaced)[0].to_string().contains("put it at"));
}
