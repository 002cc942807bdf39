use dauntless_contract::FailureCode;
use expect_test::expect;
use proptest::prelude::*;

use super::*;

/// A change with a key of its own.
fn change(by: &str, name: &str, version: u64, text: &str) -> Change {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let key = NEXT.fetch_add(1, Ordering::Relaxed).to_string().into();
    Change { key, by: by.into(), name: name.into(), version, text: text.into() }
}

#[test]
fn a_note_is_changed_only_by_whoever_has_read_it() {
    let mut notes = Notes::default();
    assert_eq!(notes.change(change("a", "plan", 0, "one")), Ok(1));
    assert_eq!(notes.change(change("b", "plan", 1, "two \"2\"")), Ok(2));
    let refused = notes.change(change("a", "plan", 1, "three")).unwrap_err();
    assert_eq!(refused.code, FailureCode::Conflict);
    expect![[r#"The note `plan` is at version 2, written by `b`, and not at 1. It says: "two \"2\"""#]]
        .assert_eq(&refused.message);
    expect!["Put your change into what it says now, and write that with version 2."]
        .assert_eq(&refused.hint.unwrap());
    expect![[r#"{"name":"plan","text":"two \"2\"","version":2,"written_by":"b"}"#]]
        .assert_eq(&notes.read(Some("plan")).unwrap().text);
    assert_eq!(notes.change(change("a", "plan", 0, "new")).unwrap_err().code, FailureCode::Conflict);
    expect![[r#"[{"bytes":7,"name":"plan","version":2,"written_by":"b"}]"#]]
        .assert_eq(&notes.read(None).unwrap().text);
    expect!["The notes that there are: `plan`."]
        .assert_eq(&notes.read(Some("no")).unwrap_err().hint.unwrap());
}

#[test]
fn a_version_never_comes_back() {
    let mut notes = Notes::default();
    notes.change(change("a", "plan", 0, "one")).unwrap();
    assert_eq!(notes.change(change("a", "plan", 1, "")), Ok(2));
    assert_eq!(notes.change(change("a", "plan", 0, "")).unwrap_err().code, FailureCode::NotFound);
    assert_eq!(notes.change(change("a", "plan", 1, "x")).unwrap_err().code, FailureCode::Conflict);
    assert_eq!(notes.change(change("a", "plan", 0, "one")), Ok(3));
    assert_eq!(notes.change(change("a", "plan", 1, "late")).unwrap_err().code, FailureCode::Conflict);
}

#[test]
fn a_change_that_is_asked_for_again_is_made_once() {
    let mut notes = Notes::default();
    let first = change("a", "plan", 0, "one");
    assert_eq!(notes.change(first.clone()), Ok(1));
    let once = notes.clone();
    assert_eq!((notes.change(first.clone()), &notes), (Ok(1), &once));
    notes.change(change("b", "plan", 1, "two")).unwrap();
    let twice = notes.clone();
    assert_eq!((notes.change(first), &notes), (Ok(1), &twice), "not after another change either");
}

#[test]
fn what_cannot_be_kept_is_refused_and_changes_nothing() {
    let mut notes = Notes::default();
    let long = "x".repeat(NOTE_BYTES_MAX + 1);
    assert_eq!(notes.change(change("a", "n", 0, &long)).unwrap_err().code, FailureCode::TooLarge);
    assert_eq!(notes.change(change("a", "a b", 0, "x")).unwrap_err().code, FailureCode::InvalidArguments);
    for n in 0..NOTES_MAX {
        notes.change(change("a", &format!("n{n}"), 0, "x")).unwrap();
    }
    let full = notes.clone();
    assert_eq!(notes.change(change("a", "more", 0, "x")).unwrap_err().code, FailureCode::TooLarge);
    assert_eq!(notes, full);
    assert!(notes.change(change("a", "n0", 1, "y")).is_ok(), "a change needs no further place");
}

proptest! {
    #[test]
    fn of_several_who_read_the_same_version_one_wins(
        steps in prop::collection::vec((0..3usize, 0..4u64, any::<bool>()), 1..60),
    ) {
        let mut notes = Notes::default();
        for (name, back, removes) in steps {
            let name = ["a", "b", "c"][name];
            let found = notes.notes.get(name).map_or(0, |note| note.version);
            let read = found.saturating_sub(back);
            let before = notes.clone();
            let asked = change("w", name, read, if removes { "" } else { "x" });
            let changed = notes.change(asked.clone()).is_ok();
            prop_assert_eq!(changed, read == found && !(removes && found == 0));
            prop_assert!(changed || notes == before);
            let kept = Notes::from_bytes(&notes.to_bytes()).unwrap();
            prop_assert_eq!(&kept, &notes);
            prop_assert!(!changed || notes.change(asked).is_ok());
            prop_assert_eq!(&kept, &notes, "a repetition changes nothing");
        }
    }
}
