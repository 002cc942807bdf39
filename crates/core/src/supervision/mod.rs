//! Who is started again, in which order, and when a supervisor gives up.
//!
//! Restart intensity, strategies and restart types are those of OTP: so many restarts in a period are
//! granted, the next failure in it is one too many. [`Restarts`] counts for one actor,
//! [`SupervisorMachine`] decides for a whole set of children. What a child is, and how it is started
//! or stopped, is the shell's part.

mod event;
mod machine;
mod requests;
mod restarts;
mod settle;
mod spec;

pub use event::{
    ChildInfo, ChildState, Counts, End, ExitReason, Failed, Request, RequestError, SupervisorEffect,
    SupervisorEvent, Ticket,
};
pub use machine::SupervisorMachine;
pub use restarts::{Incident, RestartPolicy, Restarts, UnreachableLimit, Verdict};
pub use spec::{
    AutoShutdown, ChildKey, ChildKind, ChildRules, Restart, Shutdown, SpecError, Strategy, SupervisorRules,
};

#[cfg(test)]
mod tests;
