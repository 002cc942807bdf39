//! Tools fail; the agent must not: an actor-based runtime for agents, as one crate to depend on.
//!
//! It exists so that an application names one crate and finds what it needs at the top level.
//! It decides nothing and holds no policy: what a tool is stands in [`tool_fn`] and [`tool`](macro@tool),
//! the words it speaks in come from `dauntless-contract`.

#[cfg(test)]
extern crate self as dauntless;

mod tool;

pub use dauntless_contract::{
    BoxFuture, CancelSignal, Effect, EffectState, Failure, FailureCode, FieldProblem, Json, NeverCancelled,
    NotJson, OnExhausted, ResiliencePolicy, Tool, ToolCtx, ToolOutput, ToolSpec, ToolSpecError,
};
pub use dauntless_macros::tool;

pub use tool::{FnTool, ToolSet, tool_fn, tool_fn_with_ctx};

/// What the code that [`macro@tool`] writes needs. Not for use by hand, and not stable.
#[doc(hidden)]
pub mod __private {
    pub use dauntless_contract::{Effect, Json, OnExhausted, Tool, ToolCtx, ToolSpec};
    pub use {schemars, serde};

    pub use crate::tool::{Answering, FnTool, IntoAnswer, Returned, ToolSet, tool_fn_with_ctx};
}
