//! `dauntless tools`, `check`, and the commands that print a text.

use dauntless_testkit::{Answer, Reply, RequestCounter, Script};
use serde_json::{Value, json};

use super::{Folder, Ran, provider};

fn configured(tools: &str) -> Folder {
    let folder = Folder::new();
    folder.configure(&provider(Script::always(Reply::text("never"))), tools);
    folder
}

const ECHO: &str = r#"
[tools.echo]
description = "Says it again."
effect = "read_only"
parameters = { type = "object", required = ["text"], properties = { text = { type = "string" } } }
[tools.echo.command]
argv = ["printf", "%s", "{text}"]
[tools.secretive]
description = "Needs a token."
[tools.secretive.http]
url = "https://example.com/"
headers = { Authorization = "Bearer ${TOKEN}" }
"#;

const LACK: &str = "http.headers.Authorization: the environment variable `TOKEN` is not set";

#[test]
fn tools_are_listed_and_those_that_cannot_start_are_named() {
    let folder = configured(ECHO);
    let list =
        "echo       command  read_only   Says it again.\nsecretive  http     once        Needs a token.\n";
    let lack = format!("dauntless: tool `secretive` cannot start here: {LACK}\n");
    folder.run(&["tools", "list"]).assert(0, list, &lack);
    folder.run(&["tools", "list", "--agent", "clerk"]).assert(0, list, &lack);
}

#[test]
fn a_tool_is_described() {
    let ran = configured(ECHO).run(&["tools", "describe", "echo"]);
    assert_eq!((ran.code, &*ran.err), (Some(0), ""));
    assert!(ran.out.starts_with("echo (command)\n  Says it again.\n\nEffect: read_only\n"), "{ran:?}");
}

#[test]
fn a_call_by_hand_needs_no_model_and_prints_the_value() {
    let folder = configured(ECHO);
    let mut command = folder.command(&["tools", "call", "echo", r#"{"text":"hi"}"#]);
    command.env_remove("OPENAI_API_KEY");
    Ran::of(command).assert(0, "hi\n", "");
}

#[test]
fn a_call_by_hand_has_all_its_retries_and_a_failure_is_json() {
    let counter = RequestCounter::start([Answer::status(503)]).unwrap();
    let address = counter.url().replace("http://", "");
    let folder = configured(&format!(
        "[tools.stock]\ndescription = \"Count.\"\neffect = \"read_only\"\nretry = {{ attempts = 4, base = \"5ms\" }}\n\
         [tools.stock.http]\nurl = \"http://{address}/\"\nhosts = [\"{address}\"]\n"
    ));
    let ran = folder.run(&["tools", "call", "stock"]);
    assert_eq!((ran.code, &*ran.out), (Some(30), ""), "{ran:?}");
    let failure: Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!((&failure["error"], &failure["attempts"]), (&json!("unavailable"), &json!(4)));
    assert_eq!(counter.requests(), 4);
}

#[test]
fn arguments_that_do_not_fit_never_reach_the_tool() {
    let ran = configured(ECHO).run(&["tools", "call", "echo", r#"{"txt":1}"#]);
    assert_eq!((ran.code, &*ran.out), (Some(30), ""), "{ran:?}");
    let failure: Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!((&failure["error"], &failure["attempts"]), (&json!("invalid_arguments"), &json!(null)));
}

#[test]
fn a_tool_that_cannot_be_called_says_why() {
    let folder = configured(ECHO);
    let unknown = "dauntless: there is no tool `eco`; the configuration has: echo, secretive\n";
    folder.run(&["tools", "call", "eco"]).assert(2, "", unknown);
    folder.run(&["tools", "describe", "eco"]).assert(2, "", unknown);
    let broken = format!("dauntless: tool `secretive` cannot start: {LACK}\n");
    folder.run(&["tools", "call", "secretive"]).assert(69, "", &broken);
}

#[test]
fn a_check_tells_what_this_machine_lacks_with_its_place() {
    let folder = configured(ECHO);
    let ran = folder.run(&["check"]);
    assert_eq!((ran.code, &*ran.out), (Some(69), "agent clerk on m: echo, secretive\n"), "{ran:?}");
    assert!(ran.err.starts_with("dauntless.toml:"), "{ran:?}");
    assert!(ran.err.contains(&format!("tools.secretive.{LACK}\n")), "{ran:?}");

    let mut command = folder.command(&["check", "dauntless.toml"]);
    command.env("TOKEN", "t0ken-t0ken");
    let fine = "agent clerk on m: echo, secretive\nNo mistakes, and everything can start on this machine.\n";
    Ran::of(command).assert(0, fine, "");
}

#[test]
fn a_check_says_that_a_context_window_is_a_guess() {
    let folder = Folder::new();
    folder.write(
        "dauntless.toml",
        "[model]\nprovider = \"openai\"\nname = \"gpt-4o\"\nfallback = \"own\"\n\
         [models.own]\nprovider = \"openai\"\nname = \"qwen3\"\n\
         [models.idle]\nprovider = \"openai\"\nname = \"unused\"\n\
         [agents.clerk]\ninstructions = \"Work.\"\n",
    );
    let told = "dauntless: model `default` (gpt-4o) has no `context_window`: it is taken to be 128000 tokens by the \
                name. Set it to what the service grants.\n\
                dauntless: model `own` (qwen3) has no `context_window`: it is not known before a request is refused \
                for its length. Set it to what the service grants.\n";
    let fine = "agent clerk on gpt-4o: no tools\nNo mistakes, and everything can start on this machine.\n";
    folder.run(&["check"]).assert(0, fine, told);
}

#[test]
fn a_check_tells_of_a_missing_key() {
    let folder = configured("");
    let mut command = folder.command(&["check"]);
    command.env_remove("OPENAI_API_KEY");
    let ran = Ran::of(command);
    assert_eq!(ran.code, Some(69));
    assert!(ran.err.contains("needs the environment variable OPENAI_API_KEY"), "{ran:?}");
}

#[test]
fn a_probe_asks_the_models_and_names_the_way_out() {
    let ignores = provider(Script::from_fn(|request| match request.json().get("response_format") {
        Some(_) => Reply::text(r#"{"name":"ping","parameters":{"number":7}}"#),
        None => Reply::text("I would call it."),
    }));
    let folder = Folder::new();
    let echo = &ECHO[..ECHO.find("[tools.secretive]").unwrap()];
    folder.configure(&ignores, echo);
    let ran = folder.run(&["check", "--probe"]);
    let fine = "agent clerk on m: echo\nNo mistakes, and everything can start on this machine.\n";
    let probed = ran.out.strip_prefix(fine).unwrap();
    let told = "model default (m): does not call the tool that it is offered. It calls tools in answers with a \
                schema: set tool_calling = \"json_schema\" in [model] (";
    assert!(probed.starts_with(told) && probed.ends_with(" s)\n"), "{ran:?}");
    let failed = "dauntless: 1 of 1 models cannot work as configured\n";
    assert_eq!((ran.code, &*ran.err), (Some(31), failed));
    assert_eq!(ignores.requests(), 2);

    let heeded = std::fs::read_to_string(folder.0.join("dauntless.toml")).unwrap();
    folder.write("dauntless.toml", &heeded.replace("[agents", "tool_calling = \"json_schema\"\n[agents"));
    let ran = folder.run(&["check", "--probe"]);
    assert!(ran.out.contains("\nmodel default (m): calls tools ("), "{ran:?}");
    assert_eq!((ran.code, &*ran.err), (Some(0), ""));
    assert_eq!(ignores.requests(), 3);

    let ran = folder.run(&["check"]);
    assert_eq!((ran.code, ignores.requests()), (Some(0), 3), "without the flag nothing is asked");
}

#[test]
fn a_probe_is_made_although_something_else_cannot_start() {
    let model = provider(Script::always(Reply::error(401, "invalid_api_key", "bad key")));
    let folder = Folder::new();
    folder.configure(&model, ECHO);
    let ran = folder.run(&["check", "--probe"]);
    assert!(ran.out.contains("model default (m): unauthenticated: The provider does not accept"), "{ran:?}");
    assert_eq!(ran.code, Some(69));
    assert!(ran.err.contains(LACK), "{ran:?}");
}

#[test]
fn the_example_and_the_schema_fit_each_other() {
    let folder = Folder::new();
    let example = folder.run(&["config", "example"]);
    folder.write("dauntless.toml", &example.out);
    let mut command = folder.command(&["check"]);
    command.env("ORDERS_TOKEN", "t0ken-t0ken");
    let ran = Ran::of(command);
    assert!(ran.out.starts_with("agent auditor on gpt-5: no tools\n"), "{ran:?}");
    let schema: Value = serde_json::from_str(&folder.run(&["config", "schema"]).out).unwrap();
    assert_eq!(schema["title"], "Dauntless configuration");
}

#[test]
fn completions_and_the_version_are_printed() {
    let folder = Folder::new();
    assert!(folder.run(&["completions", "bash"]).out.contains("_dauntless()"));
    folder.run(&["--version"]).assert(0, concat!("dauntless ", env!("CARGO_PKG_VERSION"), "\n"), "");
}
