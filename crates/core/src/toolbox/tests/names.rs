//! Calls of tools that do not exist.

use dauntless_contract::FailureCode;

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
}

#[test]
fn a_name_that_is_a_tools_but_for_a_namespace_is_taken_for_it() {
    for written in
        ["functions.read", "default_api:read", "fs/read", "mcp__fs__read", " read", "read<|channel|>x"]
    {
        let admission = few().admit(&raw(written, r#"{"a":1}"#), None);
        let Admission::Run { call, fingerprint, repairs, .. } = admission else { panic!("{written}") };
        assert_eq!(
            (&*call.name, fingerprint),
            ("read", fingerprint_of(few().admit(&raw("read", r#"{"a":1}"#), None)))
        );
        assert_eq!(repairs.len(), 1, "{written}");
    }
    unknown(
        "functions.read",
        expect![[r#"
        run read {"a":1} (took the name functions_read for this tool's)
    "#]],
    );
    let sources =
        toolbox(&[("calendar_update", object(json!({}), &[])), ("git__status", object(json!({}), &[]))]);
    for (written, name) in [("calendar.update", "calendar_update"), ("status", "git__status")] {
        let Admission::Run { call, .. } = sources.admit(&raw(written, "{}"), None) else {
            panic!("{written}")
        };
        assert_eq!(&*call.name, name);
    }
}

#[test]
fn a_name_that_could_mean_two_tools_or_none_is_not_taken_for_any() {
    let any = || object(json!({}), &[]);
    let tools =
        toolbox(&[("quickjs_execute", any()), ("py_execute", any()), ("a_go", any()), ("analyze", any())]);
    for written in
        ["execute", "functions.execute", "go", "print(default_api.analyze(id=3))", "Analyze", "alyze"]
    {
        let Admission::Answered { .. } = tools.admit(&raw(written, "{}"), None) else { panic!("{written}") };
    }
    let exact = toolbox(&[("functions__read", any()), ("read", any())]);
    let Admission::Run { call, .. } = exact.admit(&raw("functions__read", "{}"), None) else { panic!() };
    assert_eq!(&*call.name, "functions__read", "a name that exists is that tool's");
}

#[test]
fn a_namespace_that_is_a_sources_is_not_taken_off() {
    let any = || object(json!({}), &[]);
    let tools = toolbox(&[
        ("list_files", any()),
        ("fs__list_files", any()),
        ("a_b", any()),
        ("a__b", any()),
        ("b", any()),
    ]);
    let name = |written: &str| match tools.admit(&raw(written, "{}"), None) {
        Admission::Run { call, .. } => call.name.to_string(),
        Admission::Answered { failure, .. } => failure.code.to_string(),
    };
    for written in ["fs.list_files", "fs/list_files", "fs_list_files", "functions.fs.list_files"] {
        assert_eq!(name(written), "fs__list_files", "{written}");
    }
    assert_eq!(name("functions.list_files"), "list_files");
    assert_eq!(name("a.b"), "unknown_tool", "either could be meant, and `b` is none of them");
    assert_eq!(name("a__b<|channel|>x"), "a__b", "the exact name comes first");
}

#[test]
fn a_name_with_a_namespace_is_only_taken_with_arguments_that_fit() {
    let tools = toolbox(&[("read", object(json!({ "path": { "type": "string" } }), &["path"]))]);
    let failure = failure_of(tools.admit(&raw("functions.read", "{}"), None));
    assert_eq!(failure.code, FailureCode::UnknownTool);
    assert_eq!(&*failure.candidates[0], "read");
}

fn shown(tools: &[(&str, &str)]) -> Vec<String> {
    let names: Vec<SourceName<'_>> = tools
        .iter()
        .map(|(source, name)| SourceName { source: Some(*source).filter(|source| !source.is_empty()), name })
        .collect();
    shown_names(&names).iter().map(ToString::to_string).collect()
}

#[test]
fn any_name_is_shown_in_letters_that_every_provider_takes() {
    let long = "x".repeat(120);
    let tools = [
        ("", "read"),
        ("g", "calendar.update"),
        ("g", "admin/tools.list"),
        ("g", "é t"),
        ("g", &long),
        ("g", ""),
    ];
    let names = shown(&tools);
    assert_eq!(names[..4], ["read", "calendar_update", "admin_tools_list", "__t"]);
    let legal = |name: &String| {
        (1..=64).contains(&name.len())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
    };
    assert!(names.iter().all(legal), "{names:?}");
    assert_eq!(names, shown(&tools), "the same each time");
}

#[test]
fn tools_of_two_sources_with_one_name_are_told_apart_by_their_source() {
    assert_eq!(
        shown(&[("a", "run"), ("b", "run"), ("", "run"), ("a", "list")]),
        ["a__run", "b__run", "run", "list"]
    );
    let (one, other) = ("n".repeat(60) + "_create", "n".repeat(60) + "_delete");
    let names = shown(&[("a", &one), ("a", &other), ("b", &one)]);
    let all: std::collections::BTreeSet<&String> = names.iter().collect();
    assert_eq!(all.len(), 3, "{names:?}");
    assert!(names.iter().all(|name| name.len() == 64), "{names:?}");
}

#[test]
fn names_that_are_written_alike_are_told_apart_and_the_order_does_not_matter() {
    let names = shown(&[("", "a.b"), ("", "a_b"), ("", "a/b")]);
    assert_eq!(names[1], "a_b", "a legal name stays");
    let mut again = shown(&[("", "a/b"), ("", "a_b"), ("", "a.b")]);
    again.reverse();
    assert_eq!(names, again);
    assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), 3);
    assert_eq!(shown(&[("a", "x"), ("a", "x")]), ["a__x", "a__x"].map(|_| "x"), "declared twice: not hidden");
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
