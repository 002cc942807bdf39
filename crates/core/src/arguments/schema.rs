//! Looks up what a JSON Schema says about a place, as far as it can be said for certain.
//!
//! It guides coercion and never decides whether arguments are valid: that is the validator's job.
//! Where a schema is too clever to follow, everything counts as allowed and nothing is coerced.

use std::cell::Cell;

use jsonschema::{JsonType, JsonTypeSet};
use serde_json::Value;

use super::tree::Tree;

/// Schemas looked at for one call. Enough for any honest schema, and a bound for the others.
const STEPS_MAX: u32 = 100_000;
const IN_PLACE_DEPTH_MAX: u32 = 16;

/// A schema with the root that its references point into.
pub(crate) struct Guide<'s> {
    root: &'s Value,
    steps_left: Cell<u32>,
}

impl<'s> Guide<'s> {
    pub(crate) const fn new(root: &'s Value) -> Self {
        Self { root, steps_left: Cell::new(STEPS_MAX) }
    }

    pub(crate) const fn root(&self) -> &'s Value {
        self.root
    }

    fn step(&self, depth: u32) -> bool {
        let left = self.steps_left.get();
        self.steps_left.set(left.saturating_sub(1));
        left > 0 && depth < IN_PLACE_DEPTH_MAX
    }

    fn target(&self, schema: &'s Value) -> Option<&'s Value> {
        let pointer = schema.get("$ref")?.as_str()?.strip_prefix('#')?;
        self.root.pointer(pointer)
    }

    /// The types that a schema may allow. May name too many, never too few.
    pub(crate) fn types(&self, schema: &'s Value) -> JsonTypeSet {
        self.types_at(schema, 0)
    }

    fn types_at(&self, schema: &'s Value, depth: u32) -> JsonTypeSet {
        let Value::Object(map) = schema else {
            return if schema == &Value::Bool(false) { JsonTypeSet::empty() } else { JsonTypeSet::all() };
        };
        if !self.step(depth) {
            return JsonTypeSet::all();
        }
        let mut types = map.get("type").map_or_else(JsonTypeSet::all, declared);
        if let Some(value) = map.get("const") {
            types = types.intersect(kinds(value));
        }
        if let Some(values) = map.get("enum").and_then(Value::as_array) {
            types = types.intersect(values.iter().map(kinds).fold(JsonTypeSet::empty(), JsonTypeSet::union));
        }
        if let Some(target) = self.target(schema) {
            types = types.intersect(self.types_at(target, depth + 1));
        }
        for part in branches(schema, "allOf") {
            types = types.intersect(self.types_at(part, depth + 1));
        }
        for keyword in ["anyOf", "oneOf"] {
            let any = branches(schema, keyword)
                .map(|branch| self.types_at(branch, depth + 1))
                .reduce(JsonTypeSet::union);
            types = types.intersect(any.unwrap_or_else(JsonTypeSet::all));
        }
        types
    }

    /// The schemas that hold for `tree` where `schema` does: references and `allOf` followed, and
    /// the one alternative taken that `tree` can be meant for, if it is only one.
    pub(crate) fn views(&self, schema: &'s Value, tree: &Tree) -> Vec<&'s Value> {
        let mut views = Vec::new();
        self.collect(schema, tree, 0, &mut views);
        views
    }

    fn collect(&self, schema: &'s Value, tree: &Tree, depth: u32, views: &mut Vec<&'s Value>) {
        if !self.step(depth) {
            return;
        }
        views.push(schema);
        if let Some(target) = self.target(schema) {
            self.collect(target, tree, depth + 1, views);
        }
        for part in branches(schema, "allOf") {
            self.collect(part, tree, depth + 1, views);
        }
        for keyword in ["anyOf", "oneOf"] {
            let mut fitting = branches(schema, keyword).filter(|branch| self.may_hold(branch, tree));
            if let (Some(branch), None) = (fitting.next(), fitting.next()) {
                self.collect(branch, tree, depth + 1, views);
            }
        }
    }

    /// Whether `tree` has the right type and no tag (a `const` or an `enum`) that rules it out.
    fn may_hold(&self, branch: &'s Value, tree: &Tree) -> bool {
        let types = self.types(branch);
        let right_type = match tree {
            Tree::Null => types.contains(JsonType::Null),
            Tree::Bool(_) => types.contains(JsonType::Boolean),
            Tree::Number(_) => types.contains(JsonType::Integer) || types.contains(JsonType::Number),
            Tree::Text(_) => types.contains(JsonType::String),
            Tree::List(_) => types.contains(JsonType::Array),
            Tree::Object(_) => types.contains(JsonType::Object),
        };
        let Tree::Object(members) = tree else { return right_type };
        let target = self.target(branch).unwrap_or(branch);
        right_type
            && members.iter().all(|(key, value)| {
                let Tree::Text(text) = value else { return true };
                let tag = target.get("properties").and_then(|properties| properties.get(key));
                let allowed = |tag: &Value| match (tag.get("const"), tag.get("enum")) {
                    (Some(only), _) => only == text.as_str(),
                    (None, Some(Value::Array(any))) => any.iter().any(|value| value == text.as_str()),
                    (None, _) => true,
                };
                tag.is_none_or(allowed)
            })
    }
}

/// The schema that an object's schemas give for one of its keys, if they name the key.
pub(crate) fn property<'s>(views: &[&'s Value], key: &str) -> Option<&'s Value> {
    views.iter().find_map(|view| view.get("properties")?.get(key))
}

/// The schema for a key that is not named, if there is one for all such keys.
pub(crate) fn other_property<'s>(views: &[&'s Value]) -> Option<&'s Value> {
    if views.iter().any(|view| view.get("patternProperties").is_some()) {
        return None;
    }
    views.iter().find_map(|view| view.get("additionalProperties").filter(|schema| schema.is_object()))
}

/// Whether an object's schemas demand a key.
pub(crate) fn required(views: &[&Value], key: &str) -> bool {
    views.iter().any(|view| {
        view.get("required").and_then(Value::as_array).is_some_and(|keys| keys.iter().any(|name| name == key))
    })
}

/// The schema that an array's schemas give for one of its items.
pub(crate) fn item<'s>(views: &[&'s Value], index: usize) -> Option<&'s Value> {
    views.iter().find_map(|view| {
        let items = view.get("items");
        let by_place = view.get("prefixItems").or(items).and_then(Value::as_array);
        by_place.and_then(|schemas| schemas.get(index)).or_else(|| items.filter(|items| items.is_object()))
    })
}

fn branches<'s>(schema: &'s Value, keyword: &str) -> impl Iterator<Item = &'s Value> {
    schema.get(keyword).and_then(Value::as_array).into_iter().flatten()
}

/// What `type` says. Every integer is a number.
fn declared(types: &Value) -> JsonTypeSet {
    let one = |name: &Value| match name.as_str().map(str::parse) {
        Some(Ok(JsonType::Number)) => JsonType::Number | JsonType::Integer,
        Some(Ok(kind)) => kind.into(),
        Some(Err(_)) | None => JsonTypeSet::all(),
    };
    match types {
        Value::Array(names) => names.iter().map(one).fold(JsonTypeSet::empty(), JsonTypeSet::union),
        name => one(name),
    }
}

fn kinds(value: &Value) -> JsonTypeSet {
    match JsonType::from(value) {
        JsonType::Number if value.is_f64() => JsonType::Number.into(),
        JsonType::Number => JsonType::Number | JsonType::Integer,
        kind => kind.into(),
    }
}
