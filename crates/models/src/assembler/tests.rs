use std::collections::HashSet;

use dauntless_contract::{Finish, ModelReply, RawCall};
use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Assembler;
use crate::wire::Packet;

const LIMIT: u32 = 100;

fn packet(body: &Value) -> Packet {
    let raw: Box<RawValue> = serde_json::from_str(&body.to_string()).unwrap();
    Packet::read(
        &raw,
        &["reasoning_content".to_owned(), "reasoning_details".to_owned(), "extra_content".to_owned()],
    )
}

/// The reply to one body.
fn whole(body: Value) -> ModelReply {
    Assembler::whole(packet(&body)).finish(Some(LIMIT), HashSet::new())
}

/// The reply to one message with this reason to stop.
fn message(message: Value, finish: Value) -> ModelReply {
    whole(json!({"choices": [{"message": message, "finish_reason": finish}]}))
}

/// The reply to a stream whose chunks hold these deltas.
fn stream(deltas: Vec<Value>) -> ModelReply {
    let mut assembler = Assembler::default();
    for delta in deltas {
        assembler.push(packet(&json!({"choices": [{"index": 0, "delta": delta}]})));
    }
    assembler.push(packet(&json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]})));
    assembler.finish(Some(LIMIT), HashSet::new())
}

/// A stream of call fragments, one list of entries a chunk.
fn fragments(chunks: Vec<Value>) -> ModelReply {
    stream(chunks.into_iter().map(|entries| json!({"tool_calls": entries})).collect())
}

fn entry(index: impl Into<Value>, id: Value, name: Value, arguments: Value) -> Value {
    let mut entry = json!({"index": index.into(), "function": {"name": name, "arguments": arguments}});
    entry["id"] = id;
    entry
}

fn shown(reply: &ModelReply) -> String {
    let show = |call: &RawCall| {
        let garbled = call.garbled.as_ref().map(|why| format!("  !! {why}")).unwrap_or_default();
        format!("{} {} {}{garbled}\n", call.id, call.name, call.arguments)
    };
    reply.calls.iter().map(show).collect()
}

fn check(reply: &ModelReply, expected: Expect) {
    expected.assert_eq(&shown(reply));
}

#[test]
fn fragments_go_where_their_number_says() {
    let reply = fragments(vec![
        json!([entry(0, json!("a"), json!("search"), Value::Null)]),
        json!([entry(1, json!("b"), json!("fetch"), Value::Null)]),
        json!([entry(0, Value::Null, Value::Null, json!("{\"q\":"))]),
        json!([entry(1, Value::Null, Value::Null, json!("{\"u\":"))]),
        json!([entry(0, Value::Null, Value::Null, json!("1}"))]),
        json!([entry(1, Value::Null, Value::Null, json!("2}"))]),
    ]);
    check(
        &reply,
        expect![[r#"
        a search {"q":1}
        b fetch {"u":2}
    "#]],
    );
}

#[test]
fn two_entries_of_one_number_in_one_chunk_are_one_call() {
    let reply = fragments(vec![
        json!([entry(0, json!("a"), json!("f"), Value::Null), {"index": 0, "function": {"arguments": "{\"k\""}}]),
        json!([{"index": 0, "function": {"arguments": ":1}"}}]),
    ]);
    check(
        &reply,
        expect![[r#"
        a f {"k":1}
    "#]],
    );
}

#[test]
fn late_ids_and_late_names_are_taken() {
    let reply = fragments(vec![
        json!([entry(0, json!(""), json!("f"), json!(""))]),
        json!([entry(1, json!("b"), json!(""), json!("{\"k\":"))]),
        json!([entry(0, json!("a"), json!(""), json!("{}"))]),
        json!([entry(1, Value::Null, json!("g"), json!("1}"))]),
    ]);
    check(
        &reply,
        expect![[r#"
        a f {}
        b g {"k":1}
    "#]],
    );
}

#[test]
fn a_number_that_shifts_means_the_only_call_there_is() {
    let reply = fragments(vec![
        json!([entry(0, json!("a"), json!("f"), json!("{\"k\":"))]),
        json!([entry(1, Value::Null, Value::Null, json!("1"))]),
        json!([entry(2, Value::Null, Value::Null, json!("}"))]),
    ]);
    check(
        &reply,
        expect![[r#"
        a f {"k":1}
    "#]],
    );
}

#[test]
fn a_piece_without_an_owner_is_not_given_to_anybody() {
    let reply = fragments(vec![
        json!([entry(0, json!("a"), json!("f"), json!("{}"))]),
        json!([entry(1, json!("b"), json!("g"), json!("{}"))]),
        json!([entry(2, Value::Null, Value::Null, json!("1}"))]),
    ]);
    check(
        &reply,
        expect![[r#"
        a f {}  !! a piece of arguments came that fits no call
        b g {}  !! a piece of arguments came that fits no call
    "#]],
    );
}

#[test]
fn whole_calls_under_one_number_are_as_many_calls() {
    let with_ids = fragments(vec![
        json!([entry(0, json!("a"), json!("f"), json!("{\"q\":1}"))]),
        json!([entry(0, json!("b"), json!("f"), json!("{\"q\":2}"))]),
        json!([entry(0, json!("c"), json!("g"), json!("{}"))]),
    ]);
    check(
        &with_ids,
        expect![[r#"
        a f {"q":1}
        b f {"q":2}
        c g {}
    "#]],
    );
    let without_ids = fragments(vec![
        json!([entry(0, Value::Null, json!("f"), json!("{\"q\":1}"))]),
        json!([entry(0, Value::Null, json!("f"), json!("{\"q\":2}"))]),
    ]);
    check(
        &without_ids,
        expect![[r#"
        call_1 f {"q":1}
        call_2 f {"q":2}
    "#]],
    );
}

#[test]
fn two_ids_of_one_tool_under_one_number_are_in_doubt_while_the_first_is_open() {
    let reply = fragments(vec![
        json!([entry(0, json!("a"), json!("f"), json!(""))]),
        json!([entry(0, json!("b"), json!("f"), json!("{}"))]),
    ]);
    check(
        &reply,
        expect![[r#"
        a f   !! pieces with different ids came under one number
        b f {}  !! pieces with different ids came under one number
    "#]],
    );
}

#[test]
fn an_id_that_changes_with_every_piece_changes_nothing() {
    let reply = fragments(vec![
        json!([entry(0, json!("a"), json!("f"), json!(""))]),
        json!([entry(0, json!("x"), Value::Null, json!("{\"k\":"))]),
        json!([entry(0, json!("y"), Value::Null, json!("1}"))]),
    ]);
    check(
        &reply,
        expect![[r#"
        a f {"k":1}
    "#]],
    );
}

#[test]
fn calls_without_numbers_come_one_after_the_other() {
    let reply = fragments(vec![
        json!([{"id": "a", "function": {"name": "f", "arguments": "{\"k\":"}}]),
        json!([{"function": {"arguments": "1}"}}]),
        json!([{"id": "b", "function": {"name": "g", "arguments": "{\"k\":"}}]),
        json!([{"id": "b", "function": {"arguments": "2"}}]),
        json!([{"function": {"arguments": "}"}}]),
    ]);
    check(
        &reply,
        expect![[r#"
        a f {"k":1}
        b g {"k":2}
    "#]],
    );
}

#[test]
fn bare_pieces_that_share_a_chunk_are_in_doubt() {
    let reply = fragments(vec![
        json!([{"id": "a", "function": {"name": "f", "arguments": "{"}}, {"id": "b", "function": {"name": "g", "arguments": "{"}}]),
        json!([{"function": {"arguments": "}"}}, {"function": {"arguments": "}"}}]),
    ]);
    assert!(reply.calls.iter().all(|call| call.garbled.is_some()), "{reply:?}");
}

#[test]
fn a_bare_piece_is_in_doubt_where_other_calls_have_numbers() {
    let reply = fragments(vec![
        json!([entry(0, json!("a"), json!("f"), json!("{"))]),
        json!([entry(1, json!("b"), json!("g"), json!("{"))]),
        json!([{"function": {"arguments": "}"}}]),
    ]);
    check(
        &reply,
        expect![[r#"
            a f {  !! a piece of arguments came that fits no call
            b g {  !! a piece of arguments came that fits no call
        "#]],
    );
}

#[test]
fn a_piece_whose_number_and_id_name_different_calls_is_in_doubt() {
    let reply = fragments(vec![
        json!([entry(0, json!("a"), json!("f"), json!("{"))]),
        json!([entry(1, json!("b"), json!("g"), json!("{"))]),
        json!([entry(0, json!("b"), Value::Null, json!("}"))]),
    ]);
    check(
        &reply,
        expect![[r#"
            a f {  !! pieces with different ids came under one number
            b g {  !! pieces with different ids came under one number
        "#]],
    );
}

#[test]
fn one_id_under_two_numbers_is_two_calls_unless_the_first_is_half_written() {
    let closed = fragments(vec![
        json!([entry(0, json!("a"), json!("f"), json!("{\"q\":1}"))]),
        json!([entry(1, json!("a"), json!("f"), json!("{\"q\":2}"))]),
    ]);
    check(
        &closed,
        expect![[r#"
            a f {"q":1}
            call_1 f {"q":2}
        "#]],
    );
    let half_written = fragments(vec![
        json!([entry(0, json!("a"), json!("f"), json!("{\"q\":"))]),
        json!([entry(1, json!("a"), json!("f"), json!("1}"))]),
    ]);
    check(
        &half_written,
        expect![[r#"
            a f {"q":  !! pieces with one id came under different numbers
            call_1 f 1}  !! pieces with one id came under different numbers
        "#]],
    );
    let without_a_name = fragments(vec![
        json!([entry(0, json!("a"), json!("f"), json!("{\"q\":"))]),
        json!([entry(1, json!("a"), Value::Null, json!("1}"))]),
    ]);
    check(
        &without_a_name,
        expect![[r#"
            a f {"q":1}
        "#]],
    );
}

#[test]
fn an_id_may_come_late_without_any_numbers() {
    let beside_the_name = fragments(vec![
        json!([{"function": {"name": "f"}}]),
        json!([{"id": "a", "function": {"name": "f", "arguments": "{}"}}]),
    ]);
    let beside_the_arguments = fragments(vec![
        json!([{"function": {"name": "f"}}]),
        json!([{"id": "a", "function": {"arguments": "{}"}}]),
    ]);
    assert_eq!(beside_the_name, beside_the_arguments);
    check(
        &beside_the_name,
        expect![[r#"
            a f {}
        "#]],
    );
}

#[test]
fn a_whole_call_that_is_said_again_is_one_call() {
    let reply = fragments(vec![
        json!([entry(0, json!("a"), json!("f"), json!("{\"q\":1}"))]),
        json!([entry(0, json!("a"), json!("f"), json!("{\"q\":1}"))]),
    ]);
    check(
        &reply,
        expect![[r#"
            a f {"q":1}
        "#]],
    );
}

#[test]
fn a_name_may_come_in_pieces_or_with_every_piece() {
    let pieces = fragments(vec![
        json!([entry(0, json!("a"), json!("get_"), Value::Null)]),
        json!([entry(0, Value::Null, json!("weather"), json!("{"))]),
        json!([entry(0, Value::Null, Value::Null, json!("}"))]),
    ]);
    check(
        &pieces,
        expect![[r#"
        a get_weather {}
    "#]],
    );
    let repeated = fragments(vec![
        json!([entry(0, json!("a"), json!("f"), json!("{\"k\""))]),
        json!([entry(0, json!("a"), json!("f"), json!(":1}"))]),
        json!([entry(0, json!("a"), json!("f"), json!(""))]),
    ]);
    check(
        &repeated,
        expect![[r#"
        a f {"k":1}
    "#]],
    );
}

#[test]
fn the_word_null_is_no_id() {
    let reply = fragments(vec![
        json!([entry(0, json!("a"), json!("f"), json!("{"))]),
        json!([entry(0, json!("null"), json!(""), json!("}"))]),
    ]);
    check(
        &reply,
        expect![[r#"
        a f {}
    "#]],
    );
}

#[test]
fn arguments_may_be_nothing_text_or_a_value() {
    let reply = message(
        json!({"tool_calls": [
            {"id": "a", "function": {"name": "f", "arguments": null}},
            {"id": "b", "function": {"name": "f", "arguments": ""}},
            {"id": "c", "function": {"name": "f", "arguments": {"tz": "UTC"}}},
            {"id": "d", "function": {"name": "f"}},
            {"id": "e", "name": "f", "arguments": "{}"},
        ]}),
        json!("tool_calls"),
    );
    check(
        &reply,
        expect![[r#"
        a f 
        b f 
        c f {"tz":"UTC"}
        d f 
        e f {}
    "#]],
    );
}

#[test]
fn every_digit_of_a_value_survives() {
    let body = r#"{"choices":[{"message":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":{"n":123456789012345678901234567890,"x":1.10}}}]}}]}"#;
    let raw: Box<RawValue> = serde_json::from_str(body).unwrap();
    let reply = Assembler::whole(Packet::read(&raw, &[])).finish(None, HashSet::new());
    assert_eq!(&*reply.calls[0].arguments, r#"{"n":123456789012345678901234567890,"x":1.10}"#);
}

#[test]
fn half_a_surrogate_pair_costs_the_call_and_not_the_reply() {
    let body = r#"{"choices":[{"message":{"content":"ok \ud83d","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{\"k\":\"\ud83d\"}"}}]}}]}"#;
    let raw: Box<RawValue> = serde_json::from_str(body).unwrap();
    let reply = Assembler::whole(Packet::read(&raw, &[])).finish(None, HashSet::new());
    assert!(reply.text.as_deref().unwrap().starts_with("ok \u{fffd}"), "{reply:?}");
    assert!(reply.calls[0].garbled.is_some());
}

#[test]
fn ids_that_are_missing_or_used_are_replaced_by_new_ones() {
    let ids = ["", "null", "x", "x", "call_4", "old"];
    let calls: Vec<Value> =
        ids.iter().map(|id| json!({"id": id, "function": {"name": "f", "arguments": "{}"}})).collect();
    let body = json!({"choices": [{"message": {"tool_calls": calls}}]});
    let reply = Assembler::whole(packet(&body)).finish(None, HashSet::from(["old", "call_3"]));
    check(
        &reply,
        expect![[r#"
        call_5 f {}
        call_6 f {}
        x f {}
        call_7 f {}
        call_4 f {}
        call_8 f {}
    "#]],
    );
}

#[test]
fn a_call_without_a_name_is_garbled_and_an_empty_entry_is_none() {
    let reply = message(
        json!({"tool_calls": [{}, {"id": "a", "function": {"arguments": "{}"}}, "junk"]}),
        json!("stop"),
    );
    check(
        &reply,
        expect![[r#"
        a  {}  !! the call has no name
    "#]],
    );
}

#[test]
fn the_old_form_of_a_call_is_a_call() {
    let plain = message(json!({"function_call": {"name": "f", "arguments": "{}"}}), json!("function_call"));
    check(
        &plain,
        expect![[r#"
        call_1 f {}
    "#]],
    );
    assert_eq!(plain.finish, Finish::ToolCalls);
    let streamed = stream(vec![
        json!({"function_call": {"name": "f", "arguments": ""}}),
        json!({"function_call": {"arguments": "{\"k\":"}}),
        json!({"function_call": {"arguments": "1}"}}),
    ]);
    check(
        &streamed,
        expect![[r#"
        call_1 f {"k":1}
    "#]],
    );
}

#[test]
fn content_may_be_text_nothing_or_parts() {
    let text = |content: Value| message(json!({"content": content}), json!("stop")).text;
    assert_eq!(text(json!("hi")).as_deref(), Some("hi"));
    assert_eq!(text(json!(null)), None);
    assert_eq!(text(json!("")), None);
    assert_eq!(text(json!(7)), None);
    assert_eq!(text(json!([])), None);
    assert_eq!(
        text(json!([{"type": "text", "text": "a"}, "b", {"type": "image"}, [1]])).as_deref(),
        Some("ab")
    );
    let refused = message(json!({"content": [{"type": "refusal", "refusal": "no"}]}), json!("stop"));
    assert_eq!(refused.refusal.as_deref(), Some("no"));
}

#[test]
fn whether_there_are_calls_decides_what_the_end_means() {
    let call = json!({"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]});
    for word in ["stop", "", "eos", "end_turn", "tool_calls", "whatever"] {
        assert_eq!(message(call.clone(), json!(word)).finish, Finish::ToolCalls, "{word}");
    }
    assert_eq!(message(call.clone(), Value::Null).finish, Finish::ToolCalls);
    for word in ["stop", "", "eos", "end_turn", "tool_calls", "STOP"] {
        assert_eq!(
            message(json!({"content": "Done.", "tool_calls": []}), json!(word)).finish,
            Finish::Stop,
            "{word}"
        );
    }
    for word in ["length", "max_tokens", "MAX_TOKENS"] {
        assert_eq!(message(call.clone(), json!(word)).finish, Finish::Length, "{word}");
    }
    for word in ["content_filter", "content_filter: PROHIBITED_CONTENT"] {
        assert_eq!(message(call.clone(), json!(word)).finish, Finish::ContentFilter, "{word}");
    }
    let other = message(json!({"content": "x"}), json!("pause_turn")).finish;
    assert_eq!(other, Finish::Other("pause_turn".into()));
}

#[test]
fn a_cut_stays_a_cut_whatever_is_said_later() {
    let mut assembler = Assembler::default();
    assembler.push(packet(&json!({"choices": [{"delta": {"content": "x"}, "finish_reason": "length"}]})));
    assembler.push(packet(&json!({"choices": [{"delta": {}, "finish_reason": "stop"}]})));
    assert_eq!(assembler.finish(None, HashSet::new()).finish, Finish::Length);
}

#[test]
fn broken_arguments_at_the_output_limit_are_a_cut_whatever_the_provider_says() {
    let body = |arguments: &str, used: u32| {
        whole(json!({
            "choices": [{"message": {"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": arguments}}]}, "finish_reason": "tool_calls"}],
            "usage": {"prompt_tokens": 5, "completion_tokens": used},
        }))
    };
    assert_eq!(body("{\"k\":", LIMIT).finish, Finish::Length);
    assert_eq!(body("{\"k\":1}", LIMIT).finish, Finish::ToolCalls);
    assert_eq!(body("{\"k\":", LIMIT - 1).finish, Finish::ToolCalls);
}

#[test]
fn words_of_refusal_are_kept_apart_from_the_text() {
    let reply = message(json!({"content": null, "refusal": "I cannot help with that."}), json!("stop"));
    assert_eq!(reply.refusal.as_deref(), Some("I cannot help with that."));
    assert_eq!(reply.text, None);
    let by_reason = message(json!({"content": []}), json!("refusal"));
    assert!(by_reason.refusal.is_some());
    assert_eq!(by_reason.finish, Finish::ContentFilter);
}

#[test]
fn fields_to_send_back_are_kept_with_the_message_and_with_each_call() {
    let reply = stream(vec![
        json!({"role": "assistant", "content": null, "reasoning_content": "I th"}),
        json!({"reasoning_content": "ink", "reasoning_details": [1], "annotations": []}),
        json!({"reasoning_details": [2], "tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}, "extra_content": {"google": {"thought_signature": "s"}}}]}),
    ]);
    expect![[r#"{"reasoning_content":"I think","reasoning_details":[1,2],"tool_calls":{"a":{"extra_content":{"google":{"thought_signature":"s"}}}}}"#]]
        .assert_eq(reply.extra.unwrap().as_str());
}

#[test]
fn a_text_that_uses_up_the_limit_is_cut_whatever_the_provider_calls_it() {
    let reply = |used: u64| {
        let mut assembler = Assembler::default();
        assembler.push(packet(&json!({
            "choices": [{"message": {"content": "The capital of"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 30, "completion_tokens": used},
        })));
        assembler.finish(Some(3), HashSet::new()).finish
    };
    assert_eq!((reply(2), reply(3)), (Finish::Stop, Finish::Length));
}

#[test]
fn usage_and_model_are_taken_from_wherever_they_come() {
    let mut assembler = Assembler::default();
    assembler.push(packet(&json!({"choices": [], "prompt_filter_results": [{}], "model": ""})));
    assert!(!assembler.has_choice());
    assembler.push(packet(&json!({"model": "m-1", "choices": [{"delta": {"content": "hi"}}]})));
    assembler.push(packet(&json!({"choices": [{"content_filter_offsets": {}}]})));
    assert!(!assembler.has_end());
    assembler.push(packet(&json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2.0, "prompt_tokens_details": {"cached_tokens": 5}}})));
    assert!(assembler.has_end());
    let reply = assembler.finish(Some(9), HashSet::new());
    expect![[r#"
        ModelReply {
            text: Some(
                "hi",
            ),
            calls: [],
            finish: Stop,
            refusal: None,
            usage: Some(
                Usage {
                    prompt: Tokens(
                        7,
                    ),
                    completion: Tokens(
                        2,
                    ),
                    cached: Tokens(
                        5,
                    ),
                },
            ),
            output_limit: Some(
                9,
            ),
            model: Some(
                "m-1",
            ),
            extra: None,
        }
    "#]]
    .assert_debug_eq(&reply);
}

/// Calls with arguments of any kind, and for each the places where its text is cut.
fn calls_and_cuts() -> impl Strategy<Value = Vec<(String, String, Vec<prop::sample::Index>)>> {
    let arguments = prop_oneof![Just("{}".to_owned()), "\\{\"k\":\"[a-zé\\\\{}\" ]{0,12}\"\\}", ".{0,12}"];
    let cuts = prop::collection::vec(any::<prop::sample::Index>(), 0..6);
    prop::collection::vec(("[a-z]{1,6}", arguments, cuts), 1..4)
}

/// The text in pieces, cut at the characters nearest to the places.
fn cut(text: &str, places: &[prop::sample::Index]) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let mut at: Vec<usize> = places.iter().map(|place| place.index(chars.len() + 1)).collect();
    at.extend([0, chars.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| chars[pair[0]..pair[1]].iter().collect()).collect()
}

proptest! {
    #[test]
    fn however_a_reply_is_cut_and_mixed_it_is_the_same_reply(
        calls in calls_and_cuts(),
        order in prop::collection::vec(any::<prop::sample::Index>(), 64),
        together in any::<bool>(),
    ) {
        let entries: Vec<Value> = calls.iter().enumerate().map(|(at, (name, arguments, _))| {
            json!({"id": format!("id{at}"), "function": {"name": name, "arguments": arguments}})
        }).collect();
        let plain = message(json!({"tool_calls": entries}), json!("tool_calls"));

        let mut queues: Vec<(usize, Vec<String>)> =
            calls.iter().map(|(_, arguments, cuts)| cut(arguments, cuts)).enumerate().collect();
        let mut pieces: Vec<Value> = calls.iter().enumerate().map(|(at, (name, ..))| {
            entry(at, json!(format!("id{at}")), json!(name), json!(""))
        }).collect();
        for pick in order.iter().cycle() {
            queues.retain(|(_, queue)| !queue.is_empty());
            if queues.is_empty() { break }
            let at = pick.index(queues.len());
            let (index, queue) = &mut queues[at];
            pieces.push(json!({"index": *index, "function": {"arguments": queue.remove(0)}}));
        }
        let chunks = if together { vec![json!(pieces)] } else { pieces.iter().map(|piece| json!([piece])).collect() };
        prop_assert_eq!(fragments(chunks), plain);
    }

    #[test]
    fn no_order_of_odd_fragments_brings_the_assembler_down_or_runs_two_calls_into_one_id(
        odd in prop::collection::vec((0..4u8, 0..4u8, 0..4u8, 0..4u8), 0..12)
    ) {
        let pick = |list: [Value; 4], at: u8| list[usize::from(at)].clone();
        let chunks = odd.iter().map(|(index, id, name, arguments)| json!([entry(
            pick([Value::Null, json!(0), json!(1), json!("x")], *index),
            pick([Value::Null, json!("a"), json!("b"), json!("null")], *id),
            pick([Value::Null, json!("f"), json!("g"), json!("")], *name),
            pick([Value::Null, json!("{}"), json!("{\"k\":"), json!({"k": 1})], *arguments),
        )]));
        let reply = fragments(chunks.collect());
        let ids: HashSet<_> = reply.calls.iter().map(|call| &call.id).collect();
        prop_assert_eq!(ids.len(), reply.calls.len());
    }
}
