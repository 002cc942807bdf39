//! A run that goes on for hundreds of turns with a model whose window holds a few dozen.

use std::sync::Mutex;
use std::time::Instant;

use super::*;

const WINDOW: u64 = 32_768;
const TURNS: u32 = 300;

/// A model that asks for a call on every turn but the last, and measures what it is sent.
#[derive(Clone)]
struct Endless {
    spec: Arc<ModelSpec>,
    seen: Arc<Mutex<Vec<Request>>>,
}

/// One request: its purpose, its size, and when it came.
#[derive(Clone, Copy, Debug)]
struct Request {
    purpose: RequestPurpose,
    messages: usize,
    bytes: usize,
    at: Instant,
}

impl Endless {
    fn new() -> Self {
        let scripted = Scripted::replies(["x"]).with_spec(|spec| spec.context_window = Some(Tokens(WINDOW)));
        Self { spec: Arc::clone(scripted.spec()), seen: Arc::default() }
    }

    fn requests(&self, purpose: RequestPurpose) -> Vec<Request> {
        self.seen.lock().unwrap().iter().copied().filter(|request| request.purpose == purpose).collect()
    }
}

impl Model for Endless {
    fn spec(&self) -> &Arc<ModelSpec> {
        &self.spec
    }

    fn call(&self, ctx: ModelCtx, request: ModelRequest) -> BoxFuture<'_, Result<ModelReply, Failure>> {
        check(&request.history);
        let bytes = bytes(&request);
        self.seen.lock().unwrap().push(Request {
            purpose: request.purpose,
            messages: request.history.messages().len(),
            bytes,
            at: Instant::now(),
        });
        let mut reply = match (request.purpose, ctx.turn) {
            (RequestPurpose::Summary, _) => ModelReply::text("Many things were found."),
            (RequestPurpose::Turn, TURNS) => ModelReply::text("done"),
            (RequestPurpose::Turn, turn) => ModelReply::calls(vec![RawCall {
                id: "call_0".into(),
                name: "find".into(),
                arguments: json!({ "n": turn }).to_string().into(),
                garbled: None,
            }]),
        };
        let prompt = Tokens(u64::try_from(bytes / 4).unwrap());
        reply.usage = Some(Usage::new(prompt, Tokens(20)));
        Box::pin(std::future::ready(Ok(reply)))
    }
}

/// Panics, which ends the run, where a strict provider would refuse the conversation.
fn check(history: &History) {
    let mut open: Vec<&str> = Vec::new();
    for message in history.messages() {
        match message {
            Message::Tool { call_id, text, .. } => {
                assert!(!open.is_empty() && !text.is_empty());
                assert_eq!(&**call_id, open.remove(0));
            }
            Message::Assistant { text, calls, .. } => {
                assert!(open.is_empty() && (text.is_some() || !calls.is_empty()));
                open = calls.iter().map(|call| &*call.id).collect();
            }
            Message::System { text } | Message::User { text } => {
                assert!(open.is_empty() && !text.is_empty());
            }
        }
    }
    assert!(open.is_empty());
}

/// The bytes of everything that is sent.
fn bytes(request: &ModelRequest) -> usize {
    let messages = request.history.messages().iter().map(|message| match message {
        Message::System { text } | Message::User { text } | Message::Tool { text, .. } => text.len(),
        Message::Assistant { text, calls, .. } => {
            let calls = calls.iter().map(|call| call.name.len() + call.arguments.as_str().len());
            text.as_ref().map_or(0, |text| text.len()) + calls.sum::<usize>()
        }
    });
    let tools = request.tools.iter();
    let tools = tools.map(|spec| spec.description.len() + spec.parameters.to_string().len());
    messages.sum::<usize>() + tools.sum::<usize>()
}

/// Gives 1 to 4 kB about a number, and once 5 MB.
struct Find(Arc<ToolSpec>);

impl Find {
    fn new() -> Self {
        let parameters = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
        let spec = ToolSpec::new("find", "Finds things about a number.", parameters);
        Self(Arc::new(ToolSpec { effect: Effect::ReadOnly, ..spec }))
    }
}

impl Tool for Find {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    fn call(&self, _: ToolCtx, arguments: Json) -> BoxFuture<'_, Result<ToolOutput, Failure>> {
        let n = arguments.to_value()["n"].as_u64().unwrap();
        let times = if n == 150 { 500_000 } else { 100 + usize::try_from(n % 4).unwrap() * 100 };
        let text = format!("{n}: {}", "some words ".repeat(times));
        Box::pin(std::future::ready(Ok(ToolOutput::text(text))))
    }
}

#[tokio::test(start_paused = true)]
async fn three_hundred_turns_pass_through_a_window_of_a_few_dozen() {
    let model = Endless::new();
    let limits = RunLimits {
        turns: TURNS + 1,
        tokens: Tokens(u64::MAX),
        cost: MicroUsd(u64::MAX),
        ..RunLimits::default()
    };
    let runtime = Runtime::builder().model(model.clone()).limits(limits).seed(7).build().await.unwrap();
    let (outcome, events) = run_accounted(&runtime, &Agent::new("a").tool(Find::new())).await;
    assert_eq!(outcome.reason, StopReason::Completed);
    assert_eq!((outcome.totals.turns, outcome.totals.tool_calls, outcome.totals.failed_calls), (300, 299, 0));

    let (turns, summaries) = (model.requests(RequestPurpose::Turn), model.requests(RequestPurpose::Summary));
    assert_eq!(turns.len(), 300);
    assert!((1..30).contains(&summaries.len()), "{} summaries", summaries.len());
    let window = usize::try_from(WINDOW).unwrap() * 4;
    let largest = |requests: &[Request]| requests.iter().map(|request| request.bytes).max().unwrap();
    assert!(largest(&turns) < window && largest(&summaries) < window, "no request is larger than the window");
    assert!(largest(&turns) > window / 2, "and the window is used");
    assert!(largest(&turns[250..]) <= largest(&turns[50..150]) * 11 / 10, "what is sent does not grow");
    let messages = turns.iter().map(|request| request.messages).max().unwrap();
    assert!(messages < 550, "{messages} messages are more than the glimpses of them that fit");

    let took = |from: usize, to: usize| turns[to].at.duration_since(turns[from].at);
    let (early, late) = (took(50, 149), took(200, 299));
    assert!(late < early * 3 + Duration::from_millis(200), "100 turns: {early:?}, later {late:?}");
    let trims = events.iter().filter(|event| matches!(event, Progress::ContextTrimmed { .. })).count();
    assert!((2..60).contains(&trims), "{trims} trims");
}
