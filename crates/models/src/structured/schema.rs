//! One schema out of many.
//!
//! The schemas of tools are documents of their own, whose references start at their own root. Here
//! each becomes a part of a larger document, so what it refers to moves to the definitions of that,
//! under a name that nobody else has.

use std::collections::BTreeMap;
use std::sync::Arc;

use dauntless_contract::ToolSpec;
use serde_json::{Map, Value, json};

/// Keywords whose values are no schemas, whatever they look like.
const DATA: [&str; 5] = ["const", "enum", "default", "example", "examples"];
/// Keywords whose values are schemas by name, where a name is no keyword.
const BY_NAME: [&str; 6] =
    ["properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"];

/// The schema of a call of one of the tools, or of an answer. Without a schema the answer is text.
///
/// The name comes before the parameters in the order of the alphabet as well, which many servers
/// have a model write them in. It must choose the tool first.
pub(super) fn of_decisions(tools: &[Arc<ToolSpec>], answer: Option<&Value>) -> Value {
    let mut definitions = Definitions::default();
    let mut decisions: Vec<Value> = Vec::with_capacity(tools.len() + 1);
    for tool in tools {
        let parameters = definitions.take_in(&tool.parameters);
        decisions.push(json!({
            "type": "object",
            "properties": {"name": {"type": "string", "const": &*tool.name}, "parameters": parameters},
            "required": ["name", "parameters"],
            "additionalProperties": false,
        }));
    }
    let answer = answer.map_or_else(|| json!({"type": "string"}), |schema| definitions.take_in(schema));
    decisions.push(json!({
        "type": "object",
        "properties": {"answer": answer},
        "required": ["answer"],
        "additionalProperties": false,
    }));
    let mut schema = Map::new();
    if !definitions.schemas.is_empty() {
        schema.insert("$defs".to_owned(), definitions.schemas.into());
    }
    schema.insert("anyOf".to_owned(), decisions.into());
    // Some providers want to read this at the root.
    schema.insert("type".to_owned(), "object".into());
    schema.into()
}

/// What the parts refer to.
#[derive(Default)]
struct Definitions<'s> {
    schemas: Map<String, Value>,
    /// The names of schemas that were referred to, by where they are.
    names: BTreeMap<*const Value, String>,
    /// Named, and not yet taken in.
    owed: Vec<(String, &'s Value)>,
}

impl<'s> Definitions<'s> {
    /// A document as it may stand inside another.
    ///
    /// A reference that leads nowhere is dropped: then the model may write what it likes there, and
    /// whoever checks its arguments says what is wrong with them.
    fn take_in(&mut self, root: &'s Value) -> Value {
        let moved = self.schema(root, root);
        while let Some((name, target)) = self.owed.pop() {
            let schema = self.schema(root, target);
            self.schemas.insert(name, schema);
        }
        moved
    }

    fn schema(&mut self, root: &'s Value, schema: &'s Value) -> Value {
        let Value::Object(fields) = schema else { return schema.clone() };
        let mut moved = Map::new();
        for (key, value) in fields {
            let value = match key.as_str() {
                // Definitions move by reference, and addresses and anchors have lost their use.
                "$schema" | "$id" | "$anchor" | "$dynamicAnchor" | "$recursiveAnchor" | "$vocabulary"
                | "$comment" | "$defs" | "definitions" => continue,
                "id" if value.is_string() => continue,
                "$ref" | "$dynamicRef" | "$recursiveRef" => {
                    let target = value.as_str().and_then(|reference| resolve(root, reference));
                    if let Some(target) = target {
                        let name = self.name(target);
                        moved.insert("$ref".to_owned(), format!("#/$defs/{name}").into());
                    }
                    continue;
                }
                key if DATA.contains(&key) => value.clone(),
                key if BY_NAME.contains(&key) => self.named(root, value),
                _ => self.nested(root, value),
            };
            moved.insert(key.clone(), value);
        }
        moved.into()
    }

    fn named(&mut self, root: &'s Value, value: &'s Value) -> Value {
        let Value::Object(schemas) = value else { return value.clone() };
        schemas.iter().map(|(name, schema)| (name.clone(), self.nested(root, schema))).collect()
    }

    /// A schema, a list of them, or a plain value.
    fn nested(&mut self, root: &'s Value, value: &'s Value) -> Value {
        match value {
            Value::Array(items) => items.iter().map(|item| self.schema(root, item)).collect(),
            value => self.schema(root, value),
        }
    }

    fn name(&mut self, target: &'s Value) -> String {
        if let Some(known) = self.names.get(&std::ptr::from_ref(target)) {
            return known.clone();
        }
        let name = format!("d{}", self.names.len() + 1);
        self.names.insert(target, name.clone());
        self.owed.push((name.clone(), target));
        name
    }
}

/// The schema that a reference within a document names.
fn resolve<'s>(root: &'s Value, reference: &str) -> Option<&'s Value> {
    let fragment = decoded(reference.strip_prefix('#')?)?;
    let target = match fragment.as_str() {
        "" => Some(root),
        pointer if pointer.starts_with('/') => root.pointer(pointer),
        anchor => anchored(root, anchor),
    };
    target.filter(|target| target.is_object() || target.is_boolean())
}

fn anchored<'s>(root: &'s Value, name: &str) -> Option<&'s Value> {
    let mut open = vec![root];
    while let Some(part) = open.pop() {
        let Value::Object(fields) = part else { continue };
        let is_named = |key| fields.get(key).and_then(Value::as_str) == Some(name);
        if is_named("$anchor") || is_named("$dynamicAnchor") {
            return Some(part);
        }
        for (key, value) in fields {
            match value {
                _ if DATA.contains(&key.as_str()) => {}
                Value::Object(schemas) if BY_NAME.contains(&key.as_str()) => open.extend(schemas.values()),
                Value::Array(items) => open.extend(items),
                value => open.push(value),
            }
        }
    }
    None
}

/// A fragment without its percent signs; none where they encode no text.
fn decoded(fragment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}
