//! Counts what really reached a server, because a retry inside a client is seen nowhere else.
//!
//! An HTTP tool under test is pointed here. The counter answers from a list and remembers what it
//! was asked, or asks you; it does not route and does not care what the request means.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::header::{HeaderName, HeaderValue};

use crate::http::{Answer, Received, Server};

#[cfg(test)]
mod tests;

/// The most requests that are kept whole. Later ones are counted and not kept.
const KEPT_MAX: usize = 4096;

/// An HTTP server that answers from a list and counts.
///
/// # Examples
/// ```
/// # use std::io::{Read, Write};
/// use dauntless_testkit::{Answer, RequestCounter};
///
/// let server = RequestCounter::start([Answer::status(503), Answer::ok("open")])?;
/// // … point a tool at server.url(), let it run …
/// # for _ in 0..2 {
/// #     let mut stream = std::net::TcpStream::connect(server.url().trim_start_matches("http://"))?;
/// #     stream.write_all(b"GET /shop HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n\r\n")?;
/// #     stream.read_to_end(&mut Vec::new())?;
/// # }
/// server.assert_requests(2);
/// assert_eq!(server.seen()[0].path, "/shop");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct RequestCounter {
    server: Server,
    log: Arc<Mutex<Log>>,
}

#[derive(Default)]
struct Log {
    requests: usize,
    seen: Vec<SeenRequest>,
}

/// One request as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenRequest {
    /// `GET`, `POST`, …
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// Each header, its name in lower case.
    pub headers: Vec<(String, String)>,
    /// The body; bytes that are not UTF-8 are replaced.
    pub body: String,
}

impl SeenRequest {
    fn of(Received { head, body }: &Received) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let header = |(name, value): (&HeaderName, &HeaderValue)| (name.to_string(), text(value.as_bytes()));
        Self {
            method: head.method.to_string(),
            path: head.uri.to_string(),
            headers: head.headers.iter().map(header).collect(),
            body: text(body),
        }
    }

    /// The value of the first header of that name, given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(have, _)| have == name).map(|(_, value)| value.as_str())
    }
}

impl RequestCounter {
    /// Listens on a free port of 127.0.0.1. The last answer repeats; without any it is 200, empty.
    ///
    /// # Errors
    /// When the system gives no port or no thread.
    pub fn start(answers: impl IntoIterator<Item = Answer>) -> io::Result<Self> {
        let answers: Vec<Answer> = answers.into_iter().collect();
        Self::choosing(move |index, _| {
            answers.get(index).or(answers.last()).cloned().unwrap_or_else(|| Answer::status(200))
        })
    }

    /// Listens on a free port of 127.0.0.1 and asks for each answer. No other request is read until
    /// the closure has answered; one that is to wait gets an [`Answer::after`].
    ///
    /// # Errors
    /// When the system gives no port or no thread.
    pub fn answering(answer: impl Fn(&SeenRequest) -> Answer + Send + Sync + 'static) -> io::Result<Self> {
        Self::choosing(move |_, request| answer(request))
    }

    fn choosing(answer: impl Fn(usize, &SeenRequest) -> Answer + Send + Sync + 'static) -> io::Result<Self> {
        let log = Arc::new(Mutex::new(Log::default()));
        let shared = Arc::clone(&log);
        let server = Server::start(move |request| {
            let seen = SeenRequest::of(&request);
            let index = shared.lock().unwrap_or_else(PoisonError::into_inner).note(&seen);
            answer(index, &seen)
        })?;
        Ok(Self { server, log })
    }

    /// The address, like `http://127.0.0.1:40123`, without a slash at its end.
    pub fn url(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// Requests read so far. A refused connection is none.
    pub fn requests(&self) -> usize {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).requests
    }

    /// The requests themselves, oldest first; the first 4096.
    pub fn seen(&self) -> Vec<SeenRequest> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).seen.clone()
    }

    /// The most requests that were in flight at once.
    pub fn max_in_flight(&self) -> usize {
        self.server.max_in_flight()
    }

    /// Refuses connections from now on, and breaks those there are. The port stays reserved.
    ///
    /// # Errors
    /// When the server's thread is gone.
    pub fn down(&self) -> io::Result<()> {
        self.server.down()
    }

    /// Accepts connections again, on the same port.
    ///
    /// # Errors
    /// When the system does not let it listen.
    pub fn up(&self) -> io::Result<()> {
        self.server.up()
    }

    /// Holds the number of requests against `expected`.
    ///
    /// # Panics
    /// When it is another, naming each request.
    #[track_caller]
    pub fn assert_requests(&self, expected: usize) {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<String> =
            log.seen.iter().map(|seen| format!("  {} {}", seen.method, seen.path)).collect();
        assert!(
            log.requests == expected,
            "expected {expected} requests, {} arrived:\n{}",
            log.requests,
            lines.join("\n")
        );
    }

    /// Closes the port and every connection, and waits until that is done. So does dropping it.
    pub fn shutdown(self) {}
}

impl Log {
    /// Takes the request in and gives its place, counted from 0.
    fn note(&mut self, request: &SeenRequest) -> usize {
        let index = self.requests;
        self.requests += 1;
        if self.seen.len() < KEPT_MAX {
            self.seen.push(request.clone());
        }
        index
    }
}
