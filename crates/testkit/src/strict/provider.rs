//! The server itself: route, check, answer, remember.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use super::render::{Api, render};
use super::reply::error;
use super::request::ChatRequest;
use super::responses;
use super::rules::{Broken, Rule, Violation, check};
use super::script::Script;
use crate::http::{Answer, Received, Server};

/// The most violations that are kept. Each one already fails the test.
const VIOLATIONS_MAX: usize = 100;

/// A strict OpenAI-compatible provider on 127.0.0.1 that answers from a script.
///
/// Dropping it closes the port and every connection.
///
/// # Examples
/// ```
/// # use std::io::{Read, Write};
/// use dauntless_testkit::{Reply, Script, StrictProvider};
///
/// let provider = StrictProvider::start(Script::always(Reply::text("4")))?;
/// // … point a client at provider.url(), let the agent run …
/// # let body = r#"{"model": "m", "messages": [{"role": "user", "content": "2 + 2?"}]}"#;
/// # let host = provider.url().replace("http://", "").replace("/v1", "");
/// # let mut stream = std::net::TcpStream::connect(host)?;
/// # write!(stream, "POST /v1/chat/completions HTTP/1.1\r\nhost: p\r\nconnection: close\r\n\
/// #     content-length: {}\r\n\r\n{body}", body.len())?;
/// # let mut answer = String::new();
/// # stream.read_to_string(&mut answer)?;
/// assert_eq!(provider.requests(), 1);
/// assert_eq!(provider.recorded()[0].last_text(), Some("2 + 2?"));
/// provider.assert_clean();
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct StrictProvider {
    server: Server,
    shared: Arc<Shared>,
}

/// Settings of a [`StrictProvider`].
#[derive(Clone, Debug)]
pub struct Builder {
    validate: bool,
    latency: Duration,
    record_max: usize,
}

struct Shared {
    settings: Builder,
    script: Script,
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    requests: usize,
    recorded: VecDeque<Bytes>,
    violations: Vec<Violation>,
}

impl Builder {
    /// Whether requests are held against the rules. Default true; a benchmark switches it off.
    #[must_use]
    pub const fn validate(mut self, validate: bool) -> Self {
        self.validate = validate;
        self
    }

    /// The least time before each answer. Default zero.
    #[must_use]
    pub const fn latency(mut self, latency: Duration) -> Self {
        self.latency = latency;
        self
    }

    /// How many of the latest requests are kept whole. Default 1024; 0 keeps none.
    #[must_use]
    pub const fn record(mut self, requests_max: usize) -> Self {
        self.record_max = requests_max;
        self
    }

    /// Listens on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// When the system gives no port or no thread.
    pub fn start(self, script: Script) -> io::Result<StrictProvider> {
        let shared = Arc::new(Shared { settings: self, script, log: Mutex::default() });
        let handler = Arc::clone(&shared);
        let server = Server::start(move |request| handler.answer(request))?;
        Ok(StrictProvider { server, shared })
    }
}

impl StrictProvider {
    /// A provider with the default settings.
    ///
    /// # Errors
    /// When the system gives no port or no thread.
    pub fn start(script: Script) -> io::Result<Self> {
        Self::builder().start(script)
    }

    /// Settings to change before it starts.
    pub const fn builder() -> Builder {
        Builder { validate: true, latency: Duration::ZERO, record_max: 1024 }
    }

    /// The base URL a client takes, like `http://127.0.0.1:40123/v1`.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.server.address())
    }

    /// Requests read so far, refused ones included.
    pub fn requests(&self) -> usize {
        self.shared.log().requests
    }

    /// The latest requests that could be read as such, oldest first.
    pub fn recorded(&self) -> Vec<ChatRequest> {
        let bodies: Vec<Bytes> = self.shared.log().recorded.iter().cloned().collect();
        bodies.into_iter().filter_map(|body| ChatRequest::parse(body).ok()).collect()
    }

    /// The most requests that were in flight at once.
    pub fn max_in_flight(&self) -> usize {
        self.server.max_in_flight()
    }

    /// What was wrong with the requests so far; the first hundred.
    pub fn violations(&self) -> Vec<Violation> {
        self.shared.log().violations.clone()
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

    /// Holds every request so far against the rules.
    ///
    /// # Panics
    /// When one broke a rule, listing each violation and the request of the first.
    #[track_caller]
    pub fn assert_clean(&self) {
        let violations = self.violations();
        let lines: Vec<String> =
            violations.iter().map(|one| format!("  request {}: {}", one.request_no, one.broken)).collect();
        assert!(
            violations.is_empty(),
            "requests broke the rules ({}):\n{}\nthe first of these requests:\n{}",
            violations.len(),
            lines.join("\n"),
            violations.first().map_or("", |first| &first.body),
        );
    }

    /// Closes the port and every connection, and waits until that is done. So does dropping it.
    pub fn shutdown(self) {}
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, received: Received) -> Answer {
        let api = match received.head.uri.path() {
            "/v1/chat/completions" => Api::Chat,
            "/v1/responses" => Api::Responses,
            path => {
                let message = format!("No such path: {path}. Use /v1/chat/completions or /v1/responses.");
                return error(404, "not_found", None, &message);
            }
        };
        if received.head.method != "POST" {
            return error(405, "method_not_allowed", None, "Use POST.");
        }
        let serial = {
            let mut log = self.log();
            log.requests += 1;
            log.requests
        };
        let body = match api {
            Api::Chat => received.body,
            // What is not even JSON is refused below.
            Api::Responses => responses::as_chat(&received.body).unwrap_or(received.body),
        };
        self.remember(&body);
        let request = match ChatRequest::parse(body.clone()) {
            Ok(request) => request,
            Err(not_chat) => {
                let detail = not_chat.to_string();
                let broken = Broken { rule: Rule::ChatRequest, at: String::new(), detail };
                return self.refuse(vec![broken], serial, &String::from_utf8_lossy(&body));
            }
        };
        let broken = if self.settings.validate { check(&request) } else { Vec::new() };
        if !broken.is_empty() {
            return self.refuse(broken, serial, &request.body());
        }
        // A closure may hold assertions of the test, and must not take the connection with it.
        let reply = catch_unwind(AssertUnwindSafe(|| self.script.reply(&request)));
        let detail = match reply {
            Ok(Some(reply)) => {
                return render(reply, api, &request, serial).delay_at_least(self.settings.latency);
            }
            Ok(None) => "the script has no reply left for this request",
            Err(_) => "the script panicked on this request",
        };
        let broken = Broken { rule: Rule::Scripted, at: String::new(), detail: detail.to_owned() };
        self.refuse(vec![broken], serial, &request.body())
    }

    fn remember(&self, body: &Bytes) {
        if self.settings.record_max == 0 {
            return;
        }
        let mut log = self.log();
        if log.recorded.len() == self.settings.record_max {
            log.recorded.pop_front();
        }
        log.recorded.push_back(body.clone());
    }

    fn refuse(&self, broken: Vec<Broken>, request_no: usize, body: &str) -> Answer {
        let answer = broken.first().map_or_else(
            || Answer::status(400),
            |first| error(400, first.rule.as_str(), Some(&first.at), &first.to_string()),
        );
        let body: Arc<str> = body.into();
        let mut log = self.log();
        let room = VIOLATIONS_MAX.saturating_sub(log.violations.len());
        let violations = broken.into_iter().take(room);
        log.violations.extend(violations.map(|broken| Violation {
            broken,
            request_no,
            body: Arc::clone(&body),
        }));
        answer
    }
}
