//! Supervisors as OTP has them, over ractor, for actors of your own.
//!
//! ractor links actors and tells a parent of their ends; who is started again, in which order and how
//! often is decided here. This is the one module that speaks ractor's types. A supervisor refuses to
//! work: it never waits inside its mailbox, so it answers while its children crash, block or stop.
//!
//! ```
//! use dauntless_runtime::supervision::{ChildSpec, Strategy, Supervisor};
//! use ractor::{Actor, ActorProcessingErr, ActorRef};
//!
//! struct Worker;
//!
//! impl Actor for Worker {
//!     type Msg = ();
//!     type State = ();
//!     type Arguments = ();
//!     async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
//!         Ok(())
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let supervisor = Supervisor::builder()
//!     .strategy(Strategy::RestForOne)
//!     .child(ChildSpec::new("store", |me| Actor::spawn_linked(None, Worker, (), me)))
//!     .child(ChildSpec::new("reader", |me| Actor::spawn_linked(None, Worker, (), me)))
//!     .start()
//!     .await?;
//! assert_eq!(supervisor.count_children().await?.active, 2);
//! supervisor.shutdown().await;
//! # Ok(()) }
//! ```
//!
//! What differs from OTP: a child may wait before it is restarted ([`RestartPolicy`]); under one for
//! one, children that stop or start do not hold up the others; and a panic and an error of an actor
//! are one thing, since ractor does not tell them apart.

mod actor;
mod builder;
mod child;
mod error;
mod handle;
mod keeper;
mod shell;

pub use builder::{Supervisor, SupervisorBuilder};
pub use child::{ChildSpec, Started};
pub use error::{GaveUp, GaveUpWhy, StartError, Terminal};
pub use handle::{ChildInfo, Ended, SupervisorHandle};

/// The version of ractor that this module speaks.
pub use ractor;

pub use dauntless_core::supervision::{
    AutoShutdown, ChildKind, ChildState, Counts, Failed, RequestError, Restart, RestartPolicy, Shutdown,
    SpecError, Strategy, UnreachableLimit,
};

#[cfg(test)]
mod tests;
