use dauntless_contract::{AppendError, EventProblem, Recorded, RunEvent, Timestamp};
use serde_json::json;

use super::{Upcast, decode, decode_with, encode_batch, kinds};

fn recorded(by: &str) -> Recorded {
    Recorded { at: Timestamp::ZERO, event: RunEvent::CancelRequested { by: by.into() } }
}

#[test]
fn an_event_is_stored_as_its_kind_and_its_body() {
    let stored = encode_batch(&[recorded("ann")]).unwrap();
    assert_eq!((stored[0].kind, stored[0].version), ("cancel_requested", 1));
    assert_eq!(stored[0].body, br#"{"by":"ann"}"#);
    assert_eq!(decode("cancel_requested", 1, &stored[0].body).unwrap(), recorded("ann").event);
}

#[test]
fn the_kinds_are_those_of_the_type() {
    assert!(kinds().contains(&"run_started") && kinds().contains(&"call_ended"), "{:?}", kinds());
}

#[test]
fn a_large_body_is_compressed_and_comes_back_whole() {
    let event = recorded(&"word ".repeat(1000));
    let stored = encode_batch(std::slice::from_ref(&event)).unwrap();
    assert!(stored[0].body.len() < 100, "{} bytes", stored[0].body.len());
    assert_eq!(decode(stored[0].kind, 1, &stored[0].body).unwrap(), event.event);
}

#[test]
fn dur_25_an_old_version_is_brought_up_step_by_step() {
    let upcasts = [
        Upcast { kind: "cancel_requested", from: 1, step: |old| json!({ "who": old["user"] }) },
        Upcast { kind: "cancel_requested", from: 2, step: |old| json!({ "by": old["who"] }) },
    ];
    let read = |version, body: &str| decode_with("cancel_requested", version, body.as_bytes(), &upcasts);
    for (version, body) in [(1, r#"{"user":"ann"}"#), (2, r#"{"who":"ann"}"#), (3, r#"{"by":"ann"}"#)] {
        assert_eq!(read(version, body).unwrap(), recorded("ann").event, "version {version}");
    }
    let newer = read(4, "{}").unwrap_err();
    assert_eq!(newer.to_string(), "`cancel_requested` is stored as version 4, this program reads up to 3");
}

/// One line for each kind and version that a release has written: never change one, only add.
const GOLDEN: &str = include_str!("golden.jsonl");

#[test]
fn dur_23_every_event_that_was_ever_written_is_still_read() {
    for line in GOLDEN.lines() {
        let stored: serde_json::Value = serde_json::from_str(line).unwrap();
        let (kind, version) = (stored["kind"].as_str().unwrap(), stored["v"].as_u64().unwrap());
        let read = decode(kind, u16::try_from(version).unwrap(), stored["body"].to_string().as_bytes());
        assert!(read.is_ok(), "{kind} {version}: {read:?}");
        let again = encode_batch(&[Recorded { at: Timestamp::ZERO, event: read.unwrap() }]).unwrap();
        assert_eq!(again[0].kind, kind);
    }
    for kind in kinds() {
        let start = format!(r#"{{"kind":"{kind}","#);
        assert!(GOLDEN.lines().any(|line| line.starts_with(&start)), "golden.jsonl lacks a line of `{kind}`");
    }
}

#[test]
fn dur_24_what_is_unknown_is_refused_by_name() {
    assert_eq!(decode("run_teleported", 1, b"{}"), Err(EventProblem::UnknownKind("run_teleported".into())));
    assert!(matches!(
        decode("cancel_requested", 2, b"{}"),
        Err(EventProblem::NewerVersion { newest: 1, .. })
    ));
    assert!(matches!(decode("cancel_requested", 1, b"{}"), Err(EventProblem::Malformed { .. })));
    assert!(matches!(decode("cancel_requested", 1, &[0x28, 0, 1]), Err(EventProblem::Malformed { .. })));
}

#[test]
fn dur_26_an_event_out_of_order_is_refused_before_it_is_written() {
    let later = Recorded { at: Timestamp::from_micros(5), ..recorded("a") };
    let refused = encode_batch(&[later, recorded("b")]);
    assert!(matches!(refused, Err(AppendError::Invalid { index: 1, problem: EventProblem::Earlier(_) })));
}

#[test]
fn dur_21_what_is_too_large_is_refused_before_it_is_written() {
    let cases = [
        (vec![recorded(&"x".repeat(1 << 20))], "an event has 1048585 bytes"),
        (vec![recorded("x"); 1025], "a batch has 1025 events"),
        (vec![recorded(&"x".repeat(1_000_000)); 5], "a batch has 5000045 bytes"),
    ];
    for (batch, start) in cases {
        let refused = encode_batch(&batch).unwrap_err().to_string();
        assert!(refused.starts_with(start), "{refused}");
        assert!(refused.ends_with("keep large content elsewhere and store a reference"), "{refused}");
    }
}
