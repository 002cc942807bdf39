use std::sync::Arc;

use dauntless_contract::ToolSpec;
use serde_json::json;

use super::*;

fn toolbox() -> Toolbox {
    let spec = |name| Arc::new(ToolSpec::new(name, "Does something.", json!({ "type": "object" })));
    Toolbox::build(vec![spec("fetch_pages"), spec("get_time")]).0
}

#[track_caller]
fn call(text: &str) {
    assert!(looks_like_call(text, &toolbox()), "{text:?} is a call");
}

#[track_caller]
fn prose(text: &str) {
    assert!(!looks_like_call(text, &toolbox()), "{text:?} is prose");
}

#[test]
fn markup_alone_is_a_call_in_every_dialect() {
    call("<|tool_call>call:fetch_pages{kind:pages}<tool_call|>");
    call(r#"<tool_call>{"name":"fetch_pages","arguments":{"kind":"pages"}}</tool_call>"#);
    call("<tool_call>\n<function=fetch_pages>\n<parameter=kind>pages</parameter>\n</function>\n</tool_call>");
    call("<tool_call>fetch_pages\n<arg_key>kind</arg_key></tool_call>");
    call("<function=fetch_pages>{\"kind\":1}</function>");
    call(r#"[TOOL_CALLS] [{"name":"fetch_pages","arguments":{}}]"#);
    call(r#"[TOOL_CALLS]fetch_pages[ARGS]{"kind":"pages"}"#);
    call("<start_function_call>call:get_time{}<end_function_call>");
    call("call:get_time{}");
    call("<|python_tag|>{\"name\":\"get_time\",\"parameters\":{}}");
    call(
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_time:0<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
    );
    call(
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_time\n{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    );
    call("<function_calls>\n<invoke name=\"get_time\">\n</invoke>\n</function_calls>");
}

#[test]
fn a_tool_that_does_not_exist_makes_markup_alone_no_answer() {
    call(r#"<tool_call>{"name":"nonsense","arguments":{}}</tool_call>"#);
}

#[test]
fn a_call_that_repeats_or_is_cut_is_a_call() {
    call(&format!("<start_function_call>{}call:get_ti", "call:get_time{}<end_function_call>".repeat(200)));
    call(r#"<tool_call>{"name":"fetch_pages","arguments":{"kind":"a long text that goes on and on"#);
}

#[test]
fn json_that_names_a_tool_and_its_arguments_is_a_call() {
    call(r#"{"name": "get_time", "arguments": {}}"#);
    call("```json\n{\"name\": \"get_time\", \"arguments\": {\"tz\": \"UTC\"}}\n```");
    call("```\n{\"tool\": \"get_time\", \"parameters\": {}}\n```");
    call(r#"[{"name":"get_time","arguments":{}},{"name":"fetch_pages","arguments":"{}"}]"#);
    call(r#"{"tool_calls":[{"type":"function","function":{"name":"get_time","arguments":"{}"}}]}"#);
}

#[test]
fn other_json_is_an_answer() {
    prose(r#"{"name": "Ada", "arguments": {}}"#);
    prose(r#"{"name": "get_time", "description": "tells the time"}"#);
    prose(r#"{"answer": 42}"#);
    prose("[]");
    prose("{not json");
    prose("Here it is:\n```json\n{\"name\": \"get_time\", \"arguments\": {}}\n```");
}

#[test]
fn prose_that_ends_with_a_call_is_no_answer() {
    call("I will look it up.\n<tool_call>{\"name\":\"fetch_pages\",\"arguments\":{}}</tool_call>");
    call("Let me see.\n\n[TOOL_CALLS] [{\"name\":\"get_time\",\"arguments\":{}}]\n");
}

#[test]
fn markup_that_is_only_talked_about_is_left_alone() {
    prose("To call a tool, the model writes <tool_call>{\"name\":\"get_time\"}</tool_call> in its reply.");
    prose("<tool_call> is the tag that Hermes models use.");
    prose("<tool_call>{\"name\":\"get_time\",\"arguments\":{}}</tool_call> is how such a call is written.");
    prose("For example:\n```\n<tool_call>{\"name\":\"get_time\",\"arguments\":{}}</tool_call>\n```");
    prose("The template:\n<tool_call>{\"name\":\"NAME\",\"arguments\":{}}</tool_call>");
    prose("The line\ncall:get_time{}\nstarts the clock on every machine.");
    prose("Use [TOOL_CALLS] for Mistral.");
    prose("");
    prose("The answer is 4.");
}

#[test]
fn a_long_text_full_of_markup_is_read_in_one_pass() {
    let text = format!("{}and so on it goes", "call:get_time{}\n".repeat(50_000));
    assert!(!looks_like_call(&text, &toolbox()));
}
