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
fn an_address_alone_names_a_model() {
    let url = Some("http://127.0.0.1:1/v1".to_owned());
    assert_eq!(direct_model(None, url).unwrap().name, "gpt-5-mini");
    assert_eq!(direct_model(None, None), None);
}
