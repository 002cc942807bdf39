//! Which reply a request gets.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::reply::Reply;
use super::request::ChatRequest;

/// Gives the reply to each good request.
///
/// # Examples
/// ```
/// use dauntless_testkit::{Call, Reply, Script};
/// use serde_json::json;
///
/// // Right for one conversation, and for faults: the second request gets the second reply.
/// let by_order = Script::by_order([Reply::error(500, "oops", "Try again."), Reply::text("done")]);
///
/// // Right for many conversations at once: looks only at how often the model has spoken.
/// let by_turn = Script::by_turn([Reply::calls([Call::new("ping", &json!({}))]), Reply::text("done")]);
///
/// // Anything else.
/// let echo = Script::from_fn(|request| Reply::text(request.last_text().unwrap_or("nothing")));
/// # let _ = (by_order, by_turn, echo);
/// ```
pub struct Script {
    plan: Plan,
    otherwise: Option<Reply>,
}

enum Plan {
    ByOrder { replies: Vec<Reply>, next: AtomicUsize },
    ByTurn(Vec<Reply>),
    Closure(Box<dyn Fn(&ChatRequest) -> Reply + Send + Sync>),
}

impl Script {
    /// The n-th good request gets the n-th reply, whichever conversation it belongs to.
    pub fn by_order(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::new(Plan::ByOrder { replies: replies.into_iter().collect(), next: AtomicUsize::new(0) })
    }

    /// A request that shows n messages of the model gets reply n, counted from 0.
    pub fn by_turn(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::new(Plan::ByTurn(replies.into_iter().collect()))
    }

    /// The closure decides. Where it panics, the request is answered 400 and counts as a violation.
    pub fn from_fn(decide: impl Fn(&ChatRequest) -> Reply + Send + Sync + 'static) -> Self {
        Self::new(Plan::Closure(Box::new(decide)))
    }

    /// The same reply to every request.
    pub fn always(reply: Reply) -> Self {
        Self::by_order([]).otherwise(reply)
    }

    /// What follows once a list is at its end. Without it the request is refused as a violation.
    #[must_use]
    pub fn otherwise(mut self, reply: Reply) -> Self {
        self.otherwise = Some(reply);
        self
    }

    fn new(plan: Plan) -> Self {
        Self { plan, otherwise: None }
    }

    /// The reply, or nothing when the list is at its end.
    pub(super) fn reply(&self, request: &ChatRequest) -> Option<Reply> {
        let listed = match &self.plan {
            Plan::ByOrder { replies, next } => replies.get(next.fetch_add(1, Ordering::Relaxed)).cloned(),
            Plan::ByTurn(replies) => replies.get(request.assistant_messages()).cloned(),
            Plan::Closure(decide) => Some(decide(request)),
        };
        listed.or_else(|| self.otherwise.clone())
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.plan {
            Plan::ByOrder { replies, .. } => write!(f, "Script::by_order({} replies)", replies.len()),
            Plan::ByTurn(replies) => write!(f, "Script::by_turn({} replies)", replies.len()),
            Plan::Closure(_) => f.write_str("Script::from_fn"),
        }
    }
}
