//! Notices a model that does the same thing again and again.
//!
//! Three kinds of repetition. A call that failed twice in the same way is not executed a third time,
//! and a model that goes on regardless is stuck. Turns that do the same with the same results, one
//! by one or in a cycle of up to three, are nudged at 4 repetitions and stuck at 8. Replies that
//! call nothing but tools that do not exist are nudged at the second in a row and stuck at the third.
//!
//! Only repetitions of the model count. A failure that says something about the moment and nothing
//! about the call (rate limits, outages, timeouts, cancelled calls, a full queue) may be tried
//! again, and a cut call has a bound of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use dauntless_contract::{Failure, FailureCode, ToolOutput};
use serde::{Deserialize, Serialize};

use crate::excerpt::{listed, shortened};
use crate::toolbox::{Digest, Fingerprint};

const FAILURES_MAX: u32 = 2;
const REFUSALS_MAX: u32 = 2;
const NUDGE_AT: u32 = 4;
const STUCK_AT: u32 = 8;
const PERIOD_MAX: usize = 3;
const UNKNOWN_NUDGE_AT: usize = 2;
const UNKNOWN_STUCK_AT: usize = 3;

const NAME_BYTES_MAX: usize = 64;

/// Calls remembered; the one not seen for longest is forgotten first.
const REMEMBERED_MAX: usize = 256;

/// What a run remembers of its calls. Bounded, however long the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoopGuard {
    turn: u32,
    failed: BTreeMap<Digest, Failed>,
    current: Option<Turn>,
    /// Digests of the last turns, the latest first.
    recent: [Option<Digest>; PERIOD_MAX],
    /// For each period (1, 2, 3): turns in a row that equal the one a period before.
    matched: [u32; PERIOD_MAX],
    /// For each reply in a row that called nothing but tools that do not exist: the first it named.
    strangers: Vec<Arc<str>>,
    /// What the calls of the present reply name.
    named: Named,
}

/// Whether a reply calls any tool that exists.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
enum Named {
    #[default]
    Nothing,
    OnlyUnknown(Arc<str>),
    Known,
}

/// A call that keeps failing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Failed {
    code: FailureCode,
    failures: u32,
    refusals: u32,
    refused_in: Option<u32>,
    last_seen: u32,
}

/// The turn under way: the sum of what its calls did, so their order does not matter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Turn {
    digest: Digest,
    first: Fingerprint,
}

/// Whether a call may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardVerdict {
    /// It may.
    Run,
    /// It failed in the same way before; answer it with [`repeated_failure`].
    Repeated {
        /// How often it failed.
        failures: u32,
        /// The way it failed.
        code: FailureCode,
    },
    /// The model asked again after it was told not to; the run ends.
    Stuck {
        /// How often it asked for this call.
        times: u32,
    },
}

/// What a finished turn shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnVerdict {
    /// Nothing.
    GoOn,
    /// The same again, four times; tell the model with [`repetition_nudge`].
    Nudge {
        /// The first call of the turn.
        fingerprint: Fingerprint,
        /// Repetitions.
        times: u32,
    },
    /// The same again, eight times; the run ends.
    Stuck {
        /// The first call of the turn.
        fingerprint: Fingerprint,
        /// Repetitions.
        times: u32,
    },
    /// Two replies in a row called only tools that do not exist; tell the model with
    /// [`UnknownTools::nudge`].
    NudgeUnknown(UnknownTools),
    /// Three did; the run ends.
    StuckUnknown(UnknownTools),
}

/// Replies in a row that called nothing but tools that do not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownTools {
    /// One name for each reply, as the model wrote it, bounded; the latest last.
    names: Vec<Arc<str>>,
}

impl LoopGuard {
    /// Notes each call of a reply and whether there is such a tool.
    pub fn named(&mut self, call: &Fingerprint, exists: bool) {
        match (&self.named, exists) {
            (_, true) => self.named = Named::Known,
            (Named::Nothing, false) => {
                let name = Some(call.tool().trim()).filter(|name| !name.is_empty()).unwrap_or("(no name)");
                self.named = Named::OnlyUnknown(shortened(name, NAME_BYTES_MAX).into());
            }
            (Named::OnlyUnknown(_) | Named::Known, false) => {}
        }
    }

    /// Decides whether a call may run; ask before each, also before answering one that cannot run.
    ///
    /// A refusal counts once a turn: calls of one turn were asked for before the model read any
    /// answer.
    pub fn check(&mut self, call: &Fingerprint) -> GuardVerdict {
        let turn = self.turn;
        let Some(failed) = self.failed.get_mut(&call.digest()) else { return GuardVerdict::Run };
        if failed.failures < FAILURES_MAX {
            return GuardVerdict::Run;
        }
        failed.last_seen = turn;
        if failed.refused_in != Some(turn) {
            failed.refused_in = Some(turn);
            failed.refusals += 1;
        }
        if failed.refusals > REFUSALS_MAX {
            return GuardVerdict::Stuck { times: failed.failures.saturating_add(failed.refusals) };
        }
        GuardVerdict::Repeated { failures: failed.failures, code: failed.code }
    }

    /// A call worked: its failures are forgotten. `polling` is the tool's declaration.
    pub fn succeeded(&mut self, call: &Fingerprint, output: &ToolOutput, polling: bool) {
        self.failed.remove(&call.digest());
        if !polling {
            self.add(call, &output.text);
        }
    }

    /// A call failed, or was answered without being executed.
    pub fn failed(&mut self, call: &Fingerprint, code: FailureCode) {
        if !counts(code) {
            return;
        }
        self.add(call, code.as_str());
        if code == FailureCode::RepeatedFailure {
            return;
        }
        let turn = self.turn;
        match self.failed.get_mut(&call.digest()) {
            Some(failed) if failed.code == code => {
                failed.failures = failed.failures.saturating_add(1);
                failed.last_seen = turn;
            }
            Some(_) | None => {
                let first = Failed { code, failures: 1, refusals: 0, refused_in: None, last_seen: turn };
                self.failed.insert(call.digest(), first);
                self.forget_the_oldest();
            }
        }
    }

    /// It is known by now what a call came to that was told as a failure: it counts as none.
    pub fn forget(&mut self, call: &Fingerprint) {
        self.failed.remove(&call.digest());
    }

    /// All calls of a turn have their answers.
    ///
    /// A turn without a call that counts ends every repetition.
    pub fn turn_finished(&mut self) -> TurnVerdict {
        self.turn = self.turn.saturating_add(1);
        let turn = self.current.take();
        let digest = turn.as_ref().map(|turn| turn.digest);
        for (matched, earlier) in self.matched.iter_mut().zip(&self.recent) {
            *matched = if digest.is_some() && digest == *earlier { matched.saturating_add(1) } else { 0 };
        }
        self.recent.rotate_right(1);
        if let Some(latest) = self.recent.first_mut() {
            *latest = digest;
        }
        if let Some(verdict) = self.judge_names() {
            return verdict;
        }
        let Some(Turn { first: fingerprint, .. }) = turn else { return TurnVerdict::GoOn };
        for (matched, period) in self.matched.into_iter().zip(1..) {
            // A period that just came round once more: the first round has nothing to match.
            let times = matched / period + 1;
            match (matched % period, times) {
                (0, NUDGE_AT) => return TurnVerdict::Nudge { fingerprint, times },
                (0, STUCK_AT..) => return TurnVerdict::Stuck { fingerprint, times },
                _ => {}
            }
        }
        TurnVerdict::GoOn
    }

    /// Counts a reply whose calls all name tools that do not exist; any other starts afresh.
    fn judge_names(&mut self) -> Option<TurnVerdict> {
        let Named::OnlyUnknown(name) = std::mem::take(&mut self.named) else {
            self.strangers.clear();
            return None;
        };
        self.strangers.push(name);
        let unknown = || UnknownTools { names: self.strangers.clone() };
        match self.strangers.len() {
            UNKNOWN_NUDGE_AT => Some(TurnVerdict::NudgeUnknown(unknown())),
            UNKNOWN_STUCK_AT.. => Some(TurnVerdict::StuckUnknown(unknown())),
            _ => None,
        }
    }

    fn add(&mut self, call: &Fingerprint, result: &str) {
        let digest = Digest::of(&[&format!("{:?}", call.digest()), result]);
        match &mut self.current {
            Some(turn) => turn.digest = turn.digest.and(digest),
            None => self.current = Some(Turn { digest, first: call.clone() }),
        }
    }

    fn forget_the_oldest(&mut self) {
        if self.failed.len() <= REMEMBERED_MAX {
            return;
        }
        let oldest = self.failed.iter().min_by_key(|(_, failed)| failed.last_seen).map(|(digest, _)| *digest);
        if let Some(oldest) = oldest {
            self.failed.remove(&oldest);
        }
    }
}

impl UnknownTools {
    /// How many replies.
    pub fn replies(&self) -> u32 {
        u32::try_from(self.names.len()).unwrap_or(u32::MAX)
    }

    /// The name that was called last.
    pub fn latest(&self) -> Arc<str> {
        self.names.last().cloned().unwrap_or_default()
    }

    /// What the model is told, in the user's place, before its next such reply ends the run.
    pub fn nudge(&self) -> Arc<str> {
        format!(
            "Your last {} replies called only tools that do not exist: {}. Call one of your own tools by its \
             exact name, or answer without a tool. One more such reply ends this run.",
            self.replies(),
            self.listed()
        )
        .into()
    }

    /// The names, each once.
    pub fn listed(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for name in &self.names {
            if !names.contains(&&**name) {
                names.push(name);
            }
        }
        listed(names, UNKNOWN_STUCK_AT)
    }
}

/// Whether a repetition of this failure is the model's: the same call would fail the same way.
const fn counts(code: FailureCode) -> bool {
    match code {
        FailureCode::RateLimited
        | FailureCode::Unavailable
        | FailureCode::Timeout
        | FailureCode::ConnectionFailed
        | FailureCode::Cancelled
        | FailureCode::ToolDown
        | FailureCode::Overloaded
        | FailureCode::TruncatedCall => false,
        FailureCode::Unauthenticated
        | FailureCode::PermissionDenied
        | FailureCode::QuotaExhausted
        | FailureCode::Gone
        | FailureCode::NotFound
        | FailureCode::NoResults
        | FailureCode::Ambiguous
        | FailureCode::Conflict
        | FailureCode::ToolError
        | FailureCode::Partial
        | FailureCode::InvalidArguments
        | FailureCode::MalformedArguments
        | FailureCode::UnknownTool
        | FailureCode::TooLarge
        | FailureCode::Crashed
        | FailureCode::OutcomeUnknown
        | FailureCode::DeniedByOperator
        | FailureCode::RepeatedFailure => true,
    }
}

/// The answer to a call that is not executed because it failed in the same way before.
pub fn repeated_failure(call: &Fingerprint, failures: u32, code: FailureCode) -> Failure {
    Failure::repeated_failure(format!(
        "This call of `{}` was not executed: the same call failed {failures} times with {code}.",
        call.tool()
    ))
    .hint(
        "The same arguments will fail again. Change the arguments, take another way, or ask the user \
         how to go on.",
    )
}

/// What the model is told, in the user's place, when its turns repeat.
///
/// `call` is what may be shown of it.
pub fn repetition_nudge(call: &str, times: u32) -> Arc<str> {
    format!(
        "You have asked for the same thing {times} times (`{call}`) and got the same result each time. \
         Asking again changes nothing: use the results you have, try something else, or give your final answer."
    )
    .into()
}

#[cfg(test)]
mod tests;
