//! The Responses API: the same rules, the same script, its own form.

use super::*;

fn ask(provider: &StrictProvider, request: &Value) -> Answered {
    send("POST", &format!("{}/responses", provider.url()), &request.to_string()).unwrap()
}

fn call(id: &str) -> Value {
    json!({"type": "function_call", "call_id": id, "name": "t", "arguments": "{}"})
}

fn output(id: &str) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": "ok"})
}

#[test]
fn a_request_is_shown_as_the_chat_request_that_says_the_same() {
    let provider = provider(Script::always(Reply::text("fine")));
    let words = json!([{"type": "output_text", "text": "I "}, {"type": "output_text", "text": "look."}]);
    let request = json!({"model": "m", "instructions": "Be brief.", "store": false,
        "input": [
            {"role": "user", "content": "go"},
            {"type": "message", "role": "assistant", "content": words},
            {"type": "reasoning", "encrypted_content": "x"},
            call("a"), call("b"), output("a"), output("b"), call("c"), output("c"),
        ],
        "tools": [{"type": "function", "name": "t", "parameters": {"type": "object"}}]});
    let answered = json_of(&ask(&provider, &request).body);
    assert_eq!(answered["output"][0]["content"][0]["text"], "fine");
    provider.assert_clean();
    let shown = &provider.recorded()[0];
    let roles: Vec<&Value> = shown.messages().iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool", "assistant", "tool"]);
    assert_eq!(shown.messages()[2]["content"], "I look.");
    assert_eq!(shown.messages()[2]["tool_calls"][1]["id"], "b");
    assert_eq!(shown.tool_names(), ["t"]);
    assert_eq!(shown.json()["store"], false);
}

#[test]
fn the_rules_hold_for_it_as_well() {
    let provider = provider(Script::always(Reply::text("fine")));
    let broken = [
        json!({"model": "m", "input": [{"role": "user", "content": "go"}, call("a")]}),
        json!({"model": "m", "input": [{"role": "user", "content": "go"}, output("a")]}),
        json!({"model": "m", "input": [{"role": "user", "content": "go"}, {"type": "surprise"}]}),
        json!({"model": "m", "input": [{"role": "user", "content": "go"}], "tools": []}),
        json!({"model": "m", "input": "go"}),
        json!([]),
    ];
    for request in &broken {
        assert_eq!(ask(&provider, request).status, 400, "{request}");
    }
    let rules: Vec<Rule> = provider.violations().iter().map(|one| one.broken.rule).collect();
    let wanted = [
        Rule::EveryCallAnswered,
        Rule::NoAnswerWithoutCall,
        Rule::KnownRole,
        Rule::NoEmptyList,
        Rule::ChatRequest,
        Rule::ChatRequest,
    ];
    assert_eq!(rules, wanted);
}

#[test]
fn a_reply_is_written_in_its_form_whole_and_streamed() {
    let reply =
        Reply::calls([Call::raw("t", r#"{"a":1}"#)]).with_text("I look.").finish("length").usage(5, 2);
    let provider = provider(Script::always(reply));
    let mut request = json!({"model": "m", "input": [{"role": "user", "content": "go"}]});
    let whole = json_of(&ask(&provider, &request).body);
    let status = (&whole["status"], &whole["incomplete_details"]["reason"]);
    assert_eq!(status, (&json!("incomplete"), &json!("max_output_tokens")));
    assert_eq!(whole["usage"]["output_tokens"], 2);
    request["stream"] = json!(true);
    let streamed = ask(&provider, &request).body;
    let kinds: Vec<Value> = streamed
        .lines()
        .filter_map(|line| Some(json_of(line.strip_prefix("data: ")?)["type"].clone()))
        .collect();
    let kinds: Vec<&str> =
        kinds.iter().map(|kind| kind.as_str().unwrap().strip_prefix("response.").unwrap()).collect();
    let item = |delta| ["output_item.added", delta, delta, "output_item.done"];
    let wanted = [
        &["created"],
        &item("output_text.delta")[..],
        &item("function_call_arguments.delta"),
        &["incomplete"],
    ];
    assert_eq!(kinds, wanted.concat());
}
