//! What the scripted model says, and how the wire may fail while it says it.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::Answer;

/// One reply of the provider.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use dauntless_testkit::{Call, Reply};
/// use serde_json::json;
///
/// let answer = Reply::text("It rains.");
/// let question = Reply::calls([Call::new("weather", &json!({"city": "Oslo"}))]);
/// let broken = Reply::calls([Call::raw("weather", r#"{"city": "Os"#)]).finish("length");
/// let busy = Reply::rate_limited(Duration::from_secs(2));
/// let torn = Reply::text("It rains in Oslo.").cut_after(2);
/// # let _ = (answer, question, broken, busy, torn);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub(super) delay: Duration,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A message of the model, streamed or whole as the request asks.
    Spoken(Spoken),
    /// Exactly this, whatever the request asks.
    Wire(Answer),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spoken {
    pub(super) text: Option<String>,
    pub(super) refusal: Option<String>,
    pub(super) calls: Vec<Call>,
    pub(super) finish: String,
    pub(super) usage: Option<(u64, u64)>,
    pub(super) fault: Option<Fault>,
}

/// Where a reply breaks. Counts stream events; a reply that is not streamed breaks in its middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Cut { events: usize },
    Stall { events: usize },
    Malformed { events: usize },
}

/// A tool call the scripted model asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub(super) id: Option<String>,
    pub(super) name: String,
    pub(super) arguments: String,
}

impl Call {
    /// A call with good arguments.
    pub fn new(name: impl Into<String>, arguments: &Value) -> Self {
        Self::raw(name, arguments.to_string())
    }

    /// A call whose arguments are this text, be it JSON or not.
    pub fn raw(name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self { id: None, name: name.into(), arguments: arguments.into() }
    }

    /// Gives it an id. Without one it is `call_0`, `call_1`, … by its place, the same every turn.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }
}

impl Reply {
    /// The model's answer.
    pub fn text(text: impl Into<String>) -> Self {
        Self::spoken(Spoken { text: Some(text.into()), ..Spoken::silent("stop") })
    }

    /// The model asks for tool calls.
    pub fn calls(calls: impl IntoIterator<Item = Call>) -> Self {
        Self::spoken(Spoken { calls: calls.into_iter().collect(), ..Spoken::silent("tool_calls") })
    }

    /// The model refuses, in the field that providers have for it.
    pub fn refusal(text: impl Into<String>) -> Self {
        Self::spoken(Spoken { refusal: Some(text.into()), ..Spoken::silent("stop") })
    }

    /// The model says nothing at all.
    pub fn empty() -> Self {
        Self::spoken(Spoken::silent("stop"))
    }

    /// Status 200 with this body, also to a request for a stream.
    pub fn json(body: &Value) -> Self {
        Self::wire(Answer::json(200, body))
    }

    /// A failure in the shape of the OpenAI API.
    pub fn error(status: u16, code: &str, message: &str) -> Self {
        Self::wire(error(status, code, None, message))
    }

    /// Status 429 that asks to wait so long. `Retry-After` counts whole seconds, rounded up.
    pub fn rate_limited(retry_after: Duration) -> Self {
        let seconds = retry_after.as_secs() + u64::from(retry_after.subsec_nanos() > 0);
        let answer = error(429, "rate_limit_exceeded", None, "Too many requests.");
        Self::wire(answer.header("retry-after", seconds.to_string()))
    }

    /// A stream of exactly these pieces, ended properly. Each brings its own `data: ` and line ends.
    pub fn stream<T: Into<Bytes>>(pieces: impl IntoIterator<Item = T>) -> Self {
        Self::wire(Answer::chunks(pieces).header("content-type", "text/event-stream"))
    }

    /// Reads the request, then closes the connection without a word.
    pub const fn disconnect() -> Self {
        Self::wire(Answer::disconnect())
    }

    /// Reads the request, then never answers.
    pub const fn stall() -> Self {
        Self::wire(Answer::stall())
    }

    /// Any answer of an HTTP server.
    pub const fn wire(answer: Answer) -> Self {
        Self { delay: Duration::ZERO, kind: Kind::Wire(answer) }
    }

    /// Waits so long before the first byte.
    #[must_use]
    pub const fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Adds text beside the calls.
    #[must_use]
    pub fn with_text(self, text: impl Into<String>) -> Self {
        self.edit(|spoken| spoken.text = Some(text.into()))
    }

    /// Replaces the finish reason: `length`, `content_filter`, …
    #[must_use]
    pub fn finish(self, reason: impl Into<String>) -> Self {
        self.edit(|spoken| spoken.finish = reason.into())
    }

    /// Says what it used, in tokens. Without it a token is taken for four bytes.
    #[must_use]
    pub fn usage(self, prompt: u64, completion: u64) -> Self {
        self.edit(|spoken| spoken.usage = Some((prompt, completion)))
    }

    /// Breaks the connection after so many stream events, or in the middle of a whole reply.
    #[must_use]
    pub fn cut_after(self, events: usize) -> Self {
        self.edit(|spoken| spoken.fault = Some(Fault::Cut { events }))
    }

    /// Falls silent after so many stream events, or in the middle of a whole reply.
    #[must_use]
    pub fn stall_after(self, events: usize) -> Self {
        self.edit(|spoken| spoken.fault = Some(Fault::Stall { events }))
    }

    /// Sends an event that is not JSON after so many good ones, or half the JSON of a whole reply.
    #[must_use]
    pub fn malformed_after(self, events: usize) -> Self {
        self.edit(|spoken| spoken.fault = Some(Fault::Malformed { events }))
    }

    const fn spoken(spoken: Spoken) -> Self {
        Self { delay: Duration::ZERO, kind: Kind::Spoken(spoken) }
    }

    /// Changes what the model says; a reply that is bare wire has nothing to change.
    fn edit(mut self, change: impl FnOnce(&mut Spoken)) -> Self {
        if let Kind::Spoken(spoken) = &mut self.kind {
            change(spoken);
        }
        self
    }
}

impl Spoken {
    fn silent(finish: &str) -> Self {
        Self {
            text: None,
            refusal: None,
            calls: Vec::new(),
            finish: finish.to_owned(),
            usage: None,
            fault: None,
        }
    }
}

/// An error body as the OpenAI API writes it.
pub(super) fn error(status: u16, code: &str, param: Option<&str>, message: &str) -> Answer {
    let kind = match status {
        401 | 403 => "authentication_error",
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    };
    Answer::json(status, &json!({"error": {"message": message, "type": kind, "param": param, "code": code}}))
}
