//! The JSON Schema of a type, as model providers take it.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value};

/// The schema of `A`, the arguments of a tool or the answer of an agent: what schemars says, less what only Rust understands.
pub(crate) fn of<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.meta_schema = None);
    let settings = settings.with_transform(RecursiveTransform(drop_rust_format));
    let mut schema = settings.into_generator().into_root_schema_for::<A>();
    // The title is the name of the Rust type.
    schema.remove("title");
    if schema.get("type").and_then(Value::as_str) == Some("object") {
        // Some providers refuse an object that does not list its properties.
        schema.ensure_object().entry("properties").or_insert_with(|| Map::new().into());
    }
    schema.to_value()
}

/// `uint32` and the like are no formats of JSON Schema, and some providers refuse them.
fn drop_rust_format(schema: &mut Schema) {
    let numeric = |name: &Value| name == "integer" || name == "number";
    let is_number = match schema.get("type") {
        Some(Value::Array(names)) => names.iter().any(numeric),
        Some(name) => numeric(name),
        None => false,
    };
    if is_number {
        schema.remove("format");
    }
}
