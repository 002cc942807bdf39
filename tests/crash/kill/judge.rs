//! Holds what arrived outside, and what the journal says, against what is promised. Each rule looks
//! at the evidence alone and has a name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use dauntless_contract::{CallKey, CallVerdict, RunEvent, RunId, RunTimer, Seq, Verified, VerifyVerdict};

use super::ledger::{Class, Intent, Point, Request, WorkerNo};
use super::trees::may_end_with;

mod trees;

#[cfg(test)]
mod tests;

/// What was done to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blow {
    /// kill -9.
    Kill,
    /// SIGSTOP, for longer than a ttl where that matters, and SIGCONT.
    Stop,
}

/// One blow.
#[derive(Clone, Copy, Debug)]
pub struct Strike {
    /// Where in the life of a call.
    pub point: Point,
    /// How.
    pub blow: Blow,
    /// Whom.
    pub worker: WorkerNo,
    /// The call, where it was in one.
    pub intent: Option<Intent>,
}

/// What was used, of a run and all below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Turns of the model.
    pub turns: u64,
    /// Calls that it asked for.
    pub calls: u64,
    /// Tokens.
    pub tokens: u64,
    /// Runs below it.
    pub children: u64,
}

/// What the journal says of one run.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its number in its goal.
    pub number: u64,
    /// Its id.
    pub run: RunId,
    /// The run that asked for it.
    pub parent: Option<RunId>,
    /// What an operator is shown of it and all below it, where it is at the top.
    pub shown: Option<Shown>,
    /// Why it ended; nothing where it did not.
    pub end: Option<Arc<str>>,
    /// Its line in a list.
    pub line: String,
    /// The place of its last event.
    pub head: Seq,
    /// How often it changed hands.
    pub epoch: u64,
    /// Results that came after a takeover.
    pub late_results: u64,
    /// Its facts.
    pub events: Vec<RunEvent>,
}

/// All that a judge may look at.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// What arrived, in order.
    pub requests: Vec<Request>,
    /// What the model was shown for each call.
    pub observed: BTreeMap<Intent, Vec<String>>,
    /// What was done.
    pub strikes: Vec<Strike>,
    /// The runs.
    pub records: Vec<Record>,
    /// What the harness met on the way: requests that the provider refused, workers that ended by themselves.
    pub incidents: Vec<String>,
}

/// A rule that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Its name.
    pub rule: &'static str,
    /// The run, where it is of one.
    pub run: Option<RunId>,
    /// What was found.
    pub found: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.found)?;
        self.run.map_or(Ok(()), |run| write!(f, " (run {run})"))
    }
}

/// Finds what one rule is against: the number of the run, if it is one, and the words.
type Rule = fn(&Evidence) -> Vec<(Option<u64>, String)>;

const RULES: [(&str, Rule); 15] = [
    ("every run ends, and as it should", every_run_ends),
    ("no place is skipped", no_place_is_skipped),
    ("a once call is sent once", a_once_call_is_sent_once),
    ("one intent has one key", one_intent_has_one_key),
    ("what must not take place twice takes place once", no_effect_is_doubled),
    ("a success took place", a_success_took_place),
    ("a call ends once", a_call_ends_once),
    ("what was recorded is not done again", what_was_recorded_is_not_done_again),
    ("an interrupted once call is unknown to the model", an_interrupted_once_call_is_unknown),
    ("no run outlives its parent", trees::no_run_outlives_its_parent),
    ("nothing is done for a run that has gone on", trees::nothing_is_done_for_who_has_gone_on),
    ("no child is started twice", trees::no_child_is_started_twice),
    ("the limits of a run hold for all below it", trees::limits_hold),
    ("what a run used is the sum over its tree", trees::totals_add_up),
    ("the harness met nothing else", nothing_else),
];

/// What does not hold.
pub fn judge(evidence: &Evidence) -> Vec<Broken> {
    let id =
        |number: u64| evidence.records.iter().find(|record| record.number == number).map(|record| record.run);
    let of_rule = |(rule, finds): (&'static str, Rule)| {
        let broken = move |(run, found): (Option<u64>, String)| Broken { rule, run: run.and_then(id), found };
        finds(evidence).into_iter().map(broken)
    };
    RULES.into_iter().flat_map(of_rule).collect()
}

fn every_run_ends(evidence: &Evidence) -> Vec<(Option<u64>, String)> {
    let told = |run: &Record| {
        let right = run.end.as_deref().is_some_and(|end| may_end_with(run.number, end));
        (!right).then(|| (Some(run.number), run.line.clone()))
    };
    evidence.records.iter().filter_map(told).collect()
}

/// A store gives the events in order; a place without one would be missing from their number.
fn no_place_is_skipped(evidence: &Evidence) -> Vec<(Option<u64>, String)> {
    let skipped = evidence.records.iter().filter(|run| run.head != run.events.len() as Seq);
    let told = |run: &Record| format!("{} events and the head at {}", run.events.len(), run.head);
    skipped.map(|run| (Some(run.number), told(run))).collect()
}

/// The requests of calls, as intent, class, key and effect.
fn calls(evidence: &Evidence) -> impl Iterator<Item = (Intent, Class, Option<&String>, bool)> {
    evidence.requests.iter().filter_map(|request| match request {
        Request::Tool { intent, class, key, executed, .. } => {
            Some((*intent, *class, key.as_ref(), *executed))
        }
        Request::Model { .. } | Request::Question { .. } | Request::Over { .. } => None,
    })
}

fn a_once_call_is_sent_once(evidence: &Evidence) -> Vec<(Option<u64>, String)> {
    let mut sent: BTreeMap<Intent, u32> = BTreeMap::new();
    for (intent, ..) in calls(evidence).filter(|(_, class, ..)| *class == Class::Once) {
        *sent.entry(intent).or_default() += 1;
    }
    let often = sent.into_iter().filter(|(_, times)| *times > 1);
    often.map(|(intent, times)| (Some(intent.run), format!("{intent} was sent {times} times"))).collect()
}

fn one_intent_has_one_key(evidence: &Evidence) -> Vec<(Option<u64>, String)> {
    let (mut keys, mut intents) = (BTreeMap::new(), BTreeMap::new());
    let mut found = Vec::new();
    for (intent, _, key, _) in calls(evidence).filter(|(_, class, ..)| *class == Class::Keyed) {
        let Some(key) = key else {
            found.push((Some(intent.run), format!("{intent} came without a key")));
            continue;
        };
        if *keys.entry(intent).or_insert(key) != key {
            found.push((Some(intent.run), format!("{intent} came with two keys")));
        }
        let owner = *intents.entry(key).or_insert(intent);
        if owner != intent {
            found.push((Some(intent.run), format!("{intent} came with the key of {owner}")));
        }
    }
    found
}

fn no_effect_is_doubled(evidence: &Evidence) -> Vec<(Option<u64>, String)> {
    let mut done = BTreeSet::new();
    let guarded = |class| matches!(class, Class::Keyed | Class::Verifiable | Class::Once);
    let effects = calls(evidence).filter(|(_, class, _, executed)| guarded(*class) && *executed);
    let twice = effects.filter(|(intent, ..)| !done.insert(*intent));
    twice.map(|(intent, ..)| (Some(intent.run), format!("{intent} took place again"))).collect()
}

fn a_success_took_place(evidence: &Evidence) -> Vec<(Option<u64>, String)> {
    let done: BTreeSet<Intent> =
        calls(evidence).filter(|(.., executed)| *executed).map(|(intent, ..)| intent).collect();
    let mut found = Vec::new();
    for run in &evidence.records {
        for event in &run.events {
            let RunEvent::CallEnded { call, record } = event else { continue };
            let intent = Intent { run: run.number, turn: call.turn, index: call.index };
            if matches!(record.verdict, CallVerdict::Succeeded(_)) && !done.contains(&intent) {
                found.push((
                    Some(run.number),
                    format!("{intent} is recorded as a success and never took place"),
                ));
            }
        }
    }
    found
}

/// A call ends by its own event, or, where a repetition does harm, by the interruption of its run. A run
/// that winds down ends all of them by either, and by the end of its patience.
fn a_call_ends_once(evidence: &Evidence) -> Vec<(Option<u64>, String)> {
    let mut found = Vec::new();
    for run in &evidence.records {
        let mut open: BTreeMap<CallKey, Arc<str>> = BTreeMap::new();
        let mut is_cancelled = false;
        let refused = trees::refused(run);
        let mut tell = |text: String| found.push((Some(run.number), text));
        for event in &run.events {
            match event {
                RunEvent::ModelReplied { turn, reply, .. } => {
                    open.keys().for_each(|call| tell(format!("call {call} has no end")));
                    let asked = (0..).zip(&reply.calls);
                    open = asked
                        .map(|(index, call)| (CallKey { turn: *turn, index }, Arc::clone(&call.name)))
                        // A call of another agent ends as its runs do.
                        .filter(|(key, tool)| is_a_tool(tool) && !refused.contains(key))
                        .collect();
                }
                RunEvent::CancelRequested { .. } => is_cancelled = true,
                RunEvent::Interrupted {} | RunEvent::TimerFired { timer: RunTimer::Settle }
                    if is_cancelled =>
                {
                    open.clear();
                }
                RunEvent::CallEnded { call, .. } if open.remove(call).is_none() => {
                    tell(format!("call {call} ended, which was not open"));
                }
                // It is made again, and ends by that.
                RunEvent::CallVerified {
                    verdict: VerifyVerdict::Answered(Verified::NotHappened), ..
                } => {}
                RunEvent::CallVerified { call, .. } if open.remove(call).is_none() => {
                    tell(format!("call {call} was asked about, which was not open"));
                }
                RunEvent::Interrupted {} => open.retain(|_, tool| **tool != *Class::Once.as_str()),
                _ => {}
            }
        }
        open.keys().for_each(|call| tell(format!("call {call} has no end")));
    }
    found
}

/// Whoever asks for the next turn has recorded the one before: what arrives for that one then is a repetition.
///
/// But for a worker that was stopped: where that was between its last look at the lease and the
/// sending, the request goes out when it wakes. No lease keeps it from that; what such a request may
/// do is the matter of the rules about effects.
fn what_was_recorded_is_not_done_again(evidence: &Evidence) -> Vec<(Option<u64>, String)> {
    let stopped = stopped(evidence);
    let late = late_requests(evidence).filter(|(worker, _)| !stopped.contains(worker));
    let told = |(worker, intent)| format!("worker {worker} sent {intent} after the turn was recorded");
    late.map(|(worker, intent)| (Some(intent.run), told((worker, intent)))).collect()
}

fn is_a_tool(name: &str) -> bool {
    Class::ALL.into_iter().any(|class| class.as_str() == name)
}

fn stopped(evidence: &Evidence) -> BTreeSet<WorkerNo> {
    let stops = evidence.strikes.iter().filter(|strike| strike.blow == Blow::Stop);
    stops.map(|strike| strike.worker).collect()
}

/// The requests that workers sent when they woke, for turns that others had recorded meanwhile.
pub(super) fn sent_by_the_woken(evidence: &Evidence) -> usize {
    let stopped = stopped(evidence);
    late_requests(evidence).filter(|(worker, _)| stopped.contains(worker)).count()
}

fn late_requests(evidence: &Evidence) -> impl Iterator<Item = (WorkerNo, Intent)> {
    let mut asked: BTreeMap<u64, u32> = BTreeMap::new();
    evidence.requests.iter().filter_map(move |request| match request {
        Request::Model { run, turn, .. } => {
            let newest = asked.entry(*run).or_default();
            *newest = (*newest).max(*turn);
            None
        }
        Request::Question { .. } | Request::Over { .. } => None,
        Request::Tool { intent, worker, .. } => {
            let is_late = asked.get(&intent.run).is_some_and(|newest| *newest > intent.turn);
            is_late.then_some((*worker, *intent))
        }
    })
}

/// Where the model is asked again: a run that is cancelled or at its limit tells it nothing more.
fn an_interrupted_once_call_is_unknown(evidence: &Evidence) -> Vec<(Option<u64>, String)> {
    let completed = evidence.records.iter().filter(|run| run.end.as_deref() == Some("completed"));
    let completed: BTreeSet<u64> = completed.map(|run| run.number).collect();
    let once: BTreeSet<Intent> =
        calls(evidence).filter(|(_, class, ..)| *class == Class::Once).map(|(intent, ..)| intent).collect();
    let killed = evidence.strikes.iter().filter(|strike| strike.blow == Blow::Kill);
    let wrong = |intent: &Intent| {
        let shown = evidence.observed.get(intent).map(Vec::as_slice).unwrap_or_default();
        !matches!(shown, [text] if text.contains("outcome_unknown"))
    };
    killed
        .filter_map(|strike| strike.intent)
        .filter(|intent| once.contains(intent) && completed.contains(&intent.run) && wrong(intent))
        .map(|intent| {
            let shown = evidence.observed.get(&intent);
            (Some(intent.run), format!("{intent} was interrupted and the model was shown {shown:?}"))
        })
        .collect()
}

fn nothing_else(evidence: &Evidence) -> Vec<(Option<u64>, String)> {
    evidence.incidents.iter().map(|incident| (None, incident.clone())).collect()
}
