use expect_test::expect;
use serde_json::json;

use super::*;

fn failures_of(effect: Effect, on_exhausted: OnExhausted) -> String {
    let spec = ToolSpec { effect, on_exhausted, ..ToolSpec::new("t", "A tool.", json!({"type": "object"})) };
    failures(&spec).iter().map(|(codes, leads_to)| format!("{codes}\n  {leads_to}\n")).collect()
}

#[test]
fn a_tool_is_described_with_everything_it_declares() {
    let mut spec = ToolSpec::new("order", "Look up one order.", json!({"type": "object"}));
    spec.effect = Effect::ReadOnly;
    expect![[r#"
        order (http)
          Look up one order.

        Effect: read_only
          It changes nothing, so a call is repeated whenever that may help.

        Arguments, as JSON Schema:
          {
            "type": "object"
          }

        Bounds:
          attempt  30 s at most
          call     60 s at most, for queue, attempts and waits together
          retries  up to 3 attempts; the wait is drawn from 0 to 0.25 s, growing ×2 up to 20 s; a server may ask for up to 60 s
          at once  8 attempts, and 32 calls that wait for a place
          stopping with more than 4 attempts that do not stop when told to, none is started
          breaker  opens after 5 failures in a row, or when 50% of at least 5 calls in 60 s failed; for 5 s to 2 min 0 s
          budget   10 retries over all runs; each success adds 0.2, and every 5 s adds one
          output   of a success the model is shown 32768 bytes at most

        What a failure leads to:
          rate_limited, unavailable, timeout, connection_failed
            It is tried again within the bounds; after that the run ends with tool_exhausted.
          unauthenticated, permission_denied, quota_exhausted, gone
            The run ends at once with tool_terminal.
          not_found, no_results, ambiguous, conflict, tool_error, partial, denied_by_operator, cancelled
            The model is told at once and can think again.
          invalid_arguments, malformed_arguments, truncated_call, unknown_tool, too_large
            The tool is not called, and the model is told what was wrong.
          crashed
            It is tried again within the bounds; after that the agent's `on_panic` decides.
          outcome_unknown
            The model is told that it may have happened, and to check before a repetition.
          tool_down, overloaded
            The tool is not called, and the run ends with tool_exhausted.
          repeated_failure
            The call is not made; the model is told to do something else, and the run ends with stuck if it does not.
    "#]].assert_eq(&describe(&spec, "http"));
}

#[test]
fn a_write_that_cannot_be_repeated_says_what_becomes_of_a_lost_answer() {
    expect![[r#"
        rate_limited
          It is tried again within the bounds; after that the model is told and goes on without the tool.
        unavailable, timeout, connection_failed
          It is tried again within the bounds if it certainly did nothing; after that the model is told and goes on without the tool. A lost answer becomes outcome_unknown.
        unauthenticated, permission_denied, quota_exhausted, gone
          The run ends at once with tool_terminal.
        not_found, no_results, ambiguous, conflict, tool_error, partial, denied_by_operator, cancelled
          The model is told at once and can think again.
        invalid_arguments, malformed_arguments, truncated_call, unknown_tool, too_large
          The tool is not called, and the model is told what was wrong.
        crashed
          It is not tried again; the agent's `on_panic` decides.
        outcome_unknown
          The model is told that it may have happened, and to check before a repetition.
        tool_down, overloaded
          The tool is not called, and the model is told and goes on without the tool.
        repeated_failure
          The call is not made; the model is told to do something else, and the run ends with stuck if it does not.
    "#]].assert_eq(&failures_of(Effect::Once, OnExhausted::Observe));
}

#[test]
fn every_code_is_in_exactly_one_group() {
    let text = failures_of(Effect::Keyed, OnExhausted::EndRun);
    let listed: Vec<&str> = text.lines().step_by(2).flat_map(|line| line.split(", ")).collect();
    assert_eq!(listed.len(), FailureCode::ALL.len());
}
