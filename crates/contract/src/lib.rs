//! What crosses a boundary in Dauntless: ids, units, messages, failures, and the four ports.
//!
//! Every other crate speaks in these types, so they change rarely and hold no behaviour worth
//! arguing about: decisions live in `dauntless-core`, actors in `dauntless-runtime`, the world
//! behind the ports [`Model`], [`Tool`], [`Journal`] and [`Clock`]. Nothing here opens a socket,
//! reads a clock, draws a random number or needs an async runtime.

mod agent;
mod clock;
mod count;
mod event;
mod failure;
mod history;
mod id;
mod input;
mod journal;
mod json;
mod letter;
mod limits;
mod lineage;
mod model;
mod outcome;
mod progress;
mod repair;
mod run_meta;
mod shared_journal;
mod status;
mod tool;
mod unit;

pub use agent::{AgentSpec, AnswerSpec, PanicPolicy};
pub use clock::{Clock, Timestamp};
pub use count::{CountTokens, TokenCounter};
pub use event::{CallRecord, CallVerdict, ResolvedBy, RunEvent, RunTimer, VerifyVerdict};
pub use failure::{Bucket, EffectState, Failure, FailureCode, FieldProblem};
pub use history::{History, Message, Observation, Round};
pub use id::{CallKey, RunId};
pub use input::{Attendance, Question};
pub use journal::{
    AppendError, CreateError, EventProblem, Fence, Journal, NewRun, ReadError, Recorded, Release, Seq,
    TooLarge,
};
pub use json::{Json, NotJson};
pub use letter::LetterContent;
pub use limits::{LimitKind, RunLimits};
pub use lineage::{Ancestor, GoalDigest, Lineage};
pub use model::{
    AnswerSchema, Finish, Model, ModelCtx, ModelReply, ModelRequest, ModelSpec, Price, RawCall,
    RequestPurpose, TextSink, Usage,
};
pub use outcome::{Outcome, RunTotals, StopReason};
pub use progress::{Progress, StoppedBy, Trim};
pub use repair::{HistoryFault, HistoryRepair, RepairedHistory};
pub use run_meta::{Alarm, ListQuery, RunCounts, RunMeta, RunState};
pub use shared_journal::{
    BlobHash, ChildRun, Claim, ClaimFilter, JournalError, LateResult, Letter, NotAHash, Outage, Pad, Posted,
    SharedJournal, Snapshot, WorkerInfo,
};
pub use status::{
    BreakerStatus, BreakerSwitch, Counters, DependencyKind, ErrorSpike, PastFailure, ServiceState,
    ToolChange, ToolEvent, ToolStatus,
};
pub use tool::{
    BreakerPolicy, BudgetPolicy, CancelSignal, Effect, NeverCancelled, OnExhausted, ResiliencePolicy,
    RetryPolicy, Tool, ToolCall, ToolCtx, ToolOutput, ToolSpec, ToolSpecError, Verified,
};
pub use unit::{Bytes, MicroUsd, Tokens};

/// A future that borrows for `'a` and may move between threads; what the ports return.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

#[cfg(test)]
mod tests;
