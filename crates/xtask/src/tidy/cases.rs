//! The table of docs/cases.md, written from the case files.
//!
//! A case says in its own file what goes wrong elsewhere and what happens here. The table is those
//! words, so it can be no better and no worse than what is tested; a reader of it needs no TOML.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Finding;
use super::tree::Tree;

pub(super) const DOCUMENT: &str = "docs/cases.md";

/// Where the case files are, by the letter of their kind.
const FOLDER: &str = "tests/cases/";

/// The kinds, by the letter that the ids begin with.
const KINDS: [(char, &str); 6] = [
    ('a', "What models write"),
    ('b', "Conversations"),
    ('c', "Names of tools"),
    ('d', "Schemas and arguments"),
    ('e', "Failures"),
    ('h', "Many agents"),
];

const INTRODUCTION: &str = "\
# Cases

Each case is a file in `tests/cases`: what a provider sends, what the tools do, what happens from outside, and what must
come of it. All run through the real loop, whole and streamed where both are possible, many by the Responses API as well
(`responses = true`), against a provider that refuses an invalid conversation (`tests/cases/main.rs`). In every case,
besides what the table says: no request is refused, every call is answered once and in order, nothing that may not be
repeated happens twice, nothing is left behind, and no key leaves by any exit.

To add a case, add a file; `cargo xtask cases` writes this page.
";

/// What the table shows of a file. The rest is for the runner.
#[derive(Deserialize)]
struct Head {
    title: String,
    elsewhere: String,
    here: String,
}

pub(super) fn the_page_is_current(tree: &Tree) -> Vec<Finding> {
    match written(tree) {
        Err(finding) => vec![finding],
        Ok(page) if page == tree.text(DOCUMENT) => Vec::new(),
        Ok(_) => {
            let text = "is not what the case files say: run `cargo xtask cases`".to_owned();
            vec![Finding::new(DOCUMENT, 1, "cases", text)]
        }
    }
}

/// The page as it has to be.
pub(super) fn written(tree: &Tree) -> Result<String, Finding> {
    let mut rows: BTreeMap<char, String> = BTreeMap::new();
    for (path, text) in cases(tree) {
        let mistake = |text: String| Finding::new(path, 1, "cases", text);
        let head: Head = toml::from_str(text).map_err(|error| mistake(error.to_string()))?;
        let name = path.rsplit('/').next().unwrap_or_default();
        let id = name.trim_end_matches(".toml");
        let kind = id.chars().next().unwrap_or_default();
        if !KINDS.iter().any(|(letter, _)| *letter == kind) || path != format!("{FOLDER}{kind}/{name}") {
            return Err(mistake(format!(
                "put it at `{FOLDER}{kind}/{name}`, where the letter is that of a kind"
            )));
        }
        let row = [id, &head.title, &head.elsewhere, &head.here].map(cell).join(" | ");
        rows.entry(kind).or_default().push_str(&format!("| {row} |\n"));
    }
    let mut page = INTRODUCTION.to_owned();
    for (letter, title) in KINDS {
        let Some(rows) = rows.get(&letter) else { continue };
        page.push_str(&format!(
            "\n## {title}\n\n| case | what comes | elsewhere | here |\n|---|---|---|---|\n{rows}"
        ));
    }
    Ok(page)
}

fn cases(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    let files = tree.files.iter().map(|(path, text)| (path.as_str(), text.as_str()));
    files.filter(|(path, _)| path.starts_with(FOLDER) && path.ends_with(".toml"))
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
