//! Holds a document against the schema and says in plain words what does not fit.
//!
//! The schema decides; this only finds the words. What it cannot know (references, files, values
//! that contradict each other) is left to `resolve`.

use jsonschema::error::ValidationErrorKind as Kind;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

use super::document::{Document, join};
use super::secret;

/// Most keys that are listed where none is near.
const LISTED_KEYS_MAX: usize = 24;

/// The JSON Schema of a type, in the form that editors of TOML understand.
pub(super) fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with_transform(RecursiveTransform(without_null));
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// TOML has no null, and Rust's number formats mean nothing outside Rust.
fn without_null(schema: &mut Schema) {
    let null = Value::from("null");
    let is_null = |schema: &Value| schema.get("type") == Some(&null);
    if schema.get("default") == Some(&Value::Null) {
        schema.remove("default");
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| *name != null);
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(branches)) = schema.get_mut("anyOf") {
        branches.retain(|branch| !is_null(branch));
        if let [Value::Object(only)] = branches.as_slice() {
            let only = only.clone();
            schema.remove("anyOf");
            for (keyword, value) in only {
                schema.ensure_object().entry(keyword).or_insert(value);
            }
        }
    }
    if let Some(values) = schema.get("oneOf").and_then(constants) {
        schema.remove("oneOf");
        schema.insert("type".to_owned(), "string".into());
        schema.insert("enum".to_owned(), values);
    }
    if schema.remove("format") == Some(Value::from("uint32")) {
        schema.ensure_object().entry("maximum").or_insert(u32::MAX.into());
    }
}

/// The names of an enum whose variants each became a branch because they have a description.
fn constants(branches: &Value) -> Option<Value> {
    branches
        .as_array()?
        .iter()
        .map(|branch| branch.get("const").filter(|name| name.is_string()).cloned())
        .collect()
}

/// Notes everything that does not fit the schema. Returns the parts that must be left out of the
/// document so that the rest can be read.
pub(super) fn check(document: &mut Document<'_>, schema: &Value) -> Vec<String> {
    let mut spoilt = Vec::new();
    for Violation { pointer, node, what } in violations(schema, document.value()) {
        match what {
            What::Unknown(keys) => {
                for key in keys {
                    let at = join(&pointer, &key);
                    unknown(document, schema, &node, &at, &key);
                    spoilt.push(at);
                }
            }
            What::Missing(key) => {
                let property = node.pointer(&join("/properties", &key)).unwrap_or(&Value::Null);
                let at = join(&pointer, &key);
                document.missing(&at, expected(schema, property));
                spoilt.push(removable(schema, &at).to_owned());
            }
            What::Value { keyword, words } => {
                let expected = match (keyword.as_str(), expected(schema, &node)) {
                    // The words leave this bound out, until somebody exceeds it.
                    ("maximum", words) if node.get("maximum").is_some_and(is_unspoken) => {
                        format!("{words}, and at most {}", u32::MAX)
                    }
                    (_, words) if !words.is_empty() => words,
                    _ => format!("something else ({words})"),
                };
                let hint = hint(document, &node, &pointer, &keyword);
                document.wrong(&pointer, expected, hint);
                spoilt.push(removable(schema, &pointer).to_owned());
            }
        }
    }
    spoilt
}

/// The smallest part around a pointer without which the document can still be read.
fn removable<'p>(schema: &Value, pointer: &'p str) -> &'p str {
    let mut at = pointer;
    while let Some((parent, key)) = at.rsplit_once('/') {
        let table = node_at(schema, parent);
        let required = table.and_then(|table| table.get("required")).and_then(Value::as_array);
        let is_item = table.is_none_or(|table| table.get("items").is_some());
        if !is_item && required.is_none_or(|required| !required.contains(&Value::from(key))) {
            break;
        }
        at = parent;
    }
    at
}

/// The schema of the value at a pointer.
fn node_at<'s>(schema: &'s Value, pointer: &str) -> Option<&'s Value> {
    pointer.split('/').skip(1).try_fold(schema, |node, token| {
        let property = node.pointer(&format!("/properties/{token}"));
        let child = property.or_else(|| node.get("additionalProperties")).or_else(|| node.get("items"));
        child.map(|child| followed(schema, child))
    })
}

struct Violation {
    pointer: String,
    node: Value,
    what: What,
}

enum What {
    Unknown(Vec<String>),
    Missing(String),
    Value { keyword: String, words: String },
}

fn violations(schema: &Value, document: &Value) -> Vec<Violation> {
    let Ok(validator) = jsonschema::validator_for(schema) else {
        // A schema that we generate and test; should it ever fail, the deserialiser still guards.
        return Vec::new();
    };
    let violation = |error: jsonschema::ValidationError<'_>| {
        let (owner, _) = error.schema_path().as_str().rsplit_once('/').unwrap_or_default();
        let what = match error.kind() {
            Kind::AdditionalProperties { unexpected } => What::Unknown(unexpected.clone()),
            Kind::Required { property } => What::Missing(property.as_str().unwrap_or_default().to_owned()),
            kind => What::Value { keyword: kind.keyword().to_owned(), words: error.masked().to_string() },
        };
        Violation {
            pointer: error.instance_path().as_str().to_owned(),
            node: schema.pointer(owner).cloned().unwrap_or_default(),
            what,
        }
    };
    validator.iter_errors(document).map(violation).collect()
}

fn unknown(document: &mut Document<'_>, schema: &Value, node: &Value, at: &str, key: &str) {
    let names = names(node);
    let is_model = names.iter().any(|name| name == "api_key_env");
    if is_model && secret::is_named_by(key) {
        let hint = "put the key into an environment variable and name that with `api_key_env`";
        return document.unknown_key(at, None, Some(hint.to_owned()));
    }
    let nearest = nearest(key, &names).or_else(|| one_table_below(schema, node, key));
    let hint = match &nearest {
        None if names.len() <= LISTED_KEYS_MAX => Some(format!("known here: {}", names.join(", "))),
        _ => None,
    };
    document.unknown_key(at, nearest, hint);
}

/// What to do about a value, beyond what is expected.
fn hint(document: &Document<'_>, node: &Value, at: &str, keyword: &str) -> Option<String> {
    if let Some(options) = node.get("enum").and_then(Value::as_array) {
        let names: Vec<String> = options.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let near = nearest(document.get(at)?.as_str()?, &names)?;
        return Some(format!("did you mean {near:?}?"));
    }
    // A keyword that editors know; here it also serves for sizes that are numbers.
    let how_to_write = node.get("patternErrorMessage").filter(|_| keyword != "type")?;
    how_to_write.as_str().map(str::to_owned)
}

/// What a schema asks for, in words; empty when it has none.
fn expected(schema: &Value, node: &Value) -> String {
    let node = followed(schema, node);
    if let Some(title) = node.get("title").and_then(Value::as_str) {
        return title.to_owned();
    }
    if let Some(options) = node.get("enum").and_then(Value::as_array) {
        let options: Vec<String> = options.iter().map(Value::to_string).collect();
        return match options.as_slice() {
            [all @ .., last] if !all.is_empty() => format!("{} or {last}", all.join(", ")),
            few => few.join(""),
        };
    }
    if let Some(branches) = node.get("anyOf").and_then(Value::as_array) {
        let branches: Vec<String> = branches.iter().map(|branch| expected(schema, branch)).collect();
        return branches.join(" or ");
    }
    let kind = match node.get("type").and_then(Value::as_str) {
        Some("string") => "a text in quotes",
        Some("integer") => "a whole number",
        Some("number") => "a number",
        Some("boolean") => "true or false",
        Some("array") => "a list in brackets",
        Some("object") => "a table",
        _ => return String::new(),
    };
    let bound = |keyword: &str| node.get(keyword).filter(|bound| !is_unspoken(bound));
    match (bound("minimum"), bound("exclusiveMinimum"), bound("maximum")) {
        (Some(min), _, Some(max)) => format!("{kind} from {min} to {max}"),
        (Some(min), _, None) => format!("{kind} of {min} or more"),
        (None, Some(above), Some(max)) => format!("{kind} above {above} and up to {max}"),
        (None, Some(above), None) => format!("{kind} above {above}"),
        (None, None, Some(max)) => format!("{kind} of {max} or less"),
        (None, None, None) => kind.to_owned(),
    }
}

/// Whether a bound is only that of the number's format.
fn is_unspoken(bound: &Value) -> bool {
    bound.as_u64() == Some(u32::MAX.into())
}

fn followed<'s>(schema: &'s Value, node: &'s Value) -> &'s Value {
    let target = node.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix('#'));
    target.and_then(|pointer| schema.pointer(pointer)).unwrap_or(node)
}

fn names(node: &Value) -> Vec<String> {
    let properties = node.get("properties").and_then(Value::as_object);
    properties.map_or_else(Vec::new, |map| map.keys().cloned().collect())
}

/// The name that was probably meant.
pub(super) fn nearest(written: &str, names: &[String]) -> Option<String> {
    let score = |name: &String| {
        let (a, b) = (written.to_ascii_lowercase(), name.to_ascii_lowercase());
        strsim::normalized_damerau_levenshtein(&a, &b)
    };
    let best = names.iter().max_by(|a, b| score(a).total_cmp(&score(b)))?;
    (score(best) >= 0.6).then(|| best.clone())
}

/// The key, when it exists inside exactly one of the tables here: `attempts` is `retry.attempts`.
fn one_table_below(schema: &Value, node: &Value, key: &str) -> Option<String> {
    let properties = node.get("properties")?.as_object()?;
    let holds = |table: &Value| followed(schema, table).pointer(&join("/properties", key)).is_some();
    let mut tables = properties.iter().filter(|(_, table)| holds(table));
    match (tables.next(), tables.next()) {
        (Some((table, _)), None) => Some(format!("{table}.{key}")),
        _ => None,
    }
}
