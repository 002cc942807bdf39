use std::process::Command;

use super::*;
use crate::tests::panic_of;

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("testkit-ledger-{}-{name}", std::process::id()))
}

#[test]
fn a_repeated_effect_is_caught() {
    let ledger = EffectLedger::in_memory();
    ledger.record("charge 1");
    ledger.record("charge 2");
    ledger.assert_at_most_once();
    ledger.clone().record("charge 1");
    assert_eq!((ledger.count("charge 1"), ledger.count("charge 3"), ledger.total()), (2, 0, 3));
    let message = panic_of(|| ledger.assert_at_most_once());
    assert_eq!(message, "effects happened more than once:\n  charge 1: 2 times");
}

#[test]
fn effects_of_another_process_count() {
    let path = scratch("process");
    let ledger = EffectLedger::in_file(&path).unwrap();
    ledger.record("mail to ann");
    let script = r#"echo "mail to ann" >> "$0""#;
    assert!(Command::new("sh").args(["-c", script]).arg(&path).status().unwrap().success());
    let reopened = EffectLedger::in_file(&path).unwrap();
    assert_eq!(reopened.repeated(), BTreeMap::from([("mail to ann".to_owned(), 2)]));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn writers_at_once_lose_nothing() {
    let path = scratch("threads");
    let ledger = EffectLedger::in_file(&path).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let ledger = &ledger;
            scope.spawn(move || (0..50).for_each(|n| ledger.record(&format!("{writer}/{n}"))));
        }
    });
    ledger.assert_at_most_once();
    assert_eq!(ledger.total(), 400);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_lost_ledger_is_no_clean_ledger() {
    let path = scratch("lost");
    let ledger = EffectLedger::in_file(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(panic_of(|| ledger.assert_at_most_once()).contains("cannot be used"));
}

#[test]
fn a_key_is_one_line() {
    assert!(panic_of(|| EffectLedger::in_memory().record("a\nb")).contains("one line"));
}
