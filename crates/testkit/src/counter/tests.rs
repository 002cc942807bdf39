use std::io::ErrorKind;
use std::time::{Duration, Instant};

use super::*;
use crate::tests::{panic_of, send, send_briefly};

fn counter(answers: impl IntoIterator<Item = Answer>) -> RequestCounter {
    RequestCounter::start(answers).unwrap()
}

#[test]
fn answers_come_in_order_and_the_last_repeats() {
    let server = counter([
        Answer::status(429).header("retry-after", "2"),
        Answer::json(404, &serde_json::json!({"no": "shop"})),
        Answer::ok("open"),
    ]);
    let first = send("GET", &server.url(), "").unwrap();
    assert_eq!(first.status, 429);
    assert!(first.head.contains("retry-after: 2"), "{}", first.head);
    let second = send("GET", &server.url(), "").unwrap();
    assert_eq!((second.status, second.body.as_str()), (404, r#"{"no":"shop"}"#));
    for _ in 0..2 {
        assert_eq!(send("GET", &server.url(), "").unwrap().body, "open");
    }
    server.assert_requests(4);
}

#[test]
fn a_closure_may_answer() {
    let server = RequestCounter::answering(|request| Answer::ok(request.path.to_uppercase())).unwrap();
    assert_eq!(send("GET", &format!("{}/shop", server.url()), "").unwrap().body, "/SHOP");
    server.assert_requests(1);
}

#[test]
fn requests_are_kept_as_they_came() {
    let server = counter([]);
    send("PUT", &format!("{}/a/b?c=d", server.url()), "höflich").unwrap();
    let seen = server.seen();
    assert_eq!((seen[0].method.as_str(), seen[0].path.as_str()), ("PUT", "/a/b?c=d"));
    assert_eq!(seen[0].body, "höflich");
    assert_eq!(seen[0].header("connection"), Some("close"));
}

#[test]
fn one_retry_too_many_is_caught() {
    let server = counter([Answer::status(503)]);
    for _ in 0..3 {
        send("GET", &format!("{}/pay", server.url()), "").unwrap();
    }
    let message = panic_of(|| server.assert_requests(2));
    assert_eq!(message, "expected 2 requests, 3 arrived:\n  GET /pay\n  GET /pay\n  GET /pay");
}

#[test]
fn a_dropped_request_was_read_and_counts() {
    let server = counter([Answer::disconnect()]);
    assert_eq!(send("POST", &server.url(), "order").unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!(server.seen()[0].body, "order");
}

#[test]
fn a_stalled_answer_never_comes() {
    let server = counter([Answer::stall()]);
    assert_eq!(send_briefly("GET", &server.url(), "").unwrap_err().kind(), ErrorKind::WouldBlock);
    server.assert_requests(1);
}

#[test]
fn a_cut_body_is_shorter_than_announced() {
    let server = counter([Answer::ok("0123456789").cut(), Answer::chunks(["one", "two"]).cut()]);
    let whole = send("GET", &server.url(), "").unwrap();
    assert_eq!((whole.body.as_str(), whole.torn), ("01234", true));
    let chunks = send("GET", &server.url(), "").unwrap();
    assert_eq!((chunks.body.as_str(), chunks.torn), ("onetwo", true));
}

#[test]
fn a_hanging_body_stays_open() {
    let server = counter([Answer::ok("0123456789").hang()]);
    assert_eq!(send_briefly("GET", &server.url(), "").unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn delays_and_gaps_are_kept() {
    let wait = Duration::from_millis(30);
    let server = counter([Answer::chunks(["a", "b"]).gap(wait).after(wait)]);
    let start = Instant::now();
    let answer = send("GET", &server.url(), "").unwrap();
    assert_eq!((answer.body.as_str(), answer.torn), ("ab", false));
    assert!(start.elapsed() >= 3 * wait, "{:?}", start.elapsed());
}

#[test]
fn a_server_that_is_down_refuses_and_comes_back_on_its_port() {
    let server = counter([Answer::ok("up")]);
    send("GET", &server.url(), "").unwrap();
    server.down().unwrap();
    for _ in 0..3 {
        assert_eq!(send("GET", &server.url(), "").unwrap_err().kind(), ErrorKind::ConnectionRefused);
    }
    server.up().unwrap();
    server.up().unwrap();
    assert_eq!(send("GET", &server.url(), "").unwrap().body, "up");
    server.assert_requests(2);
}

#[test]
fn going_down_breaks_what_is_in_flight() {
    let server = counter([Answer::stall()]);
    let url = server.url();
    let client = std::thread::spawn(move || send("GET", &url, ""));
    while server.requests() == 0 {
        std::thread::yield_now();
    }
    server.down().unwrap();
    assert_ne!(client.join().unwrap().unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn concurrent_requests_are_seen_as_such() {
    let server = counter([Answer::status(204).after(Duration::from_millis(300))]);
    let url = server.url();
    std::thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| send("GET", &url, "").unwrap());
        }
    });
    assert_eq!(server.max_in_flight(), 5);
}

#[test]
fn nobody_answers_after_shutdown() {
    let server = counter([]);
    let url = server.url();
    server.shutdown();
    assert_eq!(send("GET", &url, "").unwrap_err().kind(), ErrorKind::ConnectionRefused);
}
