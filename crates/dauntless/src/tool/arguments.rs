//! Arguments as the type a tool takes, read from the text itself so that no digit is lost.

use dauntless_contract::{Failure, Json};
use serde::de::DeserializeOwned;

/// Longest part of a deserialiser's own words that a failure carries; they quote keys and values.
const WORDS_CHARS_MAX: usize = 200;

/// Reads the arguments of the tool `name`.
///
/// The schema has already held when the runtime calls, so what is left to fail is what no schema
/// says: the checks of a type's own `Deserialize`, and calls by hand.
pub(super) fn read<A: DeserializeOwned>(name: &str, json: &Json) -> Result<A, Failure> {
    // Derived types also read arrays, by position, which nobody meant.
    if !json.as_str().trim_start().starts_with('{') {
        let message = format!("`{name}` was not called: its arguments are not an object.");
        return Err(Failure::invalid_arguments(message).detail(
            "$",
            "an object of the parameters by name",
            "",
        ));
    }
    let mut text = serde_json::Deserializer::from_str(json.as_str());
    serde_path_to_error::deserialize(&mut text).map_err(|error| unfit(name, &error))
}

fn unfit(name: &str, error: &serde_path_to_error::Error<serde_json::Error>) -> Failure {
    let path = match error.path().to_string().as_str() {
        "." => "$".to_owned(),
        fields => format!("$.{}", bounded(fields)),
    };
    let cause = error.inner();
    let place = format!(" at line {} column {}", cause.line(), cause.column());
    let words = cause.to_string();
    let words = bounded(words.strip_suffix(&place).unwrap_or(&words));
    let (got, expected) = words.split_once(", expected ").unwrap_or(("", &words));
    Failure::invalid_arguments(format!(
        "`{name}` was not called: its arguments do not fit at `{path}`: {words}."
    ))
    .detail(path, expected, got)
}

fn bounded(words: &str) -> String {
    match words.char_indices().nth(WORDS_CHARS_MAX) {
        Some((end, _)) => format!("{}…", words.get(..end).unwrap_or_default()),
        None => words.to_owned(),
    }
}
