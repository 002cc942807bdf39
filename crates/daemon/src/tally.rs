//! What a run went through, counted from its events, and what a loop without a harness would have
//! made of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{CallKey, FailureCode, Outcome, Progress};

/// Counts the events of one run.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Retries of each call.
    retries: BTreeMap<CallKey, u32>,
    model_retries: u32,
    failed: BTreeMap<FailureCode, u32>,
    /// Each call that is open at a dependency tells of its trip; the drawn wait tells trips apart.
    breakers: BTreeSet<(Arc<str>, Duration)>,
}

impl Tally {
    /// Counts one event.
    pub fn see(&mut self, event: &Progress) {
        match event {
            Progress::AttemptStarted { call, attempt: 2.., .. } => {
                *self.retries.entry(*call).or_default() += 1;
            }
            Progress::ModelRetried { .. } => self.model_retries += 1,
            Progress::CallEnded { code: Some(code), .. } => *self.failed.entry(*code).or_default() += 1,
            Progress::BreakerOpened { tool, retry_in } => {
                self.breakers.insert((Arc::clone(tool), *retry_in));
            }
            _ => {}
        }
    }

    /// Attempts of tool calls that were repeated without the model's help.
    pub fn retries(&self) -> u32 {
        self.retries.values().sum()
    }

    /// How often a breaker opened.
    pub fn breaker_trips(&self) -> usize {
        self.breakers.len()
    }

    /// Model turns that a loop which shows every failed attempt to the model would have spent on
    /// top: for each turn, as many as its most repeated call needed.
    pub fn wasted_turns(&self) -> u32 {
        let mut by_turn: BTreeMap<u32, u32> = BTreeMap::new();
        for (call, retries) in &self.retries {
            let most = by_turn.entry(call.turn).or_default();
            *most = (*most).max(*retries);
        }
        by_turn.values().sum()
    }

    /// The table that ends a rehearsal. `refunds` is what the service counted.
    pub fn table(&self, outcome: &Outcome, refunds: usize) -> String {
        let totals = &outcome.totals;
        let mut table = String::new();
        let mut row = |name: &str, value: String| row(&mut table, name, value);
        row("stop reason", outcome.reason.to_string());
        row("model turns", turns(totals.turns, self.wasted_turns()));
        row("tool calls", format!("{} in {} attempts", totals.tool_calls, totals.tool_attempts));
        let retries = match self.retries() {
            0 => "none".to_owned(),
            retries => format!("{retries}, none of them shown to the model"),
        };
        row("retried in place", retries);
        let mut trips: BTreeMap<&str, u32> = BTreeMap::new();
        for (tool, _) in &self.breakers {
            *trips.entry(tool).or_default() += 1;
        }
        row("breaker trips", listed(&trips));
        row("failed calls", listed(&self.failed));
        if self.model_retries > 0 {
            row("model retries", self.model_retries.to_string());
        }
        row("refunds made", refunds.to_string());
        row("time", format!("{:.1} s", outcome.elapsed.as_secs_f64()));
        table
    }
}

/// One line of a table.
pub(crate) fn row(table: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = writeln!(table, "  {name:<22}{value}");
}

/// The turns that were spent, beside those that a loop without a harness would have spent.
pub(crate) fn turns(spent: u32, wasted: u32) -> String {
    format!("{spent} (a loop without a harness: {}, {wasted} of them wasted)", spent + wasted)
}

/// How often each, in one line.
pub(crate) fn listed<K: std::fmt::Display>(counts: &BTreeMap<K, u32>) -> String {
    if counts.is_empty() {
        return "none".to_owned();
    }
    counts.iter().map(|(name, count)| format!("{name} ×{count}")).collect::<Vec<_>>().join(", ")
}
