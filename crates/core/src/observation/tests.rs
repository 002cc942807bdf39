use std::time::Duration;

use expect_test::expect;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn spec(output_bytes_max: usize) -> ToolSpec {
    ToolSpec { output_bytes_max, ..ToolSpec::new("tool", "Does something.", json!({ "type": "object" })) }
}

fn shown(text: &str, output_bytes_max: usize) -> String {
    success(&ToolOutput::text(text), &spec(output_bytes_max)).text.to_string()
}

#[test]
fn a_value_is_shown_as_it_is() {
    assert_eq!(
        shown(r#"{"Id":1917043659912705296, "mean": NaN}"#, 1000),
        r#"{"Id":1917043659912705296, "mean": NaN}"#
    );
}

#[test]
fn an_empty_value_says_that_the_call_worked() {
    for empty in ["", " \n", "null"] {
        assert_eq!(shown(empty, 1000), "The call worked. It has nothing to show.");
    }
    assert_eq!(shown("[]", 1000), "The call worked. The result is an empty list: []");
}

#[test]
fn a_long_value_keeps_head_and_tail_and_says_what_is_left_out() {
    let text = format!("HEAD{}TAIL", "x".repeat(5_000_000));
    let shown = shown(&text, 400);
    assert!(shown.len() <= 400);
    expect![[r#"
        HEADx…
        [… 4999768 of 5000008 bytes left out. To read them, call again for less at a time: a narrower query, a page or a range. …]
        x…TAIL"#]].assert_eq(&shown.replace(&"x".repeat(176), "x…").replace(&"x".repeat(56), "x…"));
}

#[test]
fn a_failure_has_its_keys_in_order_and_leaves_out_what_is_absent() {
    let full = Failure::not_found("No order matches ORD-9912.")
        .hint("Order ids look like ORD-2026-NNNNN.")
        .detail("$.id", "an order id", "the string \"ORD-9912\"")
        .candidates(["ORD-2026-09912"])
        .schema(json!({ "type": "object" }).into())
        .retry_after(Duration::from_millis(29_001));
    let bare = Failure::conflict("The order is locked.").effect(EffectState::Happened);
    expect![[r#"{"error":"not_found","message":"No order matches ORD-9912.","hint":"Order ids look like ORD-2026-NNNNN.","details":[{"path":"$.id","expected":"an order id","got":"the string \"ORD-9912\""}],"candidates":["ORD-2026-09912"],"schema":{"type":"object"},"retry_after_s":30,"attempts":3,"effect":"none"}"#]].assert_eq(&failure(&full, 3, Effect::Once).text);
    expect![[r#"{"error":"conflict","message":"The order is locked.","effect":"happened"}"#]]
        .assert_eq(&failure(&bare, 0, Effect::Once).text);
}

#[test]
fn an_effect_that_may_have_happened_is_to_be_checked_before_it_is_repeated() {
    let lost = Failure::outcome_unknown("The connection broke after the order was sent.");
    expect![[r#"{"error":"outcome_unknown","message":"The connection broke after the order was sent.","hint":"It may have happened. Check whether it did before you repeat the call.","attempts":1,"effect":"unknown"}"#]].assert_eq(&failure(&lost, 1, Effect::Once).text);
    expect![[r#"{"error":"outcome_unknown","message":"The connection broke after the order was sent.","attempts":1,"effect":"unknown"}"#]].assert_eq(&failure(&lost, 1, Effect::Idempotent).text);
}

#[test]
fn a_read_only_tool_has_no_effect_however_its_call_ended() {
    let late = Failure::timeout("No answer within 30 s.");
    assert!(failure(&late, 1, Effect::ReadOnly).text.ends_with(r#""effect":"none"}"#));
}

#[test]
fn a_failure_that_is_too_long_loses_details_before_its_schema_and_its_words() {
    let mut long = Failure::invalid_arguments("20 problems.").schema(json!({ "type": "object" }).into());
    for n in 0..20 {
        long = long.detail(format!("$.field_{n}"), "a string".repeat(10), "the string \"abc\"".repeat(3));
    }
    let text = failure(&long, 0, Effect::Once).text;
    let json: Value = serde_json::from_str(&text).unwrap();
    assert!(text.len() <= FAILURE_BYTES_MAX);
    assert_eq!(json["message"], "20 problems.");
    assert!(json["schema"].is_object());
    assert!(json["details"].as_array().unwrap().len() >= 8);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(32) })]

    #[test]
    fn a_success_fits_its_bound_whatever_the_text(text in "(中|🦀|é|a|\u{0}){0,600}", bytes_max in 1_usize..700) {
        let text = format!("{text}.");
        let shown = shown(&text, bytes_max);
        prop_assert!(shown.len() <= bytes_max.max("…".len()));
        prop_assert!(text.len() > bytes_max || shown == text);
    }

    #[test]
    fn a_failure_fits_and_is_json_whatever_is_in_it(
        text in "(\u{1}|\"|中|a| ){0,1500}",
        details in 0_usize..30,
        candidates in 0_usize..30,
    ) {
        let mut long = Failure::tool_error(text.clone()).hint(text.clone()).schema(json!({ "a": text }).into());
        for _ in 0..details {
            long = long.detail(text.clone(), text.clone(), text.clone());
        }
        let long = long.candidates(vec![text; candidates]);
        let shown = failure(&long, 7, Effect::Once).text;
        prop_assert!(shown.len() <= FAILURE_BYTES_MAX, "{} bytes", shown.len());
        let json: Value = serde_json::from_str(&shown).unwrap();
        prop_assert_eq!(&json["error"], "tool_error");
    }
}
