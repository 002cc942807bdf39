//! All about one tool in words: what it declares, what bounds it, and what its failures lead to.
//!
//! The codes come from the contract, so that none is forgotten; what each group leads to follows
//! from the tool's own effect and `on_exhausted`.

use std::fmt::Write as _;

use dauntless_contract::{Bucket, Effect, FailureCode, OnExhausted, ResiliencePolicy, ToolSpec};

use crate::output;
use crate::progress::length;

pub(super) fn describe(spec: &ToolSpec, kind: &str) -> String {
    let mut text = format!("{} ({kind})\n", spec.name);
    for line in output::harmless(&spec.description).lines() {
        let _ = writeln!(text, "  {line}");
    }
    let _ = writeln!(text, "\nEffect: {}\n  {}", spec.effect.as_str(), effect(spec.effect));
    let _ = writeln!(text, "\nArguments, as JSON Schema:");
    for line in format!("{:#}", spec.parameters).lines() {
        let _ = writeln!(text, "  {line}");
    }
    let _ = writeln!(text, "\nBounds:");
    for (name, bound) in bounds(&spec.resilience) {
        let _ = writeln!(text, "  {name:<9}{bound}");
    }
    let _ = writeln!(
        text,
        "  {:<9}of a success the model is shown {} bytes at most",
        "output", spec.output_bytes_max
    );
    let _ = writeln!(text, "\nWhat a failure leads to:");
    for (codes, leads_to) in failures(spec) {
        let _ = writeln!(text, "  {codes}\n    {leads_to}");
    }
    text
}

const fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::ReadOnly => "It changes nothing, so a call is repeated whenever that may help.",
        Effect::Idempotent => {
            "Doing it twice equals doing it once, so a call is repeated whenever that may help."
        }
        Effect::Keyed => "All attempts of a call carry one key, by which repetitions are dropped.",
        Effect::Verifiable => {
            "One can ask whether it happened; a call that may have happened is not repeated."
        }
        Effect::Once => "A call that may have happened is never repeated.",
    }
}

fn bounds(policy: &ResiliencePolicy) -> [(&'static str, String); 7] {
    let ResiliencePolicy {
        attempt_timeout,
        deadline,
        concurrency,
        waiting,
        abandoned_max,
        retry,
        breaker,
        budget,
    } = policy;
    [
        ("attempt", format!("{} at most", length(*attempt_timeout))),
        ("call", format!("{} at most, for queue, attempts and waits together", length(*deadline))),
        (
            "retries",
            match retry.max_attempts {
                1 => "none".to_owned(),
                attempts => format!(
                    "up to {attempts} attempts; the wait is drawn from 0 to {}, growing ×{} up to {}; a server may \
                     ask for up to {}",
                    length(retry.base),
                    retry.factor,
                    length(retry.cap),
                    length(retry.retry_after_cap)
                ),
            },
        ),
        ("at once", format!("{concurrency} attempts, and {waiting} calls that wait for a place")),
        (
            "stopping",
            format!("with more than {abandoned_max} attempts that do not stop when told to, none is started"),
        ),
        (
            "breaker",
            format!(
                "opens after {} failures in a row, or when {}% of at least {} calls in {} failed; for {} to {}",
                breaker.consecutive_failures,
                breaker.failure_ratio * 100.0,
                breaker.min_calls,
                length(breaker.window),
                length(breaker.open_for),
                length(breaker.open_cap)
            ),
        ),
        (
            "budget",
            format!(
                "{} retries over all runs; each success adds {}, and every {} adds one",
                milli(budget.capacity_milli),
                milli(budget.per_success_milli),
                length(budget.refill_every)
            ),
        ),
    ]
}

/// Thousandths as a number a person would write.
fn milli(thousandths: u64) -> String {
    let text = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Groups of codes, each with what it leads to, in the order of the documentation.
fn failures(spec: &ToolSpec) -> Vec<(String, String)> {
    let mut groups: Vec<(Vec<&str>, String)> = Vec::new();
    for code in FailureCode::ALL {
        let leads_to = leads_to(code, spec);
        match groups.iter_mut().find(|(_, known)| *known == leads_to) {
            Some((codes, _)) => codes.push(code.as_str()),
            None => groups.push((vec![code.as_str()], leads_to)),
        }
    }
    groups.into_iter().map(|(codes, leads_to)| (codes.join(", "), leads_to)).collect()
}

fn leads_to(code: FailureCode, spec: &ToolSpec) -> String {
    let given_up = match spec.on_exhausted {
        OnExhausted::EndRun => "the run ends with tool_exhausted",
        OnExhausted::Observe => "the model is told and goes on without the tool",
        OnExhausted::Park => {
            "the run waits until the tool may work again, and ends with tool_exhausted after max_park"
        }
    };
    let used_up = match &spec.fallback {
        Some(other) => {
            format!("{other} is asked in its place where that does no harm; if that fails too, {given_up}")
        }
        None => given_up.to_owned(),
    };
    let told = "The model is told at once and can think again.";
    match code.bucket() {
        Bucket::Transient if spec.resilience.retry.max_attempts == 1 => {
            format!("It is not tried again: {used_up}.")
        }
        Bucket::Transient if spec.effect.repeatable() || code == FailureCode::RateLimited => {
            format!("It is tried again within the bounds; after that {used_up}.")
        }
        Bucket::Transient => format!(
            "It is tried again within the bounds if it certainly did nothing; after that {used_up}. A lost answer \
             becomes outcome_unknown."
        ),
        Bucket::Terminal => "The run ends at once with tool_terminal.".to_owned(),
        Bucket::Recoverable => told.to_owned(),
        Bucket::ModelMistake => "The tool is not called, and the model is told what was wrong.".to_owned(),
        Bucket::Defect => match spec.effect.repeatable() {
            true => {
                "It is tried again within the bounds; after that the agent's `on_panic` decides.".to_owned()
            }
            false => "It is not tried again; the agent's `on_panic` decides.".to_owned(),
        },
        Bucket::Unknown => {
            "The model is told that it may have happened, and to check before a repetition.".to_owned()
        }
        Bucket::Harness => match code {
            FailureCode::ToolDown | FailureCode::Overloaded => {
                format!("The tool is not called, and {used_up}.")
            }
            _ => told.to_owned(),
        },
        Bucket::LoopGuard => {
            "The call is not made; the model is told to do something else, and the run ends with stuck if it \
             does not."
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests;
