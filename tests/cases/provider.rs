//! Puts the replies of a case on the wire, whole or streamed.
//!
//! What the model says is kept as it was written, down to the digits and to what is missing or of
//! the wrong type: a reply is cut into stream events and never repaired.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dauntless_testkit::{Answer, Call, Reply, Script};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::case::{CallPlan, Case, End, Mode, ReplyPlan};

/// The model of the agent that runs. One of the crew has a model of its own name.
pub(crate) const MODEL: &str = "m";

/// More rounds of a cycle than any run makes.
const ROUNDS: usize = 100;

type Fields = BTreeMap<String, Box<RawValue>>;

/// How every request for notes begins, whatever it is about.
const NOTES: &str = "You keep the notes of an assistant";

/// The script of a case, and the count of requests that it had no reply for.
pub(crate) fn script(case: &Case, mode: Mode) -> (Script, Arc<AtomicUsize>) {
    let models: BTreeSet<&str> = case.replies.iter().map(speaker).collect();
    let lines: BTreeMap<String, Lines> =
        models.into_iter().map(|model| (model.to_owned(), Lines::of(model, case, mode))).collect();
    let notes: Vec<Reply> = case.notes.iter().map(|plan| reply(plan, mode)).collect();
    let noted = AtomicUsize::new(0);
    let unforeseen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&unforeseen);
    let script = Script::from_fn(move |request| {
        let asks_for_notes =
            request.messages()[0]["content"].as_str().is_some_and(|text| text.starts_with(NOTES));
        let reply = if asks_for_notes && !notes.is_empty() {
            notes.get(noted.fetch_add(1, Ordering::Relaxed)).or(notes.last())
        } else {
            lines.get(request.model()).and_then(|lines| lines.next(request.assistant_messages()))
        };
        reply.cloned().unwrap_or_else(|| {
            count.fetch_add(1, Ordering::Relaxed);
            Reply::error(400, "scripted", "The case has no reply for this request.")
        })
    });
    (script, unforeseen)
}

/// What one model says.
struct Lines {
    replies: Vec<Reply>,
    /// By how often it has spoken in a conversation.
    spoken: BTreeMap<usize, Reply>,
    otherwise: Option<Reply>,
    next: AtomicUsize,
}

impl Lines {
    fn of(model: &str, case: &Case, mode: Mode) -> Self {
        let (mut replies, mut spoken, mut otherwise) = (Vec::new(), BTreeMap::new(), None);
        for plan in case.replies.iter().filter(|plan| speaker(plan) == model) {
            match plan.times {
                _ if plan.spoken.is_some() => {
                    spoken.extend(plan.spoken.map(|count| (count, reply(plan, mode))));
                }
                Some(0) => otherwise = Some(reply(plan, mode)),
                None => replies.push(reply(plan, mode)),
                Some(times) => {
                    replies.extend((1..=times).map(|number| reply(&numbered(plan, number), mode)));
                }
            }
        }
        if case.cycle {
            replies = std::iter::repeat_n(replies, ROUNDS).flatten().collect();
        }
        Self { replies, spoken, otherwise, next: AtomicUsize::new(0) }
    }

    fn next(&self, spoken: usize) -> Option<&Reply> {
        if let Some(reply) = self.spoken.get(&spoken) {
            return Some(reply);
        }
        self.replies.get(self.next.fetch_add(1, Ordering::Relaxed)).or(self.otherwise.as_ref())
    }
}

/// The model that says a reply.
fn speaker(plan: &ReplyPlan) -> &str {
    plan.agent.as_deref().unwrap_or(MODEL)
}

fn numbered(plan: &ReplyPlan, number: usize) -> ReplyPlan {
    let mut plan = plan.clone();
    for call in &mut plan.calls {
        let number = number.to_string();
        call.id = call.id.as_ref().map(|id| id.replace('№', &number));
        call.arguments = call.arguments.replace('№', &number);
    }
    plan
}

fn reply(plan: &ReplyPlan, mode: Mode) -> Reply {
    let is_wire = plan.body.is_some() || plan.status.is_some() || plan.end == End::Disconnect;
    if mode.is_responses() && !is_wire { spoken(plan) } else { Reply::wire(answer(plan, mode)) }
}

/// The reply as the provider writes it by itself, for an API whose every byte is not ours to choose.
fn spoken(plan: &ReplyPlan) -> Reply {
    assert!(plan.message.is_none() && plan.deltas.is_none() && plan.sse.is_none(), "only words and calls");
    let calls: Vec<Call> = plan.calls.iter().flat_map(calls).map(|call| to_call(&call)).collect();
    let mut reply = match (&plan.say, calls.is_empty()) {
        (None, true) => Reply::empty(),
        (Some(text), true) => Reply::text(text.clone()),
        (None, false) => Reply::calls(calls),
        (Some(text), false) => Reply::calls(calls).with_text(text.clone()),
    };
    if let Some(finish) = &plan.finish {
        reply = reply.finish(finish.clone());
    }
    if let Some((prompt, completion)) = plan.usage {
        reply = reply.usage(prompt, completion);
    }
    reply = match plan.end {
        End::Complete | End::Disconnect => reply,
        End::Cut => reply.cut_after(3),
        End::Hang => reply.stall_after(3),
    };
    reply.after(Duration::from_millis(plan.after_ms))
}

fn to_call(call: &serde_json::Value) -> Call {
    let text = |pointer: &str| call.pointer(pointer).and_then(serde_json::Value::as_str).map(str::to_owned);
    let [name, arguments, id] =
        ["/function/name", "/function/arguments", "/id"].map(|pointer| text(pointer).unwrap_or_default());
    Call::raw(name, arguments).id(id)
}

fn answer(plan: &ReplyPlan, mode: Mode) -> Answer {
    let (kind, mut answer) = match (&plan.body, &plan.sse, &plan.deltas) {
        _ if plan.end == End::Disconnect => return Answer::disconnect(),
        (Some(body), _, _) => ("application/json", Answer::status(200).body(body.clone())),
        (None, Some(pieces), _) => ("text/event-stream", Answer::chunks(pieces.iter().cloned())),
        (None, None, Some(deltas)) => {
            let finish = plan.finish.as_deref().unwrap_or("tool_calls");
            let deltas = deltas.iter().map(|delta| RawValue::from_string(delta.clone()).unwrap()).collect();
            ("text/event-stream", Answer::chunks(stream(plan, deltas, finish)))
        }
        (None, None, None) => {
            let message = message(plan);
            let called = message.contains_key("tool_calls");
            let finish = plan.finish.as_deref().unwrap_or(if called { "tool_calls" } else { "stop" });
            match mode {
                Mode::Plain | Mode::Responses => {
                    ("application/json", Answer::status(200).body(whole(plan, &message, finish)))
                }
                Mode::Streamed | Mode::ResponsesStreamed => {
                    ("text/event-stream", Answer::chunks(stream(plan, deltas(message), finish)))
                }
            }
        }
    };
    if let Some(status) = plan.status {
        answer = Answer::status(status).body(plan.body.clone().unwrap_or_default());
    }
    if !plan.headers.contains_key("content-type") {
        answer = answer.header("content-type", kind);
    }
    for (name, value) in &plan.headers {
        answer = answer.header(name, value);
    }
    answer = match plan.end {
        End::Complete | End::Disconnect => answer,
        End::Cut => answer.cut(),
        End::Hang => answer.hang(),
    };
    answer.after(Duration::from_millis(plan.after_ms))
}

/// The fields of the message.
fn message(plan: &ReplyPlan) -> Fields {
    if let Some(message) = &plan.message {
        return serde_json::from_str(message).expect("a message is a JSON object");
    }
    let mut fields = Fields::new();
    fields.insert("role".to_owned(), raw(&"assistant"));
    fields.insert("content".to_owned(), raw(&plan.say));
    if !plan.calls.is_empty() {
        let calls: Vec<_> = plan.calls.iter().flat_map(calls).collect();
        fields.insert("tool_calls".to_owned(), raw(&calls));
    }
    fields
}

fn calls(plan: &CallPlan) -> Vec<serde_json::Value> {
    let call = |number: Option<usize>| {
        let numbered = |text: &str| match number {
            Some(number) => text.replace('#', &number.to_string()),
            None => text.to_owned(),
        };
        let function = json!({"name": plan.name, "arguments": numbered(&plan.arguments)});
        match &plan.id {
            Some(id) => json!({"id": numbered(id), "type": "function", "function": function}),
            None => json!({"type": "function", "function": function}),
        }
    };
    match plan.count {
        Some(count) => (1..=count).map(|number| call(Some(number))).collect(),
        None => vec![call(None)],
    }
}

fn whole(plan: &ReplyPlan, message: &Fields, finish: &str) -> String {
    let finish = (!finish.is_empty()).then_some(finish);
    let choice = json!({"index": 0, "finish_reason": finish}).to_string();
    let choice = choice.replacen('{', &format!("{{\"message\":{},", raw(message)), 1);
    let usage = usage(plan);
    format!(r#"{{"id":"r","object":"chat.completion","model":"m","choices":[{choice}],"usage":{usage}}}"#)
}

fn usage(plan: &ReplyPlan) -> String {
    plan.usage.map_or_else(
        || "null".to_owned(),
        |(prompt, completion)| {
            json!({"prompt_tokens": prompt, "completion_tokens": completion,
                   "total_tokens": prompt + completion})
            .to_string()
        },
    )
}

/// The message in pieces: its text, then each call with its name first and its arguments in halves.
fn deltas(mut message: Fields) -> Vec<Box<RawValue>> {
    let mut deltas = Vec::new();
    let calls = message.remove("tool_calls");
    let text = message.get("content").and_then(|content| serde_json::from_str::<String>(content.get()).ok());
    match text {
        Some(text) => {
            let (start, end) = halves(&text);
            message.insert("content".to_owned(), raw(&start));
            deltas.push(raw(&message));
            deltas.push(raw(&json!({"content": end})));
        }
        None => deltas.push(raw(&message)),
    }
    let Some(calls) = calls else { return deltas };
    let Ok(list) = serde_json::from_str::<Vec<Fields>>(calls.get()) else {
        deltas.push(raw(&Fields::from([("tool_calls".to_owned(), calls)])));
        return deltas;
    };
    for (index, mut call) in list.into_iter().enumerate() {
        call.insert("index".to_owned(), raw(&index));
        let function = call.get("function").and_then(|raw| serde_json::from_str::<Fields>(raw.get()).ok());
        let text = function.as_ref().and_then(|function| function.get("arguments"));
        let text = text.and_then(|text| serde_json::from_str::<String>(text.get()).ok());
        let mut rest = None;
        if let (Some(text), Some(mut function)) = (text, function) {
            let (start, end) = halves(&text);
            function.insert("arguments".to_owned(), raw(&start));
            call.insert("function".to_owned(), raw(&function));
            rest = Some(json!({"tool_calls": [{"index": index, "function": {"arguments": end}}]}));
        }
        deltas.push(raw(&BTreeMap::from([("tool_calls", [call])])));
        deltas.extend(rest.map(|rest| raw(&rest)));
    }
    deltas
}

fn stream(plan: &ReplyPlan, deltas: Vec<Box<RawValue>>, finish: &str) -> Vec<String> {
    let mut events: Vec<String> = deltas
        .iter()
        .map(|delta| format!(r#"{{"choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#))
        .collect();
    if plan.end == End::Complete {
        if !finish.is_empty() {
            events.push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}).to_string());
        }
        if plan.usage.is_some() {
            events.push(format!(r#"{{"choices":[],"usage":{}}}"#, usage(plan)));
        }
        events.push("[DONE]".to_owned());
    }
    events.into_iter().map(|event| format!("data: {event}\n\n")).collect()
}

fn halves(text: &str) -> (&str, &str) {
    let middle = (text.len() / 2..).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    text.split_at(middle)
}

fn raw<T: serde::Serialize + ?Sized>(value: &T) -> Box<RawValue> {
    to_raw_value(value).unwrap()
}
