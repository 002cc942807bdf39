//! A provider stricter than any real one, to stand behind every test that talks to a model.
//!
//! It speaks `POST /v1/chat/completions` and `POST /v1/responses` of the OpenAI API, whole and
//! streamed; a request to the second is shown as the chat request that says the same. One that
//! breaks a rule some provider enforces is answered 400 and remembered, so a test that forgets to
//! look at the answer still fails in [`StrictProvider::assert_clean`]. A good request is answered
//! from a [`Script`]. It does not think, count tokens exactly, or serve any other endpoint.

mod provider;
mod render;
mod reply;
mod request;
mod responses;
mod rules;
mod script;

pub use provider::{Builder, StrictProvider};
pub use reply::{Call, Reply};
pub use request::{ChatRequest, NotChat};
pub use rules::{Broken, Rule, Violation, check};
pub use script::Script;

#[cfg(test)]
mod tests;
