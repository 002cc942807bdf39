//! The one HTTP server behind every instrument that is a server.
//!
//! It reads a request whole, asks a handler what to send back, and sends exactly that, faults
//! included. It knows nothing of models or tools, and it does not route.

mod answer;
mod server;

pub use answer::Answer;
pub(crate) use server::{Received, Server};
