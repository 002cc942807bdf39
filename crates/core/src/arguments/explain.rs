//! Says in words what is wrong with arguments: where, what was expected, and what came.
//!
//! The validator reports; nothing here decides. What came is shown by type and in a short piece,
//! and not at all where a key says that it is a secret.

use std::collections::BTreeSet;

use dauntless_contract::FieldProblem;
use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::paths::LocationSegment;
use jsonschema::{ValidationError, Validator};
use serde_json::Value;

use super::path::{push_index, push_key};
use crate::excerpt::{counted, listed, shortened};
use crate::names::nearest;
use crate::redact::is_secret_name;

const PROBLEMS_MAX: usize = 20;
const SHOWN_BYTES_MAX: usize = 80;
const NAMES_MAX: usize = 10;
const ALTERNATIVES_DEPTH_MAX: usize = 8;

/// Everything wrong with the arguments of one call.
#[derive(Debug, PartialEq)]
pub(crate) struct Explained {
    /// The first 20 problems.
    pub(crate) problems: Vec<FieldProblem>,
    /// How many there are.
    pub(crate) total: usize,
    /// The top-level fields they are in.
    pub(crate) fields: BTreeSet<String>,
}

/// Explains why `arguments` do not fit; none when they do.
pub(crate) fn explain(validator: &Validator, parameters: &Value, arguments: &Value) -> Option<Explained> {
    let mut report = Report {
        parameters,
        arguments,
        explained: Explained { problems: Vec::new(), total: 0, fields: BTreeSet::new() },
    };
    for error in validator.iter_errors(arguments) {
        report.add(&error, 0);
    }
    (report.explained.total > 0).then_some(report.explained)
}

struct Report<'a> {
    parameters: &'a Value,
    arguments: &'a Value,
    explained: Explained,
}

/// Where an error is: the path, and whether a key on it names a secret.
struct Place {
    path: String,
    first: Option<String>,
    secret: bool,
}

impl Place {
    fn of(error: &ValidationError<'_>) -> Self {
        let mut place = Self { path: "$".to_owned(), first: None, secret: false };
        for segment in error.instance_path() {
            match segment {
                LocationSegment::Property(key) => place.enter(&key),
                LocationSegment::Index(index) => push_index(&mut place.path, index),
            }
        }
        place
    }

    fn enter(&mut self, key: &str) {
        push_key(&mut self.path, key);
        self.secret |= is_secret_name(key);
        self.first.get_or_insert_with(|| key.to_owned());
    }

    fn key(mut self, key: &str) -> Self {
        self.enter(key);
        self
    }
}

impl Report<'_> {
    fn add(&mut self, error: &ValidationError<'_>, depth: usize) {
        let place = Place::of(error);
        match error.kind() {
            Kind::Required { property: Value::String(key) } => self.missing(error, key),
            Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
                for key in unexpected {
                    self.unexpected(error, key);
                }
            }
            Kind::AnyOf { context } | Kind::OneOfNotValid { context } => match meant(error, context) {
                Some(branch) if depth < ALTERNATIVES_DEPTH_MAX => {
                    branch.iter().for_each(|error| self.add(error, depth + 1));
                }
                Some(_) | None => self.push(place, alternatives(context), error.instance()),
            },
            kind => {
                let expected = expectation(kind, error.instance());
                self.push(place, expected, error.instance());
            }
        }
    }

    fn push(&mut self, place: Place, expected: String, came: &Value) {
        let got = shown(came, place.secret);
        self.push_text(place, expected, got);
    }

    fn push_text(&mut self, place: Place, expected: String, got: String) {
        self.explained.total += 1;
        self.explained.fields.extend(place.first);
        if self.explained.problems.len() < PROBLEMS_MAX {
            self.explained.problems.push(FieldProblem {
                path: shortened(&place.path, 200).into(),
                expected: expected.into(),
                got: got.into(),
            });
        }
    }

    /// A missing field; a key that is there and unknown may be the one that was meant.
    fn missing(&mut self, error: &ValidationError<'_>, key: &str) {
        let known = self.siblings(error);
        let schema = known.and_then(|properties| properties.get(key));
        let expected = match schema.and_then(described) {
            Some(what) => format!("{what}; this field is required"),
            None => "a value; this field is required".to_owned(),
        };
        let is_unknown = |name: &&str| known.is_some_and(|properties| properties.get(*name).is_none());
        let came = error.instance().as_object();
        let unknown: Vec<&str> =
            came.into_iter().flat_map(|map| map.keys()).map(String::as_str).filter(is_unknown).collect();
        let got = match (nearest(key, unknown.iter().copied(), 1).first(), unknown.is_empty()) {
            (Some(near), _) => {
                format!("nothing; `{}` is not a known field, is it this one?", shortened(near, 64))
            }
            (None, false) => format!("nothing; not known here: {}", listed(unknown, 3)),
            (None, true) => "nothing".to_owned(),
        };
        self.push_text(Place::of(error).key(key), expected, got);
    }

    fn unexpected(&mut self, error: &ValidationError<'_>, key: &str) {
        let known = self.siblings(error).and_then(Value::as_object);
        let names = || known.into_iter().flat_map(|map| map.keys()).map(String::as_str);
        let expected = match (nearest(key, names(), 1).first(), names().next()) {
            (Some(near), _) => format!("no field of this name; the nearest is `{near}`"),
            (None, Some(_)) => format!("no field of this name; known are {}", listed(names(), NAMES_MAX)),
            (None, None) => "no field at all".to_owned(),
        };
        let place = Place::of(error).key(key);
        let got = self.arguments.pointer(error.instance_path().as_str()).and_then(|object| object.get(key));
        let got = got.map(|value| shown(value, place.secret)).unwrap_or_default();
        self.push_text(place, expected, got);
    }

    /// The `properties` beside the keyword that complains.
    fn siblings(&self, error: &ValidationError<'_>) -> Option<&Value> {
        let (beside, _keyword) = error.schema_path().as_str().rsplit_once('/')?;
        self.parameters.pointer(beside)?.get("properties")
    }
}

/// The alternative that the value was meant for: of the right type and with the fewest errors.
fn meant<'e>(
    error: &ValidationError<'_>,
    context: &'e [Vec<ValidationError<'static>>],
) -> Option<&'e [ValidationError<'static>]> {
    let here = error.instance_path().as_str();
    let wrong_kind = |errors: &&Vec<ValidationError<'static>>| {
        !errors.iter().any(|inner| {
            let at = inner.instance_path().as_str();
            // Alternatives told apart by a tag differ in a `const` or `enum` one step further in.
            let is_tag = at.strip_prefix(here).is_some_and(|rest| rest.matches('/').count() <= 1);
            match inner.kind() {
                Kind::Type { .. } | Kind::FalseSchema => at == here,
                Kind::Constant { .. } | Kind::Enum { .. } => is_tag,
                _ => false,
            }
        })
    };
    let mut fitting: Vec<_> = context.iter().filter(|errors| !errors.is_empty()).filter(wrong_kind).collect();
    fitting.sort_by_key(|errors| errors.len());
    match fitting.as_slice() {
        [] => None,
        [first, second, ..] if first.len() == second.len() => None,
        [first, ..] => Some(first.as_slice()),
    }
}

/// What each alternative wants, in one phrase.
fn alternatives(context: &[Vec<ValidationError<'static>>]) -> String {
    let mut wants: Vec<String> = Vec::new();
    for error in context.iter().filter_map(|errors| errors.first()) {
        let want = match error.kind() {
            Kind::Required { property: Value::String(key) } => {
                format!("an object with the field `{}`", shortened(key, 64))
            }
            kind => expectation(kind, error.instance()),
        };
        if !wants.contains(&want) && wants.len() < 5 {
            wants.push(want);
        }
    }
    if wants.is_empty() { "one of the alternatives in the schema".to_owned() } else { wants.join(", or ") }
}

/// What a rule of a schema demands, in words.
fn expectation(kind: &Kind, came: &Value) -> String {
    match kind {
        Kind::Type { kind } => types(kind),
        Kind::Enum { options } => one_of(options, came),
        Kind::Constant { expected_value } => format!("exactly {}", json(expected_value)),
        Kind::Minimum { limit } => format!("{} or more", json(limit)),
        Kind::Maximum { limit } => format!("{} or less", json(limit)),
        Kind::ExclusiveMinimum { limit } => format!("more than {}", json(limit)),
        Kind::ExclusiveMaximum { limit } => format!("less than {}", json(limit)),
        Kind::MultipleOf { multiple_of } => format!("a multiple of {multiple_of}"),
        Kind::MinLength { limit } => format!("at least {}", counted(*limit, "character")),
        Kind::MaxLength { limit } => format!("at most {}", counted(*limit, "character")),
        Kind::MinItems { limit } => format!("at least {}", counted(*limit, "item")),
        Kind::MaxItems { limit } => format!("at most {}", counted(*limit, "item")),
        Kind::MinProperties { limit } => format!("at least {}", counted(*limit, "field")),
        Kind::MaxProperties { limit } => format!("at most {}", counted(*limit, "field")),
        Kind::AdditionalItems { limit } => format!("at most {}", counted(*limit, "item")),
        Kind::UnevaluatedItems { .. } => "no further items".to_owned(),
        Kind::UniqueItems => "items that are all different".to_owned(),
        Kind::Contains => "at least one item of the kind that the schema asks for".to_owned(),
        Kind::Pattern { pattern } => format!("text that matches the pattern {}", shortened(pattern, 200)),
        Kind::BacktrackLimitExceeded { .. } | Kind::RegexEngineFailure { .. } => {
            "text that is simpler to match: checking its pattern took too long".to_owned()
        }
        Kind::Format { format } => format_in_words(format),
        Kind::ContentEncoding { content_encoding } => format!("text encoded as {content_encoding}"),
        Kind::ContentMediaType { content_media_type } => format!("text of type {content_media_type}"),
        Kind::FromUtf8 { .. } => "encoded text in UTF-8".to_owned(),
        Kind::FalseSchema => "nothing: no value is allowed here".to_owned(),
        Kind::Not { .. } => "another value: the schema rules this one out".to_owned(),
        Kind::OneOfMultipleValid { .. } => {
            "exactly one of the alternatives in the schema; this fits more than one".to_owned()
        }
        Kind::PropertyNames { error } => {
            format!("other field names: {}", expectation(error.kind(), error.instance()))
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => alternatives(context),
        Kind::AdditionalProperties { .. } | Kind::UnevaluatedProperties { .. } => {
            "an object without unknown fields".to_owned()
        }
        Kind::Required { .. } => "an object with all required fields".to_owned(),
        Kind::Custom { .. } | Kind::Referencing(_) => {
            format!("a value that keeps the rule `{}` of the schema", kind.keyword())
        }
    }
}

fn one_of(options: &Value, came: &Value) -> String {
    let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
    let words: Vec<String> = options.iter().take(NAMES_MAX).map(json).collect();
    let more = if options.len() > NAMES_MAX { ", …" } else { "" };
    let near = came.as_str().and_then(|text| {
        nearest(text, options.iter().filter_map(Value::as_str), 1).first().map(|near| (*near).to_owned())
    });
    match near {
        Some(near) => {
            format!("one of {}{more}; the nearest is {}", words.join(", "), json(&Value::String(near)))
        }
        None => format!("one of {}{more}", words.join(", ")),
    }
}

fn types(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(kind) => with_article(kind.as_str()).to_owned(),
        TypeKind::Multiple(set) => {
            let names: Vec<&str> = set.iter().map(|kind| with_article(kind.as_str())).collect();
            names.join(" or ")
        }
    }
}

fn with_article(kind: &str) -> &str {
    match kind {
        "array" => "an array",
        "boolean" => "a boolean",
        "integer" => "an integer",
        "number" => "a number",
        "object" => "an object",
        "string" => "a string",
        other => other,
    }
}

fn format_in_words(format: &str) -> String {
    let example = match format {
        "date" => "2026-01-31",
        "date-time" => "2026-01-31T12:00:00Z",
        "time" => "12:00:00Z",
        "duration" => "PT30S",
        "email" => "name@example.com",
        "uri" => "https://example.com/page",
        "uuid" => "123e4567-e89b-12d3-a456-426614174000",
        "ipv4" => "192.0.2.1",
        _ => return format!("text in the format {}", shortened(format, 64)),
    };
    format!("text in the format {format}, like {example}")
}

/// What a property's schema says about itself, if it says it simply.
fn described(schema: &Value) -> Option<String> {
    if let Some(options) = schema.get("enum") {
        return Some(one_of(options, &Value::Null));
    }
    match schema.get("type")? {
        Value::String(kind) => Some(with_article(kind).to_owned()),
        Value::Array(kinds) => {
            Some(kinds.iter().filter_map(Value::as_str).map(with_article).collect::<Vec<_>>().join(" or "))
        }
        _ => None,
    }
}

/// The type of what came and a short piece of it; the type alone for a secret.
fn shown(value: &Value, secret: bool) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Array(items) => format!("an array of {}", counted(items.len(), "item")),
        Value::Object(map) if map.is_empty() => "an empty object".to_owned(),
        Value::Object(map) => {
            format!("an object with {}", listed(map.keys().map(String::as_str), 5))
        }
        Value::Bool(_) if secret => "a boolean (not shown)".to_owned(),
        Value::Number(_) if secret => "a number (not shown)".to_owned(),
        Value::String(_) if secret => "a string (not shown)".to_owned(),
        Value::Bool(value) => format!("the boolean {value}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the string {}", json(&Value::String(text.clone()))),
    }
}

/// Short JSON.
fn json(value: &Value) -> String {
    match value {
        Value::String(text) if text.len() > SHOWN_BYTES_MAX => {
            Value::String(shortened(text, SHOWN_BYTES_MAX).into_owned()).to_string()
        }
        value => shortened(&value.to_string(), SHOWN_BYTES_MAX).into_owned(),
    }
}
