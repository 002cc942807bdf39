use dauntless_contract::FailureCode;
use proptest::prelude::*;

use super::*;

fn by(name: &str) -> Arc<str> {
    name.into()
}

#[test]
fn a_note_is_changed_only_by_whoever_has_read_it() {
    let mut notes = Notes::default();
    assert_eq!(notes.write(&by("a"), "plan", 0, &"one".into()), Ok(1));
    assert_eq!(notes.write(&by("b"), "plan", 1, &"two".into()), Ok(2));
    let refused = notes.write(&by("a"), "plan", 1, &"three".into()).unwrap_err();
    assert_eq!(refused.code, FailureCode::Conflict);
    assert_eq!(
        &*refused.message,
        "The note `plan` was not changed: it is at version 2 by now, written by `b`, and not at 1."
    );
    assert_eq!(&*notes.get("plan").unwrap().text, "two");
    assert_eq!(notes.write(&by("a"), "plan", 0, &"new".into()).unwrap_err().code, FailureCode::Conflict);
}

#[test]
fn a_version_never_comes_back() {
    let mut notes = Notes::default();
    notes.write(&by("a"), "plan", 0, &"one".into()).unwrap();
    notes.remove("plan", 1).unwrap();
    assert_eq!(notes.remove("plan", 1).unwrap_err().code, FailureCode::NotFound);
    assert_eq!(notes.write(&by("a"), "plan", 0, &"one".into()), Ok(3));
    assert_eq!(notes.write(&by("a"), "plan", 1, &"late".into()).unwrap_err().code, FailureCode::Conflict);
}

#[test]
fn what_cannot_be_kept_is_refused_and_changes_nothing() {
    let mut notes = Notes::default();
    let long: Arc<str> = "x".repeat(NOTE_BYTES_MAX + 1).into();
    assert_eq!(notes.write(&by("a"), "n", 0, &long).unwrap_err().code, FailureCode::TooLarge);
    assert_eq!(notes.write(&by("a"), "a b", 0, &"x".into()).unwrap_err().code, FailureCode::InvalidArguments);
    for n in 0..NOTES_MAX {
        notes.write(&by("a"), &format!("n{n}"), 0, &"x".into()).unwrap();
    }
    let full = notes.clone();
    assert_eq!(notes.write(&by("a"), "more", 0, &"x".into()).unwrap_err().code, FailureCode::TooLarge);
    assert_eq!(notes, full);
    assert!(notes.write(&by("a"), "n0", 1, &"y".into()).is_ok(), "a change needs no further place");
}

proptest! {
    #[test]
    fn of_several_who_read_the_same_version_one_wins(
        steps in prop::collection::vec((0..3usize, 0..4u64, any::<bool>()), 1..60),
    ) {
        let mut notes = Notes::default();
        for (name, back, removes) in steps {
            let name = ["a", "b", "c"][name];
            let found = notes.get(name).map_or(0, |note| note.version);
            let read = found.saturating_sub(back);
            let before = notes.clone();
            let changed = if removes {
                notes.remove(name, read).is_ok()
            } else {
                notes.write(&by("w"), name, read, &"x".into()).is_ok()
            };
            prop_assert_eq!(changed, read == found && !(removes && found == 0));
            prop_assert!(changed || notes == before);
            let kept: Notes = serde_json::from_str(&serde_json::to_string(&notes).unwrap()).unwrap();
            prop_assert_eq!(&kept, &notes);
        }
    }
}
