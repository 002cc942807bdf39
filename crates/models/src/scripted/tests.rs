use std::sync::{Arc, Mutex};
use std::time::Duration;

use dauntless_contract::{
    Failure, FailureCode, Finish, History, Json, Model, ModelCtx, ModelReply, ModelRequest, Observation,
    Round, RunId, Timestamp, ToolCall, Usage,
};
use expect_test::{Expect, expect};
use serde_json::json;

use super::{Scripted, Turn, When};

fn ctx(turn: u32, attempt: u32) -> ModelCtx {
    ModelCtx { run: RunId::from_u128(1), turn, attempt, deadline: Timestamp::MAX, on_text: None }
}

/// A conversation in which these tools have answered, one round each.
fn history(observations: &[(&str, &str)]) -> History {
    let mut history = History::open(&"".into(), &"go".into());
    for (tool, text) in observations {
        let call = ToolCall { id: "c".into(), name: (*tool).into(), arguments: Json::empty_object() };
        let observation = Observation { text: (*text).into() };
        history.round(Round { text: None, extra: None, calls: vec![(call, observation)] });
    }
    history
}

async fn ask(model: &Scripted, observations: &[(&str, &str)], attempt: u32) -> Result<ModelReply, Failure> {
    let history = Arc::new(history(observations));
    let request = ModelRequest::new(history, Arc::new([]));
    model.call(ctx(1, attempt), request).await
}

async fn text(model: &Scripted, observations: &[(&str, &str)]) -> String {
    ask(model, observations, 1).await.unwrap().text.unwrap().to_string()
}

#[tokio::test]
async fn each_request_gets_its_turn_and_a_repetition_the_same() {
    let model = Scripted::new([Turn::new().call("order", json!({"id": 7})), Turn::new().text("done")]);
    for attempt in 1..=2 {
        let first = ask(&model, &[], attempt).await.unwrap();
        assert_eq!(first.finish, Finish::ToolCalls);
        assert_eq!((&*first.calls[0].id, &*first.calls[0].arguments), ("call_1_1", r#"{"id":7}"#));
        assert_eq!(text(&model, &[("order", "x")]).await, "done");
    }
}

#[tokio::test]
async fn a_reply_that_left_no_message_still_counts() {
    let model = Scripted::new([Turn::new(), Turn::new().text("now I speak")]);
    let request = ModelRequest::new(Arc::new(history(&[])), Arc::new([]));
    let reply = model.call(ctx(2, 1), request).await.unwrap();
    assert_eq!(reply.text.as_deref(), Some("now I speak"));
}

#[tokio::test]
async fn a_script_that_has_ended_is_gone() {
    let failure = ask(&Scripted::replies(["the answer is 4"]), &[("t", "x")], 1).await.unwrap_err();
    expect!["gone: The script of model `scripted` has ended: this is request 2, and it has 1."]
        .assert_eq(&failure.to_string());
}

#[tokio::test]
async fn the_first_alternative_whose_condition_holds_answers() {
    let model = Scripted::new([
        Turn::new().call("order", json!({})),
        Turn::new().when(When::observed().tool("order").error(FailureCode::NotFound)).text("no such order"),
        Turn::new().when(When::observed().contains("late")).text("it is late"),
        Turn::new().text("it is there"),
    ]);
    let missing = r#"{"error":"not_found","message":"No order."}"#;
    assert_eq!(text(&model, &[("order", missing)]).await, "no such order");
    assert_eq!(text(&model, &[("stock", missing)]).await, "it is there");
    assert_eq!(text(&model, &[("order", "late by a day")]).await, "it is late");
    assert_eq!(text(&model, &[("order", "sent")]).await, "it is there");
}

#[tokio::test]
async fn a_step_without_a_way_out_is_gone_when_nothing_holds() {
    let model = Scripted::new([Turn::new().when(When::observed()).text("never")]);
    let failure = ask(&model, &[], 1).await.unwrap_err();
    expect!["gone: The script of model `scripted` has no answer to request 1: no `when` holds."]
        .assert_eq(&failure.to_string());
}

#[tokio::test]
async fn placeholders_quote_what_the_tools_said() {
    let seen = [("order", r#"{"sku":"A-1","n":3,"tags":["x","y"]}"#), ("stock", "17 left")];
    let say = async |template: &str| text(&Scripted::replies(["", "", template]), &seen).await;
    assert_eq!(say("{{last}}; {{obs.order:/sku}} x {{obs.order:/n}}").await, "17 left; A-1 x 3");
    assert_eq!(
        say("{{obs.order:/tags}} and {{other}} and {{ last }} {{").await,
        r#"["x","y"] and {{other}} and {{ last }} {{"#
    );
    assert_eq!(say("{{{last}}}").await, "{17 left}");

    let calls = Turn::new().call(
        "t",
        json!({"n": "{{obs.order:/n}}", "all": ["{{obs.order:/tags}}"], "text": "n={{obs.order:/n}}"}),
    );
    let model = Scripted::new([Turn::new(), Turn::new(), calls]);
    let reply = ask(&model, &seen, 1).await.unwrap();
    assert_eq!(&*reply.calls[0].arguments, r#"{"all":[["x","y"]],"n":3,"text":"n=3"}"#);
}

#[tokio::test]
async fn a_placeholder_without_its_observation_is_not_found() {
    for template in ["{{last}}", "{{obs.order:/sku}}"] {
        let failure = ask(&Scripted::replies([template]), &[], 1).await.unwrap_err();
        assert_eq!(failure.code, FailureCode::NotFound);
        assert!(failure.message.contains(template), "{failure}");
    }
    let failure = ask(&Scripted::replies(["", "{{last:/x}}"]), &[("t", "no json")], 1).await.unwrap_err();
    expect![
        "not_found: Turn 2 of the script of model `scripted` asks for `{{last:/x}}`, which is not there."
    ]
    .assert_eq(&failure.to_string());
}

#[tokio::test(start_paused = true)]
async fn a_fault_lasts_for_its_attempts_and_a_delay_takes_its_time() {
    let busy = Failure::rate_limited("busy").retry_after(Duration::from_secs(2));
    let turn = Turn::new().text("there").fail_times(busy.clone(), 2).delay(Duration::from_millis(50));
    let model = Scripted::new([turn]);
    let start = tokio::time::Instant::now();
    assert_eq!(ask(&model, &[], 1).await, Err(busy.clone()));
    assert_eq!(ask(&model, &[], 2).await, Err(busy));
    assert_eq!(ask(&model, &[], 3).await.unwrap().text.as_deref(), Some("there"));
    assert_eq!(start.elapsed(), Duration::from_millis(150));
}

#[tokio::test]
async fn a_watcher_is_told_the_text() {
    let heard = Arc::new(Mutex::new(String::new()));
    let sink = Arc::clone(&heard);
    let on_text: dauntless_contract::TextSink = Arc::new(move |text| sink.lock().unwrap().push_str(text));
    let request = ModelRequest::new(Arc::new(history(&[])), Arc::new([]));
    let ctx = ModelCtx { on_text: Some(on_text), ..ctx(1, 1) };
    Scripted::replies(["hello"]).call(ctx, request).await.unwrap();
    assert_eq!(*heard.lock().unwrap(), "hello");
}

const TOML: &str = r#"
    [[turns]]
    calls = [
        { tool = "order", arguments = { id = "ORD-1" }, id = "first" },
        { tool = "stock", raw = "{\"sku\": " },
        { tool = "clock" },
    ]
    usage = { prompt = 12, completion = 3 }

    [[turns]]
    when = { tool = "order", error = "not_found", contains = "ORD" }
    refusal = "no"
    finish = "content_filter"

    [[turns]]
    text = "done"
    finish = "pause_turn"
    delay = "250ms"
    fail = { code = "rate_limited", message = "slow down", retry_after = "2s", times = 1 }
"#;

#[test]
fn toml_json_and_rust_make_the_same_script() {
    let slow_down = Failure::rate_limited("slow down").retry_after(Duration::from_secs(2));
    let built = Scripted::new([
        Turn::new()
            .call("order", json!({"id": "ORD-1"}))
            .id("first")
            .raw_call("stock", "{\"sku\": ")
            .call("clock", json!({}))
            .usage(12, 3),
        Turn::new()
            .when(When::observed().tool("order").error(FailureCode::NotFound).contains("ORD"))
            .refusal("no")
            .finish(Finish::ContentFilter),
        Turn::new()
            .text("done")
            .finish(Finish::Other("pause_turn".into()))
            .delay(Duration::from_millis(250))
            .fail_times(slow_down, 1),
    ]);
    let from_toml = Scripted::from_toml(TOML).unwrap();
    assert_eq!(from_toml.steps, built.steps);
    let json: serde_json::Value = toml::from_str(TOML).unwrap();
    assert_eq!(Scripted::from_json(&json.to_string()).unwrap().steps, built.steps);
}

#[tokio::test]
async fn usage_is_said_as_written() {
    let reply = ask(&Scripted::from_toml(TOML).unwrap(), &[], 1).await.unwrap();
    let usage = Usage::new(dauntless_contract::Tokens(12), dauntless_contract::Tokens(3));
    assert_eq!(reply.usage, Some(usage));
    assert_eq!(&*reply.calls[1].arguments, "{\"sku\": ");
    assert_eq!(&*reply.calls[2].arguments, "{}");
}

fn mistake(toml: &str, expected: Expect) {
    expected.assert_eq(&Scripted::from_toml(toml).unwrap_err().to_string());
}

#[test]
fn a_mistake_is_named_with_its_turn_and_key() {
    mistake(
        "[[turns]]\ntext = 'a'\n[[turns]]\ntxet = 'b'",
        expect![[
            "turn 2: `txet` means nothing here; use `text`, `refusal`, `calls`, `finish`, `usage`, `when`, `fail`, `delay`"
        ]],
    );
    mistake("[[turns]]\ntext = 7", expect!["turn 1: `text` is 7: give a text"]);
    mistake(
        "[[turns]]\ncalls = [{ tool = 'a' }, { arguments = {} }]",
        expect!["turn 1, call 2: `tool` is missing: name the tool to call"],
    );
    mistake(
        "[[turns]]\ncalls = [{ tool = 'a', raw = '', arguments = {} }]",
        expect!["turn 1, call 1: `raw` stands beside `arguments`: give one of them"],
    );
    mistake(
        "[[turns]]\ndelay = '5 seconds'",
        expect![[
            r#"turn 1: `delay` is "5 seconds": give a length with its unit, like "250ms", "2s" or "1m""#
        ]],
    );
    mistake(
        "[[turns]]\nfail = { times = 2 }",
        expect![[r#"turn 1, `fail`: `code` is missing: name a failure code, like "unavailable""#]],
    );
    mistake("[[turns]]\nwhen = 'later'", expect![[r#"turn 1: `when` is "later": give a table"#]]);
    mistake(
        "turns = []",
        expect![
            "the script has no turns: give at least one, as `[[turns]]` in TOML or a list `turns` in JSON"
        ],
    );
    mistake("turn = []", expect!["the script: `turn` means nothing here; use `turns`"]);
    let unknown = Scripted::from_toml("[[turns]]\nwhen = { error = 'lost' }").unwrap_err().to_string();
    assert!(
        unknown.starts_with(
            r#"turn 1, `when`: `error` is "lost", which is no failure code: use one of rate_limited, "#
        ),
        "{unknown}"
    );
    assert!(Scripted::from_json("[1").unwrap_err().to_string().starts_with("the script is not JSON: "));
    assert_eq!(
        Scripted::from_json("[]").unwrap_err().to_string(),
        "the script: `turns` is [], which is no table"
    );
}

#[tokio::test]
async fn a_turn_may_depend_on_the_goal() {
    let turns = [
        Turn::new().text("by goal and tool").when(When::observed().tool("order").goal("go")),
        Turn::new().text("by goal").when(When::observed().goal("go")),
        Turn::new().text("otherwise"),
    ];
    let twice = turns.clone().into_iter().chain(turns);
    let model = Scripted::new(twice);
    assert_eq!(text(&model, &[]).await, "by goal");
    assert_eq!(text(&model, &[("order", "x")]).await, "by goal and tool");
    let file =
        Scripted::from_toml("[[turns]]\nwhen = { goal = 'stop' }\ntext = 'no'\n[[turns]]\ntext = 'yes'");
    assert_eq!(text(&file.unwrap(), &[]).await, "yes");
}
