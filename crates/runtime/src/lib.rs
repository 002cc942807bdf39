//! The actors of Dauntless: thin shells over the decision core.
//!
//! Mailbox messages become core events, core effects become calls, tasks and timers. Nothing is
//! decided here and nothing is parsed here; what a retry waits, whether a breaker opens and why a
//! run ends is `dauntless-core`'s, what a provider's answer means is an adapter's.
//!
//! ```text
//! root ─┬─ tools ──── a keeper per tool ──── its supervisor ──── its actor ── a task per attempt
//!       ├─ models ─── a keeper per model ─── its supervisor ──── its actor ── a task per attempt
//!       └─ runs ───── one orchestrator per run, which owns its conversation; those of its children under it
//! ```

mod agent;
mod answerer;
mod builder;
mod by_hand;
mod child;
mod clock;
mod commons;
mod crew;
mod delegate;
mod drive;
mod error;
mod events;
mod guarded;
mod id;
mod lease;
mod ledger;
mod opening;
mod orchestrator;
mod ports;
mod run;
mod runtime;
mod submission;
pub mod supervision;
mod supervisor;
mod telemetry;
mod watch;

pub use agent::Agent;
pub use answerer::{AnswerError, Answerer};
pub use builder::RuntimeBuilder;
pub use by_hand::CallByHand;
pub use clock::SystemClock;
pub use delegate::Delegate;
pub use drive::DriveError;
pub use error::{BuildError, SubmitError};
pub use events::{Lagged, ToolEvents};
pub use lease::Lease;
pub use ledger::CODE_VERSION;
pub use opening::{new_fence, start_event};
pub use orchestrator::Escalation;
pub use run::{Canceller, Parting, Reins, RunHandle, RunStream};
pub use runtime::Runtime;
pub use submission::Submission;

pub use dauntless_core::plan::{Join, Plan, Problem, Rule};
pub use dauntless_core::redact::RedactError;
pub use dauntless_core::revival::RevivalPolicy;
pub use dauntless_core::run::RecoverError;
pub use dauntless_core::supervision::{RestartPolicy, UnreachableLimit};
pub use dauntless_core::toolbox::Quarantined;
pub use dauntless_core::tree::{Allowance, Hears, OnFailure};

/// The parts of a [`Plan`], for what its own functions do not set, like [`plan::Parallel::at_once`].
pub mod plan {
    pub use dauntless_core::plan::{Case, Improve, Loop, Parallel, Route, Step};
}

#[cfg(test)]
mod tests;
