//! What a round was, in numbers: how often each point was hit, and what came of the calls.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use dauntless_contract::RunEvent;

use super::Plan;
use super::judge::{Blow, Evidence, sent_by_the_woken};
use super::ledger::{Class, Intent, Point, Request};

/// The numbers of one round.
#[derive(Clone, Debug)]
pub struct Report {
    title: String,
    points: Vec<(Point, usize, usize)>,
    classes: Vec<(Class, usize, usize, usize)>,
    unknown: usize,
    questions: usize,
    interruptions: usize,
    takeovers: u64,
    late_results: u64,
    woken: usize,
    reopened: u64,
    runs: usize,
}

impl Report {
    pub(super) fn new(plan: &Plan, evidence: &Evidence, struck: Duration, reopened: u64) -> Self {
        let blows = |point: Point, blow: Blow| {
            evidence.strikes.iter().filter(|strike| (strike.point, strike.blow) == (point, blow)).count()
        };
        let class = |class: Class| {
            let requests = evidence.requests.iter().filter_map(|request| match request {
                Request::Tool { intent, class: of, executed, .. } if *of == class => {
                    Some((*intent, *executed))
                }
                Request::Tool { .. }
                | Request::Model { .. }
                | Request::Question { .. }
                | Request::Over { .. } => None,
            });
            let requests: Vec<(Intent, bool)> = requests.collect();
            let intents: BTreeSet<Intent> = requests.iter().map(|(intent, _)| *intent).collect();
            (class, intents.len(), requests.len(), requests.iter().filter(|(_, executed)| *executed).count())
        };
        let events = evidence.records.iter().flat_map(|run| &run.events);
        Self {
            title: format!(
                "{}, seed {}: {} blows in {:.0} s",
                plan.store.as_str(),
                plan.seed,
                evidence.strikes.len(),
                struck.as_secs_f64()
            ),
            points: Point::ALL
                .map(|point| (point, blows(point, Blow::Kill), blows(point, Blow::Stop)))
                .to_vec(),
            classes: Class::ALL.map(class).to_vec(),
            unknown: evidence
                .observed
                .values()
                .filter(|texts| texts.iter().any(|text| text.contains("outcome_unknown")))
                .count(),
            questions: evidence
                .requests
                .iter()
                .filter(|request| matches!(request, Request::Question { .. }))
                .count(),
            interruptions: events.filter(|event| matches!(event, RunEvent::Interrupted {})).count(),
            takeovers: evidence.records.iter().map(|run| run.epoch.saturating_sub(1)).sum(),
            late_results: evidence.records.iter().map(|run| run.late_results).sum(),
            woken: sent_by_the_woken(evidence),
            reopened,
            runs: evidence.records.len(),
        }
    }

    /// How often a point was hit.
    pub fn hits(&self, point: Point) -> usize {
        self.points.iter().filter(|(of, ..)| *of == point).map(|(_, kills, stops)| kills + stops).sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        writeln!(f, "  {:<26} {:>8} {:>8}", "", "kill -9", "SIGSTOP")?;
        for (point, kills, stops) in &self.points {
            writeln!(f, "  {:<26} {kills:>8} {stops:>8}", point.as_str())?;
        }
        writeln!(f, "  {:<26} {:>8} {:>8} {:>8}", "", "calls", "requests", "effects")?;
        for (class, intents, requests, executed) in &self.classes {
            writeln!(f, "  {:<26} {intents:>8} {requests:>8} {executed:>8}", class.as_str())?;
        }
        writeln!(
            f,
            "  {} runs; {} changes of owner, {} interruptions, {} calls shown as unknown, {} asked about, \
             {} late results, {} requests sent on waking, {} taken out of quarantine",
            self.runs,
            self.takeovers,
            self.interruptions,
            self.unknown,
            self.questions,
            self.late_results,
            self.woken,
            self.reopened
        )
    }
}
