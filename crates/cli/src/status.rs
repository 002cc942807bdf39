//! How the tools and models of a process stand, as a table for a person.
//!
//! A function of the picture alone. Messages of failures were written by others: they are shown and
//! never obeyed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use dauntless_contract::{
    BreakerStatus, DependencyKind, FailureCode, PastFailure, ServiceState, Timestamp, ToolStatus,
};
use dauntless_daemon::control::ProcessStatus;

use crate::output::one_line;
use crate::progress::length;

/// Longest message of a failure that is shown.
const MESSAGE_CHARS_MAX: usize = 160;

const HEADINGS: [&str; 11] = [
    "NAME",
    "KIND",
    "SERVICE",
    "BREAKER",
    "FAILED",
    "BUDGET",
    "GATE",
    "RUNNING",
    "WAITING",
    "RESTARTS",
    "ABANDONED",
];

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    Table,
    /// And for each what was counted, and its latest failures.
    All,
}

/// The table of one process.
pub(crate) fn shown(process: &ProcessStatus, detail: Detail) -> String {
    let up = length(process.up);
    let mut text = format!("process {}, Dauntless {}, up {up}\n", process.pid, process.version);
    let rows: Vec<[String; 11]> = process.tools.iter().map(row).collect();
    text.push_str(&table(&rows));
    for tool in &process.tools {
        for note in notes(tool) {
            let _ = writeln!(text, "{}: {note}", tool.name);
        }
    }
    if detail == Detail::All {
        for tool in &process.tools {
            text.push_str(&details(tool, process.at));
        }
    }
    text
}

/// Where a breaker stands, in a few words.
pub(crate) fn breaker(breaker: BreakerStatus) -> String {
    match breaker {
        BreakerStatus::Closed => "closed".to_owned(),
        BreakerStatus::Open { retry_in } if retry_in.is_zero() => "open, probe due".to_owned(),
        BreakerStatus::Open { retry_in } => format!("open, probe in {}", length(retry_in)),
        BreakerStatus::HalfOpen => "half-open".to_owned(),
        BreakerStatus::ForcedOpen => "forced open".to_owned(),
        BreakerStatus::ForcedClosed => "forced closed".to_owned(),
    }
}

fn row(tool: &ToolStatus) -> [String; 11] {
    [
        tool.name.to_string(),
        match tool.kind {
            DependencyKind::Tool => "tool".to_owned(),
            DependencyKind::Model => "model".to_owned(),
        },
        service(&tool.service),
        breaker(tool.breaker),
        format!("{} of {}", tool.window_failures, tool.window_calls),
        format!("{}/{}", retries(tool.budget_milli), retries(tool.budget_capacity_milli)),
        tool.gate_opens_in.map_or_else(|| "open".to_owned(), |wait| format!("opens in {}", length(wait))),
        format!("{}/{}", tool.running, tool.running_max),
        format!("{}/{}", tool.waiting, tool.waiting_max),
        tool.restarts.to_string(),
        tool.abandoned.to_string(),
    ]
}

fn service(service: &ServiceState) -> String {
    match service {
        ServiceState::Starting => "starting".to_owned(),
        ServiceState::Up => "up".to_owned(),
        ServiceState::Restarting { retry_in } => format!("restarts in {}", length(*retry_in)),
        ServiceState::Down { revive_in: Some(wait), .. } => format!("down, back in {}", length(*wait)),
        ServiceState::Down { revive_in: None, .. } => "down".to_owned(),
    }
}

/// A budget in whole retries, with a tenth where there is one.
fn retries(milli: u64) -> String {
    match (milli / 1000, milli % 1000 / 100) {
        (whole, 0) => whole.to_string(),
        (whole, tenths) => format!("{whole}.{tenths}"),
    }
}

fn table(rows: &[[String; 11]]) -> String {
    let mut widths = HEADINGS.map(str::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = line(HEADINGS.iter().copied(), &widths);
    rows.iter().for_each(|row| text.push_str(&line(row.iter().map(String::as_str), &widths)));
    text
}

fn line<'a>(cells: impl Iterator<Item = &'a str>, widths: &[usize]) -> String {
    let cells: Vec<String> = cells.zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
    format!("{}\n", cells.join("  ").trim_end())
}

/// What the table has no room for and nobody should miss.
fn notes(tool: &ToolStatus) -> Vec<String> {
    let mut notes = Vec::new();
    if let ServiceState::Down { why, .. } = &tool.service {
        notes.push(format!("down: {}", one_line(why, MESSAGE_CHARS_MAX)));
    }
    if let Some(spike) = tool.error_spike {
        notes.push(format!(
            "error_spike: {} of its last {} answers were failures, before those {}.{} %; look at its schema \
             and at the service behind it",
            spike.failures,
            spike.answers,
            spike.usual_milli / 10,
            spike.usual_milli % 10
        ));
    }
    notes
}

fn details(tool: &ToolStatus, at: Timestamp) -> String {
    let counters = &tool.counters;
    let mut text = format!("\n{}\n", tool.name);
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(text, "  {name:<18}{value}");
    };
    let calls = counters.calls;
    let worked = match (calls, counters.succeeded) {
        (0, _) => "none yet".to_owned(),
        (_, 0) => format!("{calls}, none worked"),
        (_, worked) => format!("{calls}, {worked} worked, in {} on average", length(average(tool))),
    };
    row("calls", &worked);
    if counters.attempts > 0 {
        row("attempts", &format!("{}, {} of them retries", counters.attempts, counters.retries));
    }
    if !counters.failed_attempts.is_empty() {
        row("failed attempts", &counted(&counters.failed_attempts));
    }
    if !counters.observed.is_empty() {
        row("shown to a model", &counted(&counters.observed));
    }
    if counters.stale > 0 {
        row("late answers", &format!("{}, dropped", counters.stale));
    }
    for (index, PastFailure { at: then, code, message }) in tool.last_failures.iter().rev().enumerate() {
        let name = if index == 0 { "latest failures" } else { "" };
        let ago = format!("{} ago", length(at.since(*then)));
        row(name, &format!("{ago:<14}  {code}: {}", one_line(message, MESSAGE_CHARS_MAX)));
    }
    text
}

fn average(tool: &ToolStatus) -> Duration {
    let worked = u32::try_from(tool.counters.succeeded).unwrap_or(u32::MAX);
    tool.counters.success_time.checked_div(worked).unwrap_or_default()
}

fn counted(counts: &BTreeMap<FailureCode, u64>) -> String {
    counts.iter().map(|(code, count)| format!("{code} ×{count}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
