//! What became of the calls while tools failed on purpose.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::mem;
use std::sync::Arc;

use dauntless_contract::{Progress, StopReason};
use dauntless_tools::FaultKind;

use super::ChaosTools;
use crate::tally::{Tally, listed, row, turns};

/// Counts what runs went through, one run after another.
///
/// It counts calls and not causes: a tool that failed by itself as well counts as well.
#[derive(Clone, Debug, Default)]
pub struct ChaosReport {
    runs: u32,
    completed: u32,
    /// How the others ended.
    stopped: BTreeMap<&'static str, u32>,
    turns: u32,
    wasted_turns: u32,
    tools: BTreeMap<Arc<str>, Calls>,
    /// The run that is under way.
    run: Tally,
    /// Whose calls failed in its present turn: the model sees that if there is another turn.
    unseen: Vec<Arc<str>>,
}

/// The calls that reached one tool.
#[derive(Clone, Copy, Debug, Default)]
struct Calls {
    all: u32,
    /// Those that worked after all.
    recovered: u32,
    /// Those whose failure the model was shown. Any other that failed was the end of its run.
    shown: u32,
}

impl ChaosReport {
    /// Counts one event.
    pub fn see(&mut self, event: &Progress) {
        self.run.see(event);
        match event {
            Progress::CallEnded { tool, code, attempts: attempts @ 1.., .. } => {
                let calls = self.tools.entry(Arc::clone(tool)).or_default();
                calls.all += 1;
                calls.recovered += u32::from(code.is_none() && *attempts > 1);
                if code.is_some() {
                    self.unseen.push(Arc::clone(tool));
                }
            }
            Progress::TurnStarted { .. } => {
                for tool in mem::take(&mut self.unseen) {
                    self.tools.entry(tool).or_default().shown += 1;
                }
            }
            Progress::RunEnded { outcome } => {
                self.unseen.clear();
                self.runs += 1;
                self.turns += outcome.totals.turns;
                self.wasted_turns += mem::take(&mut self.run).wasted_turns();
                match &outcome.reason {
                    StopReason::Completed => self.completed += 1,
                    reason => *self.stopped.entry(reason.name()).or_default() += 1,
                }
            }
            _ => {}
        }
    }

    /// The table that ends a session under chaos: the runs, and each affected tool that was called.
    pub fn table(&self, chaos: &ChaosTools) -> String {
        let mut injected: BTreeMap<FaultKind, u32> = BTreeMap::new();
        let mut by_tool = String::new();
        let mut sum = Calls::default();
        for (name, tool) in &chaos.tools {
            let Some(calls) = self.tools.get(name) else { continue };
            let faults = tool.injected();
            row(&mut by_tool, name, calls.told(&faults));
            faults.iter().for_each(|(kind, count)| *injected.entry(*kind).or_default() += count);
            sum = Calls {
                all: sum.all + calls.all,
                recovered: sum.recovered + calls.recovered,
                shown: sum.shown + calls.shown,
            };
        }
        let mut table = format!("Chaos, seed {}:\n", chaos.seed);
        let mut completed = format!("{} of {}", self.completed, self.runs);
        if !self.stopped.is_empty() {
            let _ = write!(completed, " (else {})", listed(&self.stopped));
        }
        row(&mut table, "runs completed", completed);
        row(&mut table, "faults injected", listed(&injected));
        row(&mut table, "recovered in place", counted(sum.recovered, "call"));
        row(&mut table, "shown to the model", counted(sum.shown, "call"));
        row(&mut table, "model turns", turns(self.turns, self.wasted_turns));
        table + &by_tool
    }
}

impl Calls {
    fn told(self, faults: &BTreeMap<FaultKind, u32>) -> String {
        let Self { all, recovered, shown } = self;
        let calls = counted(all, "call");
        format!("{calls}: {recovered} recovered, {shown} shown to the model; injected: {}", listed(faults))
    }
}

fn counted(count: u32, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}
