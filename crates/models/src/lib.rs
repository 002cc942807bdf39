//! Model clients: OpenAI-compatible providers, and scripts.
//!
//! A client makes one attempt and says what came of it: a [`ModelReply`](dauntless_contract::ModelReply)
//! or a classified [`Failure`](dauntless_contract::Failure). It never retries, never waits for a
//! provider to recover and never guesses what a broken reply was meant to be: the runtime decides
//! on the former, the model on the latter.

#[cfg(feature = "openai")]
mod assembler;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "openai")]
mod openai;
#[cfg(feature = "openai")]
mod profile;
#[cfg(feature = "openai")]
mod retry_after;
#[cfg(feature = "scripted")]
mod scripted;
#[cfg(feature = "openai")]
mod secret;
mod structured;
mod tokens;
#[cfg(feature = "openai")]
mod wire;

#[cfg(feature = "openai")]
pub use openai::{Api, OpenAi, OpenAiBuildError, OpenAiBuilder};
#[cfg(feature = "openai")]
pub use profile::{CallIds, NoText, Profile};
#[cfg(feature = "openai")]
pub use retry_after::retry_after;
#[cfg(feature = "scripted")]
pub use scripted::{ScriptError, Scripted, Turn, When};
#[cfg(feature = "openai")]
pub use secret::Secret;
pub use structured::StructuredCalls;
pub use tokens::{known_counter, known_window};
