//! Reads values that were written as another type, where that is exact and the schema asks for it.
//!
//! The rules: a string is never touched where a string is allowed. A string becomes a number only
//! if it is a JSON number to the last character (no spaces, no `inf`), an integer only if it has no
//! point and no exponent. `"true"` and `"false"` become booleans. A string that is a JSON array or
//! object becomes that. A number like `3.0` becomes `3` where only integers are allowed. A null is
//! left out where the field is optional and may not be null. Digits are moved, never computed.

use jsonschema::{JsonType, JsonTypeSet};
use serde_json::Value;
use serde_json::value::RawValue;

use super::Repair;
use super::path::Path;
use super::schema::{Guide, item, other_property, property, required};
use super::tree::{DEPTH_MAX, Tree, nesting};

/// Repairs that are recorded for one call; further ones are made all the same.
const RECORDED_MAX: usize = 20;

/// Coerces what can be coerced, and tells what it did. No repair means that nothing changed.
pub(crate) fn fit(tree: &mut Tree, parameters: &Value) -> Vec<Repair> {
    let mut coercion = Coercion { guide: Guide::new(parameters), repairs: Vec::new() };
    let root = coercion.guide.root();
    coercion.fit(tree, root, &Path::ROOT);
    coercion.repairs
}

struct Coercion<'s> {
    guide: Guide<'s>,
    repairs: Vec<Repair>,
}

impl<'s> Coercion<'s> {
    fn record(&mut self, repair: Repair) {
        if self.repairs.len() < RECORDED_MAX {
            self.repairs.push(repair);
        }
    }

    fn fit(&mut self, tree: &mut Tree, schema: &'s Value, path: &Path<'_>) {
        self.fit_value(tree, schema, path);
        match tree {
            Tree::Object(members) => {
                let object = Tree::Object(std::mem::take(members));
                let views = self.guide.views(schema, &object);
                let Tree::Object(taken) = object else { return };
                *members = taken;
                self.fit_members(members, &views, path);
            }
            Tree::List(items) => {
                let views = self.guide.views(schema, &Tree::List(Vec::new()));
                for (index, value) in items.iter_mut().enumerate() {
                    if let Some(schema) = item(&views, index) {
                        self.fit(value, schema, &path.index(index));
                    }
                }
            }
            Tree::Null | Tree::Bool(_) | Tree::Number(_) | Tree::Text(_) => {}
        }
    }

    fn fit_members(&mut self, members: &mut Vec<(String, Tree)>, views: &[&'s Value], path: &Path<'_>) {
        members.retain(|(key, value)| {
            let droppable = *value == Tree::Null
                && !required(views, key)
                && property(views, key)
                    .is_some_and(|schema| !self.guide.types(schema).contains(JsonType::Null));
            if droppable {
                self.record(Repair::NullDropped { path: path.key(key).written() });
            }
            !droppable
        });
        for (key, value) in members {
            if let Some(schema) = property(views, key).or_else(|| other_property(views)) {
                self.fit(value, schema, &path.key(key));
            }
        }
    }

    fn fit_value(&mut self, tree: &mut Tree, schema: &'s Value, path: &Path<'_>) {
        let read = match tree {
            Tree::Text(text) => {
                let types = self.guide.types(schema);
                if types.contains(JsonType::String) {
                    return;
                }
                read(text, types, DEPTH_MAX.saturating_sub(path.depth()))
            }
            Tree::Number(text) => {
                let types = self.guide.types(schema);
                let integers_only = types.contains(JsonType::Integer) && !types.contains(JsonType::Number);
                integers_only.then(|| without_zero_fraction(text)).flatten()
            }
            Tree::Null | Tree::Bool(_) | Tree::List(_) | Tree::Object(_) => return,
        };
        let Some(read) = read else { return };
        let path = path.written();
        self.record(match &read {
            Tree::List(_) | Tree::Object(_) => Repair::Decoded { path },
            Tree::Bool(_) => Repair::Coerced { path, to: "a boolean" },
            Tree::Number(text) if is_integer(text) => Repair::Coerced { path, to: "an integer" },
            Tree::Number(_) | Tree::Null | Tree::Text(_) => Repair::Coerced { path, to: "a number" },
        });
        *tree = read;
    }
}

/// The value that a string is the exact text of, if it has one of the types.
fn read(text: &str, types: JsonTypeSet, depth_left: usize) -> Option<Tree> {
    match text.bytes().next()? {
        b'-' | b'0'..=b'9' => {
            let number = types.contains(JsonType::Number) && is_number(text);
            let integer = types.contains(JsonType::Integer) && is_integer(text) && is_number(text);
            (number || integer).then(|| Tree::Number(text.to_owned()))
        }
        b't' | b'f' if types.contains(JsonType::Boolean) => text.parse().ok().map(Tree::Bool),
        b'[' | b'{' | b' ' | b'\n' | b'\r' | b'\t' if nesting(text) <= depth_left => {
            match Tree::parse(text).ok()?.0 {
                tree @ Tree::List(_) if types.contains(JsonType::Array) => Some(tree),
                tree @ Tree::Object(_) if types.contains(JsonType::Object) => Some(tree),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whether a text is one JSON number, finite as a float.
fn is_number(text: &str) -> bool {
    let exact = serde_json::from_str::<&RawValue>(text).is_ok_and(|raw| raw.get() == text);
    exact && serde_json::from_str::<f64>(text).is_ok()
}

fn is_integer(text: &str) -> bool {
    text.strip_prefix('-').unwrap_or(text).bytes().all(|byte| byte.is_ascii_digit())
}

fn without_zero_fraction(text: &str) -> Option<Tree> {
    let (integer, fraction) = text.split_once('.')?;
    let exact = is_integer(integer) && fraction.bytes().all(|byte| byte == b'0');
    exact.then(|| Tree::Number(integer.to_owned()))
}
