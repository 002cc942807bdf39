//! Tools without code: HTTP requests and commands, declared in configuration.
//!
//! An operator writes a few lines of TOML and the model gets a tool; nobody compiles anything.
//! This crate turns those lines into a [`Tool`](dauntless_contract::Tool): one call of it is one
//! request or one process, and every way it can end becomes a value or a typed failure. It refuses
//! to retry (the runtime does), to go through a shell, to let an argument choose a host or a
//! program, and to reach a private address that the operator did not name.
//!
//! [`Chaos`] stands before a tool of any kind and lets it fail on purpose.
//!
//! Both kinds are built from a [`ToolSpec`](dauntless_contract::ToolSpec) and a configuration, and
//! report every mistake in it at once. The environment is only read through the function that the
//! caller passes in. The runtime masks what [`HttpTool::secrets`] and [`CommandTool::secrets`] name.

mod arguments;
mod chaos;
mod command;
mod config;
mod environment;
mod excerpt;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod template;

#[cfg(test)]
mod tests;

pub use chaos::{Chaos, ChaosPlan, FaultKind, UnknownFault};
pub use command::{CommandConfig, CommandTool, OutputFormat, ProcessReaper, StdinFormat};
pub use config::ToolConfigError;
pub use http::{BodyConfig, BodyFrom, HttpConfig, HttpMethod, HttpTool, VerifyConfig};
