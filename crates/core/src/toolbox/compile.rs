//! Turns a declaration into a validator, or says why it cannot be offered to a model.
//!
//! Schemas come from servers that nobody here wrote. A schema may not fetch anything, overflow a
//! stack or take for ever, now or while validating; one that could is refused before it is compiled.

use std::collections::BTreeMap;

use dauntless_contract::ToolSpec;
use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

use crate::excerpt::shortened;

const SCHEMA_DEPTH_MAX: usize = 64;
const SCHEMA_NODES_MAX: usize = 20_000;
const CHECKS_PER_VALUE_MAX: u64 = 10_000;
const PATTERN_BACKTRACKS_MAX: usize = 100_000;

/// Checks a declaration and compiles its schema.
///
/// Formats are validated, the draft is taken from `$schema` (2020-12 where it is unknown), and no
/// reference is ever fetched.
pub(super) fn compile(spec: &ToolSpec) -> Result<Validator, String> {
    spec.check().map_err(|error| error.to_string())?;
    let schema = &*spec.parameters;
    let refuse = |problem: String| format!("tool `{}`: its parameter schema {problem}", spec.name);
    within_bounds(schema).map_err(refuse)?;
    if let Some(keyword) =
        ["allOf", "anyOf", "oneOf", "not", "enum"].into_iter().find(|keyword| schema.get(*keyword).is_some())
    {
        return Err(refuse(format!(
            "has `{keyword}` at its root, which providers refuse: describe one object with `properties`"
        )));
    }
    affordable(schema).map_err(refuse)?;
    let mut options = jsonschema::options()
        .should_validate_formats(true)
        .with_pattern_options(PatternOptions::fancy_regex().backtrack_limit(PATTERN_BACKTRACKS_MAX))
        .offline();
    if Draft::default().detect(schema) == Draft::Unknown {
        options = options.with_draft(Draft::Draft202012);
    }
    options.build(schema).map_err(|error| {
        let place = error.instance_path().as_str().to_owned();
        let place = if place.is_empty() { "its root".to_owned() } else { place };
        refuse(format!("is not valid at {}: {}", shortened(&place, 200), shortened(&error.to_string(), 300)))
    })
}

/// Walks the whole schema without recursion: bounds first, then nothing else can overflow.
fn within_bounds(schema: &Value) -> Result<(), String> {
    let mut open = vec![(schema, 1_usize)];
    let mut nodes = 0_usize;
    while let Some((node, depth)) = open.pop() {
        nodes += 1;
        if depth > SCHEMA_DEPTH_MAX {
            return Err(format!("is nested deeper than {SCHEMA_DEPTH_MAX} levels: flatten it"));
        }
        if nodes > SCHEMA_NODES_MAX {
            return Err(format!("has more than {SCHEMA_NODES_MAX} parts: make it smaller"));
        }
        match node {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(map) => {
                for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
                    if let Some(Value::String(target)) = map.get(keyword)
                        && !target.starts_with('#')
                    {
                        return Err(format!(
                            "refers to `{}` outside itself: put what it needs under `$defs`",
                            shortened(target, 200)
                        ));
                    }
                }
                open.extend(map.values().map(|value| (value, depth + 1)));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    Ok(())
}

/// Refuses a schema whose references multiply: 40 definitions that each name the next one twice
/// would be checked 2⁴⁰ times for one value.
fn affordable(root: &Value) -> Result<(), String> {
    let mut costs: BTreeMap<*const Value, u64> = BTreeMap::new();
    let mut starts = vec![root];
    while let Some(start) = starts.pop() {
        starts.extend(children(start));
        if start.get("$ref").is_some() && cost(root, start, &mut costs) > CHECKS_PER_VALUE_MAX {
            return Err(format!(
                "refers to itself so often that one value would be checked more than \
                 {CHECKS_PER_VALUE_MAX} times: make it simpler"
            ));
        }
    }
    Ok(())
}

/// How many schemas one value is checked against, counted depth-first without recursion.
///
/// A reference back to a schema under way costs nothing: the validator stops there too.
fn cost(root: &Value, start: &Value, costs: &mut BTreeMap<*const Value, u64>) -> u64 {
    let known =
        |costs: &BTreeMap<*const Value, u64>, node| costs.get(&std::ptr::from_ref::<Value>(node)).copied();
    let mut visits = vec![(start, false)];
    while let Some((node, entered)) = visits.pop() {
        if entered {
            let parts = in_place(root, node).filter_map(|part| known(costs, part));
            let sum = parts.fold(1, u64::saturating_add);
            costs.insert(node, sum);
        } else if known(costs, node).is_none() {
            costs.insert(node, 0);
            visits.push((node, true));
            visits.extend(in_place(root, node).map(|part| (part, false)));
        }
    }
    known(costs, start).unwrap_or_default()
}

/// The schemas that apply to the same value as `node` does.
fn in_place<'s>(root: &'s Value, node: &'s Value) -> impl Iterator<Item = &'s Value> {
    let target = ["$ref", "$dynamicRef", "$recursiveRef"].into_iter().filter_map(|keyword| {
        let target = node.get(keyword)?.as_str()?.strip_prefix('#')?;
        if target.is_empty() || target.starts_with('/') { root.pointer(target) } else { anchor(root, target) }
    });
    let one = ["not", "if", "then", "else"].into_iter().filter_map(|keyword| node.get(keyword));
    let many = ["allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies"];
    target.chain(one).chain(many.into_iter().filter_map(|keyword| node.get(keyword)).flat_map(children))
}

fn children(node: &Value) -> impl Iterator<Item = &Value> {
    let items = node.as_array().into_iter().flatten();
    items.chain(node.as_object().into_iter().flat_map(|map| map.values()))
}

/// The schema that calls itself by this anchor.
fn anchor<'s>(root: &'s Value, name: &str) -> Option<&'s Value> {
    let mut open = vec![root];
    while let Some(node) = open.pop() {
        let named = ["$anchor", "$dynamicAnchor"]
            .into_iter()
            .any(|keyword| node.get(keyword).and_then(Value::as_str) == Some(name));
        if named {
            return Some(node);
        }
        open.extend(children(node));
    }
    None
}
