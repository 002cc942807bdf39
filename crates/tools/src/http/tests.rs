use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::SystemTime;

use dauntless_contract::FailureCode;
use expect_test::expect;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::tests::{ctx, env, list, spec};

/// Answers every request with the next of its texts, the last one for ever.
struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start(answers: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&requests);
        let answers: Vec<String> =
            answers.iter().map(|answer| answer.replace("ORIGIN", &format!("http://{address}"))).collect();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let request = read_request(&mut stream).await;
                let count = {
                    let mut seen = seen.lock().unwrap();
                    seen.push(request.replace(&address.to_string(), "SERVER"));
                    seen.len()
                };
                let answer = answers.get(count - 1).or(answers.last()).unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        Self { address, requests }
    }

    fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    fn paths(&self) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        requests.iter().map(|request| request.split(' ').nth(1).unwrap().to_owned()).collect()
    }

    /// A tool with this URL path, and more lines of configuration.
    fn tool(&self, effect: Effect, parameters: &[&str], path: &str, more: &str) -> HttpTool {
        let toml = format!("url = 'http://{}{path}'\nhosts = ['127.0.0.1']\n{more}", self.address);
        try_build(effect, parameters, &toml).unwrap()
    }
}

async fn read_request(stream: &mut TcpStream) -> String {
    let mut request = String::new();
    let mut buffer = [0; 4096];
    loop {
        let read = stream.read(&mut buffer).await.unwrap();
        request.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
        if let Some((head, body)) = request.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return request;
            }
        }
    }
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

fn try_build(effect: Effect, parameters: &[&str], toml: &str) -> Result<HttpTool, Vec<ToolConfigError>> {
    HttpTool::build(spec(effect, parameters), toml::from_str(toml).unwrap(), &env)
}

async fn call(tool: &HttpTool, arguments: Value) -> Result<String, Failure> {
    tool.call(ctx(), Json::from(arguments)).await.map(|output| output.text.to_string())
}

/// The failure that one answer of a server comes to.
async fn failure(method: &str, answer: &str) -> Failure {
    let server = Server::start(&[answer]).await;
    let tool = server.tool(Effect::Once, &[], "/x", &format!("method = '{method}'"));
    let failure = call(&tool, json!({})).await.unwrap_err();
    assert_eq!(server.count(), 1, "the tool never repeats a request");
    failure
}

#[tokio::test]
async fn arguments_go_where_the_configuration_says() {
    let server = Server::start(&[&answer("200 OK", "", "done")]).await;
    let tool = server.tool(
        Effect::Keyed,
        &["id", "fields?", "page?", "amount", "note?"],
        "/v1/orders/{id}/lines?view=full&fields={fields?}",
        r#"
        method = "POST"
        query = { page = "p {page}", "k&y" = "${TOKEN}&" }
        headers = { Authorization = "Bearer ${TOKEN}", "X-Team" = "a" }
        body = "rest"
        idempotency_header = "Idempotency-Key"
        "#,
    );
    let arguments = Json::parse(r#"{"id": "a/b ü", "page": 2, "amount": 1234567890123456789.10}"#).unwrap();
    assert_eq!(&*tool.call(ctx(), arguments).await.unwrap().text, "done");
    let request = server.requests.lock().unwrap().concat().replace('\r', "");
    expect![[r#"
        POST /v1/orders/a%2Fb%20%C3%BC/lines?view=full&k%26y=FAKE-TOKEN-1%26&page=p%202 HTTP/1.1
        content-type: application/json
        authorization: Bearer FAKE-TOKEN-1
        x-team: a
        idempotency-key: key-1
        accept: */*
        user-agent: dauntless/0.1.0
        host: SERVER
        content-length: 33

        {"amount":1234567890123456789.10}"#]]
    .assert_eq(&request);
    assert_eq!(tool.secrets(), ["FAKE-TOKEN-1"]);
    assert!(!format!("{tool:?}").contains("FAKE"));
}

const PAY: &str = r#"
    method = "POST"
    headers = { Authorization = "Bearer ${TOKEN}" }
    idempotency_header = "Idempotency-Key"
    verify = { url = "ORIGIN/v1/payments/by-key?ref={id}&team={team?}", response = "/receipt" }
"#;

async fn verified(answers: &[&str]) -> (Server, Result<Verified, Failure>) {
    let server = Server::start(answers).await;
    let config = PAY.replace("ORIGIN", &format!("http://{}", server.address));
    let tool = server.tool(Effect::Verifiable, &["id", "team?"], "/v1/payments", &config);
    let said = tool.verify(ctx(), Json::from(json!({ "id": "a/b" }))).await;
    (server, said)
}

#[tokio::test]
async fn a_success_of_the_verify_request_says_that_the_call_happened() {
    let (server, said) = verified(&[&answer("200 OK", "", r#"{"receipt":"no. 7"}"#)]).await;
    assert_eq!(said.unwrap(), Verified::happened("no. 7"));
    expect![[r#"
        GET /v1/payments/by-key?ref=a%2Fb HTTP/1.1
        authorization: Bearer FAKE-TOKEN-1
        idempotency-key: key-1
        accept: */*
        user-agent: dauntless/0.1.0
        host: SERVER

    "#]]
    .assert_eq(&server.requests.lock().unwrap().concat().replace('\r', ""));
}

#[tokio::test]
async fn only_what_is_not_there_did_not_happen() {
    for status in ["404 Not Found", "410 Gone"] {
        assert_eq!(verified(&[&answer(status, "", "")]).await.1.unwrap(), Verified::NotHappened);
    }
    for (status, code) in [
        ("503 Service Unavailable", FailureCode::Unavailable),
        ("401 Unauthorized", FailureCode::Unauthenticated),
        ("302 Found", FailureCode::ToolError),
        ("409 Conflict", FailureCode::Conflict),
    ] {
        assert_eq!(verified(&[&answer(status, "", "")]).await.1.unwrap_err().code, code);
    }
    let missing = verified(&[&answer("200 OK", "", r#"{"id":7}"#)]).await.1.unwrap_err();
    assert_eq!(missing.code, FailureCode::ToolError, "a success that holds no result says nothing");
}

#[tokio::test]
async fn without_a_verify_request_nobody_can_tell() {
    let server = Server::start(&[&answer("200 OK", "", "")]).await;
    let tool = server.tool(Effect::Verifiable, &[], "/x", "");
    assert_eq!(tool.verify(ctx(), Json::empty_object()).await.unwrap(), Verified::CannotTell);
    assert_eq!(server.count(), 0);
}

#[test]
fn the_mistakes_of_a_verify_request_are_named() {
    let toml = r#"
        url = "https://shop.example/pay"
        body = "none"
        verify = { url = "https://shop.example/pay/{idd}", response = "receipt" }
    "#;
    let mistakes = try_build(Effect::Once, &[], toml).unwrap_err();
    expect![[r#"
        http.verify.url: nobody asks, since the tool's effect is `once`: set `effect = "verifiable"`, or take this table out
        http.verify.response: a JSON pointer begins with `/`, like `/data/items`
        http.verify.url: there is no parameter `idd`: the schema lists none under `properties`. (A brace that is meant as such is written twice.)
    "#]]
    .assert_eq(&list(&mistakes));
}

#[tokio::test]
async fn a_body_template_keeps_types_and_leaves_out_what_is_absent() {
    let server = Server::start(&[&answer("201 Created", "", "")]).await;
    let body = r#"body = { order = { id = "{id}", text = "no. {id}" }, tags = ["a", "{tag?}"], note = "{note?}", n = 1 }"#;
    let tool = server.tool(Effect::Once, &["id", "tag?", "note?"], "/x", &format!("method = 'PUT'\n{body}"));
    let arguments = Json::parse(r#"{"id": 12345678901234567890123, "tag": "\"b"}"#).unwrap();
    assert_eq!(&*tool.call(ctx(), arguments).await.unwrap().text, "");
    let requests = server.requests.lock().unwrap();
    let body = requests[0].split("\r\n\r\n").nth(1).unwrap();
    assert_eq!(
        body,
        r#"{"n":1,"order":{"id":12345678901234567890123,"text":"no. 12345678901234567890123"},"tags":["a","\"b"]}"#
    );
}

#[tokio::test]
async fn a_value_cannot_break_out_of_its_place_in_the_url() {
    let server = Server::start(&[&answer("200 OK", "", "")]).await;
    let tool = server.tool(Effect::Once, &["id"], "/a/{id}/b?q={id}", "");
    for value in ["../../x", "..\\x", "x?y=1&z#f", "u:p@evil.com", "%2e%2e", "http://evil.com/", "a b", "..."]
    {
        call(&tool, json!({"id": value})).await.unwrap();
    }
    expect![[r#"
        /a/..%2F..%2Fx/b?q=..%2F..%2Fx
        /a/..%5Cx/b?q=..%5Cx
        /a/x%3Fy%3D1%26z%23f/b?q=x%3Fy%3D1%26z%23f
        /a/u%3Ap%40evil.com/b?q=u%3Ap%40evil.com
        /a/%252e%252e/b?q=%252e%252e
        /a/http%3A%2F%2Fevil.com%2F/b?q=http%3A%2F%2Fevil.com%2F
        /a/a%20b/b?q=a%20b
        /a/.../b?q=..."#]]
    .assert_eq(&server.paths().join("\n"));
    for value in ["", ".", ".."] {
        let failure = call(&tool, json!({"id": value})).await.unwrap_err();
        assert_eq!(failure.code, FailureCode::InvalidArguments, "{value}");
    }
    let prefixed = server.tool(Effect::Once, &["id"], "/a/.{id}", "");
    assert_eq!(call(&prefixed, json!({"id": "."})).await.unwrap_err().code, FailureCode::InvalidArguments);
}

#[test]
fn a_value_reaches_only_hosts_of_the_list() {
    let toml = r#"url = "https://{host}.example.com/x"
           hosts = ["eu.example.com", "us.example.com:443", "ap.example.com:8443"]"#;
    let tool = try_build(Effect::ReadOnly, &["host"], toml).unwrap();
    let url = |host: &str| {
        let arguments = Arguments::read(&Json::from(json!({ "host": host }))).unwrap();
        tool.request.url.render(&arguments).map(String::from)
    };
    assert_eq!(url("eu").unwrap(), "https://eu.example.com/x");
    assert_eq!(url("US").unwrap(), "https://us.example.com/x");
    for host in ["ap", "evil.com/", "evil.com#", "evil.com?", "x@eu", "evil.com\\", "eu.example.com:80", ""] {
        assert_eq!(url(host).unwrap_err().code, FailureCode::InvalidArguments, "{host}");
    }
}

#[tokio::test]
async fn a_private_address_is_reached_only_if_its_host_is_listed() {
    let server = Server::start(&[&answer("200 OK", "", "fine")]).await;
    let port = server.address.port();
    let unlisted = try_build(Effect::Once, &[], &format!("url = 'http://localhost:{port}/'")).unwrap();
    let failure = call(&unlisted, json!({})).await.unwrap_err();
    assert_eq!((failure.code, failure.effect), (FailureCode::PermissionDenied, EffectState::None));
    assert_eq!(server.count(), 0);
    for listed in ["localhost".to_owned(), format!("localhost:{port}")] {
        let toml = format!("url = 'http://localhost:{port}/'\nhosts = ['{listed}']");
        assert_eq!(call(&try_build(Effect::Once, &[], &toml).unwrap(), json!({})).await.unwrap(), "fine");
    }
}

#[test]
fn an_address_that_is_not_public_is_told_apart() {
    for address in [
        "0.0.0.0",
        "10.1.2.3",
        "100.64.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "192.168.0.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "::7f00:1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2001:db8::1",
        "fc00::1",
        "fd12::1",
        "fe80::1",
        "ff02::1",
    ] {
        assert!(!address::is_public(address.parse().unwrap()), "{address}");
    }
    for address in
        ["1.1.1.1", "100.128.0.1", "172.32.0.1", "2606:4700::1111", "::ffff:1.1.1.1", "2001:4860::1"]
    {
        assert!(address::is_public(address.parse().unwrap()), "{address}");
    }
}

#[test]
fn a_status_becomes_a_code_and_an_effect() {
    let mut table = String::new();
    for status in [
        200, 204, 301, 304, 400, 401, 402, 403, 404, 405, 408, 409, 410, 412, 413, 414, 418, 422, 423, 425,
        429, 451, 500, 501, 502, 503, 504, 529, 599,
    ] {
        let status = StatusCode::from_u16(status).unwrap();
        if let Some(code) = status::code_of(status, false) {
            let (effect, sentence) = (status::effect_of(status, code), status::sentence(status, code));
            table.push_str(&format!("{code} {effect:?} {sentence}\n"));
        }
    }
    expect![[r#"
        tool_error Unknown The service points to another address, which this tool does not follow (status 301).
        tool_error Unknown The service did not do this (status 304).
        invalid_arguments None The service did not accept the arguments (status 400).
        unauthenticated None The service did not accept this tool's credentials (status 401).
        quota_exhausted None The quota at the service is used up (status 402).
        permission_denied None This tool's credentials do not allow this (status 403).
        not_found None The service has nothing under these arguments (status 404).
        tool_error None The service did not do this (status 405).
        timeout None The service stopped waiting for the request (status 408).
        conflict None The present state of things does not allow this (status 409).
        gone None What this tool asks for no longer exists (status 410).
        conflict None The present state of things does not allow this (status 412).
        too_large None The service finds the request too large (status 413).
        too_large None The service finds the request too large (status 414).
        tool_error None The service did not do this (status 418).
        invalid_arguments None The service did not accept the arguments (status 422).
        conflict None The present state of things does not allow this (status 423).
        rate_limited None The service is being asked too often (status 425).
        rate_limited None The service is being asked too often (status 429).
        tool_error None The service did not do this (status 451).
        unavailable Unknown The service cannot work now (status 500).
        unavailable Unknown The service cannot work now (status 501).
        unavailable Unknown The service cannot work now (status 502).
        unavailable Unknown The service cannot work now (status 503).
        unavailable Unknown The service cannot work now (status 504).
        unavailable Unknown The service cannot work now (status 529).
        unavailable Unknown The service cannot work now (status 599).
    "#]].assert_eq(&table);
    let code = status::code_of(StatusCode::SERVICE_UNAVAILABLE, true).unwrap();
    assert_eq!(code, FailureCode::RateLimited);
    assert_eq!(status::effect_of(StatusCode::SERVICE_UNAVAILABLE, code), EffectState::None);
}

#[tokio::test]
async fn the_operators_reading_of_a_status_goes_first() {
    let server = Server::start(&[
        &answer("404 Not Found", "", ""),
        &answer("451 Unavailable", "", ""),
        &answer("204 No Content", "", ""),
    ])
    .await;
    let map = "status = { 404 = 'no_results', 4xx = 'conflict', 204 = 'no_results' }\nmethod = 'POST'";
    let tool = server.tool(Effect::Once, &[], "/x", map);
    for (code, effect) in [
        (FailureCode::NoResults, EffectState::None),
        (FailureCode::Conflict, EffectState::None),
        (FailureCode::NoResults, EffectState::Happened),
    ] {
        let failure = call(&tool, json!({})).await.unwrap_err();
        assert_eq!((failure.code, failure.effect), (code, effect));
    }
}

#[tokio::test]
async fn the_model_gets_the_services_own_words_and_the_log_gets_the_body() {
    let body = r#"{"message": "sku \"X\" is unknown", "trace": "at db.internal:5432"}"#;
    let refused = failure("POST", &answer("422 Unprocessable", "", body)).await;
    assert_eq!((refused.code, refused.effect), (FailureCode::InvalidArguments, EffectState::None));
    assert_eq!(
        &*refused.message,
        r#"The service did not accept the arguments (status 422). It says: "sku \"X\" is unknown""#
    );
    assert!(refused.source.unwrap().contains("db.internal"));
    let nested = failure("GET", &answer("404 Not Found", "", r#"{"error": {"message": "none"}}"#)).await;
    assert!(nested.message.ends_with(r#"It says: "none""#), "{nested}");
    let html = failure("GET", &answer("403 Forbidden", "", "<h1>db.internal</h1>")).await;
    assert_eq!(&*html.message, "This tool's credentials do not allow this (status 403).");
    let broken = failure("POST", &answer("500 Oops", "", r#"{"message": "at db.internal"}"#)).await;
    assert_eq!((broken.code, broken.effect), (FailureCode::Unavailable, EffectState::Unknown));
    assert_eq!(&*broken.message, "The service cannot work now (status 500).");
    let long = failure("GET", &answer("400 Bad", "", &json!({"detail": "ü".repeat(5000)}).to_string())).await;
    assert!(long.message.len() < 400 && long.source.unwrap().len() < 2100);
}

#[tokio::test]
async fn a_rate_limit_carries_the_wait_that_the_server_asked_for() {
    let limited = failure("POST", &answer("429 Too Many", "retry-after: 90\r\n", "")).await;
    assert_eq!((limited.code, limited.effect), (FailureCode::RateLimited, EffectState::None));
    assert_eq!(limited.retry_after, Some(Duration::from_secs(90)));
    let busy = failure("POST", &answer("503 Busy", "retry-after-ms: 250\r\n", "")).await;
    assert_eq!((busy.code, busy.retry_after), (FailureCode::RateLimited, Some(Duration::from_millis(250))));
    let down = failure("POST", &answer("503 Busy", "retry-after: +5\r\n", "")).await;
    assert_eq!((down.code, down.retry_after), (FailureCode::Unavailable, None));
}

#[tokio::test]
async fn a_failure_is_told_by_its_status_even_if_its_body_never_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Server { address: listener.local_addr().unwrap(), requests: Arc::default() };
    let (mut stream, limited) = tokio::join!(
        async {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_request(&mut stream).await;
            stream.write_all(b"HTTP/1.1 429 Slow\r\ncontent-length: 9\r\n\r\nabc").await.unwrap();
            stream
        },
        async { call(&server.tool(Effect::Once, &[], "/", ""), json!({})).await.unwrap_err() }
    );
    assert_eq!(limited.code, FailureCode::RateLimited);
    stream.shutdown().await.unwrap();
}

#[test]
fn a_wait_is_read_exactly_as_the_standard_writes_it() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
    let wait = |pairs: &[(&'static str, &str)]| {
        let headers = pairs.iter().map(|(name, value)| {
            (HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).unwrap())
        });
        retry_after::parse(&headers.collect(), now)
    };
    let of = |value: &str| wait(&[("retry-after", value)]);
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!(of("120"), seconds(120));
    assert_eq!(of("0"), seconds(0));
    assert_eq!(of("99999999999999999999999"), Some(Duration::MAX));
    for value in ["+5", "-3", "1.5", " 7", "7 ", "", "abc", "1e3", "７", "NaN"] {
        assert_eq!(of(value), None, "{value}");
    }
    for date in
        ["Sun, 06 Nov 1994 08:50:37 GMT", "Sunday, 06-Nov-94 08:50:37 GMT", "Sun Nov  6 08:50:37 1994"]
    {
        assert_eq!(of(date), seconds(60), "{date}");
    }
    assert_eq!(of("Sun, 06 Nov 1994 08:00:00 GMT"), seconds(0));
    let own_clock = ("date", "Sun, 06 Nov 1994 08:50:30 GMT");
    assert_eq!(wait(&[("retry-after", "Sun, 06 Nov 1994 08:50:37 GMT"), own_clock]), seconds(7));
    let both = |ms| wait(&[("retry-after-ms", ms), ("retry-after", "9")]);
    assert_eq!(both("1500.5"), Some(Duration::from_micros(1_500_500)));
    assert_eq!(both("555555555555"), Some(Duration::from_millis(555_555_555_555)));
    assert_eq!(both("99999999999999999999.9"), Some(Duration::MAX));
    for ms in ["-1", "inf", "NaN", "1e3", ".", ""] {
        assert_eq!(both(ms), seconds(9), "{ms}");
    }
}

#[tokio::test]
async fn a_connection_that_is_refused_sent_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let toml = format!(
        "url = 'http://{address}/'\nhosts = ['127.0.0.1']\nmethod = 'POST'\nquery = {{ key = '${{TOKEN}}' }}"
    );
    let failure = call(&try_build(Effect::Once, &[], &toml).unwrap(), json!({})).await.unwrap_err();
    assert_eq!((failure.code, failure.effect), (FailureCode::ConnectionFailed, EffectState::None));
    assert!(!format!("{failure:?}").contains("FAKE"), "{failure:?}");
    assert!(!failure.message.contains("127.0.0.1"), "{failure}");
}

#[tokio::test]
async fn a_connection_that_breaks_after_sending_leaves_a_write_in_doubt() {
    let written = failure("POST", "").await;
    assert_eq!((written.code, written.effect), (FailureCode::ConnectionFailed, EffectState::Unknown));
    let read = failure("GET", "").await;
    assert_eq!((read.code, read.effect), (FailureCode::ConnectionFailed, EffectState::None));
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc";
    assert_eq!(failure("POST", cut).await.effect, EffectState::Unknown);
}

#[tokio::test]
async fn a_post_that_only_reads_is_never_in_doubt() {
    let server = Server::start(&[&answer("500 Oops", "", "")]).await;
    let tool = server.tool(Effect::ReadOnly, &[], "/search", "method = 'POST'");
    assert_eq!(call(&tool, json!({})).await.unwrap_err().effect, EffectState::None);
}

#[tokio::test]
async fn an_answer_without_end_is_too_large() {
    let body = "x".repeat(1024 * 1024 + 1);
    let known = failure("POST", &answer("200 OK", "", &body)).await;
    assert_eq!((known.code, known.effect), (FailureCode::TooLarge, EffectState::Happened));
    assert_eq!(&*known.message, "The answer has 1048577 bytes, and at most 1048576 can be read.");
    let unknown = failure("GET", &format!("HTTP/1.1 200 OK\r\n\r\n{body}")).await;
    assert_eq!(&*unknown.message, "The answer has more than 1048576 bytes, and at most 1048576 can be read.");
}

#[tokio::test]
async fn the_model_gets_the_part_that_the_pointer_names() {
    let body = r#"{"data": {"a/b": [1, {"n": 12345678901234567890.10, "s": "x\ny"}]}, "n": null}"#;
    let server = Server::start(&[&answer("200 OK", "", body)]).await;
    for (pointer, part) in [
        ("/data/a~1b/1/n", "12345678901234567890.10"),
        ("/data/a~1b/1/s", "x\ny"),
        ("/data/a~1b", r#"[1, {"n": 12345678901234567890.10, "s": "x\ny"}]"#),
        ("/n", "null"),
        ("", body),
    ] {
        let tool = server.tool(Effect::Once, &[], "/x", &format!("response = '{pointer}'"));
        assert_eq!(call(&tool, json!({})).await.unwrap(), part);
    }
    let tool = server.tool(Effect::Once, &[], "/x", "method = 'POST'\nresponse = '/data/9'");
    let failure = call(&tool, json!({})).await.unwrap_err();
    assert_eq!((failure.code, failure.effect), (FailureCode::ToolError, EffectState::Happened));
    assert_eq!(&*failure.message, "The answer has no `/data/9`, which is where this tool looks.");
}

#[tokio::test]
async fn a_body_that_is_no_text_is_shown_with_replacements() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Server { address: listener.local_addr().unwrap(), requests: Arc::default() };
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\na\xffb").await.unwrap();
    });
    let tool = server.tool(Effect::Once, &[], "/", "");
    assert_eq!(call(&tool, json!({})).await.unwrap(), "a\u{fffd}b");
}

#[tokio::test]
async fn a_redirect_is_followed_only_for_reading_and_on_the_same_origin() {
    let here = answer("302 Found", "location: /next\r\n", "");
    let server = Server::start(&[&here, &answer("200 OK", "", "there")]).await;
    assert_eq!(call(&server.tool(Effect::Once, &[], "/x", ""), json!({})).await.unwrap(), "there");
    assert_eq!(server.paths(), ["/x", "/next"]);

    let loops = Server::start(&[&here]).await;
    let failure_of_loop = call(&loops.tool(Effect::Once, &[], "/x", ""), json!({})).await.unwrap_err();
    assert_eq!((failure_of_loop.code, loops.count()), (FailureCode::ToolError, 4));

    let away = failure("GET", &answer("302 Found", "location: http://localhost:9/\r\n", "")).await;
    assert_eq!(away.code, FailureCode::ToolError);
    assert_eq!(away.hint.as_deref(), Some("The operator has to set this tool's URL to the new address."));
    let write = failure("POST", &here).await;
    assert_eq!((write.code, write.effect), (FailureCode::ToolError, EffectState::Unknown));
}

#[test]
fn every_mistake_is_reported_at_once() {
    let mistakes = |effect, toml| list(&try_build(effect, &["order", "limit?"], toml).unwrap_err());
    let many = r#"
        url = "https://api.example.com/{ordr}/{limit}?l={limit}"
        query = { a = "{ordre}", b = "${NONE}", c = "{" }
        headers = { Authorization = "Bearer ${NONE}", "bad name" = "x" }
        hosts = ["https://api.example.com", "api.example.com:http"]
        response = "data"
        status = { 44 = "not_found", 404 = "not_fond", 6xx = "unavailable" }
        idempotency_header = "bad name"
    "#;
    expect![[r#"
        http.hosts.0: `https://api.example.com` is no host: write `api.example.com` or `api.example.com:8443`
        http.hosts.1: `api.example.com:http` is no host: write `api.example.com` or `api.example.com:8443`
        http.query.a: there is no parameter `ordre`: did you mean `{order}`? (A brace that is meant as such is written twice.)
        http.query.b: the environment variable `NONE` is not set
        http.query.c: a brace has no partner: write `{name}` for an argument, `{{` or `}}` for a brace
        http.url: there is no parameter `ordr`: did you mean `{order}`? (A brace that is meant as such is written twice.)
        http.url: parameter `limit` may be absent: list it under `required` in the schema, or write `{limit?}` where it may be left out
        http.url: parameter `limit` may be absent: list it under `required` in the schema, or write `{limit?}` where it may be left out
        http.headers.Authorization: the environment variable `NONE` is not set
        http.headers.bad name: `bad name` is no header name, like `X-Api-Key`
        http.idempotency_header: `bad name` is no header name, like `X-Api-Key`
        http.status.404: `not_fond` is not a failure code that a tool can give; did you mean `not_found`?
        http.status.44: `44` is no status: write one from 200 to 599, like `404`, or a class, like `5xx`
        http.status.6xx: `6xx` is no status: write one from 200 to 599, like `404`, or a class, like `5xx`
        http.response: a JSON pointer begins with `/`, like `/data/items`
    "#]].assert_eq(&mistakes(Effect::Once, many));
    let single = [
        mistakes(Effect::Once, "url = 'ftp://x/{order}?l={limit?}'"),
        mistakes(Effect::Once, "url = 'https://x y/{order}?l={limit?}'"),
        mistakes(Effect::Once, "url = 'https://me:pw@x/{order}?l={limit?}'"),
        mistakes(Effect::Once, "url = 'https://x/{order}?l={limit?}#top'"),
        mistakes(Effect::Once, "url = 'https://{order}.x/?l={limit?}'"),
        mistakes(Effect::Once, "url = 'https://x/{order}?l={limit?}'\nhosts = ['y']"),
        mistakes(Effect::Once, "url = 'http://[::1]:80/{order}?l={limit?}'"),
        mistakes(Effect::Once, "url = 'http://2130706433/{order}?l={limit?}'"),
        mistakes(Effect::Once, "url = 'https://x/{order}'"),
        mistakes(Effect::Once, "url = 'https://x/{order}/{limit?}'"),
        mistakes(Effect::Keyed, "url = 'https://x/{order}'\nmethod = 'POST'"),
        mistakes(Effect::Once, "url = 'https://x/'\nbody = { o = ['{order}', '{limit}'] }"),
    ];
    expect![[r#"
        http.url: `ftp://x/{order}?l={limit?}` is no URL of the web: it must begin with `https://` or `http://`
        http.url: the host cannot be read: invalid international domain name
        http.url: the URL holds credentials: move them to `headers`, from an environment variable
        http.url: a `#` part is never sent to a server: leave it out
        http.url: the host has a placeholder: list the hosts that may be called under `hosts`
        http.url: the host `x` is not listed under `hosts`
        http.url: ::1 is a private address: list it under `hosts` if the tool is to reach it
        http.url: 127.0.0.1 is a private address: list it under `hosts` if the tool is to reach it
        http.body: parameter `limit` is used nowhere: put it in the URL, the query or the body, or take it out of the schema
        http.url: `{limit?}` may be absent, which only works in the query
        http.idempotency_header: the tool's effect is `keyed`, but nothing carries the key: name the header, like `Idempotency-Key`
        http.body.o.1: parameter `limit` may be absent: list it under `required` in the schema, or write `{limit?}` where it may be left out
    "#]].assert_eq(&single.concat());
}

#[test]
fn the_configuration_has_a_schema_in_which_every_field_is_described() {
    for schema in [schemars::schema_for!(HttpConfig), schemars::schema_for!(crate::CommandConfig)] {
        let properties = schema.get("properties").and_then(Value::as_object).unwrap();
        for (name, property) in properties {
            assert!(property["description"].as_str().is_some_and(|text| text.len() > 20), "{name}");
        }
    }
}

#[test]
fn a_body_that_is_no_known_word_is_explained() {
    let error = toml::from_str::<HttpConfig>("url = 'https://x/'\nbody = 'all'").unwrap_err().to_string();
    assert!(error.contains("expected \"arguments\", \"rest\", \"none\" or a table"), "{error}");
}
