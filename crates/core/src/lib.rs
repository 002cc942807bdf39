//! Every decision of Dauntless, and nothing that touches the world.
//!
//! A decision is a function of (state, now, event), and its result is data. Time and chance come in
//! as arguments; there is no clock, no socket, no file and no task here, and `cargo xtask tidy`
//! proves it from the dependency tree. What an effect does is the runtime's affair.

mod arguments;
mod context;
mod excerpt;
pub mod lease;
pub mod loop_guard;
mod names;
pub mod observation;
pub mod plan;
pub mod prose;
pub mod redact;
pub mod resilience;
pub mod revival;
pub mod run;
pub mod story;
pub mod supervision;
pub mod toolbox;
pub mod tree;
