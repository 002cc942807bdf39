//! Answers of a shape, and questions that a person answers at a terminal.

use std::fs::File;
use std::io::Write as _;

use dauntless_contract::{Progress, StopReason};
use dauntless_testkit::{Call, Reply, Script};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::json;

use super::{Folder, Ran, provider};

/// The configuration of a clerk with these further keys.
fn configure(folder: &Folder, url: &str, keys: &str) {
    folder.write(
        "dauntless.toml",
        &format!(
            "[model]\nprovider = \"openai\"\nname = \"m\"\nbase_url = \"{url}\"\n\
             [agents.clerk]\ninstructions = \"Work.\"\n{keys}\n"
        ),
    );
}

const SHAPE: &str =
    "answer = { type = \"object\", required = [\"n\"], properties = { n = { type = \"integer\" } } }";

#[test]
fn an_answer_fits_or_is_asked_for_again() {
    let folder = Folder::new();
    let provider = provider(Script::by_turn([Reply::text("Three."), Reply::text("{\"n\": \"3\"}")]));
    configure(&folder, &provider.url(), SHAPE);
    folder.run(&["run", "How many?"]).assert(0, "{\"n\":3}\n", "");
    let sent = provider.recorded();
    assert!(sent[1].last_text().unwrap().starts_with("Your answer is not valid JSON"));
    provider.assert_clean();
}

#[test]
fn an_answer_that_never_fits_ends_with_an_exit_code_of_its_own() {
    let folder = Folder::new();
    let provider = provider(Script::always(Reply::text("Three.")));
    configure(&folder, &provider.url(), &format!("{SHAPE}\nanswer_reasks = 0"));
    let ran = folder.run(&["run", "--json", "How many?"]);
    assert_eq!(ran.code, Some(17), "{ran:?}");
    let last: Progress = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
    let Progress::RunEnded { outcome } = last else { panic!("{last:?}") };
    assert_eq!((&outcome.reason, outcome.answer()), (&StopReason::MalformedOutput, None));
    assert!(ran.err.contains("The answer is not valid JSON"), "{ran:?}");
}

#[test]
fn a_schema_that_cannot_be_used_is_told_by_check() {
    let folder = Folder::new();
    folder.write("shape.json", "false");
    configure(&folder, "http://127.0.0.1:9/v1", "answer_file = \"shape.json\"\nask_user = true");
    let ran = folder.run(&["check"]);
    assert_eq!(ran.code, Some(78), "{ran:?}");
    assert!(ran.err.contains("allows no value at all"), "{ran:?}");
}

fn question() -> Script {
    let asked = json!({ "question": "Which colour?", "choices": ["red", "blue"] });
    Script::by_turn([Reply::calls([Call::new("ask_user", &asked)]), Reply::text("As you say.")])
}

#[test]
fn a_person_at_a_terminal_is_asked_and_the_run_goes_on() {
    let (folder, provider) = (Folder::new(), provider(question()));
    configure(&folder, &provider.url(), "ask_user = true");
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let terminal = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let mut command = folder.command(&["run", "Paint it."]);
    command.stdin(File::from(terminal));
    let child = command.spawn().unwrap();
    let mut keys = File::from(master);
    keys.write_all(b"2\n").unwrap();
    let ran = Ran::wait(child);
    assert_eq!((ran.code, &*ran.out), (Some(0), "As you say.\n"), "{ran:?}");
    assert!(ran.err.contains("The agent asks: Which colour?\n  1. red\n  2. blue\n"), "{ran:?}");
    let told = provider.recorded().pop().unwrap();
    assert_eq!(told.last_text(), Some(r#"{"answer":"blue","answered_by":"user"}"#));
    provider.assert_clean();
}

#[test]
fn without_a_terminal_nobody_is_asked() {
    let (folder, provider) = (Folder::new(), provider(question()));
    configure(&folder, &provider.url(), "ask_user = true");
    folder.run(&["run", "Paint it."]).assert(0, "As you say.\n", "");
    let told = provider.recorded().pop().unwrap();
    assert!(told.last_text().unwrap().contains("Nobody is there"), "{:?}", told.last_text());
    provider.assert_clean();
}
