//! The words for calls that do not run. Read by models, so each names the way out.

use std::collections::BTreeSet;

use dauntless_contract::{Failure, ToolSpec};

use super::{OutputLimit, Toolbox};
use crate::arguments::{DEPTH_MAX, Explained, Unreadable, outline};
use crate::excerpt::{counted, listed, shortened};
use crate::names::nearest;

const NAMES_MAX: usize = 20;
const NEAREST_MAX: usize = 3;

const SEND_AN_OBJECT: &str = "Send the arguments as one JSON object that fits the schema.";
const SPLIT: &str =
    "Split the work: do a smaller part with each call, so that the whole call fits the limit.";

/// The pieces of the call did not fit together.
pub(super) fn garbled(name: &str, reason: &str) -> Failure {
    Failure::malformed_arguments(format!(
        "The call of `{}` arrived garbled, so it was not executed: {}.",
        shortened(name, 64),
        shortened(reason.trim_end_matches('.'), 200)
    ))
    .hint("Send the whole call again.")
}

/// The output limit cut the reply in this call.
pub(super) fn cut(name: &str, limit: OutputLimit, spec: Option<&ToolSpec>) -> Failure {
    let limit = match limit.tokens {
        Some(tokens) => format!("the output limit of {tokens} tokens"),
        None => "the output limit".to_owned(),
    };
    let failure = Failure::truncated_call(format!(
        "Your reply reached {limit} in the call of `{}`, so the call was cut off and not executed.",
        shortened(name, 64)
    ));
    let failure = failure.hint(SPLIT);
    match spec {
        Some(spec) => with_schema(failure, spec, &BTreeSet::new()),
        None => failure,
    }
}

/// There is no such tool.
pub(super) fn unknown_tool(name: &str, toolbox: &Toolbox) -> Failure {
    let near = nearest(name, toolbox.names(), NEAREST_MAX);
    let message = if name.trim().is_empty() {
        "The call names no tool, so nothing was executed.".to_owned()
    } else {
        format!("There is no tool named {:?}, so nothing was executed.", shortened(name, 128))
    };
    let hint = match near.as_slice() {
        [] if toolbox.names().next().is_none() => "There are no tools here: answer without one.".to_owned(),
        [] => "Call one of the candidates by its exact name, or answer without a tool.".to_owned(),
        [one] => format!("The nearest name is `{one}`; if you mean it, call it by exactly that name."),
        several => format!(
            "The nearest names are {}; if you mean one of them, call it by exactly that name.",
            listed(several.iter().copied(), NEAREST_MAX)
        ),
    };
    let others = toolbox.names().filter(|name| !near.contains(name));
    let candidates = near.iter().copied().chain(others).take(NAMES_MAX);
    Failure::unknown_tool(message).hint(hint).candidates(candidates)
}

/// The arguments are not one JSON object.
pub(super) fn unreadable(spec: &ToolSpec, problem: Unreadable) -> Failure {
    let name = &spec.name;
    let failure = match problem {
        Unreadable::Unterminated { length } => Failure::truncated_call(format!(
            "The arguments of `{name}` are not valid JSON: they stop in the middle, after {}. \
             The output limit most likely cut them. The call was not executed.",
            counted(length, "character")
        ))
        .hint(SPLIT),
        Unreadable::Malformed { problem, excerpt, length, hint } => Failure::malformed_arguments(format!(
            "The arguments of `{name}` are not valid JSON: {problem}. The call was not executed."
        ))
        .hint(hint.unwrap_or(SEND_AN_OBJECT))
        .detail("$", "one JSON object", format!("{}: {excerpt}", counted(length, "character"))),
        Unreadable::TooDeep => Failure::malformed_arguments(format!(
            "The arguments of `{name}` are nested deeper than {DEPTH_MAX} levels. The call was not executed."
        ))
        .hint("Send a flatter object."),
        Unreadable::RepeatedKey { path, key } => Failure::malformed_arguments(format!(
            "The arguments of `{name}` have the key {:?} twice in {}, so it is not clear which value is \
             meant. The call was not executed.",
            shortened(&key, 64),
            shortened(&path, 200)
        ))
        .hint("Send each key once."),
        Unreadable::NotAnObject { kind, excerpt } => Failure::invalid_arguments(format!(
            "The arguments of `{name}` are {kind}, but must be one JSON object. The call was not executed."
        ))
        .hint(SEND_AN_OBJECT)
        .detail("$", "one JSON object", excerpt),
    };
    with_schema(failure, spec, &BTreeSet::new())
}

/// The arguments are an object that does not fit the schema.
pub(super) fn misfit(spec: &ToolSpec, explained: Explained) -> Failure {
    let Explained { problems, total, fields } = explained;
    let count = match total {
        n if n > problems.len() => format!("{n} problems, of which the first {} are listed", problems.len()),
        n => counted(n, "problem"),
    };
    let mut failure = Failure::invalid_arguments(format!(
        "The arguments of `{}` do not fit its schema: {count}. The call was not executed.",
        spec.name
    ))
    .hint("Correct what the details name, and send the whole call again.");
    failure.details = problems.into();
    with_schema(failure, spec, &fields)
}

fn with_schema(failure: Failure, spec: &ToolSpec, fields: &BTreeSet<String>) -> Failure {
    match outline(&spec.parameters, fields) {
        Some(schema) => failure.schema(schema),
        None => failure,
    }
}
