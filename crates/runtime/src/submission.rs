//! What a run is asked for: a goal, alone or after an earlier conversation.

use std::sync::Arc;

use dauntless_contract::RepairedHistory;

/// A goal, and the conversation it continues, if there is one.
///
/// A text alone is a goal of its own, so `runtime.run(&agent, "…")` needs no more than that.
///
/// # Examples
/// ```
/// use dauntless_contract::History;
/// use dauntless_runtime::Submission;
///
/// let stored: Vec<serde_json::Value> = serde_json::from_str(r#"[
///     { "role": "user", "content": "Where is my parcel?" },
///     { "role": "assistant", "content": "Which order is it?" }
/// ]"#)?;
/// let next = Submission::new("ORD-2026-00042").after(History::repair(&stored));
/// # let _ = next;
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Submission {
    pub(crate) goal: Arc<str>,
    pub(crate) past: RepairedHistory,
}

impl Submission {
    /// A goal in a conversation of its own.
    pub fn new(goal: impl Into<Arc<str>>) -> Self {
        Self { goal: goal.into(), past: RepairedHistory::default() }
    }

    /// Puts the goal after this conversation, as the user's next words. The agent's instructions
    /// take the place of those in it. What was repaired is reported and recorded with the run.
    #[must_use]
    pub fn after(mut self, past: impl Into<RepairedHistory>) -> Self {
        self.past = past.into();
        self
    }
}

impl<T: Into<Arc<str>>> From<T> for Submission {
    fn from(goal: T) -> Self {
        Self::new(goal)
    }
}
