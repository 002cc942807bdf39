//! Instruments for testing agents: they stand outside the agent and say whether it kept its word.
//!
//! A test of an agent is worth what its instruments can catch, so each one here can fail: the
//! [`StrictProvider`] refuses a broken request, the [`EffectLedger`] counts effects where the tool
//! cannot hide them, [`CallAccounting`] finds the call that was never answered, [`LeakCheck`] the
//! descriptor that stayed open, [`Canary`] the exit a key left by, [`RequestCounter`] the retry too
//! many. [`FaultyTool`] breaks on demand, [`ManualClock`] moves when told, and [`Simulation`] runs
//! whole runtimes through seeded trouble. Nothing here decides for an agent, and none of it belongs
//! in a production build.
//!
//! The instruments panic where a test has to stop: in the `assert_…` methods, and where they could
//! no longer tell the truth. Servers listen on 127.0.0.1, on a port the system picks, in a thread
//! of their own, so they do not count as tasks of the test. They keep real time: under a paused
//! clock the client's own timeouts come before any answer, so talk to them with a running one.

pub mod accounting;
pub mod canary;
pub mod clock;
pub mod counter;
pub mod faulty;
mod http;
pub mod leak;
pub mod ledger;
pub mod simulator;
pub mod strict;

pub use accounting::CallAccounting;
pub use canary::Canary;
pub use clock::ManualClock;
pub use counter::RequestCounter;
pub use faulty::{Behaviour, FaultyTool};
pub use http::Answer;
pub use leak::LeakCheck;
pub use ledger::EffectLedger;
pub use simulator::Simulation;
pub use strict::{Call, ChatRequest, Reply, Script, StrictProvider};

/// The model that answers from a script, beside the instruments that it is used with.
pub use dauntless_models::{ScriptError, Scripted, Turn, When};

#[cfg(test)]
mod tests;
