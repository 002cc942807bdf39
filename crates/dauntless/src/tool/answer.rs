//! What a tool's function gives back, as what the model reads.
//!
//! There is one rule: everything is [`Serialize`] and goes through [`ToolOutput::json`], which
//! shows a string as it is. Two types are looked for by identity before that, because their JSON
//! would say something else: [`ToolOutput`], which is already the answer, and `()`, which has
//! nothing to say and would read `null`.

use std::any::Any;

use dauntless_contract::{EffectState, Failure, FailureCode, ToolOutput};
use serde::Serialize;

/// The text for the model of a value.
pub(crate) fn output<T: Serialize + 'static>(value: T) -> Result<ToolOutput, Failure> {
    let any: &dyn Any = &value;
    if let Some(output) = any.downcast_ref::<ToolOutput>() {
        return Ok(output.clone());
    }
    if any.is::<()>() {
        return Ok(ToolOutput::text(""));
    }
    // The work is done by now, so a repetition would do it again.
    ToolOutput::json(&value).map_err(|error| {
        Failure::with_effect(
            FailureCode::ToolError,
            EffectState::Happened,
            "The tool did its work, but its answer cannot be written as JSON. Do not repeat the call.",
        )
        .source(error)
    })
}

/// What a function returned. `into_answer` tells a `Result` from anything else by its type, so
/// that an alias of `Result` is one too and a failure never passes for a value.
pub struct Returned<R>(pub R);

impl<T, E> Returned<Result<T, E>> {
    /// The answer of a function that can fail.
    pub fn into_answer(self) -> Result<ToolOutput, Failure>
    where
        T: Serialize + 'static,
        E: Into<Failure>,
    {
        output(self.0.map_err(Into::into)?)
    }
}

/// The answer of a function that cannot fail. Applies where the inherent method does not.
///
/// The bound is the method's and not the implementation's, so that the compiler names the type
/// that lacks it.
pub trait IntoAnswer {
    /// What the function returned.
    type Value;

    /// Writes the value for the model.
    fn into_answer(self) -> Result<ToolOutput, Failure>
    where
        Self::Value: Serialize + 'static;
}

impl<T> IntoAnswer for Returned<T> {
    type Value = T;

    fn into_answer(self) -> Result<ToolOutput, Failure>
    where
        T: Serialize + 'static,
    {
        output(self.0)
    }
}
