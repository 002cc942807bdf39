//! What can be wrong before a run begins: one clear message, a code of its own, and never a hang.

use dauntless_testkit::{Reply, Script};
use expect_test::expect;

use super::{Folder, Ran, provider};

const MISTAKES: &str = r#"
[model]
provider = "opnai"
name = "m"

[agents.clerk]
instructions = "Work."
tools = ["order"]

[tools.order]
description = "Look up an order."
timeout = 5
[tools.order.http]
url = "https://orders.example.com/{id}"
"#;

#[test]
fn every_mistake_of_a_configuration_is_told_at_once() {
    let folder = Folder::new();
    folder.write("dauntless.toml", MISTAKES);
    let ran = folder.run(&["check"]);
    assert_eq!((ran.code, &*ran.out), (Some(78), ""));
    expect![[r#"
        dauntless.toml:3:12: model.provider: expected "openai" or "scripted", found "opnai"; did you mean "openai"?
          3 | provider = "opnai"
            |            ^^^^^^^
        dauntless.toml:12:11: tools.order.timeout: expected a length of time like "5s", found 5
          12 | timeout = 5
             |           ^
        dauntless.toml: 2 mistakes
    "#]].assert_eq(&ran.err);
    folder.run(&["run", "Work."]).assert(78, "", &ran.err);
    folder.run(&["tools", "list"]).assert(78, "", &ran.err);
}

#[test]
fn a_missing_configuration_is_named_with_the_way_out() {
    let folder = Folder::new();
    let ran = folder.run(&["run", "Work."]);
    assert_eq!((ran.code, &*ran.out), (Some(66), ""));
    expect![[r#"
        dauntless: there is no dauntless.toml here: name a configuration with --config (`dauntless config example` prints one with every key), or run without tools with --model NAME or --base-url URL
    "#]].assert_eq(&ran.err);
    let ran = folder.run(&["run", "--config", "nope.toml", "Work."]);
    ran.assert(66, "", "dauntless: nope.toml: cannot be read: No such file or directory (os error 2)\n");
}

#[test]
fn a_missing_key_is_named() {
    let (folder, provider) = (Folder::new(), provider(Script::always(Reply::text("never"))));
    folder.configure(&provider, "");
    let mut command = folder.command(&["run", "Work."]);
    command.env_remove("OPENAI_API_KEY");
    Ran::of(command).assert(
        77,
        "",
        "dauntless: agent `clerk` cannot run: model `default` needs the environment variable OPENAI_API_KEY: set \
         it to the provider's key\n",
    );
    assert_eq!(provider.requests(), 0);
}

#[test]
fn a_broken_script_is_named_with_its_place() {
    let folder = Folder::new();
    folder.write(
        "dauntless.toml",
        "[model]\nprovider = \"scripted\"\nscript = \"s.toml\"\n[agents.a]\ninstructions = \"x\"\n",
    );
    folder.write("s.toml", "[[turns]]\ntxt = \"hi\"\n");
    let ran = folder.run(&["run", "Work."]);
    assert_eq!((ran.code, &*ran.out), (Some(65), ""), "{ran:?}");
    expect![[r#"
        dauntless: agent `a` cannot run: model `default`: s.toml: turn 1: `txt` means nothing here; use `text`, `refusal`, `calls`, `finish`, `usage`, `when`, `fail`, `delay`
    "#]].assert_eq(&ran.err);
}

#[test]
fn a_model_that_cannot_be_reached_ends_the_run_and_not_the_patience() {
    let (folder, provider) = (Folder::new(), provider(Script::always(Reply::text("never"))));
    folder.configure(&provider, "");
    provider.down().unwrap();
    let ran = folder.run(&["run", "Work."]);
    assert_eq!((ran.code, &*ran.out), (Some(12), ""), "{ran:?}");
    expect![[r#"
        dauntless: the run stopped: model_failed: connection_failed after 3 attempts
        No connection to the provider of model `m`.
    "#]]
    .assert_eq(&ran.err);
}

#[test]
fn an_output_that_cannot_be_written_is_told() {
    let (folder, provider) = (Folder::new(), provider(Script::always(Reply::text("done"))));
    folder.configure(&provider, "");
    for arguments in [&["run", "Work."][..], &["run", "--json", "Work."], &["config", "schema"]] {
        let mut command = folder.command(arguments);
        command.stdout(std::fs::File::options().write(true).open("/dev/full").unwrap());
        Ran::of(command).assert(
            74,
            "",
            "dauntless: cannot write to standard output: No space left on device (os error 28)\n",
        );
    }
}

#[test]
fn a_question_of_which_agent_is_answered_with_their_names() {
    let (folder, provider) = (Folder::new(), provider(Script::always(Reply::text("never"))));
    folder.configure(&provider, "[agents.auditor]\ninstructions = \"Audit.\"\n");
    let which =
        "dauntless: say which agent is meant; the configuration has: auditor, clerk (name it with --agent)\n";
    folder.run(&["run", "Work."]).assert(2, "", which);
    let unknown = "dauntless: there is no agent or plan `clark`; the configuration has: auditor, clerk\n";
    folder.run(&["run", "--agent", "clark", "Work."]).assert(2, "", unknown);
}

#[test]
fn an_empty_goal_and_a_wrong_option_are_usage() {
    let folder = Folder::new();
    let ran = folder.run(&["run", "--model", "m", " "]);
    ran.assert(2, "", "dauntless: the goal is empty: say what the agent shall do\n");
    assert_eq!(folder.run(&["run", "--jason", "x"]).code, Some(2));
    assert_eq!(folder.run(&["run", "--model", "m", "--agent", "a", "x"]).code, Some(2));
}

#[test]
fn a_log_filter_that_is_none_is_told() {
    let folder = Folder::new();
    let mut command = folder.command(&["run", "--model", "m", "x"]);
    command.env("DAUNTLESS_LOG", "a=b=c");
    let ran = Ran::of(command);
    assert_eq!(ran.code, Some(78));
    assert!(
        ran.err.starts_with("dauntless: DAUNTLESS_LOG: the log filter `a=b=c` is not understood"),
        "{ran:?}"
    );
}
