//! The composition root: configuration, wiring, telemetry.
//!
//! Everything here is about a process: what it is told in a file, what it puts together from that,
//! and what it says about itself. Nothing here decides what a run does next.

pub mod config;
pub mod telemetry;
