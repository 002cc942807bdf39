//! What may not be reached from where: the promise that `core` decides and touches nothing.
//!
//! Two views of it: the packages in the dependency trees of `contract` and `core`, and words in the
//! sources. Words are found by their text, so an alias can hide one; a review sees aliases.

use super::Finding;
use super::tree::{PURE, Tree};

/// Packages that open sockets, run tasks, read clocks or draw random numbers.
const IMPURE: [&str; 14] = [
    "async-openai",
    "async-std",
    "axum",
    "getrandom",
    "hyper",
    "mio",
    "native-tls",
    "ractor",
    "rand",
    "reqwest",
    "rustls",
    "smol",
    "socket2",
    "tokio",
];

/// An impure package that is in the tree of `core` all the same.
struct Tolerated {
    /// The name and the start of the version.
    package: &'static str,
    /// The package of the tree that brings it in.
    through: &'static str,
}

/// `backoff` draws from `rand`, and `core` never looks at what it drew; `jsonschema` seeds its hash
/// maps. Neither reaches a decision.
const TOLERATED: [Tolerated; 3] = [
    Tolerated { package: "rand v0.8.", through: "backoff" },
    Tolerated { package: "getrandom v0.2.", through: "backoff" },
    Tolerated { package: "getrandom v0.3.", through: "jsonschema" },
];

pub(super) fn the_dependencies_of_decisions_do_nothing(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (root, printed) in &tree.pure {
        for path in paths_of(printed).into_iter().filter(|path| is_impure(path)) {
            let text = format!(
                "`{root}` reaches {}: decisions touch nothing; drop the dependency or the feature that brings it",
                path.join(" > "),
            );
            let manifest = format!("crates/{root}/Cargo.toml");
            let direct = path.get(1).map_or("", |package| name_of(package));
            let line = tree.line_of_dependency(&manifest, direct);
            findings.push(Finding::new(&manifest, line, "pure-tree", text));
        }
    }
    findings
}

/// The way from the root to each package, once for each package, as `name version`.
fn paths_of(printed: &str) -> Vec<Vec<&str>> {
    let mut path = Vec::new();
    let mut paths = Vec::new();
    for line in printed.lines().filter(|line| !line.ends_with(" (*)")) {
        let package = line.trim_start_matches(|c: char| c.is_ascii_digit());
        let depth: usize = line[..line.len() - package.len()].parse().unwrap_or_default();
        let package = package.split_once(" (").map_or(package, |(package, _)| package);
        path.truncate(depth);
        path.push(package);
        paths.push(path.clone());
    }
    paths
}

/// Whether the path ends at a package that is impure and not tolerated on this way.
fn is_impure(path: &[&str]) -> bool {
    let Some(last) = path.last() else { return false };
    let tolerated = TOLERATED.iter().any(|tolerated| {
        last.starts_with(tolerated.package)
            && path.iter().any(|package| name_of(package) == tolerated.through)
    });
    IMPURE.contains(&name_of(last)) && !tolerated
}

/// The name in `name version`.
fn name_of(package: &str) -> &str {
    package.split(' ').next().unwrap_or(package)
}

/// Words that some crates do not write.
pub(super) struct Ban {
    pub(super) crates: &'static [&'static str],
    pub(super) words: &'static [&'static str],
    pub(super) way_out: &'static str,
    /// Files that may, each with the reason.
    pub(super) except: &'static [(&'static str, &'static str)],
}

const LIBRARIES: &[&str] =
    &["contract", "core", "runtime", "macros", "models", "tools", "journal", "dauntless", "testkit"];

const BANS: [Ban; 7] = [
    Ban {
        crates: PURE,
        words: &["Instant::now", "SystemTime"],
        way_out: "time comes in as an argument: take a `Timestamp`",
        except: &[],
    },
    Ban {
        crates: PURE,
        words: &["thread_rng", "rand::", "getrandom::"],
        way_out: "chance comes in as an argument: take a seed or a number",
        except: &[],
    },
    Ban {
        crates: PURE,
        words: &["fs::", "net::", "process::", "thread::", "tokio::"],
        way_out: "return an effect and let `runtime` or an adapter carry it out",
        except: &[],
    },
    Ban {
        crates: &["core"],
        words: &["HashMap", "HashSet"],
        way_out: "equal runs must compare and print equal: take `BTreeMap` or `BTreeSet`",
        except: &[],
    },
    Ban {
        crates: LIBRARIES,
        words: &[
            "env::args",
            "env::current_dir",
            "env::temp_dir",
            "env::var",
            "env::var_os",
            "env::vars",
            "env::vars_os",
        ],
        way_out: "a library takes what it needs as an argument; `daemon` and `cli` read the environment",
        except: &[("crates/dauntless/src/env.rs", "`from_env`: the caller asks for the environment by name")],
    },
    Ban {
        crates: LIBRARIES,
        words: &["anyhow::"],
        way_out: "give the error a type: a `Failure` for the world, a thiserror enum for misuse",
        except: &[],
    },
    Ban {
        crates: &[
            "contract",
            "core",
            "runtime",
            "macros",
            "models",
            "journal",
            "dauntless",
            "daemon",
            "cli",
            "testkit",
        ],
        words: &["process::Command"],
        way_out: "only `tools` starts processes, because it also knows how to end them",
        except: &[],
    },
];

pub(super) fn sources_stay_pure(tree: &Tree) -> Vec<Finding> {
    banned_words(tree, &BANS)
}

pub(super) fn banned_words(tree: &Tree, bans: &[Ban]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.sources() {
        let bans = bans.iter().filter(|ban| {
            let inside = |name: &&str| path.starts_with(&format!("crates/{name}/src/"));
            ban.crates.iter().any(inside) && !ban.except.iter().any(|(file, _)| *file == path)
        });
        for ban in bans {
            for (line, code) in code_lines(text) {
                findings.extend(ban.words.iter().filter(|word| has_word(code, word)).map(|word| {
                    Finding::new(path, line, "pure-source", format!("`{word}`: {}", ban.way_out))
                }));
            }
        }
    }
    findings
}

pub(super) fn one_file_names_backoff(tree: &Tree) -> Vec<Finding> {
    let core = tree
        .sources()
        .filter(|(path, _)| path.starts_with("crates/core/src/") && !path.ends_with("/backoff.rs"));
    core.flat_map(|(path, text)| {
        code_lines(text).filter(|(_, code)| names_crate(code, "backoff")).map(move |(line, _)| {
            let text = "only the file backoff.rs of core names the crate `backoff`; for a module of that name \
                        write `self::backoff` or `crate::…::backoff`";
            Finding::new(path, line, "backoff", text.to_owned())
        })
    })
    .collect()
}

/// The lines with their numbers, without comments that end a line.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| {
        let comment = line.match_indices("//").map(|(at, _)| at).find(|at| !line[..*at].ends_with(':'));
        (index + 1, &line[..comment.unwrap_or(line.len())])
    })
}

/// Whether the code has the word, and not as a part of a longer name.
fn has_word(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + word.len()..]);
        let open_end = word.ends_with(is_name) && after.starts_with(is_name);
        !before.ends_with(is_name) && !open_end
    })
}

/// Whether the code writes a path that starts at the crate of that name.
fn names_crate(code: &str, name: &str) -> bool {
    let path = format!("{name}::");
    code.match_indices(&path).any(|(at, _)| {
        let before = &code[..at];
        match before.strip_suffix("::") {
            Some(parent) => !parent.ends_with(is_name),
            None => !before.ends_with(is_name),
        }
    })
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
