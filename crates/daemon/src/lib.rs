//! The composition root: configuration, wiring, telemetry, the control socket, and the rehearsal.
//!
//! Everything here is about a process: what it is told in a file, what it puts together from that,
//! and what it says about itself. Nothing here decides what a run does next.

pub mod chaos;
pub mod config;
pub mod control;
pub mod pin;
pub mod probe;
pub mod rehearsal;
pub mod runs;
pub mod store;
pub mod tally;
pub mod telemetry;
pub mod wiring;
pub mod worker;
