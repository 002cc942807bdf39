//! A TOML document as JSON, with the place of every key and value, and the mistakes found in it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::report::{Mistake, Place, Problem, Report};
use super::secret;

/// Longest text that a report quotes.
const QUOTED_CHARS_MAX: usize = 60;

/// The document, and the mistakes noted about it so far. Paths are JSON Pointers.
pub(super) struct Document<'t> {
    origin: &'t str,
    text: &'t str,
    value: Value,
    spans: BTreeMap<String, Spans>,
    mistakes: Vec<Mistake>,
    /// Where they are: one mistake at a place is enough, what follows from it is no help.
    noted: BTreeSet<String>,
}

struct Spans {
    key: Range<usize>,
    value: Range<usize>,
}

impl<'t> Document<'t> {
    /// Parses the text.
    ///
    /// # Errors
    /// Every mistake in the syntax. What the values mean is not looked at then: a parser that has
    /// lost its way would report what is not there.
    pub(super) fn parse(origin: &'t str, text: &'t str) -> Result<Self, Report> {
        let mut document = Self {
            origin,
            text,
            value: Value::Null,
            spans: BTreeMap::new(),
            mistakes: Vec::new(),
            noted: BTreeSet::new(),
        };
        let (root, errors) = DeTable::parse_recoverable(text);
        for error in errors {
            let span = error.span().unwrap_or(text.len()..text.len());
            let problem = Problem::Syntax(error.message().to_owned());
            let place = Some(Place::of(text, span.start, span.end));
            document.mistakes.push(Mistake { place, path: String::new(), problem, hint: None });
        }
        if !document.mistakes.is_empty() {
            return Err(document.into_report());
        }
        document.value = document.table("", root.into_inner());
        Ok(document)
    }

    /// A document that was parsed before. Its mistakes have no place.
    pub(super) fn of(origin: &'t str, value: Value) -> Self {
        let (spans, mistakes, noted) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        Self { origin, text: "", value, spans, mistakes, noted }
    }

    /// The whole document.
    pub(super) fn value(&self) -> &Value {
        &self.value
    }

    /// The value at a pointer.
    pub(super) fn get(&self, pointer: &str) -> Option<&Value> {
        self.value.pointer(pointer)
    }

    /// The names of the entries of a table, mistaken ones included.
    pub(super) fn names(&self, pointer: &str) -> Vec<String> {
        self.get(pointer)
            .and_then(Value::as_object)
            .map_or_else(Vec::new, |map| map.keys().cloned().collect())
    }

    /// Whether nothing is wrong so far.
    pub(super) fn is_clean(&self) -> bool {
        self.mistakes.is_empty()
    }

    /// All mistakes.
    pub(super) fn into_report(self) -> Report {
        Report::new(self.origin, self.mistakes)
    }

    /// Notes a key that does not belong here.
    pub(super) fn unknown_key(&mut self, pointer: &str, nearest: Option<String>, hint: Option<String>) {
        let span = self.span(pointer, |spans| &spans.key);
        self.note(pointer, span, Problem::UnknownKey { nearest }, hint);
    }

    /// Notes a key that is not there but must be.
    pub(super) fn missing(&mut self, pointer: &str, expected: impl Into<String>) {
        let span = self.span(pointer, |spans| &spans.key);
        self.note(pointer, span, Problem::Missing { expected: expected.into() }, None);
    }

    /// Notes a value that is wrong, quoting it unless it may be a secret.
    pub(super) fn wrong(&mut self, pointer: &str, expected: impl Into<String>, hint: Option<String>) {
        let key = pointer.rsplit('/').next().unwrap_or_default();
        let found = match self.get(pointer) {
            Some(Value::String(_)) if secret::is_named_by(key) => "a text that is not shown here".to_owned(),
            Some(value) => quoted(value),
            None => "nothing".to_owned(),
        };
        self.wrong_found(pointer, expected, found, hint);
    }

    /// Notes a value that is wrong, in the caller's words for what is there.
    pub(super) fn wrong_found(
        &mut self,
        pointer: &str,
        expected: impl Into<String>,
        found: impl Into<String>,
        hint: Option<String>,
    ) {
        let span = self.value_span(pointer);
        let problem = Problem::Value { expected: expected.into(), found: found.into() };
        self.note(pointer, span, problem, hint);
    }

    /// Notes that a rule is broken, in the rule's own words.
    pub(super) fn rule(&mut self, pointer: &str, words: String) {
        let span = self.value_span(pointer);
        self.note(pointer, span, Problem::Rule(words), None);
    }

    /// Notes that the name of a table is wrong.
    pub(super) fn wrong_name(&mut self, pointer: &str, expected: &str, found: &str, hint: Option<String>) {
        let span = self.span(pointer, |spans| &spans.key);
        let problem = Problem::Value { expected: expected.to_owned(), found: found.to_owned() };
        self.note(pointer, span, problem, hint);
    }

    /// Whether a mistake was noted at the pointer.
    pub(super) fn is_noted(&self, pointer: &str) -> bool {
        self.noted.contains(pointer)
    }

    fn note(&mut self, pointer: &str, span: Range<usize>, problem: Problem, hint: Option<String>) {
        if self.noted.insert(pointer.to_owned()) {
            let place = (!self.text.is_empty()).then(|| Place::of(self.text, span.start, span.end));
            self.mistakes.push(Mistake { place, path: self.path(pointer), problem, hint });
        }
    }

    /// Where a value is, or the key of a table, which may be many lines long.
    fn value_span(&self, pointer: &str) -> Range<usize> {
        let is_table = self.get(pointer).is_none_or(Value::is_object);
        self.span(pointer, |spans| if is_table { &spans.key } else { &spans.value })
    }

    /// The span of the value at the pointer, or of the nearest table around it that was written.
    fn span(&self, pointer: &str, choose: impl Fn(&Spans) -> &Range<usize>) -> Range<usize> {
        let mut at = pointer;
        loop {
            if let Some(spans) = self.spans.get(at) {
                return if at == pointer { choose(spans).clone() } else { spans.key.clone() };
            }
            match at.rsplit_once('/') {
                Some((parent, _)) => at = parent,
                None => return 0..0,
            }
        }
    }

    /// The pointer in the words of TOML.
    fn path(&self, pointer: &str) -> String {
        let mut path = String::new();
        let mut at = Some(&self.value);
        for token in pointer.split('/').skip(1) {
            let key = key(token);
            if let Some(Value::Array(items)) = at {
                path.push_str(&format!("[{key}]"));
                at = key.parse().ok().and_then(|index: usize| items.get(index));
                continue;
            }
            if !path.is_empty() {
                path.push('.');
            }
            let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            match !key.is_empty() && key.chars().all(bare) {
                true => path.push_str(&key),
                false => path.push_str(&format!("{key:?}")),
            }
            at = at.and_then(|value| value.get(&key));
        }
        path
    }

    fn table(&mut self, pointer: &str, table: DeTable<'t>) -> Value {
        let mut map = Map::new();
        for (key, value) in table {
            let child = join(pointer, key.get_ref());
            self.spans.insert(child.clone(), Spans { key: key.span(), value: value.span() });
            let value = self.convert(&child, value);
            map.insert(key.into_inner().into_owned(), value);
        }
        Value::Object(map)
    }

    fn convert(&mut self, pointer: &str, value: Spanned<DeValue<'t>>) -> Value {
        let span = value.span();
        match value.into_inner() {
            DeValue::String(text) => Value::String(text.into_owned()),
            DeValue::Boolean(truth) => Value::Bool(truth),
            DeValue::Table(table) => self.table(pointer, table),
            DeValue::Array(items) => {
                let item = |(index, item): (usize, Spanned<DeValue<'t>>)| {
                    let child = format!("{pointer}/{index}");
                    self.spans.insert(child.clone(), Spans { key: item.span(), value: item.span() });
                    self.convert(&child, item)
                };
                Value::Array(items.into_iter().enumerate().map(item).collect())
            }
            DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
                Ok(number) => number.into(),
                Err(_) => self.not_json(pointer, span, "a whole number of at most 18 digits", &integer),
            },
            DeValue::Float(float) => match float.as_str().parse().map(serde_json::Number::from_f64) {
                Ok(Some(number)) => Value::Number(number),
                Ok(None) | Err(_) => self.not_json(pointer, span, "a finite number", &float),
            },
            DeValue::Datetime(date) => self.not_json(pointer, span, "a text in quotes", &date),
        }
    }

    /// Notes a value that JSON does not have; its text stands in, so that the checks can go on.
    fn not_json(&mut self, pointer: &str, span: Range<usize>, expected: &str, found: &dyn ToString) -> Value {
        let found = found.to_string();
        let problem = Problem::Value { expected: expected.to_owned(), found: found.clone() };
        self.note(pointer, span, problem, None);
        Value::String(found)
    }
}

/// The pointer of a key in a table.
pub(super) fn join(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// Takes the value at a pointer out of its table.
pub(super) fn remove(root: &mut Value, pointer: &str) {
    if let Some((parent, token)) = pointer.rsplit_once('/')
        && let Some(table) = root.pointer_mut(parent).and_then(Value::as_object_mut)
    {
        table.remove(&key(token));
    }
}

/// The key that a token of a pointer stands for.
fn key(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

/// The value in a few words.
pub(super) fn quoted(value: &Value) -> String {
    match value {
        Value::String(text) if secret::is_in(text) => "what looks like a secret".to_owned(),
        Value::String(text) => {
            let head: String = text.chars().take(QUOTED_CHARS_MAX).collect();
            let rest = if head.len() < text.len() { "…" } else { "" };
            format!("{:?}", format!("{head}{rest}"))
        }
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a table".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}
