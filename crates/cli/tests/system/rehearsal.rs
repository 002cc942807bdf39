//! The first command of the README.

use dauntless_contract::Progress;
use dauntless_testkit::{CallAccounting, Reply, Script};

use super::{Folder, Ran, provider};

#[test]
fn the_main_rehearsal_needs_nothing_and_tells_what_happened_to_each_call() {
    let folder = Folder::new();
    let mut command = folder.command(&["rehearse"]);
    command.env_remove("OPENAI_API_KEY");
    let ran = Ran::of(command);
    assert_eq!((ran.code, &*ran.err), (Some(0), ""), "{ran:?}");
    assert!(!ran.out.contains('\x1b'), "no cursor moves where there is no terminal");
    let calls = ran.out.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    assert_eq!(calls.count(), 20, "{}", ran.out);
    for told in [
        "unavailable, waited ",
        "; ok after 3 attempts",
        "breaker of reviews",
        "unknown_tool, not sent",
        "\nAnswer: Order ORD-2026-00042 is with northwind and arrives in 2 days.",
        "  stop reason           completed\n",
        "  breaker trips         reviews ×1\n",
        "  refunds made          1\n",
    ] {
        assert!(ran.out.contains(told), "{told}: {}", ran.out);
    }
}

#[test]
fn the_second_rehearsal_names_tool_call_code_and_attempts() {
    let ran = Folder::new().run(&["rehearse", "terminal"]);
    assert_eq!((ran.code, &*ran.err), (Some(10), ""), "{ran:?}");
    let reason =
        "stop reason           tool_terminal: loyalty (call_2_1) failed with unauthenticated after 1 attempt";
    assert!(ran.out.contains(reason), "{}", ran.out);
}

#[test]
fn a_rehearsal_as_events_balances() {
    let ran = Folder::new().run(&["rehearse", "terminal", "--json"]);
    assert_eq!((ran.code, &*ran.err), (Some(10), ""), "{ran:?}");
    let events: Vec<Progress> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    CallAccounting::of_progress(&events).assert_balanced();
}

#[test]
fn a_real_model_can_take_the_place_of_the_script() {
    let provider = provider(Script::always(Reply::text("I looked at nothing.")));
    let ran = Folder::new().run(&["rehearse", "--base-url", &provider.url(), "--model", "small"]);
    assert_eq!((ran.code, &*ran.err), (Some(0), ""), "{ran:?}");
    assert!(ran.out.starts_with("A rehearsal with the model `small`."), "{ran:?}");
    assert!(ran.out.contains("\nAnswer: I looked at nothing.\n"), "{ran:?}");
    assert_eq!(provider.recorded()[0].model(), "small");
    provider.assert_clean();
}
