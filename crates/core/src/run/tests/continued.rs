//! A run that continues a conversation from elsewhere.

use super::*;

#[test]
fn a_run_continues_a_repaired_conversation_and_its_journal_folds_to_the_same() {
    let stored = json!([
        { "role": "system", "content": "You are another." },
        { "role": "user", "content": "Pay it." },
        { "role": "assistant", "tool_calls": [
            { "id": "c1", "type": "function", "function": { "name": "pay", "arguments": "{\"q\": \"key sk-abcdefghijklmnopqrstuvwxyz012345" } }
        ] },
    ]);
    let past = History::repair(stored.as_array().unwrap());
    let fresh = Scene::new();
    let spec = Arc::clone(&fresh.machine.spec);
    let mut scene =
        Scene { machine: RunMachine::new(RunId::from_u128(1), spec), events: Vec::new(), ..fresh };
    let started = RunEvent::RunStarted {
        agent: "a".into(),
        goal: "Did it work?".into(),
        limits: RunLimits::default(),
        history: past.history,
        repairs: past.repairs,
        attendance: Attendance::Unattended,
        tools: Vec::new(),
        lineage: None,
    };
    let effects = scene.machine.on(scene.now, started.clone());
    scene.events.push((scene.now, started));
    let repaired = effects.iter().find_map(|effect| match effect {
        RunEffect::Report(Progress::HistoryRepaired { repairs }) => Some(repairs),
        _ => None,
    });
    let repaired = repaired.expect("what was repaired is told");
    assert_eq!(repaired.len(), 2, "broken arguments and no answer");
    assert!(!format!("{repaired:?}").contains("sk-abc"), "{repaired:?}");
    assert_eq!(scene.observation(0)["error"], "outcome_unknown");
    let shape: Vec<String> = scene
        .machine
        .history()
        .messages()
        .iter()
        .filter_map(|message| match message {
            Message::System { text } | Message::User { text } => Some(text.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(shape, ["Be good.", "Pay it.", "Did it work?"]);
    scene.turn = 1;
    scene.asks(&[("find", "{}")]).ends(0, Ok("no")).says("It did not.");
    assert_eq!(scene.machine.outcome().unwrap().reason, StopReason::Completed);
    scene.replay_is_equal();
    scene.history_is_valid();
}

#[test]
fn a_run_that_was_journaled_without_a_conversation_still_folds() {
    let old = r#"{"run_started":{"agent":"a","goal":"g","limits":{"turns":1,"tokens":1,"cost":1,"wall_clock":{"secs":1,"nanos":0},"tool_calls":1,"depth":1}}}"#;
    let event: RunEvent = serde_json::from_str(old).unwrap();
    let written =
        serde_json::to_string(&event).unwrap().replace(r#","children":100,"children_at_once":16"#, "");
    assert_eq!(written, old, "nothing is written for what is not there");
}
