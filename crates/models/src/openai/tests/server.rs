//! A provider of canned answers: one connection, one request, one answer, then closed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What is sent, and what happens then.
pub(super) struct Answer {
    bytes: String,
    /// Where in the bytes it pauses, in order.
    cuts: Vec<usize>,
    then: Then,
}

#[derive(Clone, Copy)]
enum Then {
    Close,
    Stall,
}

impl Answer {
    pub(super) fn json(body: impl ToString) -> Self {
        Self::new("200 OK", &[("content-type", "application/json")], &body.to_string())
    }

    pub(super) fn new(status: &str, headers: &[(&str, &str)], body: &str) -> Self {
        let lines: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        let bytes = format!(
            "HTTP/1.1 {status}\r\n{lines}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        Self { bytes, cuts: Vec::new(), then: Then::Close }
    }

    /// A stream of events that ends when the connection is closed, as cleanly as any other.
    pub(super) fn stream(events: &[&str]) -> Self {
        Self::lines(&events.iter().map(|event| format!("data: {event}\n\n")).collect::<String>(), Vec::new())
    }

    /// A stream of just these bytes, with a pause at each of these places.
    pub(super) fn lines(body: &str, cuts: Vec<usize>) -> Self {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        let cuts = cuts.into_iter().map(|at| head.len() + at).collect();
        Self { bytes: format!("{head}{body}"), cuts, then: Then::Close }
    }

    /// The same bytes, but the connection stays open and silent after them.
    pub(super) fn then_stall(self) -> Self {
        Self { then: Then::Stall, ..self }
    }

    /// The same head, with a body announced that is longer than what comes.
    pub(super) fn cut_off(self) -> Self {
        let bytes =
            self.bytes.replacen("connection: close", "content-length: 100000\r\nconnection: close", 1);
        Self { bytes, ..self }
    }

    /// Nothing at all.
    pub(super) fn silence() -> Self {
        Self { bytes: String::new(), cuts: Vec::new(), then: Then::Stall }
    }
}

pub(super) struct Server {
    pub(super) base_url: String,
    requests: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Server {
    /// Serves these answers, one to each request, in order.
    pub(super) async fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let task = tokio::spawn(async move {
            let mut silent = Vec::new();
            for answer in answers {
                let (mut socket, _) = listener.accept().await.unwrap();
                let request = read_request(&mut socket).await;
                seen.lock().unwrap().push(request);
                write(&mut socket, &answer).await;
                match answer.then {
                    Then::Close => drop(socket),
                    Then::Stall => silent.push(socket),
                }
            }
            std::future::pending::<()>().await;
        });
        Self { base_url, requests, task }
    }

    /// The requests so far, head and body.
    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read_request(socket: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
            if body.len() >= length.parse().unwrap() {
                return text;
            }
        }
        let read = socket.read(&mut buffer).await.unwrap();
        assert_ne!(read, 0, "the client went away in the middle of its request");
        bytes.extend_from_slice(&buffer[..read]);
    }
}

/// Piece by piece, so that each arrives by itself.
async fn write(socket: &mut TcpStream, answer: &Answer) {
    socket.set_nodelay(true).unwrap();
    let (mut rest, mut at) = (answer.bytes.as_bytes(), 0);
    for cut in &answer.cuts {
        let (piece, more) = rest.split_at(cut - at);
        socket.write_all(piece).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        (rest, at) = (more, *cut);
    }
    socket.write_all(rest).await.unwrap();
}
