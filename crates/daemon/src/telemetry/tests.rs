use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use expect_test::{Expect, expect};
use tracing::field::Empty;
use tracing::{info, info_span, warn};

use super::*;

/// Where tests read what was written.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Paper {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    fn make_writer(&self) -> BoxMakeWriter {
        let paper = self.clone();
        BoxMakeWriter::new(move || paper.clone())
    }
}

/// Sets telemetry up for the length of `work`; gives the log, the trace and the guard.
fn record(settings: &TelemetrySettings, work: impl FnOnce()) -> (String, String, TelemetryGuard) {
    let (log, trace) = (Paper::default(), Paper::default());
    let (subscriber, guard) =
        build(settings, log.make_writer(), trace.clone()).expect("the settings are good");
    tracing::subscriber::with_default(subscriber, work);
    (log.text(), trace.text(), guard)
}

fn settings(endpoint: String) -> TelemetrySettings {
    let otlp = OtlpSettings { endpoint, service_name: "shop".to_owned() };
    TelemetrySettings { otlp: Some(otlp), ..TelemetrySettings::default() }
}

/// A collector on loopback: answers each POST with 200 and hands on its first line and body.
fn collector() -> (String, Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let sender = sender.clone();
            std::thread::spawn(move || {
                while let Some(request) = answer(&stream) {
                    let _ = sender.send(request);
                }
            });
        }
    });
    (endpoint, requests)
}

fn answer(mut stream: &TcpStream) -> Option<(String, Vec<u8>)> {
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if header.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").ok()?;
    Some((first.trim().to_owned(), body))
}

fn holds(body: &[u8], text: &str) -> bool {
    body.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn spans_reach_the_collector_with_the_service_name() {
    let (endpoint, requests) = collector();
    let (_, _, guard) = record(&settings(endpoint), || {
        info_span!("chat", otel.name = "chat gpt-5-mini", gen_ai.operation.name = "chat").in_scope(|| {});
    });
    assert_eq!(guard.shutdown(Duration::from_secs(5)), SpanCount { sent: 1, lost: 0 });
    let (first, body) = requests.recv_timeout(Duration::from_secs(5)).expect("one request");
    assert_eq!(first, "POST /v1/traces HTTP/1.1");
    for text in ["chat gpt-5-mini", "gen_ai.operation.name", "service.name", "shop"] {
        assert!(holds(&body, text), "{text} is sent");
    }
}

#[test]
fn no_source_line_thread_or_error_text_is_sent_along() {
    let (endpoint, requests) = collector();
    let (_, _, guard) = record(&settings(endpoint), || {
        info_span!("execute_tool").in_scope(|| warn!(error = "upstream said hunter2", "the call failed"));
    });
    guard.shutdown(Duration::from_secs(5));
    let (_, body) = requests.recv_timeout(Duration::from_secs(5)).expect("one request");
    for text in ["code.file", "thread.", "idle_ns", "exception.", "src/telemetry"] {
        assert!(!holds(&body, text), "{text} is not sent");
    }
}

#[test]
fn actors_and_the_exporters_own_requests_are_not_sent() {
    let (endpoint, requests) = collector();
    let (_, _, guard) = record(&settings(endpoint), || {
        info_span!(target: "ractor", "actor").in_scope(|| {});
        info_span!(target: "hyper_util::client", "connect").in_scope(|| {});
        info_span!(target: "reqwest::blocking", "request").in_scope(|| {});
    });
    assert_eq!(guard.shutdown(Duration::from_secs(5)), SpanCount::default());
    assert!(requests.try_recv().is_err());
}

#[test]
fn a_collector_that_never_answers_costs_its_spans_and_no_time() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let started = Instant::now();
    let (_, _, guard) = record(&settings(endpoint), || {
        for _ in 0..10_000 {
            info_span!("chat").in_scope(|| {});
        }
    });
    let count = guard.shutdown(Duration::from_millis(200));
    assert_eq!(count, SpanCount { sent: 0, lost: 10_000 });
    assert!(started.elapsed() < Duration::from_secs(3), "took {:?}", started.elapsed());
}

#[test]
fn a_dead_collector_costs_its_spans() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (_, _, guard) = record(&settings(format!("http://127.0.0.1:{port}/")), || {
        info_span!("chat").in_scope(|| {});
    });
    assert_eq!(guard.shutdown(Duration::from_millis(200)), SpanCount { sent: 0, lost: 1 });
}

#[test]
fn the_end_can_be_reached_from_inside_an_async_runtime() {
    let (endpoint, _requests) = collector();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let count = runtime.block_on(async {
        let (_, _, guard) = record(&settings(endpoint), || info_span!("chat").in_scope(|| {}));
        guard.shutdown(Duration::from_secs(5))
    });
    assert_eq!(count, SpanCount { sent: 1, lost: 0 });
}

#[test]
fn what_is_no_address_is_refused_with_an_example() {
    for endpoint in
        ["", "127.0.0.1:4318", "localhost:4318", "http://", "ftp://host", "http://a b", "http://h/?q"]
    {
        let settings = settings(endpoint.to_owned());
        let error = build(&settings, Paper::default().make_writer(), Paper::default()).err().expect(endpoint);
        let expected = format!(
            "the OTLP endpoint `{endpoint}` is not an address: write it like `http://127.0.0.1:4318`"
        );
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn a_filter_that_is_not_understood_is_refused_with_an_example() {
    let settings = TelemetrySettings { filter: "dauntless=loud".to_owned(), ..TelemetrySettings::default() };
    let error = build(&settings, Paper::default().make_writer(), Paper::default()).err().expect("refused");
    expect![[r#"the log filter `dauntless=loud` is not understood (error parsing level filter: expected one of "off", "error", "warn", "info", "debug", "trace", or a number 0-5): write it like `warn,dauntless=info`"#]].assert_eq(&error.to_string());
}

#[test]
fn the_default_log_has_our_news_and_the_warnings_of_others() {
    let (log, trace, _guard) = record(&TelemetrySettings::default(), || {
        info!(target: "dauntless_runtime", "run started");
        info!(target: "hyper", "connected");
        warn!(target: "hyper", "connection lost");
    });
    let lines: Vec<&str> = log.lines().map(|line| line.split_once("Z ").unwrap().1.trim_start()).collect();
    assert_eq!(lines, ["INFO dauntless_runtime: run started", "WARN hyper: connection lost"]);
    assert_eq!(trace, "");
}

#[test]
fn a_json_log_has_one_object_a_line() {
    let settings = TelemetrySettings { format: LogFormat::Json, ..TelemetrySettings::default() };
    let (log, _, _guard) = record(&settings, || info!(target: "dauntless", runs = 3, "draining\nnow"));
    let line: serde_json::Value = serde_json::from_str(log.trim_end()).unwrap();
    assert_eq!((&line["message"], &line["runs"]), (&"draining\nnow".into(), &3.into()));
    assert_eq!(log.lines().count(), 1);
}

/// Runs `work` under the trace and compares the lines, with the times left out.
fn traced(work: impl FnOnce(), expected: Expect) {
    let settings = TelemetrySettings { trace: true, ..TelemetrySettings::default() };
    let (_, trace, _guard) = record(&settings, work);
    let times = regex::Regex::new(r"  \d+ ms").unwrap();
    expected.assert_eq(&times.replace_all(&trace, "  TIME"));
}

#[test]
fn each_finished_span_is_a_line_below_its_children() {
    traced(
        || {
            let agent =
                info_span!("invoke_agent", otel.name = "invoke_agent support", gen_ai.agent.name = "support");
            agent.in_scope(|| {
                info_span!(
                    "chat",
                    otel.name = "chat gpt-5-mini",
                    gen_ai.usage.output_tokens = 17,
                    secret = "x"
                )
                .in_scope(|| {});
                let tool = info_span!("execute_tool", error.type = Empty, dauntless.attempts = 1);
                tool.record("error.type", "timeout").record("dauntless.attempts", 3);
            });
        },
        expect![[r#"
              chat gpt-5-mini  TIME  gen_ai.usage.output_tokens=17
              execute_tool  TIME  error.type=timeout dauntless.attempts=3
            invoke_agent support  TIME  gen_ai.agent.name=support
        "#]],
    );
}

#[test]
fn spans_of_others_are_not_traced_and_do_not_indent() {
    traced(
        || {
            info_span!(target: "ractor", "actor").in_scope(|| {
                info_span!(target: "dauntless_runtime", "chat").in_scope(|| {});
            });
        },
        expect![[r#"
            chat  TIME
        "#]],
    );
}

#[test]
fn a_value_cannot_steer_the_terminal_or_fill_it() {
    traced(
        || {
            let long = "a".repeat(200);
            info_span!("chat", gen_ai.response.id = "\u{1b}[2J\nnext", gen_ai.request.model = long)
                .in_scope(|| {});
        },
        expect![[r#"
            chat  TIME  gen_ai.response.id=\u{1b}[2J\nnext gen_ai.request.model=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…
        "#]],
    );
}

#[test]
fn a_second_setup_in_one_process_is_an_error() {
    let first = init(&TelemetrySettings::default());
    let second = init(&TelemetrySettings::default());
    assert!(first.is_ok());
    assert!(matches!(second, Err(TelemetryError::AlreadySet)));
}
