//! The corpora of the fuzz targets as ordinary tests, on the ordinary compiler.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::properties;

fn fuzz() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz")
}

fn names(folder: &str) -> BTreeSet<String> {
    let entries = fuzz().join(folder).read_dir().unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Holds one property against every input of its corpus.
#[track_caller]
fn check(target: &str) {
    let (_, holds) = properties::ALL.into_iter().find(|(name, _)| *name == target).unwrap();
    for input in names(&format!("corpus/{target}")) {
        let path = fuzz().join("corpus").join(target).join(input);
        let bytes = std::fs::read(&path).unwrap();
        let held = std::panic::catch_unwind(|| holds(&bytes));
        assert!(held.is_ok(), "{} breaks the property `{target}`", path.display());
    }
}

#[test]
fn what_a_model_wrote_is_admitted_to_the_last_digit_or_answered() {
    check("arguments");
}

#[test]
fn however_a_provider_sends_a_reply_it_is_the_same_reply() {
    check("assembler");
}

#[test]
fn a_conversation_from_elsewhere_becomes_one_that_providers_take() {
    check("history");
}

#[test]
fn no_secret_is_read_in_what_was_redacted() {
    check("redact");
}

#[test]
fn models_and_tools_wait_as_long_as_the_server_asked() {
    check("retry_after");
}

#[test]
fn no_schema_harms_another_tool_or_takes_for_ever() {
    check("schema");
}

#[test]
fn every_target_has_its_property_and_its_corpus() {
    let properties: BTreeSet<String> = properties::ALL.iter().map(|(name, _)| (*name).to_owned()).collect();
    let targets = names("fuzz_targets").iter().map(|name| name.trim_end_matches(".rs").to_owned()).collect();
    assert_eq!(properties, targets);
    assert_eq!(properties, names("corpus"));
}
