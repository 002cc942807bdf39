use std::fmt::Write as _;

use expect_test::expect;

use super::*;

#[test]
fn lengths_read_well_and_are_rounded_up() {
    let texts: Vec<String> = [0, 1, 999, 1000, 1001, 4_230, 9_900, 9_950, 30_000, 119_001, 120_000, 121_000]
        .into_iter()
        .map(|ms| plain(Duration::from_millis(ms)))
        .collect();
    expect!["0 ms, 1 ms, 999 ms, 1 s, 1.1 s, 4.3 s, 9.9 s, 10 s, 30 s, 120 s, 2 min, 3 min"]
        .assert_eq(&texts.join(", "));
}

#[test]
fn every_message_says_what_happened_and_what_to_do() {
    let secs = Duration::from_secs;
    let policy = ResiliencePolicy::default();
    let lost = || Failure::timeout("No answer from the mail server");
    let failures = [
        timed_out("order", secs(30)),
        crashed("order", &"index out of bounds".into()),
        overloaded("order", &policy),
        overloaded("order", &ResiliencePolicy { concurrency: 1, ..policy }),
        out_of_time("order", secs(60)),
        out_of_time("order", secs(0)),
        rate_limited("order", secs(42)),
        tool_down("order", &Rejected::Open { retry_in: Duration::from_millis(4_210), failures: 5 }),
        tool_down("order", &Rejected::Open { retry_in: secs(5), failures: 1 }),
        tool_down("order", &Rejected::Probing { retry_in: secs(31) }),
        tool_down("order", &Rejected::Forced),
        cancelled("order", true),
        cancelled("order", false),
        not_repeated("send_mail", lost(), Class::Ambiguous, Effect::Once),
        not_repeated("send_mail", lost(), Class::Ambiguous, Effect::Verifiable),
        not_repeated("send_mail", crashed("send_mail", &"bug".into()), Class::Bug, Effect::Once),
    ];
    let mut text = String::new();
    for failure in failures {
        writeln!(text, "{failure} [{:?}, {:?}]", failure.effect, failure.retry_after).unwrap();
        if let Some(hint) = failure.hint {
            writeln!(text, "    {hint}").unwrap();
        }
    }
    expect![[r#"
        timeout: `order` did not answer within 30 s. [Unknown, None]
        crashed: `order` broke while it worked on this call. This is a defect in `order`. [Unknown, None]
        overloaded: `order` is busy: 8 calls at work and 32 waiting, and it takes no more. [None, None]
            Try again later, or ask for fewer calls at once.
        overloaded: `order` is busy: 1 call at work and 32 waiting, and it takes no more. [None, None]
            Try again later, or ask for fewer calls at once.
        timeout: The call waited 60 s for a free place at `order` and was not sent. [None, None]
        timeout: The time for this call to `order` was over before it could be sent. [None, None]
        rate_limited: `order` asked for a pause and takes no calls for the next 42 s. This call was not sent. [None, Some(42s)]
        tool_down: `order` is out of service after 5 failed calls. This call was not sent. The next try is allowed in 4.3 s. [None, Some(4.21s)]
        tool_down: `order` is out of service after 1 failed call. This call was not sent. The next try is allowed in 5 s. [None, Some(5s)]
        tool_down: `order` was out of service, and another call is just trying whether it works again. This call was not sent. The next try is allowed in 31 s at the latest. [None, Some(31s)]
        tool_down: `order` was taken out of service by an operator. This call was not sent. [None, None]
        cancelled: The call to `order` was cancelled while it was running. [None, None]
        cancelled: The call to `order` was cancelled while it waited for its turn. [None, None]
        outcome_unknown: No answer from the mail server. The call may have been carried out all the same, so it was not repeated. [Unknown, None]
            Find out with another tool, or ask the user, whether it happened before you repeat the call.
        outcome_unknown: No answer from the mail server. The call may have been carried out all the same, so it was not repeated. [Unknown, None]
            Ask `send_mail` whether it happened before you repeat the call.
        crashed: `send_mail` broke while it worked on this call. This is a defect in `send_mail`. The call may have been carried out all the same, so it was not repeated. [Unknown, None]
            Find out with another tool, or ask the user, whether it happened before you repeat the call.
    "#]]
    .assert_eq(&text);
}
