//! What the end of a run, and of the tree, is held against.

use std::time::Duration;

use dauntless_contract::{CallKey, Message, Outcome, RunId, StopReason, Timestamp};
use serde_json::Value;

use super::page::{Page, Use};
use super::{Books, rules};
use crate::CallAccounting;
use crate::simulator::trees::mind::did;

/// How long a level of runs may take to end.
const SETTLE: Duration = Duration::from_secs(5);
/// More levels than a run is waited for.
const LEVELS_MAX: u32 = 16;
/// The longest that a call which may have happened is waited for.
const CALL_MAX: Duration = Duration::from_secs(60);
/// What signals take on their way, and more.
const GRACE: Duration = Duration::from_secs(1);

impl Books {
    /// A run has ended.
    pub(in super::super) fn ended(
        &mut self,
        at: Timestamp,
        run: RunId,
        outcome: &Outcome,
        messages: Option<&[Message]>,
    ) {
        let Some(page) = self.pages.get_mut(&run) else { return };
        let number = page.number;
        page.ended = Some((at, outcome.clone()));
        let open: Vec<CallKey> = page.held.keys().copied().collect();
        let told = page.held.values().all(|held| page.told_to_stop.contains(&held.run));
        open.into_iter().for_each(|call| page.give_up(call));
        let counted = page.own.plus(page.charged);
        let turns = page.turns + page.charged_turns;
        let totals = &outcome.totals;
        let said = Use {
            tokens: totals.usage.total().0,
            cost: totals.cost.0,
            calls: totals.tool_calls.into(),
            children: totals.children.into(),
        };
        self.hold(told, at, rules::STOPS, || {
            format!("run {number} ends and leaves children that were told nothing")
        });
        self.hold((said, totals.turns) == (counted, turns), at, rules::TOTALS, || {
            format!("run {number} says {said:?} in {} turns, and it was {counted:?} in {turns}", totals.turns)
        });
        self.check_names(at, run, &outcome.reason);
        match messages {
            Some(messages) => self.check_observations(at, run, messages),
            None => {
                let text = outcome.text.as_deref().filter(|_| outcome.is_completed());
                let passed_off = text.is_some_and(holds_partial);
                self.hold(!passed_off, at, rules::HONEST, || format!("plan {number} ends with {text:?}"));
            }
        }
    }

    fn check_names(&mut self, at: Timestamp, run: RunId, reason: &StopReason) {
        let StopReason::ChildFailed { agent, run: child, reason } = reason else { return };
        let named = self.pages.get(child).is_some_and(|page| {
            let above = page.above.and_then(|above| self.pages.get(&above));
            let given_up = above.is_some_and(|above| above.given_up.contains(child));
            page.agent == *agent
                && (given_up || page.ended.as_ref().is_some_and(|(_, outcome)| outcome.reason == **reason))
        });
        let number = self.number(run);
        self.hold(named, at, rules::NAMES, || format!("run {number} blames {agent} ({child}): {reason}"));
    }

    /// Each call has one observation in its place, and it tells what the call came to.
    pub(in super::super) fn check_observations(&mut self, at: Timestamp, run: RunId, messages: &[Message]) {
        let Some(page) = self.pages.get(&run) else { return };
        let number = page.number;
        let mut wrong = Vec::new();
        let mut accounts = CallAccounting::default();
        accounts.see_history(messages);
        wrong.extend(accounts.check().err().into_iter().flatten().map(|problem| (rules::OBSERVED, problem)));
        let rounds = rounds(messages);
        let skipped = rounds.len().saturating_sub(page.asked.len());
        let own = rounds.get(skipped..).unwrap_or_default();
        let counts: Vec<u32> =
            own.iter().map(|round| u32::try_from(round.len()).unwrap_or(u32::MAX)).collect();
        if !counts.iter().eq(page.asked.iter().map(|(_, count)| count)) {
            wrong.push((rules::OBSERVED, format!("{:?} were asked and {counts:?} are told", page.asked)));
        }
        for ((turn, _), round) in page.asked.iter().zip(own) {
            for (index, text) in (0..).zip(round) {
                let call = CallKey { turn: *turn, index };
                if let Some(problem) = self.misheard(page, call, text) {
                    wrong.push((rules::HONEST, format!("call {call}: {problem}")));
                }
            }
        }
        for (rule, problem) in wrong {
            self.find(at, rule, format!("run {number}: {problem}"));
        }
    }

    /// What is wrong with an observation, by what the call really came to.
    fn misheard(&self, page: &Page, call: CallKey, text: &str) -> Option<String> {
        let told: Value = serde_json::from_str(text).unwrap_or_default();
        let answer = told.get("answer").and_then(Value::as_str);
        let failed = told.get("error").is_some();
        let Some(child) = page.came.get(&call) else {
            let done = answer.is_some() || !failed && text != did(call);
            return done.then(|| format!("nothing was done, and it says {text}"));
        };
        let outcome =
            self.pages.get(child).and_then(|child| child.ended.as_ref().map(|(_, outcome)| outcome));
        let gave = outcome.and_then(|outcome| outcome.answer());
        let given_up = page.given_up.contains(child);
        let ok = match (answer, gave) {
            (Some(answer), gave) => gave == Some(answer) && !given_up,
            // A long answer is told in part.
            (None, Some(_)) if text.contains(" bytes left out.") => {
                text.starts_with("{\"agent\":") && !given_up
            }
            // A conversation that was taken over is not told.
            (None, _) if text.contains("took the conversation over") => !given_up,
            (None, Some(_)) => failed && given_up,
            (None, None) => failed,
        };
        (!ok).then(|| format!("it came to {gave:?} (given up: {given_up}), and it says {text}"))
    }

    /// Nothing is due any more.
    pub(in super::super) fn close(&mut self, now: Timestamp, dead: impl Fn(&RunId) -> bool) {
        let mut found = Vec::new();
        for (run, page) in &self.pages {
            let number = page.number;
            let Some((ended, _)) = page.ended else {
                if !dead(run) {
                    found.push((now, rules::ENDS, format!("run {number} never ends")));
                }
                continue;
            };
            let patience = SETTLE * (page.limits.depth.min(LEVELS_MAX) + 1) + CALL_MAX;
            let patience = patience * (page.crashes + 1) + page.down + GRACE;
            let due = page.began + page.limits.wall_clock + patience;
            if ended > due {
                found.push((ended, rules::ENDS, format!("run {number} was due at {due:?}")));
            }
            let above = page.above.and_then(|above| self.pages.get(&above)?.ended.as_ref());
            let Some((above, _)) = above else { continue };
            // One that is overdue has been stopped by its own time, whatever it hears.
            let own_time = page.began + page.limits.wall_clock;
            let stopped = page.stopped.map_or(own_time, |stopped| stopped.min(own_time));
            let told = stopped <= *above + page.down + GRACE;
            if ended > *above + page.down + GRACE && !told {
                found.push((ended, rules::STOPS, format!("run {number} goes on after the end above")));
            }
        }
        for (at, rule, what) in found {
            self.find(at, rule, what);
        }
    }
}

/// The observations of each message with calls.
fn rounds(messages: &[Message]) -> Vec<Vec<&str>> {
    let mut rounds: Vec<Vec<&str>> = Vec::new();
    for message in messages {
        match message {
            Message::Assistant { calls, .. } if !calls.is_empty() => rounds.push(Vec::new()),
            Message::Tool { text, .. } => {
                if let Some(round) = rounds.last_mut() {
                    round.push(text);
                }
            }
            Message::Assistant { .. } | Message::System { .. } | Message::User { .. } => {}
        }
    }
    rounds
}

/// Whether words of an agent that was not done stand where an answer stands.
fn holds_partial(text: &str) -> bool {
    fn look(value: &Value) -> bool {
        match value {
            // The answer of a plan may be JSON in a text.
            Value::String(text) => holds_partial(text),
            Value::Array(values) => values.iter().any(look),
            Value::Object(fields) => fields.iter().any(|(name, value)| name != "so_far" && look(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
    match serde_json::from_str(text) {
        Ok(value @ (Value::Array(_) | Value::Object(_))) => look(&value),
        Ok(_) | Err(_) => text.contains("partial-"),
    }
}
