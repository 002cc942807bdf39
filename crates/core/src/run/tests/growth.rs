//! What is written for a run grows with what is new in it, and with nothing else.

use super::*;

const TOKEN_BYTES: usize = 4;

/// The bytes of the events, as a journal has them.
fn journaled(events: &[(Timestamp, RunEvent)]) -> usize {
    events.iter().map(|(_, event)| serde_json::to_string(event).unwrap().len()).sum()
}

#[test]
fn dur_17_a_hundred_calls_in_a_large_conversation_are_journaled_as_what_is_new() {
    let limits = RunLimits { turns: 200, ..RunLimits::default() };
    let mut scene = Scene::with(limits, PanicPolicy::Observe);
    let earlier = 200_000 * TOKEN_BYTES;
    for n in 0..earlier / 32_000 {
        let arguments = json!({ "q": format!("chapter {n}") }).to_string();
        scene.asks(&[("find", &arguments)]).ends(0, Ok(&format!("{n}: {}", "It was so. ".repeat(2900))));
    }
    assert!(scene.machine.snapshot().len() > earlier * 9 / 10);
    let before = scene.events.len();
    let mut content = 0;
    for n in 0..100 {
        let arguments = json!({ "q": format!("what is the {n}th of them?") }).to_string();
        let found = format!("The {n}th of them, in a few words that a tool gives. ").repeat(20);
        content += "find".len() + arguments.len() + found.len();
        scene.asks(&[("find", &arguments)]).ends(0, Ok(&found));
    }
    let written = journaled(&scene.events[before..]);
    assert!(written < 2 * content, "{written} bytes for {content} bytes of content");
    assert_eq!(scene.machine.totals().tool_calls, 125);
}

#[test]
fn a_snapshot_is_due_after_two_hundred_events_or_as_much_as_the_last_one_holds() {
    let small = RunEvent::TimerFired { timer: RunTimer::Settle };
    let mut pace = SnapshotPace::after(0);
    for _ in 0..199 {
        pace.saw(&small);
    }
    assert!(!pace.is_due());
    pace.saw(&small);
    assert!(pace.is_due());

    let large = RunEvent::ModelReplied {
        turn: 1,
        model: 0,
        reply: ModelReply::text("x".repeat(100 * 1024)),
        attempts: 1,
    };
    for (snapshot_bytes, events) in [(0, 3), (100 * 1024, 3), (1024 * 1024, 11)] {
        let mut pace = SnapshotPace::after(snapshot_bytes);
        let due = (1..).find(|_| {
            pace.saw(&large);
            pace.is_due()
        });
        assert_eq!(due, Some(events), "after a snapshot of {snapshot_bytes} bytes");
    }
}
