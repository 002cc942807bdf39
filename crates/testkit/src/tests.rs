//! What the tests of several instruments share.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// What came back, headers in lower case.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
    /// Whether the connection ended before the body was whole.
    pub(crate) torn: bool,
}

/// Sends one request on a connection of its own.
pub(crate) fn send(method: &str, url: &str, body: &str) -> io::Result<Answered> {
    send_within(Duration::from_secs(20), method, url, body)
}

/// Gives up when nothing comes for a moment, to tell a server that stalls.
pub(crate) fn send_briefly(method: &str, url: &str, body: &str) -> io::Result<Answered> {
    send_within(Duration::from_millis(200), method, url, body)
}

fn send_within(patience: Duration, method: &str, url: &str, body: &str) -> io::Result<Answered> {
    let (host, path) = split(url);
    let mut stream = TcpStream::connect(&host)?;
    stream.set_read_timeout(Some(patience))?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let text = String::from_utf8(bytes).map_err(io::Error::other)?;
    let Some((head, raw)) = text.split_once("\r\n\r\n") else {
        return Err(io::ErrorKind::UnexpectedEof.into());
    };
    let head = head.to_lowercase();
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let (body, torn) = match length {
        Some(length) => (raw.to_owned(), raw.len() < length.parse().unwrap_or(0)),
        None => dechunk(raw),
    };
    Ok(Answered { status, head, body, torn })
}

pub(crate) fn split(url: &str) -> (String, String) {
    let rest = url.trim_start_matches("http://");
    match rest.split_once('/') {
        Some((host, path)) => (host.to_owned(), format!("/{path}")),
        None => (rest.to_owned(), "/".to_owned()),
    }
}

fn dechunk(mut raw: &str) -> (String, bool) {
    let mut body = String::new();
    while let Some((size, rest)) = raw.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap_or(0);
        if size == 0 {
            return (body, false);
        }
        body.push_str(&rest[..size]);
        raw = &rest[size + 2..];
    }
    (body, true)
}

/// Runs what must panic, and gives the words.
#[track_caller]
pub(crate) fn panic_of(act: impl FnOnce()) -> String {
    let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).unwrap_err();
    payload.downcast_ref::<String>().expect("the panic has a formatted message").clone()
}
