//! The part of a schema that helps to write the next call, within a bound.

use std::collections::BTreeSet;

use dauntless_contract::Json;
use serde_json::{Map, Value, json};

/// Leaves room for the words in an observation of 2 KiB.
const OUTLINE_BYTES_MAX: usize = 800;

/// The whole schema if it is short; else what it says about `fields`; else their types alone.
///
/// None when not even that fits. Without `fields` the required ones are meant.
pub(crate) fn outline(parameters: &Value, fields: &BTreeSet<String>) -> Option<Json> {
    let whole = Json::from(parameters);
    if whole.as_str().len() <= OUTLINE_BYTES_MAX {
        return Some(whole);
    }
    let required: Vec<&str> = parameters
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let wanted = |key: &str| if fields.is_empty() { required.contains(&key) } else { fields.contains(key) };
    let properties = parameters.get("properties").and_then(Value::as_object)?;
    let part = |shape: fn(&Value, &Value) -> Value| {
        let chosen: Map<String, Value> = properties
            .iter()
            .filter(|(key, _)| wanted(key))
            .map(|(key, schema)| (key.clone(), shape(resolved(schema, parameters), parameters)))
            .collect();
        if chosen.is_empty() {
            return None;
        }
        let part = Json::from(json!({ "type": "object", "properties": chosen, "required": required }));
        (part.as_str().len() <= OUTLINE_BYTES_MAX).then_some(part)
    };
    part(|schema, _| schema.clone()).or_else(|| part(kind_alone))
}

fn resolved<'s>(schema: &'s Value, root: &'s Value) -> &'s Value {
    let pointer = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'));
    pointer.and_then(|pointer| root.pointer(pointer)).unwrap_or(schema)
}

/// The types of a schema and of its fields, without words and without anything deeper.
fn kind_alone(schema: &Value, root: &Value) -> Value {
    let keep = |keyword: &str| Some((keyword.to_owned(), schema.get(keyword)?.clone()));
    let mut kept: Map<String, Value> =
        ["type", "enum", "format", "required"].into_iter().filter_map(keep).collect();
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let kind = |schema| match resolved(schema, root).get("type") {
            Some(kind) => json!({ "type": kind }),
            None => json!({}),
        };
        let inner = properties.iter().map(|(key, schema)| (key.clone(), kind(schema)));
        kept.insert("properties".to_owned(), Value::Object(inner.collect()));
    }
    Value::Object(kept)
}
