//! What goes back over the wire, down to where it breaks off.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use serde_json::Value;
use tokio::time::Sleep;

use super::server::Flight;

/// What a test server sends back for one request, broken on purpose where asked.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use dauntless_testkit::Answer;
///
/// let busy = Answer::status(429).header("retry-after", "2");
/// let slow = Answer::ok("done").after(Duration::from_millis(20));
/// let torn = Answer::ok("only half of this arrives").cut();
/// let silent = Answer::stall();
/// # let _ = (busy, slow, torn, silent);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    delay: Duration,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Response(Response),
    /// The request is read and the connection closed.
    Disconnect,
    /// The request is read and nothing follows.
    Stall,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    body: Payload,
    gap: Duration,
    end: End,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Payload {
    /// Announced by its length.
    Whole(Bytes),
    /// Sent piece by piece, without a length.
    Chunks(Vec<Bytes>),
}

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Complete,
    /// The connection breaks.
    Cut,
    /// Nothing more is sent and the connection stays open.
    Stall,
}

impl Answer {
    /// An answer of a status, with an empty body until [`body`](Self::body) says otherwise.
    pub fn status(status: u16) -> Self {
        Self::respond(status, Payload::Whole(Bytes::new()))
    }

    /// Status 200 with a body of plain text.
    pub fn ok(body: impl Into<Bytes>) -> Self {
        Self::status(200).header("content-type", "text/plain").body(body)
    }

    /// A status with a JSON body.
    pub fn json(status: u16, body: &Value) -> Self {
        Self::status(status).header("content-type", "application/json").body(body.to_string())
    }

    /// Status 200 with a body sent in these pieces, without a length.
    pub fn chunks<T: Into<Bytes>>(pieces: impl IntoIterator<Item = T>) -> Self {
        Self::respond(200, Payload::Chunks(pieces.into_iter().map(Into::into).collect()))
    }

    /// Reads the request, then closes the connection without a word.
    pub const fn disconnect() -> Self {
        Self { delay: Duration::ZERO, kind: Kind::Disconnect }
    }

    /// Reads the request, then never answers; the connection stays open.
    pub const fn stall() -> Self {
        Self { delay: Duration::ZERO, kind: Kind::Stall }
    }

    /// Adds a header. Nothing to add to where no response is sent.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Kind::Response(response) = &mut self.kind {
            response.headers.push((name.into(), value.into()));
        }
        self
    }

    /// Replaces the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        if let Kind::Response(response) = &mut self.kind {
            response.body = Payload::Whole(body.into());
        }
        self
    }

    /// Waits so long before the first byte of the answer.
    #[must_use]
    pub const fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Waits so long before each piece of a body in pieces.
    #[must_use]
    pub fn gap(mut self, gap: Duration) -> Self {
        if let Kind::Response(response) = &mut self.kind {
            response.gap = gap;
        }
        self
    }

    /// Breaks the connection: in the middle of a whole body, or after the last of its pieces.
    #[must_use]
    pub fn cut(self) -> Self {
        self.ending(End::Cut)
    }

    /// Falls silent instead of ending: in the middle of a whole body, or after its last piece.
    #[must_use]
    pub fn hang(self) -> Self {
        self.ending(End::Stall)
    }

    pub(crate) fn delay_at_least(mut self, delay: Duration) -> Self {
        self.delay = self.delay.max(delay);
        self
    }

    fn respond(status: u16, body: Payload) -> Self {
        let response =
            Response { status, headers: Vec::new(), body, gap: Duration::ZERO, end: End::Complete };
        Self { delay: Duration::ZERO, kind: Kind::Response(response) }
    }

    fn ending(mut self, end: End) -> Self {
        if let Kind::Response(response) = &mut self.kind {
            response.end = end;
        }
        self
    }

    /// Waits as asked and gives the response, or an error that makes the server hang up.
    pub(super) async fn play(self, flight: Flight) -> io::Result<hyper::Response<AnswerBody>> {
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
        match self.kind {
            Kind::Response(response) => response.play(flight),
            Kind::Disconnect => Err(io::ErrorKind::ConnectionAborted.into()),
            Kind::Stall => std::future::pending().await,
        }
    }
}

impl Response {
    fn play(self, flight: Flight) -> io::Result<hyper::Response<AnswerBody>> {
        let mut builder = hyper::Response::builder().status(self.status);
        for (name, value) in self.headers {
            builder = builder.header(name, value);
        }
        let (pieces, length) = match self.body {
            Payload::Chunks(pieces) => (pieces.into(), None),
            Payload::Whole(body) => {
                let length = body.len();
                let sent = if self.end == End::Complete { length } else { length / 2 };
                (VecDeque::from([body.slice(..sent)]), Some(length as u64))
            }
        };
        let body = AnswerBody {
            pieces,
            length,
            gap: self.gap,
            waiting: None,
            end: self.end,
            flushed: false,
            _flight: flight,
        };
        builder.body(body).map_err(io::Error::other)
    }
}

/// Feeds a body to the connection, and breaks it off where the answer says so.
pub(super) struct AnswerBody {
    pieces: VecDeque<Bytes>,
    length: Option<u64>,
    gap: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
    end: End,
    flushed: bool,
    _flight: Flight,
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let gap = self.gap;
        if !gap.is_zero() && !self.pieces.is_empty() {
            let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(gap)));
            ready!(waiting.as_mut().poll(cx));
            self.waiting = None;
        }
        if let Some(piece) = self.pieces.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        match self.end {
            End::Complete => Poll::Ready(None),
            End::Stall => Poll::Pending,
            // The connection flushes what it holds whenever the body makes it wait. Without this
            // one wait, an error would throw away the pieces it should come after.
            End::Cut if !self.flushed => {
                self.flushed = true;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            End::Cut => Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.end == End::Complete && self.pieces.iter().all(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
