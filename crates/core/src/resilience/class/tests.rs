use std::fmt::Write as _;
use std::time::Duration;

use expect_test::expect;

use super::*;

const EFFECTS: [Effect; 5] =
    [Effect::ReadOnly, Effect::Idempotent, Effect::Keyed, Effect::Verifiable, Effect::Once];

#[test]
fn every_code_has_its_class() {
    let mut table = String::new();
    for code in FailureCode::ALL {
        let class = classify(&Failure::new(code, ""));
        let retried: Vec<&str> =
            EFFECTS.into_iter().filter(|&e| retryable(class, e)).map(Effect::as_str).collect();
        let retried = match retried.len() {
            0 => "never".to_owned(),
            5 => "always".to_owned(),
            _ => retried.join(" "),
        };
        let class_text = format!("{class:?}");
        let weight = format!("{:?}", class.weight());
        writeln!(table, "{:19} {class_text:13} {weight:8} {:4} {retried}", code.as_str(), class.cost_milli())
            .unwrap();
    }
    expect![[r#"
        rate_limited        Throttled     Neutral   500 always
        unavailable         Unavailable   Failure  1000 read_only idempotent keyed
        timeout             Ambiguous     Failure  2000 read_only idempotent keyed
        connection_failed   NotSent       Failure  1000 always
        unauthenticated     Denied        Healthy     0 never
        permission_denied   Denied        Healthy     0 never
        quota_exhausted     QuotaExceeded Healthy     0 never
        gone                Denied        Healthy     0 never
        not_found           NotFound      Healthy     0 never
        no_results          Answered      Healthy     0 never
        ambiguous           Answered      Healthy     0 never
        conflict            Conflict      Healthy     0 never
        tool_error          Answered      Healthy     0 never
        partial             Answered      Healthy     0 never
        invalid_arguments   InvalidInput  Healthy     0 never
        malformed_arguments InvalidInput  Healthy     0 never
        truncated_call      InvalidInput  Healthy     0 never
        unknown_tool        InvalidInput  Healthy     0 never
        too_large           InvalidInput  Healthy     0 never
        crashed             Bug           Failure  2000 read_only idempotent keyed
        outcome_unknown     Answered      Healthy     0 never
        denied_by_operator  LocalReject   Neutral     0 never
        cancelled           Cancelled     Neutral     0 never
        tool_down           LocalReject   Neutral     0 never
        overloaded          LocalReject   Neutral     0 never
        repeated_failure    LocalReject   Neutral     0 never
    "#]]
    .assert_eq(&table);
}

#[test]
fn rt_14_only_certainty_makes_a_lost_connection_not_sent() {
    for make in [Failure::timeout, Failure::connection_failed] {
        assert_eq!(classify(&make("").effect(EffectState::None)), Class::NotSent);
        assert_eq!(classify(&make("").effect(EffectState::Unknown)), Class::Ambiguous);
        assert_eq!(classify(&make("").effect(EffectState::Happened)), Class::Ambiguous);
    }
}

#[test]
fn a_service_that_says_when_to_come_back_is_throttling() {
    let failure = Failure::unavailable("").retry_after(Duration::from_secs(1));
    assert_eq!(classify(&failure), Class::Throttled);
}

#[test]
fn only_what_is_retried_costs() {
    for code in FailureCode::ALL {
        let class = classify(&Failure::new(code, ""));
        assert_eq!(class.cost_milli() > 0, retryable(class, Effect::ReadOnly), "{code}");
    }
}
