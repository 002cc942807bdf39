//! The shape of an answer: what the model is told of it, and what comes of an answer that misses it.
//!
//! An answer is read as strictly as the arguments of a call, with the same repairs and the same
//! words for what does not fit. It is never completed and never picked out of the prose around it.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use dauntless_contract::{AnswerSchema, AnswerSpec, FieldProblem, Json, StopReason, Timestamp};
use jsonschema::Validator;

use super::nudge::{self, Dud, Form};
use super::{Phase, RunEffect, RunMachine};
use crate::arguments::{Arguments, DEPTH_MAX, Explained, Guide, Unreadable, explain, fit, read_value};
use crate::excerpt::{counted, shortened};
use crate::prose;
use crate::toolbox::validator;

/// The schema is told in the instructions, in every request.
const SCHEMA_BYTES_MAX: usize = 64 * 1024;
const LIST_BYTES_MAX: usize = 4096;

/// A schema that answers are held against. Compiled once for each agent; cheap to clone.
#[derive(Clone)]
pub struct AnswerShape {
    spec: AnswerSpec,
    validator: Arc<Validator>,
}

impl fmt::Debug for AnswerShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerShape").field("spec", &self.spec).finish_non_exhaustive()
    }
}

/// Why an answer does not have its shape, and where.
struct Misfit {
    why: String,
    problems: Vec<FieldProblem>,
}

impl AnswerShape {
    /// Compiles a schema, within the bounds that hold for the schemas of tools.
    ///
    /// # Errors
    /// A sentence for whoever wrote the schema: what is wrong, and the way out.
    pub fn compile(spec: &AnswerSpec) -> Result<Self, String> {
        let AnswerSchema { name, schema } = &*spec.schema;
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || name.len() > 64 || !name.chars().all(legal) {
            return Err(format!(
                "the answer's schema is named {:?}: use 1 to 64 of a-z, A-Z, 0-9, `_` and `-`",
                shortened(name, 64)
            ));
        }
        let refuse = |problem: String| format!("the answer's schema `{name}` {problem}");
        // Compiled first: it checks the depth, which the writing of a schema relies on.
        let validator = validator(schema).map_err(refuse)?;
        let bytes = schema.to_string().len();
        if bytes > SCHEMA_BYTES_MAX {
            return Err(refuse(format!(
                "is {bytes} bytes long, and every request carries it: keep it below {SCHEMA_BYTES_MAX}"
            )));
        }
        if Guide::new(schema).types(schema).is_empty() {
            return Err(refuse("allows no value at all, so that no answer could fit".to_owned()));
        }
        Ok(Self { spec: spec.clone(), validator: Arc::new(validator) })
    }

    /// What a request says of the shape.
    pub const fn schema(&self) -> &Arc<AnswerSchema> {
        &self.spec.schema
    }

    /// The instructions with the shape told in words: every provider passes those on, and a schema
    /// in the request not every one does.
    pub(super) fn told(&self, instructions: &str) -> Arc<str> {
        let gap = if instructions.trim().is_empty() { "" } else { "\n\n" };
        format!(
            "{instructions}{gap}When you give your answer, write one JSON value that fits the following JSON \
             schema, and nothing else: no words around it and no code fence. Tools, if there are any, are \
             called as usual before.\n{}",
            self.spec.schema.schema
        )
        .into()
    }

    /// The answer as JSON that fits, or everything that is wrong with it.
    fn read(&self, written: &str) -> Result<Json, Misfit> {
        let Arguments { mut text, mut tree, mut value, repairs: _ } =
            read_value(written).map_err(|problem| unreadable(problem, written))?;
        if !fit(&mut tree, &self.spec.schema.schema).is_empty() {
            value = tree.to_value();
            text = Json::parse(&tree.to_string()).unwrap_or(text);
        }
        match explain(&self.validator, &self.spec.schema.schema, &value) {
            None => Ok(text),
            Some(explained) => Err(misfit(explained)),
        }
    }
}

fn unreadable(problem: Unreadable, written: &str) -> Misfit {
    let plain = |why: String| Misfit { why, problems: Vec::new() };
    match problem {
        Unreadable::Unterminated { length } => plain(format!(
            "is not valid JSON: it stops in the middle, after {}",
            counted(length, "character")
        )),
        Unreadable::Malformed { problem, excerpt, length: _, hint } => {
            let starts_as_json = written.trim_start().starts_with(['{', '[', '"', '`']);
            let hint = match hint {
                Some(hint) => format!(". {}", hint.trim_end_matches('.')),
                None if starts_as_json => String::new(),
                None => ". It begins with other words".to_owned(),
            };
            Misfit {
                why: format!("is not valid JSON: {problem}{hint}"),
                problems: vec![FieldProblem {
                    path: "$".into(),
                    expected: "one JSON value".into(),
                    got: excerpt.into(),
                }],
            }
        }
        Unreadable::TooDeep => plain(format!("is nested deeper than {DEPTH_MAX} levels")),
        Unreadable::RepeatedKey { path, key } => plain(format!(
            "has the key {:?} twice in {}, so it is not clear which value is meant",
            shortened(&key, 64),
            shortened(&path, 200)
        )),
        Unreadable::NotAnObject { kind, excerpt: _ } => plain(format!("is {kind}")),
    }
}

fn misfit(explained: Explained) -> Misfit {
    let Explained { problems, total, fields: _ } = explained;
    let count = match total {
        n if n > problems.len() => format!("{n} problems, of which the first {} are listed", problems.len()),
        n => counted(n, "problem"),
    };
    Misfit { why: format!("does not fit its schema: {count}"), problems }
}

impl Misfit {
    /// The problems, one a line.
    fn listed(&self) -> String {
        let mut list = String::new();
        for FieldProblem { path, expected, got } in &self.problems {
            let _ = write!(list, "\n- {path}: expected {expected}");
            if !got.is_empty() {
                let _ = write!(list, "; got {got}");
            }
        }
        shortened(&list, LIST_BYTES_MAX).into_owned()
    }

    fn nudge(&self) -> String {
        format!(
            "Your answer {}. Answer again with one JSON value that fits the schema, and nothing around it.{}",
            self.why,
            self.listed()
        )
    }

    fn explanation(&self, times: u32) -> String {
        let again = match times {
            0 | 1 => String::new(),
            _ => format!(" ({times} answers were refused, this is the last)"),
        };
        format!("The answer {}{again}.{}", self.why, self.listed())
    }
}

impl RunMachine {
    /// Takes whole text without calls: it is the answer, unless it is a call in disguise or misses
    /// the shape that the agent demands.
    pub(super) fn answered(
        &mut self,
        now: Timestamp,
        text: Arc<str>,
        extra: Option<Json>,
        effects: &mut Vec<RunEffect>,
    ) -> Phase {
        Arc::make_mut(&mut self.history).answer(Arc::clone(&text), extra);
        let spec = Arc::clone(&self.spec);
        let read = spec.answer.as_ref().map(|shape| (shape, shape.read(&text)));
        match read {
            Some((_, Ok(json))) => {
                self.end(now, StopReason::Completed, None, Some(json.as_str().into()), effects)
            }
            _ if prose::looks_like_call(&text, &spec.toolbox) => {
                self.dud(now, Dud::Prose, nudge::prose(self.form()), effects)
            }
            None => self.end(now, StopReason::Completed, None, Some(text), effects),
            Some((shape, Err(misfit))) => {
                self.misfits += 1;
                if self.misfits > shape.spec.reasks_max {
                    let why = spec.redactor.text(&misfit.explanation(self.misfits)).into();
                    return self.end(now, StopReason::MalformedOutput, Some(why), Some(text), effects);
                }
                let words = spec.redactor.text(&misfit.nudge()).into();
                self.nudge(words, effects);
                self.next_turn(now, effects)
            }
        }
    }

    /// What an answer is called when the model is asked for one.
    pub(super) fn form(&self) -> Form {
        if self.spec.answer.is_some() { Form::Shaped } else { Form::Words }
    }
}
