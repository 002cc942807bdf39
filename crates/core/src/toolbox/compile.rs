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
const SCHEMA_PARTS_MAX: usize = 20_000;
const CHECKS_PER_VALUE_MAX: u64 = 10_000;
const PATTERN_BACKTRACKS_MAX: usize = 100_000;

const NOT_AT_THE_ROOT: [&str; 5] = ["allOf", "anyOf", "oneOf", "not", "enum"];
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Checks a declaration and compiles its schema.
pub(super) fn compile(spec: &ToolSpec) -> Result<Validator, String> {
    spec.check().map_err(|error| error.to_string())?;
    let schema = &*spec.parameters;
    let refuse = |problem: String| format!("tool `{}`: its parameter schema {problem}", spec.name);
    if let Some(keyword) = NOT_AT_THE_ROOT.into_iter().find(|keyword| schema.get(*keyword).is_some()) {
        return Err(refuse(format!(
            "has `{keyword}` at its root, which providers refuse: describe one object with `properties`"
        )));
    }
    validator(schema).map_err(refuse)
}

/// Checks any schema against the bounds and compiles it. What is wrong is told without its subject.
///
/// Formats are validated, the draft is taken from `$schema` (2020-12 where it is unknown), and no
/// reference is ever fetched.
pub(crate) fn validator(schema: &Value) -> Result<Validator, String> {
    within_bounds(schema)?;
    affordable(schema)?;
    let mut options = jsonschema::options()
        .should_validate_formats(true)
        .with_pattern_options(PatternOptions::fancy_regex().backtrack_limit(PATTERN_BACKTRACKS_MAX))
        .offline();
    if Draft::default().detect(schema) == Draft::Unknown {
        options = options.with_draft(Draft::Draft202012);
    }
    options.build(schema).map_err(|error| {
        let place = match error.instance_path().as_str() {
            "" => "its root",
            path => path,
        };
        format!("is not valid at {}: {}", shortened(place, 200), shortened(&error.to_string(), 300))
    })
}

/// Walks the whole schema without recursion: bounds first, then nothing else can overflow.
fn within_bounds(schema: &Value) -> Result<(), String> {
    let mut open = vec![(schema, 1_usize)];
    let mut parts = 0_usize;
    while let Some((part, depth)) = open.pop() {
        parts += 1;
        if depth > SCHEMA_DEPTH_MAX {
            return Err(format!("is nested deeper than {SCHEMA_DEPTH_MAX} levels: flatten it"));
        }
        if parts > SCHEMA_PARTS_MAX {
            return Err(format!("has more than {SCHEMA_PARTS_MAX} parts: make it smaller"));
        }
        let mut targets = REFERENCES.into_iter().filter_map(|key| text(part, key));
        if let Some(target) = targets.find(|target| !target.starts_with('#')) {
            return Err(format!(
                "refers to `{}` outside itself: put what it needs under `$defs`",
                shortened(target, 200)
            ));
        }
        open.extend(children(part).map(|child| (child, depth + 1)));
    }
    Ok(())
}

/// Refuses a schema whose references multiply: 40 definitions that each name the next one twice
/// would be checked 2⁴⁰ times for one value.
fn affordable(root: &Value) -> Result<(), String> {
    let mut parts = vec![root];
    let mut next = 0;
    while let Some(&part) = parts.get(next) {
        next += 1;
        parts.extend(children(part));
    }
    let anchors = ["$anchor", "$dynamicAnchor"]
        .into_iter()
        .flat_map(|key| parts.iter().filter_map(move |&part| Some((text(part, key)?, part))))
        .collect();
    let mut checks = Checks { root, anchors, costs: BTreeMap::new() };
    if parts.into_iter().any(|part| checks.of(part) > CHECKS_PER_VALUE_MAX) {
        return Err(format!(
            "refers to itself so often that one value would be checked more than \
             {CHECKS_PER_VALUE_MAX} times: make it simpler"
        ));
    }
    Ok(())
}

/// Counts how many schemas one value is checked against.
struct Checks<'s> {
    root: &'s Value,
    anchors: BTreeMap<&'s str, &'s Value>,
    costs: BTreeMap<*const Value, u64>,
}

impl<'s> Checks<'s> {
    /// The count for one schema, depth-first without recursion.
    ///
    /// A reference back to a schema under way costs nothing: the validator stops there too.
    fn of(&mut self, start: &'s Value) -> u64 {
        let mut visits = vec![(start, false)];
        while let Some((schema, entered)) = visits.pop() {
            if entered {
                let sum = self.in_place(schema).map(|part| self.known(part).unwrap_or(0));
                let sum = sum.fold(1, u64::saturating_add);
                self.costs.insert(schema, sum);
            } else if self.known(schema).is_none() {
                self.costs.insert(schema, 0);
                visits.push((schema, true));
                visits.extend(self.in_place(schema).map(|part| (part, false)));
            }
        }
        self.known(start).unwrap_or(0)
    }

    fn known(&self, schema: &Value) -> Option<u64> {
        self.costs.get(&std::ptr::from_ref(schema)).copied()
    }

    /// The schemas that apply to the same value as `schema` does.
    fn in_place(&self, schema: &'s Value) -> impl Iterator<Item = &'s Value> {
        let targets = REFERENCES.into_iter().filter_map(|key| {
            let target = text(schema, key)?.strip_prefix('#')?;
            self.root.pointer(target).or_else(|| self.anchors.get(target).copied())
        });
        let one = ["not", "if", "then", "else"].into_iter().filter_map(|key| schema.get(key));
        let many = ["allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies"];
        targets.chain(one).chain(many.into_iter().filter_map(|key| schema.get(key)).flat_map(children))
    }
}

fn text<'s>(schema: &'s Value, key: &str) -> Option<&'s str> {
    schema.get(key)?.as_str()
}

fn children(node: &Value) -> impl Iterator<Item = &Value> {
    let items = node.as_array().into_iter().flatten();
    items.chain(node.as_object().into_iter().flat_map(|map| map.values()))
}
