//! Scripts of timed events in, transcripts of effects out, and the invariants over random events.

mod budgets;
mod layers;
mod orders;
mod sim;
mod stops;
