//! Faults around a tool: what a network, a server or a bug would do to it, by seed.
//!
//! The tool behind it knows nothing of this. What is injected is honest about the effect: a failure
//! says that nothing happened only where the tool was not reached.

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dauntless_contract::{
    BoxFuture, EffectState, Failure, FailureCode, Json, Tool, ToolCtx, ToolOutput, ToolSpec, Verified,
};

use super::chance::Chance;
use super::history::{Attempt, AttemptEnd, Fact};
use super::stage::{Faults, Stage};

/// How often what happens to the attempts of a tool, each in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultRates {
    /// Attempts that fail with a code, before or after the tool was reached. Default 30.
    pub fail: u32,
    /// Attempts that are never answered. Default 6.
    pub hang: u32,
    /// Attempts whose code breaks. Default 4.
    pub panic: u32,
    /// Attempts that take longer than their timeout. Default 5.
    pub late: u32,
    /// The longest time of any other attempt. Default 2 s.
    pub latency_max: Duration,
}

impl Default for FaultRates {
    fn default() -> Self {
        Self { fail: 30, hang: 6, panic: 4, late: 5, latency_max: Duration::from_secs(2) }
    }
}

impl FaultRates {
    /// No faults and no latency.
    pub const NONE: Self = Self { fail: 0, hang: 0, panic: 0, late: 0, latency_max: Duration::ZERO };

    /// The same with every fault so much more likely, in percent of what it was.
    pub(super) fn scaled(self, percent: u32) -> Self {
        let scale = |rate: u32| (rate * percent / 100).min(100);
        Self {
            fail: scale(self.fail),
            hang: scale(self.hang),
            panic: scale(self.panic),
            late: scale(self.late),
            latency_max: self.latency_max,
        }
    }

    /// The same for a tool whose code is broken; no different where there are to be no panics.
    pub(super) const fn panicking(self) -> Self {
        Self { panic: if self.panic == 0 { 0 } else { 70 }, ..self }
    }

    fn draw(&self, chance: &mut Chance) -> Fault {
        let mut drawn = u32::try_from(chance.below(100)).unwrap_or(0);
        let mut is = |rate: u32| {
            let hit = drawn < rate;
            drawn = drawn.saturating_sub(rate);
            hit
        };
        if is(self.panic) {
            Fault::Panic
        } else if is(self.hang) {
            Fault::Hang
        } else if is(self.late) {
            Fault::Late
        } else if is(self.fail) {
            Fault::Fail(failure_code(chance))
        } else {
            Fault::None
        }
    }
}

/// What strikes one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    Fail(FailureCode),
    Hang,
    Panic,
    Late,
}

/// Codes that say something about the moment more often than any other; every code at times.
fn failure_code(chance: &mut Chance) -> FailureCode {
    const USUAL: [FailureCode; 4] = [
        FailureCode::Unavailable,
        FailureCode::Timeout,
        FailureCode::ConnectionFailed,
        FailureCode::RateLimited,
    ];
    let of: &[FailureCode] = if chance.percent(80) { &USUAL } else { &FailureCode::ALL };
    let index = usize::try_from(chance.below(of.len() as u64)).unwrap_or(0);
    of.get(index).copied().unwrap_or(FailureCode::Unavailable)
}

/// A tool behind faults, seen by the stage.
pub(super) struct Faulted {
    pub(super) inner: Arc<dyn Tool>,
    pub(super) rates: FaultRates,
    pub(super) stage: Stage,
    pub(super) chance: Mutex<Chance>,
}

/// What is decided about an attempt when it begins.
struct Fate {
    fault: Fault,
    latency: Duration,
    /// Whether the tool is reached although the attempt goes wrong.
    reached: Reached,
    retry_after: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    Yes,
    No,
}

impl Faulted {
    fn fate(&self) -> Fate {
        let mut chance = self.chance.lock().unwrap_or_else(PoisonError::into_inner);
        if self.stage.faults() == Faults::Off {
            let latency = chance.length_ms(0, 50);
            return Fate { fault: Fault::None, latency, reached: Reached::Yes, retry_after: None };
        }
        let fault = self.rates.draw(&mut chance);
        let latency_ms = u64::try_from(self.rates.latency_max.as_millis()).unwrap_or(u64::MAX);
        let latency = match fault {
            Fault::Late => self.spec().resilience.attempt_timeout + chance.length_ms(0, 2000),
            Fault::None | Fault::Fail(_) | Fault::Hang | Fault::Panic => chance.length_ms(0, latency_ms),
        };
        let reached = if chance.percent(50) { Reached::Yes } else { Reached::No };
        let retry_after = chance.percent(40).then(|| chance.length_ms(0, 8000));
        Fate { fault, latency, reached, retry_after }
    }

    async fn attempt(&self, ctx: ToolCtx, arguments: Json, attempt: &Attempt) -> Result<ToolOutput, Failure> {
        let Fate { fault, latency, reached, retry_after } = self.fate();
        tokio::time::sleep(latency).await;
        let answer = match (fault, reached) {
            (Fault::None | Fault::Late, _) | (_, Reached::Yes) => {
                let answer = self.inner.call(ctx, arguments).await;
                if answer.is_ok() {
                    self.stage.note(Fact::EffectHappened { attempt: attempt.clone() });
                }
                Some(answer)
            }
            (Fault::Fail(_) | Fault::Hang | Fault::Panic, Reached::No) => None,
        };
        match (fault, answer) {
            (Fault::None | Fault::Late, Some(answer)) => answer,
            (Fault::Hang, _) => std::future::pending().await,
            (Fault::Fail(code), answer) => Err(self.failure(code, answer.is_some(), retry_after)),
            (Fault::Panic | Fault::None | Fault::Late, _) => {
                // No message on the terminal: that the panic is contained is what is tested.
                resume_unwind(Box::new("a simulated defect"))
            }
        }
    }

    fn failure(&self, code: FailureCode, reached: bool, retry_after: Option<Duration>) -> Failure {
        let effect = if reached { EffectState::Unknown } else { EffectState::None };
        let failure = Failure::with_effect(code, effect, "A simulated fault.");
        match (code, retry_after) {
            (FailureCode::RateLimited | FailureCode::Unavailable, Some(wait)) => failure.retry_after(wait),
            _ => failure,
        }
    }
}

impl Tool for Faulted {
    fn spec(&self) -> &Arc<ToolSpec> {
        self.inner.spec()
    }

    fn call(&self, ctx: ToolCtx, arguments: Json) -> BoxFuture<'_, Result<ToolOutput, Failure>> {
        Box::pin(async move {
            let attempt = self.stage.attempt(&self.spec().name, &ctx);
            self.stage.note(Fact::AttemptBegan {
                attempt: attempt.clone(),
                key: self.stage.key(&ctx.idempotency_key),
                deadline: Stage::since_start(ctx.deadline),
            });
            self.stage.count_running(|running| running + 1);
            let mut watched = Watched { stage: &self.stage, attempt, noted: Noted::No };
            let answer = self.attempt(ctx, arguments, &watched.attempt).await;
            let end = match &answer {
                Ok(_) => AttemptEnd::Worked,
                Err(failure) => AttemptEnd::Failed(failure.clone()),
            };
            watched.note(end);
            answer
        })
    }

    fn verify(&self, ctx: ToolCtx, arguments: Json) -> BoxFuture<'_, Result<Verified, Failure>> {
        self.inner.verify(ctx, arguments)
    }
}

/// Sees to it that an attempt is over exactly once in the history, however it ends.
struct Watched<'a> {
    stage: &'a Stage,
    attempt: Attempt,
    noted: Noted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Noted {
    Yes,
    No,
}

impl Watched<'_> {
    fn note(&mut self, end: AttemptEnd) {
        self.noted = Noted::Yes;
        self.stage.note(Fact::AttemptEnded { attempt: self.attempt.clone(), end });
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.stage.count_running(|running| running.saturating_sub(1));
        if self.noted == Noted::No {
            let end = if std::thread::panicking() { AttemptEnd::Panicked } else { AttemptEnd::Dropped };
            self.note(end);
        }
    }
}
