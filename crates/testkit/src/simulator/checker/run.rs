//! What a run must keep to.

use std::collections::BTreeMap;
use std::time::Duration;

use dauntless_contract::{CallKey, Outcome, Progress, RunLimits, StopReason};

use super::Findings;
use super::endings::Endings;
use crate::CallAccounting;
use crate::simulator::history::{Attempt, Operation, Who};

/// How long a run may wait for calls that it has told to stop.
const SETTLE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct RunBook {
    started: Duration,
    wanted: Wanted,
    /// What a watcher saw, where there is one.
    books: Option<CallAccounting>,
    attempts: BTreeMap<CallKey, u32>,
    /// When calls ended.
    calls: BTreeMap<CallKey, Duration>,
    outcome: Option<(Duration, Outcome)>,
}

/// Whether somebody still wants the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Yes,
    /// Cancelled or dropped.
    NotSince(Duration, How),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Cancelled,
    Dropped,
}

/// Books what the simulator did on the run that it did it to.
pub(super) fn did(operation: &Operation, at: Duration, runs: &mut BTreeMap<u32, RunBook>) {
    let mut unwanted = |run: &u32, how| {
        if let Some(run) = runs.get_mut(run)
            && run.outcome.is_none()
            && run.wanted == Wanted::Yes
        {
            run.wanted = Wanted::NotSince(at, how);
        }
    };
    match operation {
        Operation::Stream(run) => {
            runs.insert(*run, RunBook::new(at, Some(CallAccounting::default())));
        }
        Operation::Run(run) => {
            runs.insert(*run, RunBook::new(at, None));
        }
        Operation::Cancel(run) => unwanted(run, How::Cancelled),
        Operation::Drop(run) => unwanted(run, How::Dropped),
        Operation::ByHand { .. } | Operation::EndFaults | Operation::Shutdown => {}
    }
}

/// The book of the run that an attempt is of.
pub(super) fn book_of<'a>(
    runs: &'a mut BTreeMap<u32, RunBook>,
    attempt: &Attempt,
) -> Option<&'a mut RunBook> {
    match attempt.who {
        Who::Run(run) => runs.get_mut(&run),
        Who::Other(_) => None,
    }
}

impl RunBook {
    const fn new(started: Duration, books: Option<CallAccounting>) -> Self {
        Self {
            started,
            wanted: Wanted::Yes,
            books,
            attempts: BTreeMap::new(),
            calls: BTreeMap::new(),
            outcome: None,
        }
    }

    /// Whether it goes on at `at` with nobody watching.
    pub(super) fn is_unseen(&self, at: Duration) -> bool {
        let over = match (&self.outcome, self.wanted) {
            (Some((ended, _)), _) => *ended,
            (None, Wanted::NotSince(since, How::Dropped)) => since,
            (None, _) => Duration::MAX,
        };
        self.books.is_none() && at <= over
    }

    pub(super) fn attempt_began(&mut self, at: Duration, attempt: &Attempt, findings: &mut Findings) {
        *self.attempts.entry(attempt.call).or_default() += 1;
        if let Wanted::NotSince(since, _) = self.wanted {
            findings.hold(at <= since, at, "a run that nobody wants starts no attempt (RT-15)", || {
                format!("{attempt}, {:?} after that", at.saturating_sub(since))
            });
        }
        if let Some((ended, _)) = self.outcome {
            findings.hold(at <= ended, at, "a run that has ended starts no attempt", || attempt.to_string());
        }
        if let Some(ended) = self.calls.get(&attempt.call) {
            findings.hold(at <= *ended, at, "a call that was answered is not tried again", || {
                attempt.to_string()
            });
        }
    }

    pub(super) fn attempt_ended(&self, at: Duration, attempt: &Attempt, findings: &mut Findings) {
        let over = self.calls.get(&attempt.call).or(self.outcome.as_ref().map(|(ended, _)| ended));
        if let Some(over) = over {
            findings.hold(at <= *over, at, "nothing runs on for a call that was answered (RT-15)", || {
                format!("{attempt} ran on for {:?}", at.saturating_sub(*over))
            });
        }
    }

    pub(super) fn saw(&mut self, at: Duration, progress: &Progress, findings: &mut Findings) {
        if let Some(books) = &mut self.books {
            books.see(progress);
        }
        let Progress::CallEnded { call, tool, attempts, .. } = progress else { return };
        self.calls.entry(*call).or_insert(at);
        let seen = self.attempts.get(call).copied().unwrap_or(0);
        findings.hold(seen <= *attempts, at, "every attempt is told (RT-18)", || {
            format!("call {call} at {tool} tells {attempts} attempts, the tool saw {seen}")
        });
    }

    pub(super) fn ended(
        &mut self,
        at: Duration,
        outcome: &Outcome,
        limits: &RunLimits,
        endings: &Endings,
        findings: &mut Findings,
    ) {
        if self.outcome.is_some() {
            return findings.hold(false, at, "a run ends once", || outcome.reason.to_string());
        }
        self.outcome = Some((at, outcome.clone()));
        let allowed = limits.wall_clock + SETTLE;
        let took = at.saturating_sub(self.started);
        findings.hold(took <= allowed, at, "a run ends within its limits", || {
            format!("run {} took {took:?}, and {allowed:?} were allowed", outcome.run.as_u128())
        });
        if let Wanted::NotSince(since, _) = self.wanted {
            findings.hold(at <= since + SETTLE, at, "a cancelled run ends soon", || {
                format!("run {} took {:?} more", outcome.run.as_u128(), at.saturating_sub(since))
            });
        }
        let broke = match &outcome.reason {
            StopReason::Internal { code } => {
                !(&**code == "runtime_stopped" && endings.shut_down_by(self.started))
            }
            _ => false,
        };
        findings.hold(!broke, at, "the runtime does not break", || outcome.reason.to_string());
        let late = outcome.elapsed >= limits.wall_clock;
        let blames_model = matches!(outcome.reason, StopReason::ModelFailed { .. });
        findings.hold(!(late && blames_model), at, "a run that is out of time says so", || {
            format!("run {} ended with {}", outcome.run.as_u128(), outcome.reason)
        });
        let (turns, most) = (outcome.totals.turns, limits.turns.saturating_add(1));
        findings.hold(turns <= most, at, "a run keeps its limits", || format!("{turns} turns of {most}"));
    }

    /// Whether the run started at or after `since` and gave its answer.
    pub(super) fn completed_since(&self, since: Duration) -> bool {
        self.started >= since && self.outcome.as_ref().is_some_and(|(_, outcome)| outcome.is_completed())
    }

    pub(super) fn close(self, number: u32, end: Duration, findings: &mut Findings) {
        let dropped = matches!(self.wanted, Wanted::NotSince(_, How::Dropped));
        findings.hold(self.outcome.is_some() || dropped, end, "every run ends", || {
            format!("run {number} has no outcome")
        });
        let problems = self.books.and_then(|books| books.check().err()).unwrap_or_default();
        for problem in problems {
            findings
                .hold(false, end, "calls and answers balance (RT-20)", || format!("run {number}: {problem}"));
        }
    }
}
