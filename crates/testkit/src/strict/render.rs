//! Writes a reply the way the OpenAI APIs do, whole or as stream events.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::reply::{Call, Fault, Kind, Reply, Spoken};
use super::request::ChatRequest;
use super::responses;
use crate::Answer;

/// Equal replies are equal bytes, so the time of creation is always the same.
const CREATED_S: u64 = 1_700_000_000;

/// The API that a request came by, and that its reply is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    Chat,
    Responses,
}

/// Writes the reply to a request; `serial` makes its id.
pub(super) fn render(reply: Reply, api: Api, request: &ChatRequest, serial: usize) -> Answer {
    let answer = match reply.kind {
        Kind::Wire(answer) => answer,
        Kind::Spoken(spoken) => {
            let id = match api {
                Api::Chat => format!("chatcmpl-{serial}"),
                Api::Responses => format!("resp_{serial}"),
            };
            let frame = Frame { id, request, spoken: &spoken };
            match (api, request.wants_stream()) {
                (Api::Chat, false) => frame.whole(&frame.body()),
                (Api::Chat, true) => frame.stream(frame.events()),
                (Api::Responses, false) => frame.whole(&responses::whole(&frame)),
                (Api::Responses, true) => frame.stream(responses::events(&frame)),
            }
        }
    };
    answer.delay_at_least(reply.delay)
}

/// What one reply is made of.
pub(super) struct Frame<'a> {
    pub(super) id: String,
    pub(super) request: &'a ChatRequest,
    pub(super) spoken: &'a Spoken,
}

impl Frame<'_> {
    fn body(&self) -> Value {
        let spoken = self.spoken;
        let mut message = Map::new();
        message.insert("role".into(), json!("assistant"));
        message.insert("content".into(), json!(spoken.text));
        message.insert("refusal".into(), json!(spoken.refusal));
        if !spoken.calls.is_empty() {
            let calls = spoken.calls.iter().enumerate().map(|(index, call)| {
                json!({"id": id(call, index), "type": "function",
                       "function": {"name": call.name, "arguments": call.arguments}})
            });
            message.insert("tool_calls".into(), calls.collect());
        }
        json!({
            "id": self.id, "object": "chat.completion", "created": CREATED_S, "model": self.request.model(),
            "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": spoken.finish}],
            "usage": self.usage(),
        })
    }

    fn whole(&self, body: &Value) -> Answer {
        match self.spoken.fault {
            None => Answer::json(200, body),
            Some(Fault::Cut { .. }) => Answer::json(200, body).cut(),
            Some(Fault::Stall { .. }) => Answer::json(200, body).hang(),
            Some(Fault::Malformed { .. }) => {
                let mut text = body.to_string();
                text.truncate(middle(&text));
                Answer::json(200, &Value::Null).body(text)
            }
        }
    }

    fn events(&self) -> Vec<Bytes> {
        let mut events: Vec<Bytes> =
            self.deltas().into_iter().map(|delta| self.event(&delta, None)).collect();
        events.push(self.event(&json!({}), Some(&self.spoken.finish)));
        if self.request.wants_stream_usage() {
            let mut chunk = self.chunk();
            chunk.insert("choices".into(), json!([]));
            chunk.insert("usage".into(), self.usage());
            events.push(line(&Value::Object(chunk).to_string()));
        }
        events.push(line("[DONE]"));
        events
    }

    fn stream(&self, mut events: Vec<Bytes>) -> Answer {
        let stream = |events: Vec<Bytes>| Answer::chunks(events).header("content-type", "text/event-stream");
        match self.spoken.fault {
            // One piece instead of many: nothing between good events can be told apart.
            None => stream(vec![events.concat().into()]),
            Some(Fault::Cut { events: sent }) => {
                events.truncate(sent);
                stream(events).cut()
            }
            Some(Fault::Stall { events: sent }) => {
                events.truncate(sent);
                stream(events).hang()
            }
            Some(Fault::Malformed { events: sent }) => {
                events.insert(sent.min(events.len()), line(r#"{"id":"broken","choices":[{"del"#));
                stream(events)
            }
        }
    }

    /// The role, then text and calls in fragments, as the API sends them.
    fn deltas(&self) -> Vec<Value> {
        let spoken = self.spoken;
        let mut deltas = vec![json!({"role": "assistant", "content": null})];
        if let Some(text) = &spoken.text {
            deltas.extend(halves(text).map(|part| json!({"content": part})));
        }
        if let Some(refusal) = &spoken.refusal {
            deltas.push(json!({"refusal": refusal}));
        }
        for (index, call) in spoken.calls.iter().enumerate() {
            deltas.push(json!({"tool_calls": [{"index": index, "id": id(call, index), "type": "function",
                "function": {"name": call.name, "arguments": ""}}]}));
            deltas.extend(
                halves(&call.arguments)
                    .map(|part| json!({"tool_calls": [{"index": index, "function": {"arguments": part}}]})),
            );
        }
        deltas
    }

    fn event(&self, delta: &Value, finish: Option<&str>) -> Bytes {
        let mut chunk = self.chunk();
        let choices = json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]);
        chunk.insert("choices".into(), choices);
        line(&Value::Object(chunk).to_string())
    }

    fn chunk(&self) -> Map<String, Value> {
        let mut chunk = Map::new();
        chunk.insert("id".into(), json!(self.id));
        chunk.insert("object".into(), json!("chat.completion.chunk"));
        chunk.insert("created".into(), json!(CREATED_S));
        chunk.insert("model".into(), json!(self.request.model()));
        chunk
    }

    /// Tokens of the prompt and of the reply.
    pub(super) fn tokens(&self) -> (u64, u64) {
        self.spoken.usage.unwrap_or_else(|| {
            let text = self.spoken.text.as_ref().map_or(0, String::len);
            let calls: usize = self.spoken.calls.iter().map(|call| call.arguments.len()).sum();
            (tokens(self.request.body_bytes()), tokens(text + calls))
        })
    }

    fn usage(&self) -> Value {
        let (prompt, completion) = self.tokens();
        json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion})
    }
}

pub(super) fn id(call: &Call, index: usize) -> String {
    call.id.clone().unwrap_or_else(|| format!("call_{index}"))
}

fn tokens(bytes: usize) -> u64 {
    bytes.div_ceil(4) as u64
}

/// The text in two parts; less when there is not enough for two.
pub(super) fn halves(text: &str) -> impl Iterator<Item = &str> {
    let (head, tail) = text.split_at(middle(text));
    [head, tail].into_iter().filter(|part| !part.is_empty())
}

/// The character boundary next to the middle.
fn middle(text: &str) -> usize {
    (text.len() / 2..).find(|at| text.is_char_boundary(*at)).unwrap_or_default()
}

pub(super) fn line(data: &str) -> Bytes {
    format!("data: {data}\n\n").into()
}
