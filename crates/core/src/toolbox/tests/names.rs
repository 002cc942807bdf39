//! Calls of tools that do not exist.

use super::*;

fn few() -> Toolbox {
    let any = || object(json!({}), &[]);
    toolbox(&[("read", any()), ("get_weather", any()), ("Edit", any()), ("edit", any())])
}

#[track_caller]
fn unknown(name: &str, expected: Expect) {
    expected.assert_eq(&told(&few().admit(&raw(name, r#"{"a":1}"#), None)));
}

#[test]
fn an_unknown_tool_is_answered_with_the_names_that_exist() {
    unknown(
        "transfer_money",
        expect![[r#"
        unknown_tool: There is no tool named "transfer_money", so nothing was executed.
          hint: Call one of the candidates by its exact name, or answer without a tool.
          candidates: Edit edit get_weather read
          in the history: transfer_money {"a":1}
    "#]],
    );
}

#[test]
fn a_near_name_is_suggested_and_never_called() {
    unknown(
        "get_wether",
        expect![[r#"
        unknown_tool: There is no tool named "get_wether", so nothing was executed.
          hint: The nearest name is `get_weather`; if you mean it, call it by exactly that name.
          candidates: get_weather Edit edit read
          in the history: get_wether {"a":1}
    "#]],
    );
    unknown(
        "functions.read",
        expect![[r#"
        unknown_tool: There is no tool named "functions.read", so nothing was executed.
          hint: The nearest name is `read`; if you mean it, call it by exactly that name.
          candidates: read Edit edit get_weather
          in the history: functions_read {"a":1}
    "#]],
    );
    unknown(
        " read",
        expect![[r#"
        unknown_tool: There is no tool named " read", so nothing was executed.
          hint: The nearest name is `read`; if you mean it, call it by exactly that name.
          candidates: read Edit edit get_weather
          in the history: read {"a":1}
    "#]],
    );
    unknown(
        "read<|channel|>commentary",
        expect![[r#"
        unknown_tool: There is no tool named "read<|channel|>commentary", so nothing was executed.
          hint: The nearest name is `read`; if you mean it, call it by exactly that name.
          candidates: read Edit edit get_weather
          in the history: read {"a":1}
    "#]],
    );
}

#[test]
fn of_two_near_names_both_are_suggested() {
    unknown(
        "EDIT",
        expect![[r#"
        unknown_tool: There is no tool named "EDIT", so nothing was executed.
          hint: The nearest names are `Edit`, `edit`; if you mean one of them, call it by exactly that name.
          candidates: Edit edit get_weather read
          in the history: EDIT {"a":1}
    "#]],
    );
}

#[test]
fn a_call_without_a_name_is_answered_and_legal_in_the_history() {
    unknown(
        "",
        expect![[r#"
        unknown_tool: The call names no tool, so nothing was executed.
          hint: Call one of the candidates by its exact name, or answer without a tool.
          candidates: Edit edit get_weather read
          in the history: unnamed {"a":1}
    "#]],
    );
    unknown(
        "\u{0}",
        expect![[r#"
        unknown_tool: There is no tool named "\0", so nothing was executed.
          hint: Call one of the candidates by its exact name, or answer without a tool.
          candidates: Edit edit get_weather read
          in the history: _ {"a":1}
    "#]],
    );
}

#[test]
fn at_most_twenty_names_are_given_the_nearest_first() {
    let tools: Vec<(String, Value)> =
        (0..50).map(|n| (format!("tool_{n:02}"), object(json!({}), &[]))).collect();
    let tools: Vec<(&str, Value)> =
        tools.iter().map(|(name, schema)| (name.as_str(), schema.clone())).collect();
    let failure = failure_of(toolbox(&tools).admit(&raw("tool_49x", "{}"), None));
    assert_eq!(failure.candidates.len(), 20);
    assert_eq!(&*failure.candidates[0], "tool_49");
}

#[test]
fn an_empty_toolbox_says_that_there_are_no_tools() {
    let failure = failure_of(toolbox(&[]).admit(&raw("search", "{}"), None));
    assert_eq!(failure.hint.as_deref(), Some("There are no tools here: answer without one."));
}

#[test]
fn a_very_long_name_stays_bounded() {
    let admission = few().admit(&raw(&"é".repeat(100_000), "{}"), None);
    let Admission::Answered { call, failure, fingerprint } = admission else { panic!() };
    assert_eq!(call.name.len(), 64);
    assert!(failure.message.len() < 300 && fingerprint.display().len() <= 1000);
}

#[test]
fn arguments_of_an_unknown_tool_do_not_tell_calls_apart() {
    let call = |arguments| fingerprint_of(few().admit(&raw("WebSearch", arguments), None));
    assert_eq!(call(r#"{"q":1}"#), call(r#"{"q":"#));
    assert_ne!(call("{}"), fingerprint_of(few().admit(&raw("WebSeek", "{}"), None)));
}
