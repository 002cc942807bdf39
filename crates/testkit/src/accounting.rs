//! Balances the books of a run: every call asked for is answered, once, in order.
//!
//! Feed it what a watcher of the run saw, the conversation the model was shown, or the journal. It
//! checks the form of what it is given, in every scenario the same; whether an answer was the right
//! one is for the test to say.

use std::collections::BTreeMap;
use std::sync::Arc;

use dauntless_contract::{CallKey, Message, Outcome, Progress, RunEvent};

#[cfg(test)]
mod tests;

/// Checks that calls and their ends balance.
///
/// # Examples
/// ```
/// # use std::sync::Arc;
/// use dauntless_contract::{CallKey, Progress};
/// use dauntless_testkit::CallAccounting;
///
/// let mut books = CallAccounting::default();
/// books.see(&Progress::CallAsked {
///     call: CallKey { turn: 1, index: 0 },
///     call_id: Arc::from("c1"),
///     tool: Arc::from("lookup"),
///     arguments: Arc::from("{}"),
/// });
/// let problems = books.check().unwrap_err();
/// assert_eq!(problems, ["call 1.0 (lookup) was asked for and never ended", "the run never ended"]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct CallAccounting {
    accounts: BTreeMap<CallKey, Account>,
    /// Calls that were asked for in runs below, and are counted in the totals as well.
    calls_below: usize,
    observed: Option<Vec<Arc<str>>>,
    end: End,
    problems: Vec<String>,
}

/// What is known of one call.
#[derive(Clone, Debug)]
struct Account {
    call_id: Arc<str>,
    tool: Arc<str>,
    /// The attempts, each with the tool that made it: the one asked for, or a fallback.
    started: Vec<(Arc<str>, u32)>,
    /// How many of them were made before the call was last parked.
    before_park: usize,
    ended: u32,
}

/// What is known of the end of the run.
#[derive(Clone, Debug, Default)]
enum End {
    /// No events of a watcher were seen, so none is expected.
    #[default]
    Untold,
    /// Events were seen, the last one not yet.
    Awaited,
    Ended(Box<Outcome>),
}

impl CallAccounting {
    /// Takes in what a watcher saw, in order, from the start of the run.
    pub fn of_progress<'a>(events: impl IntoIterator<Item = &'a Progress>) -> Self {
        let mut books = Self::default();
        events.into_iter().for_each(|event| books.see(event));
        books
    }

    /// Takes in the facts of a run that has ended, in order, from its journal.
    pub fn of_journal<'a>(events: impl IntoIterator<Item = &'a RunEvent>) -> Self {
        let mut books = Self::default();
        for event in events {
            match event {
                RunEvent::ModelReplied { turn, reply, .. } => {
                    for (index, call) in (0..).zip(&reply.calls) {
                        books.asked(CallKey { turn: *turn, index }, &call.id, &call.name);
                    }
                }
                RunEvent::ChildEnded { call, .. } => books.child_ended(*call),
                RunEvent::CallEnded { call, .. } | RunEvent::InputGiven { call, .. } => {
                    books.ended(*call);
                }
                RunEvent::RunStarted { .. }
                | RunEvent::ModelFailed { .. }
                | RunEvent::SummaryReplied { .. }
                | RunEvent::SummaryFailed { .. }
                | RunEvent::AttemptFailed { .. }
                | RunEvent::CallVerified { .. }
                | RunEvent::OutcomeResolved { .. }
                | RunEvent::TimerFired { .. }
                | RunEvent::CancelRequested { .. }
                | RunEvent::ConfigChosen { .. }
                | RunEvent::LetterSetAside { .. }
                | RunEvent::MessageReceived { .. }
                | RunEvent::Interrupted {}
                | RunEvent::Suspended { .. } => {}
            }
        }
        books
    }

    /// Takes in the next event of a watcher.
    pub fn see(&mut self, event: &Progress) {
        match self.end {
            End::Ended(_) if matches!(event, Progress::RunEnded { .. }) => {
                self.problem("the run ended twice".to_owned());
            }
            End::Ended(_) => self.problem(format!("after the end of the run came {event:?}")),
            End::Untold | End::Awaited => self.end = End::Awaited,
        }
        match event {
            Progress::CallAsked { call, call_id, tool, .. } => self.asked(*call, call_id, tool),
            Progress::AttemptStarted { call, tool, attempt } => self.started(*call, tool, *attempt),
            Progress::AttemptFailed { call, tool, attempt, .. } => self.failed(*call, tool, *attempt),
            Progress::CallEnded { call, call_id, tool, attempts, .. } => {
                self.ended_as_asked(*call, call_id, tool, *attempts);
            }
            Progress::Lagged { lost } => {
                self.problem(format!("{lost} events were lost, so the books cannot balance: read faster"));
            }
            Progress::RunEnded { outcome } => self.end = End::Ended(Box::new(outcome.clone())),
            Progress::CallUnparked { call, .. } => self.unparked(*call),
            // A run below keeps books of its own.
            Progress::InChild { .. } => {}
            Progress::ChildEnded { outcome, .. } => self.calls_below += outcome.totals.tool_calls as usize,
            Progress::ChildStarted { call, agent, attempt, .. } => {
                self.child_started(*call, agent, *attempt);
            }
            Progress::CallRepaired { .. }
            | Progress::CallParked { .. }
            | Progress::TurnStarted { .. }
            | Progress::TextArrived { .. }
            | Progress::ModelRetried { .. }
            | Progress::InputRequested(_)
            | Progress::InputGiven { .. }
            | Progress::BreakerOpened { .. }
            | Progress::ToolRejected { .. }
            | Progress::HistoryRepaired { .. }
            | Progress::Nudged { .. }
            | Progress::ContextTrimmed { .. } => {}
        }
    }

    /// Takes in the conversation as it was last shown to the model.
    pub fn see_history(&mut self, messages: &[Message]) {
        let mut observed = Vec::new();
        let mut owed: Vec<Arc<str>> = Vec::new();
        for message in messages {
            match message {
                Message::Tool { call_id, name, .. } => {
                    match owed.iter().position(|id| id == call_id) {
                        None => self.problem(format!("the answer of {name} to `{call_id}` has no call")),
                        Some(place) => {
                            if place > 0 {
                                self.problem(format!("`{call_id}` was answered before an earlier call"));
                            }
                            owed.remove(place);
                        }
                    }
                    observed.push(Arc::clone(call_id));
                }
                Message::System { .. } | Message::User { .. } => self.unanswered(&mut owed),
                Message::Assistant { calls, .. } => {
                    self.unanswered(&mut owed);
                    owed.extend(calls.iter().map(|call| Arc::clone(&call.id)));
                }
            }
        }
        self.unanswered(&mut owed);
        self.observed = Some(observed);
    }

    /// Holds everything taken in against the rules.
    ///
    /// # Errors
    /// Each thing that does not balance, in words.
    pub fn check(&self) -> Result<(), Vec<String>> {
        let mut problems = self.problems.clone();
        for (call, account) in &self.accounts {
            let name = Named(*call, &account.tool);
            match account.ended {
                0 => problems.push(format!("call {name} was asked for and never ended")),
                1 => {}
                times => problems.push(format!("call {name} ended {times} times")),
            }
        }
        match &self.end {
            End::Untold => {}
            End::Awaited => problems.push("the run never ended".to_owned()),
            End::Ended(outcome) => {
                let (counted, asked) =
                    (outcome.totals.tool_calls as usize, self.accounts.len() + self.calls_below);
                if counted != asked {
                    problems.push(format!("the outcome counts {counted} calls, the model asked for {asked}"));
                }
            }
        }
        problems.extend(self.misordered());
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// The same, for the end of a test.
    ///
    /// # Panics
    /// When something does not balance, listing each thing.
    #[track_caller]
    pub fn assert_balanced(&self) {
        let problems = self.check().err().unwrap_or_default();
        assert!(problems.is_empty(), "the calls do not balance:\n  {}", problems.join("\n  "));
    }

    /// How many calls were asked for.
    pub fn calls(&self) -> usize {
        self.accounts.len()
    }

    fn problem(&mut self, text: String) {
        self.problems.push(text);
    }

    fn asked(&mut self, call: CallKey, call_id: &Arc<str>, tool: &Arc<str>) {
        if self.accounts.last_key_value().is_some_and(|(last, _)| *last >= call) {
            self.problem(format!("call {} was asked for twice or out of order", Named(call, tool)));
        }
        let account = Account {
            call_id: Arc::clone(call_id),
            tool: Arc::clone(tool),
            started: Vec::new(),
            before_park: 0,
            ended: 0,
        };
        self.accounts.entry(call).or_insert(account);
    }

    fn started(&mut self, call: CallKey, tool: &Arc<str>, attempt: u32) {
        let Some(account) = self.accounts.get_mut(&call) else {
            return self.problem(format!("attempt {attempt} of call {call} started, which nobody asked for"));
        };
        let late = account.ended > 0;
        let mut since_park = account.started.iter().skip(account.before_park);
        let repeated = since_park.any(|(by, before)| by == tool && *before >= attempt);
        account.started.push((Arc::clone(tool), attempt));
        if late {
            self.problem(format!("attempt {attempt} of call {call} started after its end"));
        }
        if repeated {
            self.problem(format!("attempt {attempt} of call {call} started twice or out of order"));
        }
    }

    /// A child that is found again after its parent's process has ended was started before.
    fn child_started(&mut self, call: CallKey, agent: &Arc<str>, attempt: u32) {
        let started = (Arc::clone(agent), attempt);
        if !self.accounts.get(&call).is_some_and(|account| account.started.contains(&started)) {
            self.started(call, agent, attempt);
        }
    }

    /// Several children may work on one call, one after the other.
    fn child_ended(&mut self, call: CallKey) {
        if self.accounts.get(&call).is_none_or(|account| account.ended == 0) {
            self.ended(call);
        }
    }

    /// After a call was parked, its tool's attempts are counted from 1 again.
    fn unparked(&mut self, call: CallKey) {
        match self.accounts.get_mut(&call) {
            Some(account) if account.ended == 0 => account.before_park = account.started.len(),
            Some(_) | None => self.problem(format!("call {call} goes on, which does not wait")),
        }
    }

    fn failed(&mut self, call: CallKey, tool: &Arc<str>, attempt: u32) {
        let is_it = |(by, started): &(Arc<str>, u32)| by == tool && *started == attempt;
        if !self.accounts.get(&call).is_some_and(|account| account.started.iter().any(is_it)) {
            self.problem(format!("attempt {attempt} of call {call} failed and never started"));
        }
    }

    /// Books the end of a call; gives its account if it was asked for.
    fn ended(&mut self, call: CallKey) -> Option<Account> {
        let Some(account) = self.accounts.get_mut(&call) else {
            self.problem(format!("call {call} ended, which nobody asked for"));
            return None;
        };
        account.ended += 1;
        Some(account.clone())
    }

    fn ended_as_asked(&mut self, call: CallKey, call_id: &Arc<str>, tool: &Arc<str>, attempts: u32) {
        let Some(account) = self.ended(call) else { return };
        if (&account.call_id, &account.tool) != (call_id, tool) {
            let asked = Named(call, &account.tool);
            self.problem(format!(
                "call {asked} with id `{}` ended as {tool} with id `{call_id}`",
                account.call_id
            ));
        }
        if account.ended == 1 && account.started.len() != attempts as usize {
            let (name, started) = (Named(call, tool), account.started.len());
            self.problem(format!(
                "call {name} ended after {attempts} attempts by its own count, {started} were started"
            ));
        }
    }

    fn unanswered(&mut self, owed: &mut Vec<Arc<str>>) {
        for id in owed.drain(..) {
            self.problem(format!("`{id}` is in the conversation without its answer"));
        }
    }

    /// Compares the conversation with the calls: all of them in order, or, in a run that broke off,
    /// the first of them.
    fn misordered(&self) -> Option<String> {
        let observed = self.observed.as_ref()?;
        let completed = match &self.end {
            End::Untold => return None,
            End::Awaited => false,
            End::Ended(outcome) => outcome.is_completed(),
        };
        let asked: Vec<&Arc<str>> = self.accounts.values().map(|account| &account.call_id).collect();
        let fits = asked.len() >= observed.len() && observed.iter().zip(&asked).all(|(a, b)| a == *b);
        let enough = !completed || observed.len() == asked.len();
        (!fits || !enough)
            .then(|| format!("the calls were {asked:?}, the observations in the conversation {observed:?}"))
    }
}

struct Named<'a>(CallKey, &'a str);

impl std::fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.0, self.1)
    }
}
