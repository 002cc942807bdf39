//! The tables and the TOML of the documents say what the code does. Rust in them is a doc test.
#![expect(clippy::expect_used, reason = "a test that cannot look must fail")]

use std::path::Path;

use dauntless::{Bucket, EffectState, Failure, FailureCode};
use dauntless_daemon::config;

fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    std::fs::read_to_string(path).expect("the document is there")
}

fn toml_blocks(document: &str) -> String {
    let blocks = document.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.collect()
}

#[test]
fn every_failure_code_stands_in_the_table_with_its_bucket_and_effect() {
    let table = document("failures.md");
    for code in FailureCode::ALL {
        let bucket = match code.bucket() {
            Bucket::Transient => "transient",
            Bucket::Terminal => "terminal",
            Bucket::Recoverable => "recoverable",
            Bucket::ModelMistake => "model's mistake",
            Bucket::Defect => "defect",
            Bucket::Unknown => "unknown",
            Bucket::Harness => "harness",
            Bucket::LoopGuard => "loop guard",
        };
        let effect = match Failure::new(code, "").effect {
            EffectState::None => "none",
            EffectState::Happened => "happened",
            EffectState::Unknown => "unknown",
        };
        let row = table.lines().find(|line| line.starts_with(&format!("| `{code}` | {bucket} | ")));
        let row = row.unwrap_or_else(|| panic!("no row for {code}, {bucket}"));
        let said = row.trim_end_matches(" |").rsplit("| ").next().unwrap_or_default();
        assert!(said.starts_with(effect), "{code}: the code says {effect}, the table {said}");
    }
}

#[test]
fn the_configuration_in_the_documents_has_no_mistakes() {
    let rest = r#"
        [model]
        provider = "openai"
        name = "some-model"

        [agents.support]
        instructions = "Help."
        tools = ["order", "disk"]
    "#;
    let text = [rest, &toml_blocks(&document("writing-tools.md")), &toml_blocks(&document("telemetry.md"))];
    let config = config::parse(&text.concat(), "documents", Path::new("."));
    assert!(config.is_ok(), "{}", config.expect_err("it is none"));
}
