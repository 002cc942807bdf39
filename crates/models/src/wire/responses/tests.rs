use std::collections::HashSet;
use std::sync::Arc;

use dauntless_contract::{
    AnswerSchema, Finish, History, Json, ModelReply, ModelRequest, Observation, Round, ToolCall, ToolSpec,
};
use expect_test::expect;
use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{Items, ResponsesRequest};
use crate::assembler::Assembler;
use crate::profile::Profile;
use crate::wire::Calling;

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::from_str(&value.to_string()).unwrap()
}

/// The reply to one body.
fn whole(body: &Value) -> ModelReply {
    let packet = Items::default().whole(&raw(body));
    assert_eq!(packet.error, None);
    Assembler::whole(packet).finish(None, HashSet::new())
}

/// The reply to the events of one stream.
fn stream(events: &[Value]) -> ModelReply {
    let (mut items, mut assembler) = (Items::default(), Assembler::default());
    for event in events {
        assert!(!items.is_over());
        let packet = items.event(&raw(event));
        assert_eq!(packet.error, None, "{event}");
        assembler.push(packet);
    }
    assert!(items.is_over() && assembler.has_end());
    assembler.finish(None, HashSet::new())
}

fn completed(output: Value) -> Value {
    json!({"type": "response.completed", "response": {"status": "completed", "model": "m-1", "output": output,
        "usage": {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13}}})
}

fn message(text: &str) -> Value {
    json!({"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name, "arguments": arguments})
}

fn reasoning(id: &str, seal: &str) -> Value {
    json!({"type": "reasoning", "id": id, "status": "completed", "summary": [], "encrypted_content": seal})
}

#[test]
fn a_conversation_is_written_item_by_item() {
    let mut history = History::open(&"Be brief.".into(), &"Where is it?".into());
    let extra = json!({
        "reasoning_content": "for another API",
        "reasoning_items": [{"type": "reasoning", "id": "r1", "summary": [], "encrypted_content": "e1"}],
        "tool_calls": {"b": {"reasoning_items": [{"type": "reasoning", "id": "r2", "summary": [], "encrypted_content": "e2"}], "extra_content": 1}},
    });
    let call = |id: &str, name: &str| {
        let call = ToolCall { id: id.into(), name: name.into(), arguments: Json::empty_object() };
        (call, Observation { text: "sent".into() })
    };
    history.round(Round {
        text: Some("Let me look.".into()),
        extra: Some(extra.into()),
        calls: vec![call("a", "order"), call("b", "fs.read")],
    });
    let open = ToolSpec::new("order", "Looks up an order.", json!({"type": "object"}));
    let closed = ToolSpec::new("read", "Reads.", json!({"type": "object", "additionalProperties": false}));
    let mut request = ModelRequest::new(Arc::new(history), Arc::new([Arc::new(open), Arc::new(closed)]));
    let schema = json!({"type": "object"});
    request.answer = Some(Arc::new(AnswerSchema { name: "state".into(), schema: Arc::new(schema) }));
    let settings = json!({"text": {"verbosity": "low"}, "max_output_tokens": 9}).as_object().unwrap().clone();
    let body = ResponsesRequest {
        model: "m",
        request: &request,
        stream: true,
        keep_reasoning: true,
        settings: &settings,
        profile: &Profile::compatible(),
        calling: Calling { parallel: false, strict: true },
        shape: true,
    };
    expect![[r#"{"model":"m","instructions":"Be brief.","input":[{"type":"message","role":"user","content":"Where is it?"},{"encrypted_content":"e1","id":"r1","summary":[],"type":"reasoning"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Let me look."}]},{"type":"function_call","call_id":"a","name":"order","arguments":"{}"},{"encrypted_content":"e2","id":"r2","summary":[],"type":"reasoning"},{"type":"function_call","call_id":"b","name":"fs_read","arguments":"{}"},{"type":"function_call_output","call_id":"a","output":"sent"},{"type":"function_call_output","call_id":"b","output":"sent"}],"tools":[{"type":"function","name":"order","description":"Looks up an order.","parameters":{"type":"object"},"strict":false},{"type":"function","name":"read","description":"Reads.","parameters":{"additionalProperties":false,"type":"object"},"strict":true}],"parallel_tool_calls":false,"stream":true,"store":false,"include":["reasoning.encrypted_content"],"text":{"format":{"name":"state","schema":{"type":"object"},"strict":false,"type":"json_schema"},"verbosity":"low"},"max_output_tokens":9}"#]]
        .assert_eq(&serde_json::to_string(&body).unwrap());
}

#[test]
fn a_request_without_tools_instructions_and_settings_has_none_of_them() {
    let request = ModelRequest::new(Arc::new(History::open(&"".into(), &"hi".into())), Arc::new([]));
    let body = ResponsesRequest {
        model: "m",
        request: &request,
        stream: false,
        keep_reasoning: false,
        settings: &Map::new(),
        profile: &Profile::mistral(),
        calling: Calling { parallel: false, strict: true },
        shape: true,
    };
    expect![[r#"{"model":"m","input":[{"type":"message","role":"user","content":"hi"}],"stream":false,"store":false}"#]].assert_eq(&serde_json::to_string(&body).unwrap());
}

#[test]
fn a_stream_says_everything_four_times_and_is_heard_once() {
    let output = json!([
        reasoning("r1", "e1"),
        message("Let me look."),
        reasoning("r2", "e2"),
        call("a", "order", "{\"id\":7}")
    ]);
    let events = [
        json!({"type": "response.created", "response": {"model": "m-1", "status": "in_progress", "output": [], "error": null}}),
        json!({"type": "response.in_progress", "response": {"model": "m-1"}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "id": "r1", "encrypted_content": "half"}}),
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "item_id": "r1", "delta": "thinking"}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": reasoning("r1", "e1")}),
        json!({"type": "response.output_item.added", "output_index": 1, "item": {"type": "message", "id": "msg_1", "content": []}}),
        json!({"type": "response.content_part.added", "output_index": 1, "item_id": "msg_1", "part": {"type": "output_text", "text": ""}}),
        json!({"type": "response.output_text.delta", "output_index": 1, "item_id": "msg_1", "delta": "Let me "}),
        json!({"type": "response.output_text.delta", "output_index": 1, "item_id": "msg_1", "delta": "look."}),
        json!({"type": "response.output_text.done", "output_index": 1, "item_id": "msg_1", "text": "Let me look."}),
        json!({"type": "response.content_part.done", "output_index": 1, "item_id": "msg_1", "part": {"type": "output_text", "text": "Let me look."}}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": message("Let me look.")}),
        json!({"type": "response.output_item.done", "output_index": 2, "item": reasoning("r2", "e2")}),
        json!({"type": "response.output_item.added", "output_index": 3, "item": call("a", "order", "")}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 3, "item_id": "fc_a", "delta": "{\"id\":"}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 3, "item_id": "fc_a", "delta": "7}"}),
        json!({"type": "response.function_call_arguments.done", "output_index": 3, "item_id": "fc_a", "name": "order", "arguments": "{\"id\":7}"}),
        json!({"type": "response.output_item.done", "output_index": 3, "item": call("a", "order", "{\"id\":7}")}),
        completed(output.clone()),
    ];
    let reply = stream(&events);
    assert_eq!(reply, whole(&completed(output)["response"]));
    assert_eq!(reply.text.as_deref(), Some("Let me look."));
    assert_eq!((&*reply.calls[0].id, &*reply.calls[0].arguments), ("a", "{\"id\":7}"));
    assert_eq!(reply.finish, Finish::ToolCalls);
    assert_eq!((reply.usage.unwrap().prompt.0, reply.usage.unwrap().completion.0), (9, 4));
    assert_eq!(reply.model.as_deref(), Some("m-1"));
    expect![[r#"{"reasoning_items":[{"encrypted_content":"e1","id":"r1","summary":[],"type":"reasoning"}],"tool_calls":{"a":{"reasoning_items":[{"encrypted_content":"e2","id":"r2","summary":[],"type":"reasoning"}]}}}"#]].assert_eq(reply.extra.unwrap().as_str());
}

#[test]
fn reasoning_that_is_not_sealed_or_leads_nowhere_is_not_kept() {
    let open = json!({"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "t"}]});
    let blank = reasoning("r", "");
    let reply = whole(&json!({"output": [open, blank, message("hi"), reasoning("r", "e")]}));
    assert_eq!(reply.extra, None);
}

#[test]
fn a_lost_fragment_costs_the_call() {
    let reply = stream(&[
        json!({"type": "response.output_item.added", "output_index": 0, "item": call("a", "f", "")}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "{\"n\":1"}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "}"}),
        json!({"type": "response.function_call_arguments.done", "output_index": 0, "arguments": "{\"n\":10}"}),
        completed(json!([])),
    ]);
    assert_eq!(reply.calls.len(), 1);
    assert_eq!(reply.calls[0].garbled.as_deref(), Some("its arguments came both in pieces and as a whole"));
}

#[test]
fn spaces_between_pieces_and_whole_may_differ() {
    let reply = stream(&[
        json!({"type": "response.output_item.added", "item": call("a", "f", "")}),
        json!({"type": "response.function_call_arguments.delta", "delta": "{\"n\": 1}"}),
        completed(json!([call("a", "f", "{\"n\":1}")])),
    ]);
    assert_eq!((reply.calls.len(), &reply.calls[0].garbled), (1, &None));
}

#[test]
fn one_number_for_all_items_and_new_ids_with_every_event_are_seen_through() {
    let one_number = stream(&[
        json!({"type": "response.output_item.added", "output_index": 0, "item": call("a", "f", "")}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": call("b", "f", "")}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc_a", "delta": "{\"n\":1}"}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc_b", "delta": "{\"n\":2}"}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": call("a", "f", "{\"n\":1}")}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": call("b", "f", "{\"n\":2}")}),
        completed(json!([])),
    ]);
    let call_of = |id: &str, call_id: &str, arguments: &str| json!({"type": "function_call", "id": id, "call_id": call_id, "name": "f", "arguments": arguments});
    let new_ids = stream(&[
        json!({"type": "response.output_item.added", "output_index": 0, "item": call_of("x1", "a", "")}),
        json!({"type": "response.output_item.added", "output_index": 1, "item": call_of("x2", "b", "")}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 1, "item_id": "x3", "delta": "{\"n\":2}"}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "x4", "delta": "{\"n\":1}"}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": call_of("x5", "b", "{\"n\":2}")}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": call_of("x6", "a", "{\"n\":1}")}),
        completed(json!([call_of("x7", "a", "{\"n\":1}"), call_of("x8", "b", "{\"n\":2}")])),
    ]);
    assert_eq!(
        one_number.calls,
        whole(&json!({"output": [call("a", "f", "{\"n\":1}"), call("b", "f", "{\"n\":2}")]})).calls
    );
    assert_eq!(new_ids.calls, one_number.calls);
}

#[test]
fn ids_that_are_missing_or_given_twice_are_replaced() {
    let nameless = json!({"type": "function_call", "name": "f", "arguments": {"n": 1}});
    let reply = whole(&json!({"output": [call("a", "f", "{}"), call("a", "f", "{}"), nameless]}));
    let ids: Vec<_> = reply.calls.iter().map(|call| &*call.id).collect();
    assert_eq!(ids, ["a", "call_1", "call_2"]);
    assert_eq!(&*reply.calls[2].arguments, "{\"n\":1}");
}

#[test]
fn how_a_response_ended_is_told_by_its_status() {
    let finish = |rest: Value| {
        let mut body = json!({"output": [message("hi")]});
        body.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        whole(&body).finish
    };
    assert_eq!(finish(json!({})), Finish::Stop);
    assert_eq!(finish(json!({"status": "completed", "incomplete_details": null})), Finish::Stop);
    let cut =
        |reason: Value| finish(json!({"status": "incomplete", "incomplete_details": {"reason": reason}}));
    assert_eq!(cut(json!("max_output_tokens")), Finish::Length);
    assert_eq!(cut(json!("something new")), Finish::Length);
    assert_eq!(cut(Value::Null), Finish::Length);
    assert_eq!(cut(json!("content_filter")), Finish::ContentFilter);
    let contradictory = json!({"type": "response.completed", "response": {"status": "incomplete", "output": [message("hi")]}});
    assert_eq!(stream(&[contradictory]).finish, Finish::Length);
    let cut_call = json!({"status": "incomplete", "output": [call("a", "f", "{\"n\":")], "incomplete_details": {"reason": "max_output_tokens"}});
    assert_eq!(whole(&cut_call).finish, Finish::Length);
}

#[test]
fn what_failed_is_an_error_however_it_is_said() {
    let body = |body: Value| Items::default().whole(&raw(&body)).error;
    for failed in [
        json!({"status": "failed", "error": {"code": "server_error", "message": "m"}, "output": []}),
        json!({"status": "failed"}),
        json!({"status": "cancelled", "output": [message("hi")]}),
        json!({"status": "in_progress", "output": []}),
        json!({"error": {"message": "m"}}),
        json!({"object": "error", "message": "m"}),
        json!({"status": "completed", "output": [], "error": {"code": 429}}),
        json!([]),
    ] {
        assert!(body(failed.clone()).is_some(), "{failed}");
    }
    let event = |event: Value| Items::default().event(&raw(&event)).error;
    for failed in [
        json!({"type": "error", "code": "rate_limit_exceeded", "message": "m", "param": null}),
        json!({"type": "error", "error": {"code": 429, "message": "m"}}),
        json!({"type": "error"}),
        json!({"error": {"code": 500}}),
        json!({"type": "response.failed", "response": {"status": "failed", "error": {"code": "server_error"}}}),
        json!({"type": "response.failed"}),
        json!(7),
    ] {
        assert!(event(failed.clone()).is_some(), "{failed}");
    }
    let late = event(
        json!({"type": "response.failed", "response": {"status": "in_progress", "error": {"code": "rate_limit_exceeded"}}}),
    );
    assert_eq!(late.unwrap().code.as_deref(), Some("rate_limit_exceeded"));
}

#[test]
fn words_of_refusal_are_kept_apart_from_the_text() {
    let refusal = json!({"type": "message", "content": [{"type": "refusal", "refusal": "No."}]});
    let reply = stream(&[
        json!({"type": "response.refusal.delta", "item_id": "x", "delta": "N"}),
        json!({"type": "response.refusal.delta", "item_id": "x", "delta": "o."}),
        json!({"type": "response.refusal.done", "item_id": "x", "refusal": "No."}),
        completed(json!([refusal])),
    ]);
    assert_eq!((reply.text.as_deref(), reply.refusal.as_deref()), (None, Some("No.")));
    assert_eq!(whole(&json!({"output": [refusal]})).refusal, reply.refusal);
}

/// One item of a response, and where its words are cut.
#[derive(Clone, Debug)]
enum Told {
    Text(Vec<String>),
    Call(String, Vec<String>),
    Reasoning,
}

fn told() -> impl Strategy<Value = Vec<Told>> {
    let pieces = || prop::collection::vec("[a-zé\\\\\" ]{1,4}", 1..4);
    let item = prop_oneof![
        pieces().prop_map(Told::Text),
        ("[a-z]{1,4}", pieces()).prop_map(|(name, words)| {
            let arguments = json!({"k": words.concat()}).to_string();
            let middle = arguments.char_indices().nth(4).unwrap().0;
            let (head, tail) = arguments.split_at(middle);
            Told::Call(name, vec![head.to_owned(), tail.to_owned()])
        }),
        Just(Told::Reasoning),
    ];
    prop::collection::vec(item, 0..5)
}

fn item_of(at: usize, told: &Told) -> Value {
    match told {
        Told::Text(pieces) => {
            json!({"type": "message", "id": format!("i{at}"), "content": [{"type": "output_text", "text": pieces.concat()}]})
        }
        Told::Call(name, pieces) => {
            json!({"type": "function_call", "id": format!("i{at}"), "call_id": format!("c{at}"), "name": name, "arguments": pieces.concat()})
        }
        Told::Reasoning => reasoning(&format!("i{at}"), &format!("seal {at}")),
    }
}

/// Which of the ways to say something a server uses.
#[derive(Clone, Copy, Debug)]
struct Habits {
    id: bool,
    place: bool,
    pieces: bool,
    part_done: bool,
    item_done: bool,
    output: bool,
}

fn events_of(items: &[Told], habits: Habits) -> Vec<Value> {
    let mut events = Vec::new();
    for (at, told) in items.iter().enumerate() {
        let whole = item_of(at, told);
        let (text, words) = match told {
            Told::Text(pieces) => (("output_text", "text"), pieces.clone()),
            Told::Call(_, pieces) => (("function_call_arguments", "arguments"), pieces.clone()),
            Told::Reasoning => (("reasoning_summary_text", "text"), vec!["thinking".to_owned()]),
        };
        let mut say = |kind: String, name: &str, value: Value| {
            let mut event = json!({"type": format!("response.{kind}"), name: value});
            if habits.place {
                event["output_index"] = at.into();
            }
            if habits.id && name != "item" {
                event["item_id"] = whole["id"].clone();
            }
            events.push(event);
        };
        let mut begun = whole.clone();
        begun["arguments"] = json!("");
        begun["content"] = json!([]);
        let bare = |mut item: Value| {
            if !habits.id {
                item.as_object_mut().unwrap().remove("id");
            }
            item
        };
        say("output_item.added".to_owned(), "item", bare(begun));
        if habits.pieces {
            for piece in &words {
                say(format!("{}.delta", text.0), "delta", json!(piece));
            }
        }
        if habits.part_done {
            say(format!("{}.done", text.0), text.1, json!(words.concat()));
        }
        if habits.item_done {
            say(
                "output_item.done".to_owned(),
                "item",
                if matches!(told, Told::Reasoning) { whole.clone() } else { bare(whole.clone()) },
            );
        }
    }
    let output: Vec<_> = items.iter().enumerate().map(|(at, told)| item_of(at, told)).collect();
    events.push(completed(if habits.output { json!(output) } else { json!([]) }));
    events
}

proptest! {
    #[test]
    fn however_much_of_it_a_server_says_a_response_is_the_same_reply(
        items in told(),
        habits in prop::array::uniform6(any::<bool>()),
    ) {
        let [id, place, pieces, part_done, item_done, output] = habits;
        let mut habits = Habits { id, place, pieces, part_done, item_done, output };
        // At least one way must say it, and only whole items show their reasoning.
        habits.item_done |= !output && (!(pieces || part_done) || items.iter().any(|told| matches!(told, Told::Reasoning)));
        let output: Vec<_> = items.iter().enumerate().map(|(at, told)| item_of(at, told)).collect();
        let plain = whole(&completed(json!(output))["response"]);
        prop_assert_eq!(stream(&events_of(&items, habits)), plain);
    }

    #[test]
    fn no_order_of_odd_events_brings_the_reader_down_or_runs_two_calls_into_one_id(
        picks in prop::collection::vec((0..9usize, 0..3usize, 0..3usize, 0..4usize), 0..14)
    ) {
        const NAMES: [&str; 9] = [
            "output_item.added", "output_item.done", "function_call_arguments.delta",
            "function_call_arguments.done", "output_text.delta", "output_text.done",
            "refusal.delta", "unheard.of", "created",
        ];
        let events: Vec<Value> = picks.iter().map(|(name, id, place, word)| {
            let id = [Value::Null, json!("a"), json!(7)][*id].clone();
            let place = [Value::Null, json!(0), json!("x")][*place].clone();
            let word = [Value::Null, json!("{}"), json!("{\"k\":"), json!({"k": 1})][*word].clone();
            let item = json!({"type": "function_call", "id": id, "call_id": id, "name": "f", "arguments": word});
            json!({"type": format!("response.{}", NAMES[*name]), "item_id": id, "output_index": place,
                "delta": word, "text": word, "arguments": word, "item": item})
        }).chain([completed(json!("none"))]).collect();
        let reply = stream(&events);
        let ids: HashSet<_> = reply.calls.iter().map(|call| &call.id).collect();
        prop_assert_eq!(ids.len(), reply.calls.len());
    }
}
