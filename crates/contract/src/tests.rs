use std::sync::Arc;
use std::time::Duration;

use super::*;

#[test]
fn every_code_has_its_name_and_comes_back_from_it() {
    for code in FailureCode::ALL {
        assert_eq!(code.as_str().parse(), Ok(code));
        assert_eq!(serde_json::to_string(&code).unwrap(), format!("\"{code}\""));
    }
}

#[test]
fn json_keeps_every_digit() {
    let text = r#"{"n":123456789012345678901234567890,"x":0.10}"#;
    let json = Json::parse(text).unwrap();
    let back: Json = serde_json::from_str(&serde_json::to_string(&json).unwrap()).unwrap();
    assert_eq!(back.as_str(), text);
}

#[test]
fn events_survive_the_journal() {
    let event = RunEvent::CallEnded {
        call: CallKey { turn: 1, index: 0 },
        record: CallRecord {
            verdict: CallVerdict::Failed(
                Failure::rate_limited("Slow down.")
                    .retry_after(Duration::from_secs(7))
                    .schema(Json::parse(r#"{"a":1e2}"#).unwrap())
                    .source("token=abc"),
            ),
            attempts: 3,
            waited: Duration::from_millis(1500),
            stopped_by: Some(StoppedBy::MaxAttempts),
            out_for: Some(Duration::from_secs(5)),
            by: Some("other".into()),
        },
    };
    let text = serde_json::to_string(&event).unwrap();
    assert!(!text.contains("token=abc"), "the raw cause stays out of the journal: {text}");
    let back: RunEvent = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&back).unwrap(), text);
}

#[test]
fn a_start_that_names_no_tools_is_read_and_an_interruption_has_room() {
    let text = r#"{"run_started":{"agent":"a","goal":"g","limits":{"turns":1,"tokens":1,"cost":1,"wall_clock":{"secs":1,"nanos":0},"tool_calls":1,"depth":1}}}"#;
    let event: RunEvent = serde_json::from_str(text).unwrap();
    let RunEvent::RunStarted { tools, limits, lineage, .. } = &event else { panic!("{event:?}") };
    assert!(tools.is_empty() && lineage.is_none());
    let RunLimits { children, children_at_once, .. } = RunLimits::default();
    assert_eq!((limits.children, limits.children_at_once), (children, children_at_once));
    let written = serde_json::to_string(&event).unwrap();
    assert_eq!(written.replace(r#","children":100,"children_at_once":16"#, ""), text);
    assert_eq!(serde_json::to_string(&RunEvent::Interrupted {}).unwrap(), r#"{"interrupted":{}}"#);
    assert_eq!(serde_json::from_str::<RunEvent>(r#"{"interrupted":{}}"#).unwrap(), RunEvent::Interrupted {});
}

#[test]
fn a_history_never_holds_a_call_without_its_answer() {
    let mut history = History::open(&Arc::from(" "), &Arc::from("hi"));
    let call = |id: &str| ToolCall { id: id.into(), name: "t".into(), arguments: Json::empty_object() };
    let seen = |text: &str| Observation { text: text.into() };
    history.round(Round {
        text: None,
        extra: None,
        calls: vec![(call("a"), seen("1")), (call("b"), seen("2"))],
    });
    history.answer("".into(), None);
    let shape: Vec<String> = history
        .messages()
        .iter()
        .map(|message| match message {
            Message::System { .. } => "system".into(),
            Message::User { text } => format!("user {text}"),
            Message::Assistant { calls, .. } => format!("calls {}", calls.len()),
            Message::Tool { call_id, text, .. } => format!("tool {call_id}={text}"),
        })
        .collect();
    assert_eq!(shape, ["user hi", "calls 2", "tool a=1", "tool b=2"]);
}

#[test]
fn prices_round_up() {
    let price =
        Price { input_per_million: MicroUsd(3), output_per_million: MicroUsd(2_000_000), ..Price::default() };
    let usage = Usage::new(Tokens(1), Tokens(10));
    assert_eq!(price.of(usage), MicroUsd(1 + 20));
}

#[test]
fn a_spec_that_no_provider_takes_is_refused_by_name() {
    let spec = ToolSpec::new("a b", "x", serde_json::json!({"type": "object"}));
    assert_eq!(
        spec.check().unwrap_err().to_string(),
        "tool name `a b` is not allowed: use 1 to 64 of a-z, A-Z, 0-9, `_` and `-`"
    );
    let spec = ToolSpec::new("a", "x", serde_json::json!({"type": "array"}));
    assert!(spec.check().unwrap_err().to_string().contains("type `array`"));
}

#[test]
fn any_error_becomes_a_failure_that_hides_its_text() {
    fn tool() -> Result<(), Failure> {
        Err(std::io::Error::other("postgres://admin:pw@db.internal refused"))?
    }
    let failure = tool().unwrap_err();
    assert_eq!(failure.code, FailureCode::ToolError);
    assert!(!failure.message.contains("db.internal"));
    assert!(failure.source.unwrap().contains("db.internal"));
}

#[test]
fn a_letter_says_what_was_put_into_it() {
    let call = CallKey { turn: 2, index: 1 };
    let answer = LetterContent::Answer { call, text: "yes".into() };
    assert_eq!(LetterContent::read(&answer.letter("m1")).unwrap(), answer);
    assert!(LetterContent::read(&Letter { id: "m2".into(), body: Arc::from(&b"{\"new\":1}"[..]) }).is_err());
}
