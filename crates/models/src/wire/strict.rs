//! Which schemas strict mode takes. It exists because one schema that strict mode refuses costs the
//! whole request, and because to rewrite a schema would be to change what its author wrote.

use serde_json::{Map, Value};

/// What strict mode understands beside what is looked into below.
const KEYWORDS: [&str; 16] = [
    "$ref",
    "additionalProperties",
    "const",
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "multipleOf",
    "pattern",
    "required",
    "title",
    "type",
];
const FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// Whether strict mode takes the schema as it is: an object at the root, every object closed and
/// all its properties required, and no keyword that it does not know.
pub(super) fn is_strict(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "object") && takes(schema)
}

fn takes(schema: &Value) -> bool {
    let Value::Object(fields) = schema else { return false };
    let is_object = fields.contains_key("properties") || fields.get("type").is_some_and(names_object);
    (!is_object || is_closed(fields))
        && fields.iter().all(|(keyword, value)| match keyword.as_str() {
            "properties" | "$defs" => value.as_object().is_some_and(|all| all.values().all(takes)),
            "items" => takes(value),
            "anyOf" => value.as_array().is_some_and(|all| all.iter().all(takes)),
            "format" => value.as_str().is_some_and(|format| FORMATS.contains(&format)),
            other => KEYWORDS.contains(&other),
        })
}

fn names_object(kind: &Value) -> bool {
    kind == "object" || kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "object"))
}

fn is_closed(fields: &Map<String, Value>) -> bool {
    let required = fields.get("required").and_then(Value::as_array);
    let is_required = |name: &String| required.is_some_and(|names| names.iter().any(|item| item == name));
    let properties = fields.get("properties").and_then(Value::as_object);
    fields.get("additionalProperties") == Some(&Value::Bool(false))
        && properties.is_none_or(|all| all.keys().all(is_required))
}
