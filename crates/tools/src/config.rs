//! Mistakes in a configuration, gathered so that the operator sees all of them at once.

use std::collections::BTreeSet;
use std::fmt;

use dauntless_contract::{Bucket, FailureCode};
use serde_json::Value;

use crate::environment::Environment;
use crate::template::Template;

/// One mistake in the configuration of a tool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct ToolConfigError {
    /// Where, inside the tool's table, like `http.headers.Authorization`.
    pub field: String,
    /// What is wrong and what was expected.
    pub message: String,
}

/// Reads the table of one kind and gathers what is wrong with it.
pub(crate) struct Reader<'a> {
    kind: &'static str,
    parameters: Parameters,
    used: BTreeSet<String>,
    pub(crate) environment: Environment<'a>,
    mistakes: Vec<ToolConfigError>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(kind: &'static str, schema: &Value, environment: Environment<'a>) -> Self {
        Self {
            kind,
            parameters: Parameters::of(schema),
            used: BTreeSet::new(),
            environment,
            mistakes: Vec::new(),
        }
    }

    pub(crate) fn mistake(&mut self, field: impl fmt::Display, message: impl Into<String>) {
        self.mistakes
            .push(ToolConfigError { field: format!("{}.{field}", self.kind), message: message.into() });
    }

    /// Takes the value of a result, or notes its mistake.
    pub(crate) fn take<T>(&mut self, field: impl fmt::Display, result: Result<T, String>) -> Option<T> {
        result.map_err(|message| self.mistake(field, message)).ok()
    }

    /// Text with environment variables put in.
    pub(crate) fn expand(&mut self, field: impl fmt::Display, text: &str) -> Option<String> {
        let expanded = self.environment.expand(text);
        self.take(field, expanded)
    }

    /// Text whose placeholders are parameters, and always there unless marked `?`.
    pub(crate) fn template(&mut self, field: impl fmt::Display, text: &str) -> Option<Template> {
        let template = self.take(&field, Template::parse(text))?;
        self.check(field, template)
    }

    /// Notes the mistakes in the placeholders of a template, and that their parameters are used.
    pub(crate) fn check(&mut self, field: impl fmt::Display, template: Template) -> Option<Template> {
        let mut fine = true;
        for (name, optional) in template.holes() {
            self.used.insert(name.to_owned());
            if let Some(mistake) = self.parameters.mistake(name, optional) {
                self.mistake(&field, mistake);
                fine = false;
            }
        }
        fine.then_some(template)
    }

    /// The parameters that some template uses so far.
    pub(crate) fn used(&self) -> BTreeSet<String> {
        self.used.clone()
    }

    /// Notes each parameter that goes nowhere: the model would fill it in for nothing.
    pub(crate) fn refuse_unused(&mut self, field: &str, way_out: &str) {
        let unused: Vec<String> = self.parameters.names.difference(&self.used).cloned().collect();
        for name in unused {
            self.mistake(field, format!("parameter `{name}` is used nowhere: {way_out}"));
        }
    }

    /// The value and the secrets in it, if nothing was wrong.
    pub(crate) fn finish<T>(self, value: Option<T>) -> Result<(T, Vec<String>), Vec<ToolConfigError>> {
        match value {
            Some(value) if self.mistakes.is_empty() => Ok((value, self.environment.into_secrets())),
            _ => Err(self.mistakes),
        }
    }
}

/// What the schema says about the parameters, as far as placeholders are concerned.
struct Parameters {
    names: BTreeSet<String>,
    required: BTreeSet<String>,
}

impl Parameters {
    fn of(schema: &Value) -> Self {
        let names = schema.get("properties").and_then(Value::as_object);
        let required = schema.get("required").and_then(Value::as_array);
        Self {
            names: names.into_iter().flat_map(|map| map.keys().cloned()).collect(),
            required: required.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect(),
        }
    }

    fn mistake(&self, name: &str, optional: bool) -> Option<String> {
        if !self.names.contains(name) {
            Some(self.unknown(name))
        } else if !optional && !self.required.contains(name) {
            Some(format!(
                "parameter `{name}` may be absent: list it under `required` in the schema, or write \
                 `{{{name}?}}` where it may be left out"
            ))
        } else {
            None
        }
    }

    fn unknown(&self, name: &str) -> String {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let meant = match nearest(name, &names) {
            Some(near) => format!("did you mean `{{{near}}}`?"),
            None if names.is_empty() => "the schema lists none under `properties`.".to_owned(),
            None => format!("the schema has `{}`.", names.join("`, `")),
        };
        format!("there is no parameter `{name}`: {meant} (A brace that is meant as such is written twice.)")
    }
}

/// The name that was probably meant.
fn nearest<'a>(name: &str, names: &[&'a str]) -> Option<&'a str> {
    let distance = |other: &str| strsim::damerau_levenshtein(name, other);
    let near = names.iter().copied().min_by_key(|other| distance(other))?;
    (distance(near) <= 1.max(name.len() / 3)).then_some(near)
}

/// Whether a tool can give this code; the others are for the harness to give.
pub(crate) const fn is_of_a_tool(code: FailureCode) -> bool {
    match code.bucket() {
        Bucket::Transient | Bucket::Terminal | Bucket::Recoverable | Bucket::Unknown => true,
        Bucket::ModelMistake => matches!(code, FailureCode::InvalidArguments | FailureCode::TooLarge),
        Bucket::Defect | Bucket::Harness | Bucket::LoopGuard => false,
    }
}

/// Notes a JSON pointer that is none.
pub(crate) fn check_pointer(pointer: Option<&str>, reader: &mut Reader<'_>) {
    if pointer.is_some_and(|pointer| !pointer.is_empty() && !pointer.starts_with('/')) {
        reader.mistake("response", "a JSON pointer begins with `/`, like `/data/items`");
    }
}

/// Reads a failure code that an answer of a tool can mean.
pub(crate) fn failure_code(text: &str) -> Result<FailureCode, String> {
    let usable = |code: &FailureCode| is_of_a_tool(*code);
    let codes: Vec<&str> =
        FailureCode::ALL.iter().filter(|code| usable(code)).map(|code| code.as_str()).collect();
    text.parse().ok().filter(usable).ok_or_else(|| match nearest(text, &codes) {
        Some(near) => format!("`{text}` is not a failure code that a tool can give; did you mean `{near}`?"),
        None => {
            format!("`{text}` is not a failure code that a tool can give; use one of {}", codes.join(", "))
        }
    })
}
