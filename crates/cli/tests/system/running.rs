//! Runs that go as they should, and runs that stop for a reason.

use dauntless_contract::{Progress, StopReason};
use dauntless_testkit::{Answer, Call, CallAccounting, Reply, RequestCounter, Script};
use serde_json::json;

use super::{Folder, Ran, provider};

const ECHO: &str = r#"
[tools.echo]
description = "Says it again."
effect = "read_only"
parameters = { type = "object", required = ["text"], properties = { text = { type = "string" } } }
[tools.echo.command]
argv = ["printf", "%s", "{text}"]
"#;

fn echo(text: &str) -> Reply {
    Reply::calls([Call::new("echo", &json!({ "text": text }))])
}

#[test]
fn a_completed_run_prints_the_answer_and_nothing_else() {
    let (folder, provider) =
        (Folder::new(), provider(Script::by_turn([echo("hi"), Reply::text("It said hi.")])));
    folder.configure(&provider, ECHO);
    folder.run(&["run", "Let it say hi."]).assert(0, "It said hi.\n", "");
    let last = provider.recorded().pop().unwrap();
    assert_eq!(last.last_text(), Some("hi"), "the tool ran");
    provider.assert_clean();
}

#[test]
fn the_goal_can_come_from_standard_input() {
    let (folder, provider) = (Folder::new(), provider(Script::always(Reply::text("yes"))));
    folder.configure(&provider, "");
    folder.write("goal.txt", "Is it so?\n");
    let mut command = folder.command(&["run", "-"]);
    command.stdin(std::fs::File::open(folder.0.join("goal.txt")).unwrap());
    Ran::of(command).assert(0, "yes\n", "");
    assert_eq!(provider.recorded()[0].last_text(), Some("Is it so?"));
}

#[test]
fn a_model_needs_no_configuration_and_a_local_one_no_key() {
    let (folder, provider) = (Folder::new(), provider(Script::always(Reply::text("4"))));
    let mut command = folder.command(&["run", "--base-url", &provider.url(), "2 + 2?"]);
    command.env_remove("OPENAI_API_KEY");
    Ran::of(command).assert(0, "4\n", "");
    provider.assert_clean();
}

#[test]
fn a_tool_that_fails_for_a_moment_is_tried_again_and_the_events_tell_it() {
    let folder = Folder::new();
    let counter =
        RequestCounter::start([Answer::status(503), Answer::json(200, &json!({ "stock": 3 }))]).unwrap();
    let script = [Reply::calls([Call::new("stock", &json!({}))]), Reply::text("Three are left.")];
    let provider = provider(Script::by_turn(script));
    let address = counter.url().replace("http://", "");
    folder.configure(
        &provider,
        &format!(
            "[tools.stock]\ndescription = \"Count the stock.\"\neffect = \"read_only\"\nretry.base = \"5ms\"\n\
             [tools.stock.http]\nurl = \"http://{address}/\"\nhosts = [\"{address}\"]\n"
        ),
    );
    let ran = folder.run(&["run", "--json", "How many?"]);
    assert_eq!((ran.code, &*ran.err), (Some(0), ""), "{ran:?}");
    let events: Vec<Progress> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    CallAccounting::of_progress(&events).assert_balanced();
    assert!(events.iter().any(|event| matches!(event, Progress::AttemptFailed { attempt: 1, .. })));
    let Some(Progress::RunEnded { outcome }) = events.last() else { panic!("{events:?}") };
    assert_eq!((&outcome.reason, outcome.answer()), (&StopReason::Completed, Some("Three are left.")));
    assert_eq!(counter.requests(), 2);
}

#[test]
fn the_words_of_a_model_arrive_on_standard_error_and_the_answer_whole() {
    let (folder, provider) = (Folder::new(), provider(Script::always(Reply::text("It rains in Oslo."))));
    folder.configure(&provider, "");
    folder.run(&["run", "--stream", "Weather?"]).assert(0, "It rains in Oslo.\n", "It rains in Oslo.\n");
    assert_eq!(provider.requests(), 1);
}

#[test]
fn a_stream_that_breaks_starts_over_and_says_so() {
    let folder = Folder::new();
    let provider =
        provider(Script::by_order([Reply::text("It rains in Oslo.").cut_after(2), Reply::text("It rains.")]));
    folder.configure(&provider, "");
    let ran = folder.run(&["run", "--stream", "Weather?"]);
    assert_eq!((ran.code, &*ran.out), (Some(0), "It rains.\n"), "{ran:?}");
    assert!(ran.err.ends_with("\n(the model starts over)\nIt rains.\n"), "{ran:?}");
}

#[test]
fn spans_are_shown_where_they_are_asked_for() {
    let (folder, provider) = (Folder::new(), provider(Script::by_turn([echo("hi"), Reply::text("done")])));
    folder.configure(&provider, ECHO);
    let mut command = folder.command(&["run", "--trace", "Say hi."]);
    command.env("DAUNTLESS_LOG", "debug");
    let ran = Ran::of(command);
    assert_eq!((ran.code, &*ran.out), (Some(0), "done\n"), "{ran:?}");
    for span in ["invoke_agent clerk", "turn 1", "chat m", "execute_tool echo", "attempt 1"] {
        assert!(ran.err.contains(span), "{span}: {ran:?}");
    }
}

#[test]
fn a_dead_collector_costs_spans_and_not_the_run() {
    let (folder, provider) = (Folder::new(), provider(Script::always(Reply::text("done"))));
    folder.configure(&provider, "[telemetry]\notlp_endpoint = \"http://127.0.0.1:1\"\n");
    let ran = folder.run(&["run", "Work."]);
    assert_eq!((ran.code, &*ran.out), (Some(0), "done\n"), "{ran:?}");
    assert!(ran.err.contains("spans did not reach the collector at http://127.0.0.1:1"), "{ran:?}");
}

#[test]
fn a_run_that_stops_says_why_and_prints_no_answer() {
    let (folder, provider) =
        (Folder::new(), provider(Script::always(Reply::refusal("I cannot help with that."))));
    folder.configure(&provider, "");
    let ran = folder.run(&["run", "Something bad."]);
    assert_eq!((ran.code, &*ran.out), (Some(13), ""), "{ran:?}");
    assert!(ran.err.starts_with("dauntless: the run stopped: model_refusal\n"), "{ran:?}");
}

#[test]
fn a_run_at_its_limit_gives_its_best_answer_on_standard_error() {
    let folder = Folder::new();
    let script = Script::from_fn(|request| match request.tools().is_empty() {
        true => Reply::text("As far as I came: hi."),
        false => echo(&format!("number {}", request.assistant_messages())),
    });
    let provider = provider(script);
    folder.configure(&provider, &format!("[limits]\nturns = 2\n{ECHO}"));
    let ran = folder.run(&["run", "Go on for ever."]);
    assert_eq!((ran.code, &*ran.out), (Some(19), ""), "{ran:?}");
    assert!(ran.err.starts_with("dauntless: the run stopped: limit_reached: turns\n"), "{ran:?}");
    assert!(ran.err.ends_with("Best partial answer:\nAs far as I came: hi.\n"), "{ran:?}");
}

#[test]
fn a_tool_that_cannot_start_is_named_and_the_others_work() {
    let (folder, provider) = (Folder::new(), provider(Script::by_turn([echo("hi"), Reply::text("done")])));
    let ghost = "[tools.ghost]\ndescription = \"Nobody has it.\"\n[tools.ghost.command]\nargv = [\"no-such-program\"]\n";
    folder.configure(&provider, &format!("{ECHO}{ghost}"));
    let ran = folder.run(&["run", "Say hi."]);
    assert_eq!((ran.code, &*ran.out), (Some(0), "done\n"), "{ran:?}");
    assert!(
        ran.err.starts_with("dauntless: tool `ghost` is left out: command.argv.0: `no-such-program`"),
        "{ran:?}"
    );
}

#[test]
fn a_write_whose_program_fails_happens_once() {
    let folder = Folder::new();
    let script = [Reply::calls([Call::new("pay", &json!({}))]), Reply::text("It may have been paid.")];
    let provider = provider(Script::by_turn(script));
    let pay = "[tools.pay]\ndescription = \"Pay.\"\n[tools.pay.command]\n\
               argv = [\"sh\", \"-c\", \"echo paid >> paid.txt; exit 1\"]\n";
    folder.configure(&provider, pay);
    folder.run(&["run", "Pay."]).assert(0, "It may have been paid.\n", "");
    assert_eq!(std::fs::read_to_string(folder.0.join("paid.txt")).unwrap(), "paid\n");
}
