//! Holds a history against the rules, from outside: nothing here asks the code it checks.
//!
//! What cannot be told from outside is left open, never guessed: an attempt that ends in the same
//! moment as its timeout or a cancel may have counted either way, so nothing follows from it. A
//! rule is thus never broken by an honest runtime, at the price of some breaches it cannot see.

mod breaker;
mod endings;
mod run;
mod tool;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use dauntless_contract::{
    CallKey, CallRecord, CallVerdict, FailureCode, Progress, RunLimits, StoppedBy, ToolSpec,
};

use super::history::{Attempt, Entry, Fact, History, Operation, Who};
use breaker::Sight;
use endings::Endings;
use run::{RunBook, book_of, did};
use tool::ToolBook;

#[cfg(test)]
mod tests;

/// A rule that a history breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When it shows, in virtual time since the start.
    pub at: Duration,
    /// The rule, in words.
    pub rule: &'static str,
    /// What broke it.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}s {}: {}", self.at.as_secs_f64(), self.rule, self.what)
    }
}

/// Holds histories against the rules, given what the tools declare and what runs may use.
#[derive(Clone, Debug)]
pub struct Checker {
    specs: Vec<Arc<ToolSpec>>,
    limits: RunLimits,
    last_run: LastRun,
}

/// What is asked of the run that is started once the faults have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastRun {
    Completes,
    Ends,
}

/// Takes violations while a history is read.
#[derive(Debug, Default)]
struct Findings(Vec<Violation>);

impl Findings {
    fn hold(&mut self, holds: bool, at: Duration, rule: &'static str, what: impl FnOnce() -> String) {
        if !holds {
            self.0.push(Violation { at, rule, what: what() });
        }
    }
}

impl Checker {
    /// A checker for agents with these tools and limits.
    pub const fn new(specs: Vec<Arc<ToolSpec>>, limits: RunLimits) -> Self {
        Self { specs, limits, last_run: LastRun::Ends }
    }

    /// Demands that a run that starts after the faults have ended completes.
    #[must_use]
    pub const fn expecting_completion(mut self) -> Self {
        self.last_run = LastRun::Completes;
        self
    }

    /// Every rule that the history breaks, in the order of time.
    pub fn check(&self, history: &History) -> Vec<Violation> {
        let mut reading = Reading {
            endings: Endings::of(history),
            limits: &self.limits,
            tools: self.specs.iter().map(|spec| (Arc::clone(&spec.name), ToolBook::new(spec))).collect(),
            runs: BTreeMap::new(),
            keys: BTreeMap::new(),
            findings: Findings::default(),
        };
        for entry in &history.entries {
            reading.take(entry);
        }
        reading.close(history, self.last_run)
    }
}

/// A history while it is read.
struct Reading<'a> {
    endings: Endings,
    limits: &'a RunLimits,
    tools: BTreeMap<Arc<str>, ToolBook>,
    runs: BTreeMap<u32, RunBook>,
    /// Which call an idempotency key is of.
    keys: BTreeMap<u32, (Who, CallKey, Arc<str>)>,
    findings: Findings,
}

impl Reading<'_> {
    fn take(&mut self, Entry { at, fact }: &Entry) {
        let at = *at;
        let findings = &mut self.findings;
        match fact {
            Fact::Did(operation) => did(operation, at, &mut self.runs),
            Fact::ModelAsked { who, turn, flaw, .. } => {
                findings.hold(flaw.is_none(), at, "a conversation is one that providers take", || {
                    format!("turn {turn} of {who}: {}", flaw.as_deref().unwrap_or_default())
                });
            }
            Fact::AttemptBegan { attempt, key, deadline } => self.began(at, attempt, *key, *deadline),
            Fact::AttemptEnded { attempt, end } => {
                if let Some(tool) = self.tools.get_mut(&attempt.tool) {
                    tool.ended(at, attempt, end, &self.endings, findings);
                }
                if let Some(run) = book_of(&mut self.runs, attempt) {
                    run.attempt_ended(at, attempt, findings);
                }
            }
            Fact::EffectHappened { attempt } => {
                if let Some(tool) = self.tools.get_mut(&attempt.tool) {
                    tool.took_effect(at, attempt, findings);
                }
            }
            Fact::Saw { run, progress } => {
                if let Some(run) = self.runs.get_mut(run) {
                    run.saw(at, progress, findings);
                }
                self.saw(at, progress);
            }
            Fact::RunEnded { run, outcome } => {
                if let Some(run) = self.runs.get_mut(run) {
                    run.ended(at, outcome, self.limits, &self.endings, findings);
                }
            }
            Fact::Unserved { tool, last } => {
                let down = self.tools.get(tool).is_some_and(ToolBook::is_down);
                findings.hold(down, at, "a tool serves again when the faults have ended (TST-5)", || {
                    format!("{tool} answers {last}")
                });
            }
            Fact::HandEnded { tool, record } => {
                if let Some(CallRecord {
                    verdict: CallVerdict::Failed(failure), attempts, stopped_by, ..
                }) = record.as_deref()
                {
                    self.answered(at, tool, failure.code, *attempts, *stopped_by);
                }
            }
            Fact::Rested { running } => {
                findings.hold(*running == 0, at, "nothing stays behind (TST-5)", || {
                    format!("{running} attempts are still under way")
                });
            }
        }
    }

    /// What a run tells about its tools.
    fn saw(&mut self, at: Duration, progress: &Progress) {
        match progress {
            Progress::AttemptStarted { tool, .. } => {
                if let Some(tool) = self.tools.get_mut(tool) {
                    tool.told_start(at, &mut self.findings);
                }
            }
            Progress::CallEnded { tool, code: Some(code), attempts, stopped_by, .. } => {
                self.answered(at, tool, *code, *attempts, *stopped_by);
            }
            _ => {}
        }
    }

    /// A call failed; where its tool was never asked, there must be a reason.
    fn answered(
        &mut self,
        at: Duration,
        tool: &Arc<str>,
        code: FailureCode,
        attempts: u32,
        stopped_by: Option<StoppedBy>,
    ) {
        let Some(tool) = self.tools.get_mut(tool) else { return };
        let unseen = self.runs.values().any(|run| run.is_unseen(at));
        let sight = if unseen { Sight::Blurred } else { Sight::Clear };
        match (code, stopped_by, attempts) {
            (FailureCode::ToolDown, Some(StoppedBy::BreakerOpen), _) => {
                tool.refused(at, sight, &mut self.findings)
            }
            (FailureCode::Timeout, Some(StoppedBy::Deadline), 0) => tool.starved(at, &mut self.findings),
            _ => {}
        }
    }

    fn began(&mut self, at: Duration, attempt: &Attempt, key: u32, deadline: Duration) {
        let caller = || (attempt.who, attempt.call, Arc::clone(&attempt.tool));
        let (owner, call, tool) = self.keys.entry(key).or_insert_with(caller).clone();
        // A repetition of a keyed call that may have happened has the key of that.
        let repeats = (owner, &tool) == (attempt.who, &attempt.tool)
            && call < attempt.call
            && self.tools.get(&tool).is_some_and(ToolBook::is_keyed);
        let is_its_own = (owner, call) == (attempt.who, attempt.call);
        self.findings.hold(is_its_own || repeats, at, "another call has another key (RT-13)", || {
            format!("{attempt} has key {key}, which is of call {call} of {owner}")
        });
        if let Some(tool) = self.tools.get_mut(&attempt.tool) {
            tool.began(at, attempt, key, deadline, &mut self.findings);
        }
        if let Some(run) = book_of(&mut self.runs, attempt) {
            run.attempt_began(at, attempt, &mut self.findings);
        }
    }

    fn close(self, history: &History, last_run: LastRun) -> Vec<Violation> {
        let Self { mut tools, runs, mut findings, .. } = self;
        tools.values_mut().for_each(|tool| tool.close(&mut findings));
        let end = history.entries.last().map_or(Duration::ZERO, |entry| entry.at);
        let calm = history.entries.iter().find(|entry| entry.fact == Fact::Did(Operation::EndFaults));
        let completed = calm.is_none_or(|calm| runs.values().any(|run| run.completed_since(calm.at)));
        let owed = last_run == LastRun::Completes && !tools.values().any(ToolBook::is_down);
        findings.hold(completed || !owed, end, "a run completes when the faults have ended (TST-5)", || {
            "no run that was started since has given its answer".to_owned()
        });
        for (number, run) in runs {
            run.close(number, end, &mut findings);
        }
        findings.0.sort_by_key(|violation| violation.at);
        findings.0
    }
}
