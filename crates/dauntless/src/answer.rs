//! Answers as Rust types: the schema from the type, and the value from the answer.
//!
//! The harness holds the answer against the schema and has the model try again; what is left here
//! is to read it. An outcome is never lost: it comes beside the value, or inside the error.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use dauntless_contract::Outcome;
use dauntless_runtime::{Agent, Runtime};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::tool::schema_of;

/// An agent whose answers are values of `T`. In everything else it is the [`Agent`].
pub struct TypedAgent<T> {
    agent: Agent,
    answers: PhantomData<fn() -> T>,
}

impl<T> Deref for TypedAgent<T> {
    type Target = Agent;

    fn deref(&self) -> &Agent {
        &self.agent
    }
}

impl<T> Clone for TypedAgent<T> {
    fn clone(&self) -> Self {
        Self { agent: self.agent.clone(), answers: PhantomData }
    }
}

impl<T> fmt::Debug for TypedAgent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.agent.fmt(f)
    }
}

/// An answer as a value, and how the run went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typed<T> {
    /// The answer.
    pub value: T,
    /// The outcome; it is completed, and its text is the JSON that was read.
    pub outcome: Outcome,
}

/// A run that gave no value. The outcome is here all the same.
#[derive(Debug, thiserror::Error)]
pub enum NoValue {
    /// The run did not complete; its reason says why.
    #[error("the run gave no answer: {}{}", .outcome.reason, explained(.outcome))]
    Stopped {
        /// How it ended.
        outcome: Box<Outcome>,
    },
    /// The answer fits the schema, and the type does not take it all the same: it demands something
    /// that its schema does not say.
    #[error("the answer cannot be read at `{path}`: {error}")]
    Unreadable {
        /// The completed run.
        outcome: Box<Outcome>,
        /// Where in the answer; `.` is the whole of it.
        path: String,
        /// What the type said.
        error: serde_json::Error,
    },
}

fn explained(outcome: &Outcome) -> String {
    outcome.explanation.as_ref().map(|words| format!(": {words}")).unwrap_or_default()
}

impl NoValue {
    /// How the run ended.
    pub fn outcome(&self) -> &Outcome {
        match self {
            Self::Stopped { outcome } | Self::Unreadable { outcome, .. } => outcome,
        }
    }
}

impl<T: DeserializeOwned> Typed<T> {
    /// Reads the answer of a run, for those who [submit](Runtime::submit) or
    /// [stream](Runtime::stream) it themselves.
    ///
    /// # Errors
    /// [`NoValue`] with the outcome, when the run did not complete or the type does not take it.
    pub fn read(outcome: Outcome) -> Result<Self, NoValue> {
        let Some(answer) = outcome.answer() else {
            return Err(NoValue::Stopped { outcome: Box::new(outcome) });
        };
        match serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(answer)) {
            Ok(value) => Ok(Self { value, outcome }),
            Err(error) => Err(NoValue::Unreadable {
                outcome: Box::new(outcome),
                path: error.path().to_string(),
                error: error.into_inner(),
            }),
        }
    }
}

/// Gives an [`Agent`] a type for its answers.
pub trait Answers {
    /// Demands answers of the shape of `T`: its fields with their doc comments, by `schemars`.
    ///
    /// The shape is called like the type. A type whose schema cannot be used is refused when the
    /// runtime first sees the agent. Call this once, and keep the agent for all its runs.
    fn answers<T: DeserializeOwned + JsonSchema>(self) -> TypedAgent<T>;
}

impl Answers for Agent {
    fn answers<T: DeserializeOwned + JsonSchema>(self) -> TypedAgent<T> {
        let agent = self.answer_schema(name_of::<T>(), schema_of::<T>());
        TypedAgent { agent, answers: PhantomData }
    }
}

/// The name of the type's schema, in the letters that providers take.
fn name_of<T: JsonSchema>() -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    T::schema_name().chars().map(legal).take(64).collect()
}

/// Runs agents whose answers are values.
pub trait RunTyped {
    /// Runs a goal to its end and reads the answer.
    ///
    /// ```
    /// use dauntless::prelude::*;
    ///
    /// /// What a bill says.
    /// #[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
    /// struct Bill {
    ///     /// Who wrote it.
    ///     from: String,
    ///     /// The sum in cents.
    ///     cents: u64,
    /// }
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// // The first answer misses the shape, so the model is told what is wrong and tries again.
    /// let model = Scripted::replies([r#"{"from":"ACME"}"#, r#"{"from":"ACME","cents":"1250"}"#]);
    /// let agent = Agent::new("reader").instructions("Read the bill.").answers::<Bill>();
    /// let runtime = Runtime::builder().model(model).agent(&agent).build().await?;
    ///
    /// let Typed { value, outcome } = runtime.run_typed(&agent, "ACME Ltd., 12.50").await?;
    /// assert_eq!(value, Bill { from: "ACME".to_owned(), cents: 1250 });
    /// assert_eq!(outcome.totals.turns, 2);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    /// #     .block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`NoValue`] with the outcome, when the run did not complete or the type does not take the
    /// answer.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the run, as for [`Runtime::run`].
    fn run_typed<T: DeserializeOwned + JsonSchema>(
        &self,
        agent: &TypedAgent<T>,
        goal: impl Into<Arc<str>> + Send,
    ) -> impl Future<Output = Result<Typed<T>, NoValue>> + Send;
}

impl RunTyped for Runtime {
    async fn run_typed<T: DeserializeOwned + JsonSchema>(
        &self,
        agent: &TypedAgent<T>,
        goal: impl Into<Arc<str>> + Send,
    ) -> Result<Typed<T>, NoValue> {
        Typed::read(self.run(agent, goal).await)
    }
}

#[cfg(test)]
mod tests;
