use std::sync::Arc;

use dauntless_contract::{CallKey, Effect, Json, NeverCancelled, RunId, Timestamp, ToolCtx, ToolSpec};
use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::config::ToolConfigError;
use crate::environment::Environment;
use crate::excerpt::{Excerpt, beginning, last_lines, quoted};
use crate::template::Template;

/// A declaration with these parameters; a name with `?` is not required.
pub(crate) fn spec(effect: Effect, parameters: &[&str]) -> Arc<ToolSpec> {
    let name = |text: &&str| text.trim_end_matches('?').to_owned();
    let properties = parameters.iter().map(|text| (name(text), json!({}))).collect::<serde_json::Map<_, _>>();
    let required: Vec<String> = parameters.iter().filter(|text| !text.ends_with('?')).map(name).collect();
    let schema = json!({"type": "object", "properties": Value::Object(properties), "required": required});
    let mut spec = ToolSpec::new("test", "A tool under test.", schema);
    spec.effect = effect;
    Arc::new(spec)
}

pub(crate) fn ctx() -> ToolCtx {
    ToolCtx {
        run: RunId::from_u128(1),
        call: CallKey { turn: 1, index: 0 },
        attempt: 1,
        deadline: Timestamp::MAX,
        idempotency_key: "key-1".into(),
        cancel: Arc::new(NeverCancelled),
    }
}

pub(crate) fn env(name: &str) -> Option<String> {
    match name {
        "TOKEN" => Some("FAKE-TOKEN-1".into()),
        "EMPTY" => Some(String::new()),
        "PATH" => std::env::var("PATH").ok(),
        "HOME" => Some("/home/of-test".into()),
        _ => None,
    }
}

pub(crate) fn list(mistakes: &[ToolConfigError]) -> String {
    mistakes.iter().map(|mistake| format!("{mistake}\n")).collect()
}

fn render(template: &str, arguments: Value) -> Option<String> {
    let arguments = Arguments::read(&Json::from(arguments)).unwrap();
    Template::parse(template).unwrap().render(&arguments, str::to_owned).unwrap()
}

#[test]
fn a_template_puts_values_in_and_leaves_doubled_braces() {
    assert_eq!(render("a {x} {{x}} b", json!({"x": "1"})).unwrap(), "a 1 {x} b");
    assert_eq!(render("{x}{y}", json!({"x": true, "y": [1, "z"]})).unwrap(), r#"true[1,"z"]"#);
    assert_eq!(render("p={x?}", json!({"x": null})), None);
    assert_eq!(render("{x}", json!({"x": "{y}", "y": "no"})).unwrap(), "{y}", "values are not templates");
}

#[test]
fn a_template_that_cannot_be_read_is_refused() {
    for text in ["{", "}", "{}", "{?}", "a{b{c}", "{{x}"] {
        assert!(Template::parse(text).is_err(), "{text}");
    }
}

#[test]
fn a_number_keeps_every_digit() {
    let arguments = Json::parse(r#"{"n": 12345678901234567890123.10}"#).unwrap();
    let arguments = Arguments::read(&arguments).unwrap();
    assert_eq!(arguments.text("n").unwrap(), "12345678901234567890123.10");
}

#[test]
fn arguments_that_are_no_object_are_refused() {
    assert!(Arguments::read(&Json::parse("[1]").unwrap()).is_err());
}

#[test]
fn an_environment_variable_is_put_in_and_remembered_as_a_secret() {
    let mut environment = Environment::new(&env);
    assert_eq!(environment.expand("Bearer ${TOKEN}!").unwrap(), "Bearer FAKE-TOKEN-1!");
    assert_eq!(environment.expand("${NONE}").unwrap_err(), "the environment variable `NONE` is not set");
    assert_eq!(environment.expand("${EMPTY}").unwrap_err(), "the environment variable `EMPTY` is empty");
    assert!(environment.expand("${A B}").is_err());
    assert!(environment.expand("${TOKEN").is_err());
    assert_eq!(environment.into_secrets(), ["FAKE-TOKEN-1"]);
}

#[test]
fn an_excerpt_keeps_both_ends_and_says_how_much_is_missing() {
    let mut excerpt = Excerpt::both_ends(6);
    excerpt.push(b"abcd");
    excerpt.push(b"efghij");
    assert_eq!(excerpt.dropped(), 4);
    assert_eq!(excerpt.into_text(), "abc\n[… 4 bytes left out …]\nhij");
}

#[test]
fn an_excerpt_never_cuts_a_character_at_any_limit() {
    for text in ["中".repeat(20), "a😀é".repeat(10), "é".repeat(31)] {
        for bytes_max in 1..=text.len() + 1 {
            for chunk in [1, 7, text.len()] {
                let mut excerpt = Excerpt::both_ends(bytes_max);
                text.as_bytes().chunks(chunk).for_each(|chunk| excerpt.push(chunk));
                let dropped = excerpt.dropped();
                let shown = excerpt.into_text();
                assert!(!shown.contains('\u{fffd}'), "{bytes_max}: {shown}");
                assert_eq!(dropped == 0, shown == text, "{bytes_max}");
            }
        }
    }
}

#[test]
fn an_excerpt_counts_the_parts_of_a_cut_character_as_left_out() {
    let mut excerpt = Excerpt::both_ends(4);
    excerpt.push("中中中".as_bytes());
    assert_eq!(excerpt.into_text(), "\n[… 9 bytes left out …]\n");
}

#[test]
fn bytes_that_are_no_text_are_replaced() {
    let mut excerpt = Excerpt::both_ends(100);
    excerpt.push(b"a\xff\xfeb\xe4");
    assert_eq!(excerpt.into_text(), "a\u{fffd}\u{fffd}b\u{fffd}");
}

#[test]
fn the_last_lines_are_whole_where_they_can_be() {
    assert_eq!(last_lines("one\ntwo\nthree\n", 9), "two\nthree");
    assert_eq!(last_lines("one\ntwo\nthree\n", 8), "three");
    assert_eq!(last_lines("one\ntwo\nthree\n", 3), "ree");
    assert_eq!(last_lines("one\ntwo\n", 100), "one\ntwo");
    assert_eq!(last_lines("中中中", 4), "中");
}

#[test]
fn the_beginning_of_a_text_ends_at_a_character() {
    assert_eq!(beginning("a中b", 3), "a");
    assert_eq!(beginning("ab", 3), "ab");
}

#[test]
fn quoted_words_cannot_leave_their_quotes() {
    assert_eq!(quoted("say \"hi\"\n\u{1b}[31mred"), r#""say \"hi\"\n [31mred""#);
}
