use clap::CommandFactory;

use super::*;

#[test]
fn the_definition_is_sound() {
    Args::command().debug_assert();
}

#[test]
fn every_argument_has_its_help() {
    fn undocumented(command: &clap::Command, path: &str, found: &mut Vec<String>) {
        let path = format!("{path} {}", command.get_name());
        if command.get_about().is_none() {
            found.push(path.clone());
        }
        let silent = command.get_arguments().filter(|argument| argument.get_help().is_none());
        found.extend(silent.map(|argument| format!("{path} {}", argument.get_id())));
        command.get_subcommands().for_each(|inner| undocumented(inner, &path, found));
    }
    let mut found = Vec::new();
    undocumented(&Args::command(), "", &mut found);
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_status_may_name_one_tool_and_stands_alone() {
    let parsed = |line: &str| Args::try_parse_from(line.split_whitespace());
    let status = |line: &str| match parsed(line).map(|args| args.command) {
        Ok(Command::Tools(ToolsArgs { status, command: None, .. })) => status,
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(status("dauntless tools --status"), Some(None));
    assert_eq!(status("dauntless tools --status stock --json --pid 7"), Some(Some("stock".to_owned())));
    assert_eq!(status("dauntless tools --status --verbose"), Some(None));
    for wrong in [
        "dauntless tools",
        "dauntless tools --json",
        "dauntless tools --status --json --verbose",
        "dauntless tools --status --pid 7 --control path",
        "dauntless tools switch stock",
        "dauntless tools switch stock half",
        "dauntless run --control path --no-control goal",
    ] {
        assert!(parsed(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn an_address_alone_names_a_model() {
    let url = Some("http://127.0.0.1:1/v1".to_owned());
    assert_eq!(direct_model(None, url).unwrap().name, "gpt-5-mini");
    assert_eq!(direct_model(None, None), None);
}
