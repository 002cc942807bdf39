//! Tools fail; the agent must not: an actor-based runtime for agents, as one crate to depend on.
//!
//! ```
//! use dauntless::prelude::*;
//!
//! /// Look up the state of one order.
//! #[tool(effect = "read_only", timeout = "5s")]
//! async fn order(
//!     /// Order id, like ORD-2026-00042.
//!     id: String,
//! ) -> Result<String, Failure> {
//!     match id.as_str() {
//!         "ORD-2026-00042" => Ok("shipped yesterday".to_owned()),
//!         _ => Err(Failure::not_found(format!("No order matches {id}."))
//!             .hint("Order ids look like ORD-2026-00042.")),
//!     }
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! // In a service this is `OpenAi::from_env("gpt-5-mini")?`; a script needs no key.
//! let model = Scripted::new([
//!     Turn::new().call("order", serde_json::json!({ "id": "ORD-2026-00042" })),
//!     Turn::new().text("Your order was {{obs.order}}."),
//! ]);
//! let agent = Agent::new("support").instructions("Be brief.").tool(order);
//! let runtime = Runtime::builder().model(model).agent(&agent).build().await?;
//!
//! let outcome = runtime.run(&agent, "Where is ORD-2026-00042?").await;
//! assert_eq!(outcome.answer(), Some("Your order was shipped yesterday."));
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
//! #     .block_on(example()).unwrap();
//! ```
//!
//! An agent may ask others, as tools of their names ([`Agent::delegate`], [`Delegate`]), and what agents
//! do together may be planned without a model ([`Agent::plan`], [`Plan`]). With a journal that workers
//! share ([`RuntimeBuilder::shared_journal`], [`Runtime::drive`]) a run outlives its process.
//!
//! It exists so that an application names one crate and finds what it needs at the top level. It
//! decides nothing and holds no policy: what a tool is stands in [`tool_fn`] and
//! [`tool`](macro@tool), what a run is in [`Runtime`].

#[cfg(test)]
extern crate self as dauntless;

/// The README's program compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}

mod answer;
#[cfg(feature = "openai")]
mod env;
mod tool;

pub use dauntless_contract::{
    AgentSpec, Alarm, Ancestor, AnswerSchema, AnswerSpec, AppendError, Attendance, BlobHash, BoxFuture,
    BreakerPolicy, BreakerStatus, BreakerSwitch, Bucket, BudgetPolicy, Bytes, CallKey, CallRecord,
    CallVerdict, CancelSignal, ChildRun, Claim, ClaimFilter, Clock, CountTokens, Counters, CreateError,
    DependencyKind, Effect, EffectState, ErrorSpike, EventProblem, Failure, FailureCode, Fence, FieldProblem,
    Finish, GoalDigest, History, HistoryFault, HistoryRepair, Journal, JournalError, Json, LateResult,
    Letter, LetterContent, LimitKind, Lineage, ListQuery, Message, MicroUsd, Model, ModelCtx, ModelReply,
    ModelRequest, ModelSpec, NeverCancelled, NewRun, NotAHash, NotJson, Observation, OnExhausted, Outage,
    Outcome, Pad, PanicPolicy, PastFailure, Posted, Price, Progress, Question, RawCall, ReadError, Recorded,
    Release, RepairedHistory, RequestPurpose, ResiliencePolicy, ResolvedBy, RetryPolicy, Round, RunCounts,
    RunEvent, RunId, RunLimits, RunMeta, RunState, RunTimer, RunTotals, Seq, ServiceState, SharedJournal,
    Snapshot, StopReason, StoppedBy, TextSink, Timestamp, TokenCounter, Tokens, TooLarge, Tool, ToolCall,
    ToolChange, ToolCtx, ToolEvent, ToolOutput, ToolSpec, ToolSpecError, ToolStatus, Trim, Usage, Verified,
    VerifyVerdict, WorkerInfo,
};
pub use dauntless_journal::Memory;
#[cfg(feature = "sqlite")]
pub use dauntless_journal::{OpenError, Sqlite};
#[cfg(feature = "postgres")]
pub use dauntless_journal::{Postgres, PostgresConfig};
pub use dauntless_macros::tool;
pub use dauntless_models::StructuredCalls;
#[cfg(feature = "openai")]
pub use dauntless_models::{Api, CallIds, NoText, OpenAi, OpenAiBuildError, OpenAiBuilder, Profile, Secret};
pub use dauntless_models::{ScriptError, Scripted, Turn, When, known_counter, known_window};
pub use dauntless_runtime::{
    Agent, Allowance, AnswerError, Answerer, BuildError, CODE_VERSION, CallByHand, Canceller, Delegate,
    DriveError, Escalation, Hears, Join, Lagged, Lease, OnFailure, Parting, Plan, Problem, Quarantined,
    RecoverError, RedactError, Reins, RestartPolicy, RevivalPolicy, Rule, RunHandle, RunStream, Runtime,
    RuntimeBuilder, Submission, SubmitError, SystemClock, ToolEvents, UnreachableLimit, plan, supervision,
};

pub use answer::{Answers, NoValue, RunTyped, Typed, TypedAgent};
#[cfg(feature = "openai")]
pub use env::{FromEnv, FromEnvError};
pub use tool::{FnTool, ToolSet, tool_fn, tool_fn_with_ctx};

/// What most programs need, for `use dauntless::prelude::*`.
pub mod prelude {
    pub use crate::{
        Agent, Allowance, Answers, Delegate, Effect, Failure, FailureCode, Join, NoValue, OnFailure, Outcome,
        Plan, Progress, Rule, RunLimits, RunTyped, Runtime, Scripted, StopReason, Tool, ToolCtx, ToolOutput,
        ToolSet, Turn, Typed, TypedAgent, tool, tool_fn, tool_fn_with_ctx,
    };
    #[cfg(feature = "openai")]
    pub use crate::{FromEnv, OpenAi};
}

/// What the code that [`macro@tool`] writes needs. Not for use by hand, and not stable.
#[doc(hidden)]
pub mod __private {
    pub use dauntless_contract::{Effect, Json, OnExhausted, Tool, ToolCtx, ToolSpec};
    pub use {schemars, serde};

    pub use crate::tool::{Answering, FnTool, IntoAnswer, Returned, ToolSet, Verifying, tool_fn_with_ctx};
}
