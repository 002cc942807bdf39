//! The schema of a tool, as a server that nobody here wrote may declare it.
//!
//! The first line of the input is the schema, the rest the arguments of a call. A schema that is
//! refused harms no other tool and is told in a sentence; one that is offered judges any arguments
//! within the time that an input may take.

use std::sync::Arc;

use dauntless_contract::ToolSpec;
use dauntless_core::toolbox::Toolbox;
use serde_json::{Value, json};

use super::arguments::Offer;

const REASON_BYTES_MAX: usize = 1024;

/// Offers a tool with the schema beside another one, and calls it.
pub fn holds(bytes: &[u8]) {
    let input = String::from_utf8_lossy(bytes);
    let (schema, text) = input.split_once('\n').unwrap_or((&input, "{}"));
    let Ok(schema) = serde_json::from_str::<Value>(schema) else { return };
    harms_no_other_tool(&schema);
    // Only an object may be the root, so any other schema is looked at as that of a field.
    let parameters = match schema.get("type").and_then(Value::as_str) {
        Some("object") => schema,
        _ => json!({ "type": "object", "properties": { "field": schema } }),
    };
    match Offer::of(parameters) {
        Ok(offer) => offer.judges(text),
        Err(reason) => {
            assert!(reason.starts_with("tool `"), "it names the tool: {reason}");
            assert!(reason.len() <= REASON_BYTES_MAX, "{} bytes", reason.len());
        }
    }
}

fn harms_no_other_tool(schema: &Value) {
    let spec = |name, schema| Arc::new(ToolSpec::new(name, "Does something.", schema));
    let other = json!({ "type": "object", "properties": {} });
    let (toolbox, quarantined) = Toolbox::build(vec![spec("odd", schema.clone()), spec("other", other)]);
    assert!(toolbox.get("other").is_some());
    assert_eq!(toolbox.get("odd").is_none(), quarantined.len() == 1, "{quarantined:?}");
}
