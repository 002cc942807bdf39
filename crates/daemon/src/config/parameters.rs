//! Says whether a JSON Schema can describe a tool's arguments to every provider.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;

use super::document::quoted;

/// Keywords that providers refuse at the root, although JSON Schema allows them.
const REFUSED_AT_ROOT: [&str; 5] = ["anyOf", "oneOf", "allOf", "not", "enum"];

/// What `type` may be.
const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "object", "array", "null"];

/// Every mistake in the schema: the JSON Pointer inside it, and the words.
pub(super) fn check(schema: &Value) -> Vec<(String, String)> {
    let mut mistakes = Vec::new();
    match schema.get("type") {
        Some(kind) if kind == "object" => {}
        found => {
            let found = found.map_or_else(|| "no type".to_owned(), quoted);
            let words = format!("expected a schema whose root is `type = \"object\"`, found {found}");
            mistakes.push((String::new(), words));
        }
    }
    for keyword in REFUSED_AT_ROOT {
        if schema.get(keyword).is_some() {
            let words =
                "providers refuse this at the root of a tool's schema; describe one object".to_owned();
            mistakes.push((format!("/{keyword}"), words));
        }
    }
    let before = mistakes.len();
    for error in jsonschema::draft202012::meta::validator().iter_errors(schema) {
        mistakes.push(words(&error));
    }
    // References and patterns are only looked at when the schema is put to use.
    if mistakes.len() == before
        && let Err(error) = jsonschema::validator_for(schema)
    {
        mistakes.push(words(&error));
    }
    mistakes
}

fn words(error: &ValidationError<'_>) -> (String, String) {
    let at = error.instance_path().to_string();
    let words = match error.kind() {
        ValidationErrorKind::Referencing(_) => {
            "a `$ref` must point into the same schema, like \"#/$defs/NAME\"".to_owned()
        }
        ValidationErrorKind::AnyOf { .. } if at.ends_with("/type") => {
            let found = quoted(error.instance());
            format!(
                "expected one of {} or a list of them, found {found}",
                TYPES.map(|kind| format!("{kind:?}")).join(", ")
            )
        }
        _ => format!("not JSON Schema: {error}"),
    };
    (at, words)
}
